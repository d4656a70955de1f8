"""The bulk reader of NATS compared with the row decoder: framing, rows, and conversation state."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import crc32c
import numpy as np
import pytest

from tests.conftest import in_one_test
from tests.protocols.nats_vectors import VECTORS
from tests.support import Part, dialogue, dissect
from wiredecode.capture import open_capture
from wiredecode.frames.block import BlockMessages, BulkSplit, FrameBlock
from wiredecode.frames.frame import NOTHING, OK, Frame
from wiredecode.frames.message import Coded, FrameMessages, HeaderLists, Messages, Slices
from wiredecode.net.types import Connection
from wiredecode.protocols.base import Start
from wiredecode.protocols.liftbridge.conversation import LiftbridgeSession
from wiredecode.protocols.liftbridge.names import MAGIC
from wiredecode.protocols.nats.bulk import NatsBulk
from wiredecode.protocols.nats.conversation import NatsConversation
from wiredecode.protocols.nats.protocol import Nats

CAPTURES = Path(__file__).parent.parent.parent / "captures"
FILES = sorted(path for folder in ("nats", "liftbridge") for path in (CAPTURES / folder).glob("*.pcap*"))
WHOLE = [path for path in FILES if not any(word in path.name for word in ("snap96", "drop1pct", "midconn"))]

INFO = b'INFO {"server_id":"N","client_id":1,"max_payload":100000}\r\n'
CONNECT = b'CONNECT {"verbose":false,"lang":"go"}\r\n'
BLOCK = b"NATS/1.0\r\nNats-Msg-Id: 1\r\nEmpty:\r\n\r\n"


def member(number: int, value: bytes) -> bytes:
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def envelope(message: bytes, *, kind: int = 0, sealed: bool = True) -> bytes:
    if not sealed:
        return MAGIC + bytes([0, 8, 0, kind]) + message
    return MAGIC + bytes([0, 12, 1, kind]) + crc32c.crc32c(message).to_bytes(4, "big") + message


PUBLISHED = member(2, b"key") + member(3, b"value") + b"\x20" + varint(1_700_000_000_000_000_000) + member(5, b"orders")
PUBLISHED += b"\x30\x02" + member(9, member(1, b"n") + member(2, b"\xff\0")) + member(9, member(1, b"m"))


def asking(number: int) -> bytes:
    """An envelope with a message that requests an ack."""
    wanted = member(10, b"acks.1") + member(11, b"id-%d" % number) + b"\x60\x01"
    return envelope(b"\x08" + b"\xff" * 9 + b"\x01" + PUBLISHED + wanted)


def acked(number: int, more: bytes = b"") -> bytes:
    """The envelope with its ack."""
    wanted = member(5, b"acks.1") + member(6, b"id-%d" % number)
    return envelope(member(1, b"orders") + b"\x20\x05" + wanted + b"\x40" + varint(1 << 60) + more, kind=1)


def pub(payload: bytes, subject: bytes = b"a.b", block: bytes = b"") -> bytes:
    if block:
        return b"HPUB %s %d %d\r\n%s%s\r\n" % (subject, len(block), len(block + payload), block, payload)
    return b"PUB %s %d\r\n%s\r\n" % (subject, len(payload), payload)


def msg(payload: bytes, subject: bytes = b"a.b", sid: bytes = b"1", block: bytes = b"") -> bytes:
    if block:
        return b"HMSG %s %s %d %d\r\n%s%s\r\n" % (subject, sid, len(block), len(block + payload), block, payload)
    return b"MSG %s %s %d\r\n%s\r\n" % (subject, sid, len(payload), payload)


PLAIN = {
    "PUB": pub(b"body"),
    "PUB without a body": pub(b""),
    "PUB of line ends": pub(b"\r\nPUB x 1\r\n"),
    "HPUB": pub(b"body", block=BLOCK),
    "MSG": msg(b"body"),
    "HMSG": msg(b"body", block=BLOCK),
    "leading zeros": b"PUB a 0004\r\nbody\r\n",
}
"""Messages that a block holds."""
NOT_PLAIN = {
    "reply": b"PUB a reply 4\r\nbody\r\n",
    "inbox": pub(b"body", b"_INBOX.abc"),
    "inbox inside": pub(b"body", b"raft.request._INBOX.abc"),
    "system account": pub(b"body", b"$SYS.REQ.USER.AUTH"),
    "lower case": b"pub a 4\r\nbody\r\n",
    "two blanks": b"PUB  a 4\r\nbody\r\n",
    "tab": b"PUB\ta 4\r\nbody\r\n",
    "blank at the end": b"PUB a 4 \r\nbody\r\n",
    "bare LF": b"PUB a 4\nbody\r\n",
    "not ASCII": pub(b"body", "ä".encode()),
    "wrong end": b"PUB a 4\r\nbodyXX",
    "ten digits": b"PUB a 0000000004\r\nbody\r\n",
    "status": pub(b"", block=b"NATS/1.0 503\r\n\r\n"),
    "secret header": pub(b"", block=b"NATS/1.0\r\nAuthorization: x\r\n\r\n"),
    "secret header by its end": msg(b"", block=b"NATS/1.0\r\nMy-Token: x\r\n\r\n"),
    "sequence header": msg(b"body", block=b"NATS/1.0\r\nNats-Sequence: 16909060\r\n\r\n"),
    "other block": pub(b"", block=b"NATS/2.0\r\na: b\r\n\r\n"),
    "header without colon": pub(b"", block=b"NATS/1.0\r\nabc\r\n\r\n"),
    "block beyond the size": b"HPUB a 20 4\r\nbody\r\n",
    "RMSG": b"RMSG $G a 4\r\nbody\r\n",
    "SUB": b"SUB a 1\r\n",
    "UNSUB": b"UNSUB 1\r\n",
    "PING": b"PING\r\n",
    "PONG with more": b"PONGO\r\n",
    "HMSG without a blank": b"HMSG.a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    "+OK": b"+OK\r\n",
    "-ERR": b"-ERR 'x'\r\n",
    "published": pub(envelope(PUBLISHED)),
    "published with NATS headers": msg(envelope(PUBLISHED), block=BLOCK),
    "wants an ack": pub(asking(1)),
    "ack": msg(acked(1), b"acks.1"),
    "bad CRC": pub(envelope(PUBLISHED)[:-1] + b"\0"),
    "cut header": pub(MAGIC + b"\0\x08\0"),
    "replication request": pub(envelope(member(1, b"a"), kind=2)),
}
"""Messages that are left to the row decoder."""


BULK = NatsBulk()


def check_cut(data: bytes) -> BulkSplit:
    """Assert that both framers agree."""
    ends = Nats().split(data).ends
    cut = BULK.split(data)
    assert cut.starts.tolist() == [0, *ends[: len(cut.kinds)]]
    return cut


@in_one_test("name", PLAIN)
def test_plain_messages_are_recognised(name: str) -> None:
    assert check_cut(PLAIN[name] + b"PING\r\n").kinds[0] != 0


@in_one_test("name", NOT_PLAIN)
def test_unusual_messages_are_left_to_the_row_decoder(name: str) -> None:
    assert check_cut(NOT_PLAIN[name] + PLAIN["PUB"]).kinds[:1].sum() == 0


def test_vectors_are_framed_as_by_split() -> None:
    for vector in VECTORS:
        check_cut(vector.raw)
        check_cut(vector.raw + PLAIN["MSG"])


STREAM = b"".join([*PLAIN.values(), *NOT_PLAIN.values()][::3]) + PLAIN["HMSG"]


def test_every_truncation_of_a_stream() -> None:
    for stop in range(len(STREAM)):
        check_cut(STREAM[:stop])


def mutated(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(out))
        if chance.random() < 0.5:
            out[at] = chance.choice(b"\r\n 059_.$\xff\x00AM:") if chance.random() < 0.7 else chance.randrange(256)
        else:
            out[at : at + chance.randint(0, 4)] = chance.randbytes(chance.randint(0, 2))
    return bytes(out)


def test_mutated_streams_are_framed_as_by_split() -> None:
    chance = random.Random(4)
    messages = [*PLAIN.values(), *NOT_PLAIN.values()]
    for _ in range(1500):
        chosen = b"".join(chance.choice(messages) for _ in range(3))
        check_cut(mutated(chosen, chance))


# Everything is decoded twice, frame by frame and with blocks, and must be equal.


@dataclass
class Outcome:
    rows: list[dict[str, Any]] = field(default_factory=list)
    frames: dict[int, Frame] = field(default_factory=dict)
    runs: list[FrameBlock] = field(default_factory=list)
    state: Any = None

    @property
    def taken(self) -> int:
        return sum(map(len, self.runs))


def drive(parts: list[Part], *, least: int | None, messages: bool = True) -> Outcome:
    """Decode parts of connections in order; ``least``: messages in the shortest block, None: no blocks."""
    protocol, out, outcome = Nats(), Messages() if messages else None, Outcome()
    talks: dict[int, NatsConversation] = {}
    reached: dict[tuple[int, int], int] = {}
    number = 0
    for part in parts:
        if part.connection not in talks:
            connection = Connection(part.connection, ("a", "b"), (40000, 4222), initiator=0)
            talks[part.connection] = conversation = protocol.conversation(Start(connection, copies=False))
        conversation = talks[part.connection]
        base = reached.get((part.connection, part.side), 0)
        number = play(conversation, protocol, part, base, least, number, out, outcome)
        reached[part.connection, part.side] = base + len(part.data)
    if out is not None:
        outcome.rows = [row for piece in out.parts for row in rows_of(piece)]
        assert out.count == len(outcome.rows)
    outcome.state = state_of(protocol, talks)
    return outcome


def play(
    conversation: NatsConversation,
    protocol: Nats,
    part: Part,
    base: int,
    least: int | None,
    number: int,
    out: Messages | None,
    outcome: Outcome,
) -> int:
    cut = BULK.split(part.data) if least is not None else None
    ends = protocol.split(part.data).ends
    starts, low = [0, *ends[:-1]], 0
    while low < len(ends):
        high = low + 1
        if cut is not None and low < len(cut.kinds) and cut.kinds[low]:
            while high < len(cut.kinds) and cut.kinds[high]:
                high += 1
            if high - low >= (least or 0):
                run = run_of(conversation, part, base, cut, low, high, number)
                if BULK.decode(conversation, run, out):
                    outcome.runs.append(run)
                    number, low = number + high - low, high
                    continue
        for start, stop in zip(starts[low:high], ends[low:high], strict=True):
            number += 1
            where = (part.data, start, stop, base + start, stop - start, 0)
            frame = Frame(conversation.connection, part.side, *where, [number], number, number, number)
            frame.number = number
            conversation.decode(frame, None)
            if out is not None:
                conversation.messages(frame, out)
            outcome.frames[number] = frame
            conversation.inner_frames.clear()
        low = high
    return number


def run_of(
    conversation: NatsConversation, part: Part, base: int, cut: BulkSplit, low: int, high: int, number: int
) -> FrameBlock:
    numbers = np.arange(number + 1, number + 1 + high - low)
    columns = {name: column[low:high] for name, column in cut.parts.items()}
    where = (conversation.connection, part.side, part.data, base, cut.starts[low:high], cut.starts[low + 1 : high + 1])
    pieces = (numbers,) * 6
    return FrameBlock(*where, cut.kinds[low:high], columns, *pieces, BULK, "nats", numbers)


NAMES = ("topic", "partition", "key", "offset", "sequence", "timestamp", "headers", "body")


def rows_of(piece: FrameMessages | BlockMessages) -> Iterator[dict[str, Any]]:
    """Plain rows."""
    if isinstance(piece, BlockMessages):
        numbers = piece.block.numbers[piece.rows].tolist()
        columns = {name: listed(piece.columns.get(name), len(numbers)) for name in ("index", "operation", *NAMES)}
        for place, number in enumerate(numbers):
            yield {"number": number} | {name: column[place] for name, column in columns.items()}
        return
    lists = (piece.keys, piece.offsets, piece.sequences, piece.times_ns, piece.headers, piece.bodies)
    for index in range(len(piece.bodies)):
        key, offset, sequence, time, headers, body = (None if column is None else column[index] for column in lists)
        values = (piece.topic, piece.partition, key, offset, sequence, time, headers, body)
        generated = {"number": piece.frame.number, "index": index, "operation": piece.operation}
        yield generated | dict(zip(NAMES, values, strict=True))


def listed(column: Any, count: int) -> list[Any]:
    if isinstance(column, Slices):
        spans = zip(column.starts.tolist(), column.stops.tolist(), strict=True)
        return [None if start < 0 else column.buffer[start:stop] for start, stop in spans]
    if isinstance(column, Coded):
        return [column.values[code] for code in column.codes.tolist()]
    if isinstance(column, HeaderLists):
        pairs = list(zip(listed(column.keys, 0), listed(column.values, 0), strict=True))
        lists = zip(column.stops.tolist(), column.stops.tolist()[1:], column.valid.tolist(), strict=False)
        return [[(key.decode(), value) for key, value in pairs[a:b]] if valid else None for a, b, valid in lists]
    return [column] * count


def state_of(protocol: Nats, talks: dict[int, NatsConversation]) -> Any:
    """The state of conversations and memories, for comparison."""
    inner = protocol.memory.carried.session("liftbridge")
    assert isinstance(inner, LiftbridgeSession)
    shared = (
        *(list(inner.exchanges.items()), inner.forgets),
        *(list(inner.namespaces), list(inner.raft.dials)),
    )
    each = {
        number: (
            *(talk.sides, talk.client, talk.link, talk.verbose, list(talk.subscriptions.items()), list(talk.ended)),
            *(talk.connected, talk.max_payload, talk.whole),
        )
        for number, talk in talks.items()
    }
    return list(protocol.memory.requests.items()), shared, each


def compare(parts: list[Part], *, least: int = 1) -> Outcome:
    """Assert that decoding with and without blocks is equal; return the outcome with blocks."""
    slow, fast = drive(parts, least=None), drive(parts, least=least)
    key = lambda row: (row["number"], row["index"])  # noqa: E731
    assert sorted(fast.rows, key=key) == slow.rows
    assert fast.state == slow.state
    for number, frame in fast.frames.items():
        assert said(frame) == said(slow.frames[number])
    for run in fast.runs:
        for number, kind in zip(run.numbers.tolist(), run.kinds.tolist(), strict=True):
            frame = slow.frames[number]
            assert (frame.status, frame.findings, frame.sender is None) == (OK, (), False)
            assert (frame.type, frame.protocol) == (BULK.types[kind], "nats")
            assert not frame.expects_response and frame.request is None
    return fast


def said(frame: Frame) -> Any:
    """A frame for comparison, without ``copy_of`` of forwarded copies, which tables with blocks do not have."""
    links = (frame.request, frame.expects_response, frame.latency_ns)
    generated = dict(frame.generated) if frame.generated is not NOTHING else {}
    if frame.protocol == "liftbridge" and frame.sender == "server":
        generated.pop("copy_of", None)
    return (
        frame.type,
        frame.code,
        frame.status,
        frame.findings,
        frame.values,
        frame.sender,
        frame.dialect,
        links,
        generated,
    )


@pytest.mark.parametrize("path", WHOLE, ids=[path.stem for path in WHOLE])
def test_captures_with_blocks_equal_captures_frame_by_frame(path: Path) -> None:
    parts = dialogue(dissect(open_capture([path]), known=(Nats(),), style=None))
    for part in parts:
        check_cut(part.data)
    taken = compare(parts).taken
    assert taken or path.stem not in PLAIN_CAPTURES


PLAIN_CAPTURES = {"03-pubsub", "06-headers", "08-pipelined-small", "10-split-writes", "30-lb-publish-ack"}


def opened(*more: Part, sub: bytes = b"SUB > 1\r\nSUB x 2\r\n") -> list[Part]:
    return [Part(1, 1, INFO), Part(1, 0, CONNECT + sub), *more]


def test_all_kinds_of_messages_in_blocks() -> None:
    client = b"".join(raw for raw in PLAIN.values() if raw.startswith((b"PUB", b"HPUB")))
    server = b"".join(raw for raw in PLAIN.values() if raw.startswith((b"MSG", b"HMSG")))
    run = compare(opened(Part(1, 0, client * 2), Part(1, 1, server * 2), Part(1, 0, client), Part(1, 1, server)))
    assert run.taken == 3 * len(PLAIN)


@pytest.mark.parametrize("seed", range(6))
def test_random_conversations(seed: int) -> None:
    chance = random.Random(seed)
    client = [*[raw for raw in PLAIN.values() if raw.startswith((b"PUB", b"HPUB"))], b"PING\r\n", b"UNSUB 2 9\r\n"]
    server = [*[raw for raw in PLAIN.values() if raw.startswith((b"MSG", b"HMSG"))], b"PONG\r\n", b"+OK\r\n"]
    others = list(NOT_PLAIN.values())
    parts = opened()
    for turn in range(30):
        side = chance.randrange(2)
        chosen = [chance.choice(server if side else client) for _ in range(chance.randrange(1, 12))]
        if chance.random() < 0.3:
            chosen.append(chance.choice(others))
        if chance.random() < 0.3:
            chosen += [pub(asking(turn)), pub(b"%d" % turn, b"t.%d" % turn)]
        parts.append(Part(1, side, b"".join(chosen)))
    compare(parts, least=chance.choice((1, 2, 5)))


REFUSED = {
    "verbose": [Part(1, 1, INFO), Part(1, 0, CONNECT.replace(b"false", b"true")), Part(1, 0, PLAIN["PUB"] * 2)],
    "before CONNECT": [Part(1, 1, INFO), Part(1, 0, PLAIN["PUB"] * 2)],
    "too large": opened(Part(1, 0, pub(b"x" * 100_001))),
    "not subscribed": opened(Part(1, 1, msg(b"x", sid=b"7"))),
    "last delivery": opened(Part(1, 0, b"UNSUB 2 3\r\n"), Part(1, 1, msg(b"x", sid=b"2") * 4)),
    "answer": opened(Part(1, 0, b"PUB q answers 1\r\nx\r\n"), Part(1, 1, msg(b"x", b"answers"))),
    "raft": opened(Part(1, 0, pub(b"x", b"ns.raft.metadata.join"))),
    "of a stream of its own": opened(Part(1, 0, pub(envelope(PUBLISHED), b"liftbridge-default.activity.x"))),
    "another type expected": opened(Part(1, 0, pub(envelope(PUBLISHED), b"liftbridge-default.ack.x"))),
    "ack of replication": opened(Part(1, 0, pub(acked(1), b"liftbridge-default.s.0.replicate"))),
    "both directions in one": opened(Part(1, 0, PLAIN["PUB"] + PLAIN["MSG"])),
    "on a route": [Part(1, 1, INFO), Part(1, 0, b'CONNECT {"cluster":"c"}\r\n'), Part(1, 0, PLAIN["PUB"] * 2)],
}


@pytest.mark.parametrize("name", REFUSED)
def test_messages_with_findings_are_left_to_the_row_decoder(name: str) -> None:
    assert compare(REFUSED[name]).taken == 0


def test_gap_before_a_block() -> None:
    parts = opened(Part(1, 0, PLAIN["PUB"]))
    protocol = Nats()
    conversation = protocol.conversation(Start(Connection(1, ("a", "b"), (1, 4222), initiator=0)))
    conversation.verbose = None
    run = run_of(conversation, parts[-1], 10, BULK.split(PLAIN["PUB"]), 0, 1, 0)
    assert not BULK.decode(conversation, run, None)
    conversation.sides[0].reached = 10
    assert BULK.decode(conversation, run, None)
    assert conversation.sides[0].reached == 10 + len(PLAIN["PUB"])


def test_roles_are_learnt_from_the_first_message_of_a_block() -> None:
    for raw, side, client in ((PLAIN["PUB"], 1, 1), (PLAIN["MSG"], 1, 0)):
        protocol = Nats()
        conversation = protocol.conversation(Start(Connection(1, ("a", "b"), (1, 2))))
        assert BULK.decode(conversation, run_of(conversation, Part(1, side, raw), 0, BULK.split(raw), 0, 1, 0), None)
        assert conversation.client == client
