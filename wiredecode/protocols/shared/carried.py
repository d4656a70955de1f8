"""A protocol that another one carries in its messages: how to identify it, and its state for a capture.

NATS carries Liftbridge. Another package adds a carried protocol by an entry point in the group ``wiredecode.carried``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from wiredecode.protocols.shared.offers import Offers

if TYPE_CHECKING:
    from wiredecode.fields.layer import Style
    from wiredecode.frames.frame import Frame
    from wiredecode.frames.message import Messages
    from wiredecode.protocols.base import Generated

PREFIX_BYTES = 4


class CarriedProtocol(Offers):
    """Facts about a carried protocol before any of its messages was found: cheap to import.

    A message is its own if the payload begins with ``prefix``, or else if the subject has one of ``subject_parts`` in
    it or is one of :attr:`CarriedSession.subjects`.
    """

    carrier: ClassVar[str]
    """Name of the protocol that carries it."""
    prefix: ClassVar[bytes]
    """:data:`PREFIX_BYTES` bytes."""
    subject_parts: ClassVar[tuple[str, ...]] = ()
    client_names: ClassVar[str] = ""
    """Prefix of client names that :meth:`CarriedSession.client_named` gets; empty: it gets none."""
    generated: ClassVar[Mapping[str, Generated]] = {}
    """As :attr:`Protocol.generated`."""
    requests: ClassVar[frozenset[str]] = frozenset()
    """Message types that always ask for an answer."""

    @abstractmethod
    def session(self) -> CarriedSession:
        """Made when the first message of a capture is met."""


class CarriedMessage(NamedTuple):
    """A message of the carrier with a payload that a carried protocol decodes."""

    payload: bytes
    """Of a frame with missing bytes: what was captured of its front."""
    start: int
    """Where the payload starts in the frame."""
    subject: str | None
    reply: str | None
    """The subject that answers go to."""


class CarriedSession(ABC):
    """State of one capture, bounded; it can be pickled."""

    plain_subject: Callable[[str], str] = str
    """Removes what the carrier adds to a subject on its way; the carrier sets it."""

    subjects: Container[str] = ()
    """Subjects of which it learned on the way."""

    @abstractmethod
    def decode(self, frame: Frame, message: CarriedMessage, style: Style | None) -> None:
        """Decode the payload of a message: its layers and findings join the frame; others are left alone."""

    def client_named(self, name: str, connection: int) -> Mapping[str, str]:
        """The client of a connection gave its name; returns generated fields."""
        return {}

    def interrupt(self, connection: int, side: int, time_ns: int) -> None:
        """Messages that ``side`` of a connection sent before a time were lost: what they began cannot be continued."""
        return

    def messages(self, frame: Frame, operation: str, subject: str, out: Messages) -> bool:
        """Add what the payload of a message holds; False: nothing that counts as messages."""
        return False


class CarriedSessions:
    """The sessions of the protocols that one protocol carries; part of its own state of a capture."""

    def __init__(self, protocols: Iterable[CarriedProtocol], plain_subject: Callable[[str], str]) -> None:
        self._plain_subject = plain_subject
        self._protocols = {protocol.name: protocol for protocol in protocols}
        self._prefixes = {protocol.prefix: protocol.name for protocol in self._protocols.values()}
        self._parts = [(part, one.name) for one in self._protocols.values() for part in one.subject_parts]
        self._client_names = [(one.client_names, one.name) for one in self._protocols.values() if one.client_names]
        self.sessions: dict[str, CarriedSession] = {}

    def session(self, name: str) -> CarriedSession:
        """That of a protocol, made on first use."""
        session = self.sessions.get(name)
        if session is None:
            session = self.sessions[name] = self._protocols[name].session()
            session.plain_subject = self._plain_subject
        return session

    def of_message(self, subject: str | None, payload: bytes) -> CarriedSession | None:
        """Whose a message is."""
        name = self._prefixes.get(payload[:PREFIX_BYTES])
        if name is not None:
            return self.sessions.get(name) or self.session(name)
        if subject is None:
            return None
        for part, name in self._parts:
            if part in subject:
                return self.session(name)
        for session in self.sessions.values():
            if subject in session.subjects:
                return session
        return None

    def client_named(self, client: str, connection: int) -> Mapping[str, str]:
        """See :meth:`CarriedSession.client_named`."""
        for beginning, name in self._client_names:
            if client.startswith(beginning):
                return self.session(name).client_named(client, connection)
        return {}

    def interrupt(self, connection: int, side: int, time_ns: int) -> None:
        """See :meth:`CarriedSession.interrupt`."""
        for session in self.sessions.values():
            session.interrupt(connection, side, time_ns)

    def messages(self, frame: Frame, operation: str, subject: str, out: Messages) -> bool:
        """See :meth:`CarriedSession.messages`."""
        session = self.sessions.get(frame.protocol)
        return session is not None and session.messages(frame, operation, subject, out)
