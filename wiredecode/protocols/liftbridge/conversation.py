"""What NATS hands over: payloads that are Liftbridge's, decoded, checked and paired within a capture.

Liftbridge has no connections of its own, so its state belongs to the capture: a request and its response usually travel
on different connections, and each message is seen once per hop.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import crc32c

from wiredecode.fields import compiler, printable
from wiredecode.fields.layer import Style
from wiredecode.fields.protobuf.wire import write_varint
from wiredecode.frames.frame import MALFORMED, PARTIAL, Frame
from wiredecode.protocols.liftbridge import names, raft
from wiredecode.protocols.liftbridge.checks import check_contents, check_crc, check_entries, check_header
from wiredecode.protocols.liftbridge.inner import Reading, carry, generate, read, tell_problem
from wiredecode.protocols.liftbridge.kinds import SHORT_HEADER
from wiredecode.protocols.liftbridge.layers import LAYERS, NAME, Unknown
from wiredecode.protocols.liftbridge.links import Hop, Key, make_hop
from wiredecode.protocols.liftbridge.operations import ActivityStreamEvent, Cursor
from wiredecode.protocols.liftbridge.originals import Originals
from wiredecode.protocols.liftbridge.raft_streams import LIMIT, PART, UNALIGNED, Asked, Piece, RaftStreams
from wiredecode.protocols.nats.memory import plain_subject

if TYPE_CHECKING:
    from wiredecode.frames.run import Int64s, Run

MAX_EXCHANGES = 10_000
"""Requests and publishes remembered until they are answered; the oldest are forgotten."""
MAX_HOPS = 16
"""Copies of one request that are remembered."""
MAX_KEY_CHARACTERS = 1024
"""Longest subject or id by which something is remembered: NATS servers take control lines of 4096 bytes."""
MAX_SUBJECTS = 4096
"""Subjects whose meaning is remembered."""
MAX_NAMESPACES = 64

NO_TYPE = -1
"""Of a dial, which has no envelope."""
DEFAULT_NAMESPACE = "liftbridge-default"
RAFT_MARK = ".raft.metadata."
RAFT_SUBJECTS = {"join": 4, "propagate": 8, "info": 10, "status": 12, "fetch": 11}
"""Message types by the token after the mark."""
OWN_SUBJECTS = {"notify": 14, "ack": 1, "activity": 0, "cursors": 0}
"""Message types by the token after the namespace."""
PARTITION_SUBJECTS = {"replicate": 2, "offset": 6}
"""Message types by the last token of ``<namespace>.<stream>.<partition>.<token>``."""


NO_FACTS: dict[str, Any] = {}


class Meaning(NamedTuple):
    """What a subject says: the message type to expect, and the stream and partition it names."""

    message_type: int | None = None
    facts: dict[str, Any] = {}
    tail: str = ""
    """The subject within the namespace."""


@dataclass
class Memory:
    """What is remembered of a capture; everything is bounded."""

    exchanges: OrderedDict[Key, list[Hop]] = field(default_factory=OrderedDict)
    forgets: bool = False
    """More requests came than are remembered."""
    originals: Originals = field(default_factory=lambda: Originals(MAX_EXCHANGES))
    """What clients published: what servers hand on is its copy."""
    raft: RaftStreams = field(default_factory=RaftStreams)
    namespaces: dict[str, None] = field(default_factory=lambda: {DEFAULT_NAMESPACE: None})
    meanings: dict[str, Meaning] = field(default_factory=dict)

    def learn_namespace(self, namespace: str) -> None:
        if namespace not in self.namespaces and len(self.namespaces) < MAX_NAMESPACES:
            self.namespaces[namespace] = None
            self.meanings.clear()

    def meaning(self, subject: str | None) -> Meaning:
        if subject is None or len(subject) > MAX_KEY_CHARACTERS:
            return NO_MEANING
        known = self.meanings.get(subject)
        if known is None:
            if len(self.meanings) >= MAX_SUBJECTS:
                self.meanings.clear()
            if RAFT_MARK in subject:
                self.learn_namespace(subject.partition(RAFT_MARK)[0])
            known = self.meanings[subject] = self._meaning(subject)
        return known

    def _meaning(self, subject: str) -> Meaning:
        _, mark, rest = subject.partition(RAFT_MARK)
        if mark:
            return Meaning(RAFT_SUBJECTS.get(rest.partition(".")[0]))
        for namespace in self.namespaces:
            if subject.startswith(namespace + "."):
                tail = subject[len(namespace) + 1 :]
                stream, _, last = tail.rpartition(".")
                stream, _, partition = stream.rpartition(".")
                if last in PARTITION_SUBJECTS and partition.isdecimal() and stream:
                    facts = {"stream": printable(stream), "partition": int(partition[:10])}
                    return Meaning(PARTITION_SUBJECTS[last], facts, tail)
                return Meaning(OWN_SUBJECTS.get(tail.partition(".")[0]), {}, tail)
        return NO_MEANING

    def ask(self, key: Key, frame: Frame, message_type: int, facts: dict[str, Any]) -> None:
        longest = len(key) if isinstance(key, bytes) else max(map(len, key))
        if longest > MAX_KEY_CHARACTERS or len(facts.get("replica_id", "")) > MAX_KEY_CHARACTERS:
            return
        hops = self.exchanges.setdefault(key, [])
        if len(hops) < MAX_HOPS:
            number = frame.connection.number
            hops.append(make_hop((frame.id, frame.time_ns, number, frame.side, message_type, facts)))
        if len(self.exchanges) > MAX_EXCHANGES:
            self._forget(frame)

    def _forget(self, frame: Frame | None = None) -> None:
        self.exchanges.popitem(last=False)
        if self.forgets:
            return
        self.forgets = True
        message = f"more than {MAX_EXCHANGES} requests: from here on the oldest is forgotten"
        if frame is not None:
            frame.find("note", "limit", "outstanding", message)

    def has_room(self, count: int) -> bool:
        """Whether so many requests can come without a remark."""
        return self.forgets or len(self.exchanges) + count <= MAX_EXCHANGES

    def ask_for_acks(self, run: Run, rows: Int64s, keys: Iterable[bytes]) -> None:
        """As :meth:`ask` for published messages of a run; ``keys`` as :func:`ack_key` makes them."""
        shared = run.connection.number, run.side, names.PUBLISH, NO_FACTS
        columns = zip(run.ids[rows].tolist(), run.time_ns[rows].tolist(), *map(repeat, shared), strict=False)
        for key, hop in zip(keys, map(make_hop, columns), strict=True):
            self._remember(key, hop)

    def _remember(self, key: bytes, hop: Hop) -> None:
        hops = self.exchanges.get(key)
        if hops is None:
            self.exchanges[key] = [hop]
            if len(self.exchanges) > MAX_EXCHANGES:
                self._forget()
        elif len(hops) < MAX_HOPS:
            hops.append(hop)

    def answer(self, key: Key, frame: Frame) -> Hop | None:
        """The request of a response: the one the other side of the connection sent, or else the first seen."""
        hops = self.exchanges.get(key)
        return own_hop(hops, frame.connection.number, frame.side) if hops else None

    def copy_of(self, frame: Frame, subject: str | None, payload: bytes) -> int | None:
        """The frame in which a client sent what a server hands on."""
        key = subject, len(payload), crc32c.crc32c(payload)
        if frame.sender != "client":
            return self.originals.get(key)
        if len(subject or "") > MAX_KEY_CHARACTERS:
            return None
        self.originals.add(key, frame.id)
        return None


def own_hop(hops: list[Hop], connection: int, side: int) -> Hop:
    """The one that the other side of the connection sent, or else the first."""
    for hop in hops:
        if hop.connection == connection and hop.side != side:
            return hop
    return hops[0]


NO_MEANING = Meaning()
ONE_BYTE = [bytes([size]) for size in range(128)]


def ack_key(inbox: str, correlation_id: str) -> bytes:
    """What a published message and its ack have in common, as protobuf writes the one after the other."""
    raw = inbox.encode("utf-8", "surrogateescape")
    if not correlation_id:
        return raw
    rest = correlation_id.encode("utf-8", "surrogateescape")
    size = len(rest)
    return b"%bZ%b%b" % (raw, ONE_BYTE[size] if size < 128 else write_varint(size), rest)  # Z: the tag


def memory_of(memory: MutableMapping[str, Any]) -> Memory:
    """The state of the capture, made on first use."""
    state: Memory | None = memory.get(NAME)
    if state is None:
        state = memory[NAME] = Memory()
    return state


def introduce(client_name: str, memory: MutableMapping[str, Any]) -> dict[str, str]:
    """What the name in a NATS CONNECT says: ``LIFT.<namespace>.<server>.<purpose>`` of Liftbridge's servers."""
    parts = client_name.split(".")
    if len(parts) < 4 or parts[0] != "LIFT":
        return {}
    namespace = ".".join(parts[1:-2])
    memory_of(memory).learn_namespace(namespace)
    return {"namespace": namespace, "server": parts[-2], "purpose": parts[-1]}


