"""Raft's byte streams, one per inbox subject: cut into RPCs and responses as their NATS messages come.

A message usually holds one RPC, but only the stream counts: an RPC may span messages, a message may hold several. Each
hop of a NATS message is a separate stream, identified by subject, connection and direction.
"""

from collections import OrderedDict, deque
from typing import NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import Truncated
from wiredecode.fields.layer import Layer
from wiredecode.protocols.liftbridge import layers_raft as raft
from wiredecode.protocols.liftbridge import names
from wiredecode.protocols.liftbridge.layers_messagepack_items import skip
from wiredecode.protocols.shared.pairing import Newest, Request

MAX_STREAMS = 1024
"""Raft streams remembered in a capture; the one that was idle longest is forgotten."""
MAX_RPC_BYTES = 8 * 1024 * 1024
"""Most that an RPC or a snapshot may grow to; larger ones are not put together."""
MAX_HELD_BYTES = 64 * 1024 * 1024
"""Most that all streams together hold back; beyond it the one that was idle longest loses what it holds."""
MAX_SNAPSHOT_BYTES = 1024 * 1024 * 1024
"""Largest size of a snapshot that is believed."""
MAX_OUTSTANDING = 1000
"""RPCs of one stream that wait for their response."""
QUIET_NS = 20_000_000
"""After a loss, RPCs and responses are counted again from the first RPC with no bytes before it for this long."""

MAPS = frozenset([*range(0x80, 0x90), 0xDE, 0xDF])
STRINGS = frozenset([*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB])

PART, UNALIGNED, LIMIT = "part", "unaligned", "limit"


class RpcPiece(NamedTuple):
    """Part of a stream in a message: a whole RPC, response or snapshot, or bytes of one."""

    layer: type[Layer]
    data: bytes
    start: int | None
    """Where it starts in the message; None: it came in several."""
    remark: str | None = None
    """``part``: it continues; ``unaligned``: no RPC begins here; ``limit``: too large to be put together."""


@dataclass
class RaftStream:
    """One direction of one hop."""

    pending: bytearray = field(default_factory=bytearray)
    """The front of an RPC that is not whole."""
    position: int = 0
    """Position up to which it was examined."""
    items: int = 0
    """MessagePack items that are still to come."""
    snapshot: bytearray | None = None
    snapshot_left: int = 0
    outstanding: deque[Request] = field(default_factory=lambda: deque(maxlen=MAX_OUTSTANDING))
    counts: bool = True
    """No RPC and no response is missing in ``outstanding``."""
    sent_ns: int = 0
    """Time of the last RPC."""
    answered_ns: int = 0
    """Time of the last response, or of the loss after it."""

    @property
    def held(self) -> int:
        return len(self.pending) + len(self.snapshot or b"")

    def lose_count(self, time_ns: int) -> None:
        """An RPC or a response may be missing."""
        self.outstanding.clear()
        self.counts, self.answered_ns = False, max(self.answered_ns, time_ns)

    def send(self, rpc: Request) -> None:
        """Remember an RPC. One direction may wait for its gaps: then responses come before their RPCs."""
        before, self.sent_ns = self.sent_ns, max(self.sent_ns, rpc.time_ns)
        if rpc.time_ns < self.answered_ns:
            self.lose_count(self.answered_ns)
        elif not self.counts:
            self.counts = before <= self.answered_ns <= rpc.time_ns - QUIET_NS
        if self.counts:
            self.outstanding.append(rpc)

    def answer(self, time_ns: int) -> Request | None:
        """The RPC of a response: responses come in the order of the RPCs."""
        self.answered_ns = max(self.answered_ns, time_ns)
        if not self.outstanding:
            self.counts = False
            return None
        return self.outstanding.popleft()

    def reset(self) -> None:
        self.pending, self.position, self.items = bytearray(), 0, 0
        self.snapshot, self.snapshot_left = None, 0

    def feed(self, message: bytes) -> list[RpcPiece]:
        """Take the next message of the stream."""
        pieces: list[RpcPiece] = []
        position = 0
        while position < len(message):
            read = self._snapshot if self.snapshot_left else self._rpc
            piece, position = read(message, position)
            pieces.append(piece)
        return pieces

    def _rpc(self, message: bytes, start: int) -> tuple[RpcPiece, int]:
        """The RPC that begins or continues at ``start``."""
        before = len(self.pending)
        data: bytes | bytearray = message[start:] if start else message
        if before:
            self.pending += data
            data = self.pending
        elif not self._begins(data):
            return RpcPiece(raft.RaftBytes, bytes(data), start, UNALIGNED), len(message)
        try:
            self.position, self.items = skip(data, self.position, len(data), self.items)
        except Truncated:
            self.reset()
            return RpcPiece(raft.RaftBytes, message[start:], start, UNALIGNED), len(message)
        if self.items:
            return self._wait(data, message[start:], start), len(message)
        whole = bytes(data[: self.position])
        self.reset()
        layer = layer_of(whole)
        read = layer(whole)
        if read.problem is not None:  # a string, then no map: in the middle of something
            return RpcPiece(raft.RaftBytes, message[start:], start, UNALIGNED), len(message)
        if layer is raft.InstallSnapshot:
            size = read.fields.get("snapshot_size")
            self.snapshot_left = size if size is not None and 0 < size <= MAX_SNAPSHOT_BYTES else 0
            self.snapshot = bytearray()
        return RpcPiece(layer, whole, None if before else start), start + len(whole) - before

    def _begins(self, data: bytes | bytearray) -> bool:
        """Whether an RPC or a response may begin with ``data``; prepares to step over it."""
        if data[0] in STRINGS:
            self.position, self.items = 0, 2
        elif (data[0] in names.RPC_TYPES and len(data) == 1) or (data[0] < 0x80 and data[1:2] and data[1] in MAPS):
            self.position, self.items = 1, 1
        else:
            return False
        return True

    def _wait(self, data: bytes | bytearray, part: bytes, start: int) -> RpcPiece:
        if len(data) > MAX_RPC_BYTES:
            self.reset()
            return RpcPiece(raft.RaftBytes, part, start, LIMIT)
        if data is not self.pending:
            self.pending = bytearray(data)
        return RpcPiece(raft.RaftBytes, part, start, PART)

    def _snapshot(self, message: bytes, start: int) -> tuple[RpcPiece, int]:
        part = message[start : start + self.snapshot_left]
        self.snapshot_left -= len(part)
        if self.snapshot is not None:
            self.snapshot += part
            if len(self.snapshot) > MAX_RPC_BYTES:
                self.snapshot = None
        stop = start + len(part)
        if self.snapshot_left:
            return RpcPiece(raft.RaftBytes, part, start, PART), stop
        whole, self.snapshot = self.snapshot, None
        if whole is None:
            return RpcPiece(raft.RaftBytes, part, start, LIMIT), stop
        return RpcPiece(raft.Snapshot, bytes(whole), start if len(whole) == len(part) else None), stop


