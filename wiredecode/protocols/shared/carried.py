"""A protocol inside the messages of another one: how to recognise it, and its state for a capture.

NATS carries Liftbridge. Another package adds a carried protocol by an entry point in the group ``wiredecode.carried``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from wiredecode.protocols.base import Offers
from wiredecode.protocols.shared.amqp.secrets import without

if TYPE_CHECKING:
    from wiredecode.fields.layer import Layer, Style
    from wiredecode.frames.frame import Frame, Inner
    from wiredecode.frames.message import Messages
    from wiredecode.protocols.base import Generated

PREFIX_BYTES = 4


class CarriedProtocol(Offers):
    """A carried protocol; cheap to import.

    Its messages have a payload that begins with ``prefix``, or a subject that contains one of ``subject_parts`` or is
    in :attr:`CarriedSession.subjects`.
    """

    carrier: ClassVar[str]
    prefix: ClassVar[bytes]
    subject_parts: ClassVar[tuple[str, ...]] = ()
    client_names: ClassVar[str] = ""
    """Prefix of client names for :meth:`CarriedSession.client_named`; empty: none."""
    generated: ClassVar[Mapping[str, Generated]] = {}
    """As :attr:`Protocol.generated`."""
    requests: ClassVar[Mapping[str, frozenset[str]]] = {}
    """As :attr:`Protocol.requests`."""

    @abstractmethod
    def session(self) -> CarriedSession:
        """Make the state for a capture, at its first message."""


class CarriedMessage(NamedTuple):
    """A message of the carrier with a payload that a carried protocol decodes."""

    payload: bytes
    """Of a partial frame: the captured front."""
    start: int
    """Where the payload starts in the frame."""
    subject: str | None
    reply: str | None
    """The subject for replies."""


class CarriedSession(ABC):
    """State of one capture, bounded; it can be pickled."""

    plain_subject: Callable[[str], str] = str
    """Removes prefixes that the carrier adds to subjects; set by the carrier."""

    subjects: Container[str] = ()
    """Subjects learned from messages."""

    @abstractmethod
    def decode(self, frame: Frame, message: CarriedMessage, style: Style | None) -> None:
        """Decode the payload of a message: add its layers and findings to the frame, if it is of the protocol."""

    def client_named(self, name: str, connection: int) -> Mapping[str, str]:
        """Note the name of the client of a connection; return generated fields."""
        return {}

    def interrupt(self, connection: int, side: int, time_ns: int) -> None:
        """Messages that ``side`` of a connection sent before a time, ns, were lost."""
        return

    def messages(self, frame: Frame, operation: str, subject: str, out: Messages) -> bool:
        """Add the messages in a payload; False: there are none."""
        return False


class CarriedSessions:
    """The sessions of all protocols that one protocol carries."""

    def __init__(self, protocols: Iterable[CarriedProtocol], plain_subject: Callable[[str], str]) -> None:
        self._plain_subject = plain_subject
        self._protocols = {protocol.name: protocol for protocol in protocols}
        self._prefixes = {protocol.prefix: protocol.name for protocol in self._protocols.values()}
        self._parts = [(part, each.name) for each in self._protocols.values() for part in each.subject_parts]
        self._client_names = [(each.client_names, each.name) for each in self._protocols.values() if each.client_names]
        self.sessions: dict[str, CarriedSession] = {}

    def session(self, name: str) -> CarriedSession:
        """The session of a protocol, made on first use."""
        session = self.sessions.get(name)
        if session is None:
            session = self.sessions[name] = self._protocols[name].session()
            session.plain_subject = self._plain_subject
        return session

    def name_of(self, payload: bytes) -> str | None:
        """The name of the protocol that a payload begins with."""
        return self._prefixes.get(payload[:PREFIX_BYTES])

    def on_any(self, subjects: Sequence[str]) -> bool:
        """Whether some subject alone shows that a message is of a protocol."""
        joined = "\n".join(subjects)
        return any(part in joined for part, _ in self._parts) or any(
            any(map(session.subjects.__contains__, subjects)) for session in self.sessions.values()
        )

    def of_message(self, subject: str | None, payload: bytes) -> CarriedSession | None:
        """The session of the protocol of a message, or None."""
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
        for beginning, name in self._client_names:
            if client.startswith(beginning):
                return self.session(name).client_named(client, connection)
        return {}

    def interrupt(self, connection: int, side: int, time_ns: int) -> None:
        for session in self.sessions.values():
            session.interrupt(connection, side, time_ns)

    def messages(self, frame: Frame, operation: str, subject: str, out: Messages) -> bool:
        session = self.sessions.get(frame.protocol)
        return session is not None and session.messages(frame, operation, subject, out)


def inner_layers(frame: Frame, *, with_secrets: bool = False) -> Iterator[tuple[Layer, int]]:
    """The layers inside a frame, read in place, each with its end; or only those that may hold secrets."""
    for inner in frame.inner:
        if inner.start is not None and not (with_secrets and is_harmless(inner, frame)):
            stop = inner.start + len(inner.data)
            yield inner.layer.within(frame.data, inner.start, stop), stop


def is_harmless(inner: Inner, frame: Frame) -> bool:
    """Whether a layer inside a frame certainly holds no secret."""
    if not inner.layer.holds_secrets():
        return True
    values = inner.values or (frame.layers or {}).get(inner.layer.filter_name)
    if not values or "further" in values:  # no record, or one of several layers
        values = inner.read()  # none if it is damaged
    return bool(values) and not inner.layer.may_carry_secrets(values)


def without_carried_secrets(frame: Frame, payload: bytes) -> bytes:
    """The payload with asterisks in place of the credentials of the layers that it carries."""
    for inner in frame.inner:
        if inner.start is not None and not is_harmless(inner, frame):
            break
    else:
        return payload
    ranges = [each for layer, _ in inner_layers(frame, with_secrets=True) for each in layer.secret_ranges()]
    if not ranges:
        return payload
    base = frame.data.rfind(payload)
    return without(payload, [(start - base, stop - base) for start, stop in ranges])