def interrupt(connection: int, side: int, memory: MutableMapping[str, Any]) -> None:
    """Messages that ``side`` of a connection sent were lost: what its streams hold cannot be continued."""
    state: Memory | None = memory.get(NAME)
    if state is not None:
        state.raft.interrupt(connection, side)


def attach(
    frame: Frame,
    subject: str | None,
    payload: bytes,
    payload_start: int,
    style: Style | None,
    memory: MutableMapping[str, Any],
    reply: str | None = None,
) -> None:
    """Decode the payload of a NATS message, if it is Liftbridge's: its layers and findings join the frame.

    ``payload_start`` is where the payload starts in the frame, ``memory`` belongs to the capture, ``reply`` is the
    reply subject of the message, if the frame's values do not say it. Other payloads are left alone. Of a frame with
    missing bytes ``payload`` is what was captured of its front.
    """
    reply = frame.values.get("reply", reply)
    if payload[:4] == names.MAGIC:
        state = memory_of(memory)
        _envelope(frame, subject, payload, payload_start, style, state, reply)
    elif subject is not None and (RAFT_MARK in subject or subject in memory_of(memory).raft.dials):
        state = memory_of(memory)
        _raft(frame, subject, payload, payload_start, style, state, reply)


# Envelopes.


def _envelope(
    frame: Frame, subject: str | None, data: bytes, start: int, style: Style | None, state: Memory, reply: str | None
) -> None:
    frame.protocol = NAME
    if len(data) < SHORT_HEADER:
        frame.type = None
        reading = read(Unknown, data, style, cut=True)
        carry(frame, reading, data, start, style)
        if frame.status != PARTIAL:
            frame.status = MALFORMED
            message = f"the envelope's header of {SHORT_HEADER} bytes is cut after {len(data)}"
            frame.find("error", "malformed", "truncated-envelope", message, NAME, (start, start + len(data)))
        return
    code = data[7]
    layer = LAYERS.get(code, Unknown) if data[4] == 0 else Unknown
    frame.type, frame.code = names.MESSAGE_TYPES.get(code), code
    reading = read(layer, data, style, cut=frame.status == PARTIAL)
    carry(frame, reading, data, start, style)
    check_header(frame, data, start)
    tell_problem(frame, reading, start, len(data))
    check_crc(frame, reading, data, start, style)
    if code == names.REPLICATION_RESPONSE and layer is not Unknown and frame.status != PARTIAL:
        check_entries(frame, reading, data, start, style)
    if layer is not Unknown:
        check_contents(frame, code, reading)
        meaning = state.meaning(subject)
        _relate(frame, subject, reply, code, reading, style, state, meaning)
        if code == names.PUBLISH and meaning.tail:
            _stored(frame, meaning, data, start, reading, style)
    copied = state.copy_of(frame, subject, data)
    if copied is not None and "copy_of" not in frame.generated:
        generate(frame, reading, style, "copy_of", copied)