def layer_of(data: bytes) -> type[Layer]:
    """The layer of a whole RPC or response."""
    if data[0] in STRINGS:  # a response: the fields in its map show its type
        present = raft.AnyResponse(data).fields
        return next((layer for name, layer in raft.RESPONSES if name in present), raft.TimeoutNowResponse)
    return raft.REQUESTS.get(data[0], raft.UnknownRpc)


Key = tuple[str, int, int]
"""Subject, number of the connection, side that sends."""


class RaftStreams:
    """All streams of a capture."""

    def __init__(self) -> None:
        self.streams: OrderedDict[Key, RaftStream] = OrderedDict()
        self.peers: Newest[str, str] = Newest(2 * MAX_STREAMS)
        """The inbox of the other side, of each inbox whose dial was seen."""
        self.dials: Newest[str, str] = Newest(MAX_STREAMS)
        """Reply subject of a dial: inbox of the caller."""
        self.held = 0

    def feed(self, key: Key, message: bytes) -> list[RpcPiece]:
        """The next message of a stream; an empty one ends it."""
        stream = self.streams.setdefault(key, RaftStream())
        self.streams.move_to_end(key)
        before = stream.held
        pieces = stream.feed(message)
        if not message:
            stream.reset()
        self.held += stream.held - before
        while len(self.streams) > MAX_STREAMS:
            self.held -= self.streams.popitem(last=False)[1].held
        if self.held > MAX_HELD_BYTES:
            for idle in self.streams.values():
                self.held -= idle.held
                idle.reset()
                if self.held <= MAX_HELD_BYTES:
                    break
        return pieces

    def interrupt(self, connection: int, side: int, time_ns: int) -> None:
        """Messages of one direction were lost: its streams begin anew, and responses cannot be counted for a while."""
        for key, stream in self.streams.items():
            if key[1] == connection:
                stream.lose_count(time_ns)
                if key[2] == side:
                    self.held -= stream.held
                    stream.reset()

    def remember(self, key: Key, rpc: Request) -> bool:
        """Remember an RPC; return whether its response can be known."""
        self.streams[key].send(rpc)
        return key[0] in self.peers

    def take(self, key: Key, time_ns: int) -> Request | None:
        """The RPC of a response."""
        subject, connection, side = key
        inbox = self.peers.get(subject)
        if inbox is None:
            return None
        return self.streams.setdefault((inbox, connection, 1 - side), RaftStream()).answer(time_ns)

    def accept(self, reply: str, inbox: str) -> None:
        """The response to a dial: both inboxes are known now."""
        caller = self.dials[reply]
        self.peers.put(caller, inbox)
        self.peers.put(inbox, caller)
