"""The shape that all protocols have.

A protocol is recognised from bytes, splits a byte stream into frames, finds the next frame again after a gap, and
decodes the frames of a connection in the order in which they were complete. Nothing here raises for what came from
the wire: :meth:`Protocol.split` answers with frames, with "more bytes", or with what is wrong and where.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from wiredecode.dataclasses import dataclass
from wiredecode.frames.frame import Frame
from wiredecode.frames.splitter import Found, LengthPrefix, Number, Rejected, Split, Splitter, Undecided, Verdict
from wiredecode.protocols.shared.data import data_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wiredecode.fields.layer import Layer, Style
    from wiredecode.fields.lua import Script
    from wiredecode.frames.block import Bulk, FrameBlock
    from wiredecode.frames.followed import FollowedFrames
    from wiredecode.frames.identity import IdentityReader
    from wiredecode.frames.message import Messages
    from wiredecode.net.types import Connection
    from wiredecode.protocols.shared.problems import Checks
    from wiredecode.protocols.shared.redaction import Disguises
    from wiredecode.protocols.shared.seeking import Seeker

__all__ = [
    "Conversation",
    "Found",
    "Generated",
    "LengthPrefix",
    "Number",
    "Offers",
    "Protocol",
    "Rejected",
    "Split",
    "Splitter",
    "Start",
    "Undecided",
    "Verdict",
    "generated_of",
]


@dataclass(slots=True, frozen=True)
class Start:
    """Facts about a connection when its conversation begins."""

    connection: Connection
    dialect: str | None = None
    is_recognised: bool = False
    """Whether the bytes showed protocol and dialect; False: the user chose them."""
    client: int | None = None
    """The endpoint that is the client, as the bytes showed it."""
    splitter: Splitter | None = None
    """:attr:`Verdict.splitter`."""
    copies: bool = True
    """:attr:`Demand.copies`."""


class Generated(NamedTuple):
    """A field that no layer declares."""

    column: str
    """Arrow type, spelled as in :attr:`Kind.column`; or ``list<struct>`` (its members follow), ``json`` (JSON text), or
    ``-`` (records never show it)."""
    meaning: str


def generated_of(package: str, file: str = "generated.toml") -> dict[str, Generated]:
    """The fields of a file of a package of protocols, by their full names."""
    tables = data_of(package, file).items()
    return {f"{layer}.{name}": Generated(*field) for layer, table in tables for name, field in table.items()}


T = TypeVar("T")


@cache
def _members(path: str) -> Mapping[str, Any]:
    """The names of a module; none if there is no such module."""
    try:
        return vars(import_module(path))
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        return {}


class Offers(ABC):
    """A protocol, or one that another carries; see docs/add-a-protocol.md for the modules of its package."""

    name: ClassVar[str]
    """Prefix of its filter names."""
    summary_keys: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that distinguish its messages, the best first: a line too long for a terminal keeps these."""

    @abstractmethod
    def layers(self) -> Iterable[type[Layer]]:
        """All message types, for the field catalogue."""

    def type_names(self) -> Iterable[str]:
        """Types of frames, those of carried protocols included: a filter knows no others."""
        return (layer.__name__ for layer in self.layers())

    def identities(self) -> Mapping[str | None, IdentityReader]:
        """By message type: what a frame says about its client or server; ``IDENTITIES`` of the module ``identity``."""
        return self._load("identity", "IDENTITIES", {})

    def checks(self) -> Checks | None:
        """Checks of ``wiredecode check`` for its traffic: ``CHECKS`` of the module ``problems``."""
        return self._load("problems", "CHECKS", None)

    def disguises(self) -> Disguises:
        """Rules for ``wiredecode anonymize``, by filter name: ``DISGUISES`` of the module ``redaction``."""
        return self._load("redaction", "DISGUISES", {})

    def wireshark(self) -> Script | None:
        """Additions of ``wiredecode wireshark`` to its declarations: ``SCRIPT`` of the module ``wireshark``."""
        return self._load("wireshark", "SCRIPT", None)

    def _load(self, module: str, name: str, default: T) -> T:
        """``name`` in a module of the package of the protocol; ``default`` if there is none."""
        package = type(self).__module__.rpartition(".")[0]
        members = _members(f"{package}.{module}") if package else {}
        value: T = members.get(name, default)
        return value