def _relate(
    frame: Frame,
    subject: str | None,
    reply: str | None,
    code: int,
    reading: Reading,
    style: Style | None,
    state: Memory,
    meaning: Meaning,
) -> None:
    """Tie responses to requests and acks to publishes; compare the type with what subject and request say."""
    fields = reading.fields
    facts = meaning.facts
    hop = None
    expected = meaning.message_type
    if code == names.PUBLISH:
        inbox = fields.get("ack_inbox")
        if inbox and reading.number("ack_policy") != names.NO_ACK:
            frame.expects_response = True
            state.ask(ack_key(inbox, fields.get("correlation_id", "")), frame, code, NO_FACTS)
    elif code == names.ACK:
        inbox = fields.get("ack_inbox") or subject or ""
        hop = state.answer(ack_key(inbox, fields.get("correlation_id", "")), frame)
    elif code in names.REQUESTS and reply:
        frame.expects_response = True
        facts = {**facts, "replica_id": fields["replica_id"]} if "replica_id" in fields else dict(facts)
        state.ask(("reply", plain_subject(reply)), frame, code, facts)
    elif subject is not None and code in RESPONSES:
        hop = state.answer(("reply", plain_subject(subject)), frame)
        if hop is not None:
            facts, expected = hop.facts, names.REQUESTS.get(hop.message_type)
    if hop is not None and frame.request is None:
        frame.request, frame.latency_ns = hop.frame, frame.time_ns - hop.time_ns
    for name, value in facts.items():
        if name not in fields:
            generate(frame, reading, style, name, value)
    if expected is not None and expected != code:
        because = "the subject" if hop is None else "the request"
        message = f"{because} asks for {names.MESSAGE_TYPES[expected]}: servers reject {names.MESSAGE_TYPES[code]}"
        frame.find("warning", "protocol", "unexpected-type", message, f"{NAME}.message_type")


RESPONSES = frozenset(names.REQUESTS.values())