class Protocol(Offers):
    """One protocol; stateless, or with what connections of one capture share (see :meth:`new_session`)."""

    title: ClassVar[str]
    ports: ClassVar[tuple[int, ...]] = ()
    tls_ports: ClassVar[tuple[int, ...]] = ()
    dialects: ClassVar[tuple[str, ...]] = ()
    framing: ClassVar[LengthPrefix | None] = None
    """Length prefix of frames, if they have one; other protocols have their own :meth:`split`."""
    seeker: ClassVar[Seeker | None] = None
    """Recognises it and finds its frames; other protocols have their own :meth:`recognise` and :meth:`search`."""
    may_upgrade: ClassVar[bool] = False
    """Whether connections may switch to other frames (:attr:`Verdict.splitter`): then the bytes of a connection whose
    beginning is missing are examined, although the user chose its protocol."""
    header_bytes: ClassVar[int] = 1
    """A frame of which fewer bytes were captured is not decoded: not even its type is known."""
    generated: ClassVar[Mapping[str, Generated]] = {}
    """Fields that no layer declares, because they derive from other frames or are computed, by their full names."""
    column_types: ClassVar[Mapping[str, str]] = {}
    """Arrow types of declared fields that records show in another type, by full name (:attr:`Generated.column`)."""

    requests: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Message types that always ask for a response, by protocol: its own and those it carries."""
    reply_topics: ClassVar[tuple[str, ...]] = ()
    """Prefixes of topics made for one client or one response: statistics count them as one."""

    def generated_fields(self) -> Mapping[str, Generated]:
        """``generated`` of the protocol and of the layers it carries."""
        return self.generated

    @cached_property
    def unshown(self) -> frozenset[str]:
        """Names of generated fields that no record shows."""
        fields = self.generated_fields().items()
        return frozenset(name.partition(".")[2] for name, field in fields if field.column == "-")

    def new_session(self) -> Protocol:
        """The protocol for one capture: itself, unless its connections have to know of each other."""
        return self

    @property
    def has_session(self) -> bool:
        """Whether its connections know of each other."""
        return type(self).new_session is not Protocol.new_session

    def bulk(self) -> Bulk | None:
        """Reader of blocks of frames, if there is one. Import it here: that takes time."""
        return None

    def recognise(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        """Decide whether ``data``, the first contiguous bytes captured of a direction, are of this protocol.

        ``started``: they are the first of the connection. ``final``: a gap or the end follows. ``port``: the
        connection uses a port of the protocol, so less evidence is enough.
        """
        return self._seeks().recognise(data, started=started, final=final, port=port)

    def _seeks(self) -> Seeker:
        if self.seeker is None:
            raise NotImplementedError(f"{type(self).__name__} needs a seeker, or recognise and search of its own")
        return self.seeker

    def split(self, data: bytes) -> Split:
        """Split ``data``, which starts at a frame, into frames."""
        if self.framing is None:
            raise NotImplementedError(f"{type(self).__name__} needs framing, or a split of its own")
        return self.framing.split(data)

    def split_first(self, data: bytes) -> Split:
        """:meth:`split` at the beginning of a stream, which may have a preface."""
        return self.split(data)

    def search(self, data: bytes, *, final: bool) -> Found:
        """Find the next frame in bytes after a gap.

        ``data`` grows segment by segment, and always ends where one ends. ``final``: a gap or the end follows.
        """
        return self._seeks().search(data, final=final)

    def begin(self, data: bytes, *, final: bool) -> Found:
        """:meth:`search` in the first captured bytes of a stream whose beginning was not captured.

        A segment often begins where a frame does, so less evidence is enough there.
        """
        return self.search(data, final=final) if self.seeker is None else self.seeker.begin(data, final=final)

    @abstractmethod
    def conversation(self, start: Start) -> Conversation:
        """Make the state of one connection."""


class Conversation(ABC):
    """State of one connection that decoding needs."""

    records_later: ClassVar[bool] = False
    """Whether :meth:`record` can make the record of a frame that was decoded without a style."""

    def __init__(self, start: Start) -> None:
        self.connection = start.connection
        self.whole = self.connection.initiator is not None
        """Whether the beginning was captured."""
        self.client = self.connection.initiator if self.whole else start.client
        """The endpoint that is the client, once known."""
        self.inner_frames: list[Frame] = []
        """Frames that the frame just decoded completes inside it (compressed, wrapped), to be decoded next.

        The dissector empties the list after each :meth:`decode`.
        """

    @abstractmethod
    def decode(self, frame: Frame, style: Style | None) -> None:
        """Decode a frame in place, in the order of completion; with a ``style`` also its record."""

    def record(self, frame: Frame, style: Style) -> None:
        """Make the record of the frame just decoded, as :meth:`decode` does with a ``style``."""
        raise NotImplementedError

    def decode_headless(self, frame: Frame, style: Style | None) -> None:
        """Decode a frame of which too little was captured to know its type."""
        frame.sender = self.sender(frame)
        if style is not None:
            frame.layers = {frame.protocol: {}}

    def skip(self, frame: Frame, *, connection_hidden: bool) -> bool:
        """Skip a frame that is not shown, in place of :meth:`decode`; return False if later frames depend on it.

        True: its protocol, sender, type and code are filled in. ``connection_hidden``: no frame of the connection is
        shown.
        """
        return False

    def messages(self, frame: Frame, out: Messages) -> None:
        """Add the published or delivered messages of a frame that was just decoded, without a style."""
        return

    def decode_note(self, frame: Frame) -> Any:
        """The note of a frame that was not decoded; nothing else of it matters."""
        self.decode(frame, None)
        return self.note(frame)

    def note(self, frame: Frame) -> Any:
        """The note of the frame just decoded for other processes; None: they need none. It is a list or tuple of JSON
        values; after the second member also of bytes."""
        return None

    def follow(self, frames: FollowedFrames) -> Iterable[Frame]:
        """Take frames that another process decodes, in place of :meth:`decode`; return those that may be responses."""
        return ()

    def sender(self, frame: Frame | FrameBlock) -> str | None:
        """``"client"`` or ``"server"``; None while unknown."""
        if self.client is None:
            return None
        return "client" if frame.side == self.client else "server"