def _stored(frame: Frame, meaning: Meaning, data: bytes, start: int, reading: Reading, style: Style | None) -> None:
    """The value of a message for one of Liftbridge's own streams."""
    kind = meaning.tail.partition(".")[0]
    layer = {"activity": ActivityStreamEvent, "cursors": Cursor}.get(kind)
    if layer is None or "value" not in reading.fields:
        return
    decoded = compiler.careful(reading.layer, data, 0, len(data))
    value = decoded.values["value"]
    inner = read(layer, value, style)
    if inner.problem is None:
        carry(frame, inner, value, start + decoded.ranges["value"][1] - len(value), style)


# Raft.


def _raft(
    frame: Frame, subject: str, data: bytes, start: int, style: Style | None, state: Memory, reply: str | None
) -> None:
    """Payloads without an envelope on the subjects of the metadata group."""
    _, mark, rest = subject.partition(RAFT_MARK)
    if mark:
        state.meaning(subject)  # learns the namespace
    if not mark:
        _dialled(frame, subject, data, start, style, state)
    elif rest in ("bootstrap", "bootstrap.reply"):
        _claim(frame, "RaftBootstrap", read(raft.RaftBootstrap, data, style), data, start, style)
    elif rest.endswith(".accept"):
        request = raft.RaftConnectRequest(data)
        inbox = request.fields.get("inbox")
        if request.problem is None and isinstance(inbox, str) and len(inbox) <= MAX_KEY_CHARACTERS:
            _claim(frame, "RaftConnectRequest", read(raft.RaftConnectRequest, data, style), data, start, style)
            if reply:
                frame.expects_response = True
                state.raft.dial(reply, inbox)
                state.ask(("reply", reply), frame, NO_TYPE, {})
    elif ".request._INBOX." in rest and frame.status != PARTIAL:
        _stream(frame, subject, data, start, style, state)


def _claim(
    frame: Frame, name: str | None, reading: Reading, data: bytes, start: int | None, style: Style | None
) -> None:
    frame.protocol, frame.type = NAME, name
    carry(frame, reading, data, start, style)


def _dialled(frame: Frame, subject: str, data: bytes, start: int, style: Style | None, state: Memory) -> None:
    """The callee's answer to a dial."""
    response = raft.RaftConnectResponse(data)
    inbox = response.fields.get("inbox")
    if response.problem is not None or not isinstance(inbox, str) or len(inbox) > MAX_KEY_CHARACTERS:
        return
    _claim(frame, "RaftConnectResponse", read(raft.RaftConnectResponse, data, style), data, start, style)
    state.raft.accept(subject, inbox)
    hop = state.answer(("reply", subject), frame)
    if hop is not None and frame.request is None:
        frame.request, frame.latency_ns = hop.frame, frame.time_ns - hop.time_ns


REMARKS = {
    PART: ("note", "protocol", "raft-part", "a part of an RPC or a snapshot that spans several messages"),
    UNALIGNED: ("warning", "undecoded", "raft-unaligned", "no RPC begins here: the stream was not seen from its start"),
    LIMIT: ("warning", "limit", "raft-rpc", "the RPC or snapshot is too large to be put together"),
}


def _stream(frame: Frame, subject: str, data: bytes, start: int, style: Style | None, state: Memory) -> None:
    key = subject, frame.connection.number, frame.side
    pieces = state.raft.feed(key, data) or [Piece(raft.RaftBytes, data, 0)]
    for index, piece in enumerate(pieces):
        at = None if piece.start is None else start + piece.start
        reading = read(piece.layer, piece.data, style)
        if index == 0:
            frame.protocol, frame.type = NAME, _type_of(piece)
        carry(frame, reading, piece.data, at, style)
        tell_problem(frame, reading, at, len(piece.data))
        if piece.remark is not None:
            severity, group, code, message = REMARKS[piece.remark]
            where = None if at is None else (at, at + len(piece.data))
            frame.find(severity, group, code, message, raft.NAME, where)
        elif issubclass(piece.layer, raft.Rpc):
            frame.code = piece.data[0] if frame.code is None else frame.code
            if state.raft.asked(key, Asked(frame.id, frame.time_ns)):
                frame.expects_response = True
        elif issubclass(piece.layer, raft.Answer):
            asked = state.raft.answered(key)
            if asked is not None and frame.request is None:
                frame.request, frame.latency_ns = asked.frame, frame.time_ns - asked.time_ns
            if reading.fields.get("error"):
                message = f"the RPC failed: {printable(reading.fields['error'])}"
                frame.find("note", "response", "refused", message, f"{raft.NAME}.error", None)


def _type_of(piece: Piece) -> str:
    if piece.layer is raft.Snapshot:
        return "RaftSnapshot"
    return "RaftEnd" if not piece.data else piece.layer.__name__
