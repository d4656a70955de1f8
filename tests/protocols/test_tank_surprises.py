"""Undocumented behaviour of TANK on the wire, hostile bytes and damage, one test each."""

from __future__ import annotations

import random
import struct
from typing import Any

import cramjam
import pytest

from tests.conftest import in_one_test
from tests.net.craft import batches
from tests.protocols.tank_vectors import BY_NAME, VECTORS
from tests.protocols.test_tank_vectors import STYLE, conversation, frame_of
from tests.support import Part, Run, at, craft, dissect, every
from wiredecode import budget
from wiredecode.fields import compiler
from wiredecode.fields.numbers import LongForm, Varint32, shortest
from wiredecode.frames.frame import Frame
from wiredecode.net.types import Connection
from wiredecode.protocols.base import Found, Rejected, Start, Undecided, Verdict
from wiredecode.protocols.tank import conversation_bundles
from wiredecode.protocols.tank import layers_bundle as bundle
from wiredecode.protocols.tank.conversation import TankConversation
from wiredecode.protocols.tank.layers import RESPONSES
from wiredecode.protocols.tank.protocol import Tank

PING = b"\x03\0\0\0\0"
TIME = 1_700_000_000_000
END = 2**64 - 1

# Bytes, made without the declarations under test.


def framed(message_id: int, payload: bytes) -> bytes:
    return struct.pack("<BI", message_id, len(payload)) + payload


def str8(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def message(body: bytes = b"body", flags: int = 0, time: int = TIME, gap: int | None = None) -> bytes:
    gap_bytes = b"" if gap is None else shortest(gap)
    stamp = b"" if flags & 2 else struct.pack("<Q", time)
    return bytes([flags]) + gap_bytes + stamp + shortest(len(body)) + body


def plain(*messages: bytes) -> bytes:
    """A bundle of up to 15 messages."""
    return bytes([len(messages) << 2]) + b"".join(messages)


def sized(*bundles: bytes) -> bytes:
    return b"".join(shortest(len(each)) + each for each in bundles)


def produce(*topics: tuple[bytes, list[tuple[int, bytes]]], request: int = 1) -> bytes:
    head = struct.pack("<HI", 2, request) + str8(b"c++") + b"\0" + bytes(4) + bytes([len(topics)])
    for name, entries in topics:
        head += str8(name) + bytes([len(entries)])
        head += b"".join(struct.pack("<H", partition) + sized(each) for partition, each in entries)
    return framed(1, head)


def produced(request: int, results: bytes) -> bytes:
    return framed(1, struct.pack("<I", request) + results)


def consume(partitions: dict[int, int], request: int = 1, topic: bytes = b"foo") -> bytes:
    head = struct.pack("<HI", 2, request) + b"\0" + bytes(12) + b"\1" + str8(topic) + bytes([len(partitions)])
    return framed(2, head + b"".join(struct.pack("<HQI", *pair, 1000) for pair in partitions.items()))


def record(partition: int, chunk_length: int, base: int = 1, mark: int = 10_000) -> bytes:
    return struct.pack("<HBQQI", partition, 0, base, mark, chunk_length)


def consumed(chunks: list[bytes], request: int = 1, base: int = 1, rest: bytes = b"", lie: int = 0) -> bytes:
    """A response for ``foo`` with a chunk for each of its partitions; ``lie``: added to the chunk lengths."""
    records = b"".join(record(index, len(chunk) + lie, base) for index, chunk in enumerate(chunks))
    head = struct.pack("<I", request) + b"\1" + str8(b"foo") + bytes([len(chunks)]) + records + rest
    return framed(2, struct.pack("<I", len(head)) + head + b"".join(chunks))


# Reading them.


def talked(*said: bytes, talk: TankConversation | None = None) -> list[Frame]:
    """Dissect requests and responses in order; a message that begins with ``<`` comes from the broker."""
    talk = talk or conversation()
    frames = []
    for number, data in enumerate(said, 1):
        side = int(data.startswith(b"<"))
        frames.append(frame_of(talk, data.removeprefix(b"<"), side, number))
        talk.decode(frames[-1], STYLE)
    return frames


def answer(data: bytes) -> Frame:
    return talked(b"<" + data)[0]


def said(frame: Frame, path: str = "") -> Any:
    assert frame.layers is not None
    return at(frame.layers["tank"], path) if path else frame.layers["tank"]


def codes(frame: Frame) -> list[str]:
    return [finding.code for finding in frame.findings if finding.code != "no-request"]


def whole_stack(*parts: Part, port: int = 40404, handshake: bool = True) -> Run:
    packets = craft(list(parts), every(1460), server_port=port, handshake=handshake)
    return dissect(batches(packets), known=(Tank(),))


# Varints.


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\x80\x01", 128),
        (b"\xac\x02", 300),
        (b"\xff\x7f", 16_383),
        (b"\x80\x80\x01", 16_384),
        (b"\xff\xff\x7f", 2_097_151),
        (b"\xff\xff\xff\x7f", 268_435_455),
        (b"\xff\xff\xff\xff\x0f", 4_294_967_295),
    ],
)
def test_varints_of_every_length(raw: bytes, value: int) -> None:
    assert Varint32("number").read(raw, 0, len(raw), None) == (value, len(raw))
    assert shortest(value) == raw


@pytest.mark.parametrize(
    ("raw", "value"), [(b"\x80\x00", 0), (b"\xff\xff\xff\xff\x7f", 0xFFFFFFFF), (b"\x85\x80\x00", 5)]
)
def test_a_varint_longer_than_needed_keeps_its_bytes(raw: bytes, value: int) -> None:
    read, _ = Varint32("number").read(raw, 0, len(raw), None)
    assert isinstance(read, LongForm)
    assert (read, read.raw) == (value, raw)


def test_five_continuation_bytes_are_no_varint() -> None:
    frame = answer(consumed([b"\xff" * 6]))
    assert (frame.status, codes(frame)) == ("ok", ["partial-bundle"])
    assert said(frame, "chunks.0.partial_bundle") == {"cut": "ff" * 6, "present_bytes": 6, "missing_bytes": None}


# Partial bundles.

THREE = plain(message(b"one"), message(b"two"), message(b"three"))
COUNTED = b"\x00\x10" + message(b"x") * 16
SPARSE = b"\x4c" + struct.pack("<Q", 100) + b"\x05" + message() + message(gap=2) + message()
SNAPPY = b"\x05" + bytes(cramjam.snappy.compress_raw(message(b"A" * 1000)))


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (b"\x80", {"cut": "80", "present_bytes": 1, "missing_bytes": None}),
        (b"\x80\x02", {"bundle_length": 256, "present_bytes": 0, "missing_bytes": 256}),
        (b"\x20\x00", {"flags": 0, "present_bytes": 1, "missing_bytes": 31}),
        (b"\x80\x02\x00\x90", {"flags": 0, "cut": "90", "present_bytes": 2, "missing_bytes": 254}),
        (b"\x20\x4c\x01\x02", {"flags": 0x4C, "cut": "0102", "missing_bytes": 29}),
        (sized(THREE)[:18], {"message_count": None, "partial_message": "00006"}),
        (sized(SNAPPY)[:20], {"codec": "snappy", "message_set": SNAPPY[1:19].hex()}),
        (b"\x20\x88\x01\x02\x03", {"flags": 0x88, "undecided": "010203", "missing_bytes": 28}),
    ],
)
def test_a_bundle_truncated_anywhere_shows_its_start(cut: bytes, expected: dict[str, Any]) -> None:
    frame = answer(consumed([sized(THREE) + cut]))
    partial = said(frame, "chunks.0.partial_bundle")
    for name, value in expected.items():
        shown = partial.get(name)
        assert shown.startswith(value) if name == "partial_message" else shown == value
    assert (frame.status, codes(frame)) == ("ok", ["partial-bundle"])
    assert said(frame, "chunks.0.bundles.0.bundle.messages.2.sequence_number") == 3


def test_whole_messages_of_a_truncated_bundle_are_numbered() -> None:
    for bundled, numbers in ((THREE, [4, 5]), (SPARSE, [100, 103])):
        cut = sized(bundled)[: -len(message()) + 1]
        frame = answer(consumed([sized(THREE) + cut]))
        messages = said(frame, "chunks.0.partial_bundle.messages")
        assert [each["sequence_number"] for each in messages] == numbers
        assert frame.generated["messages"] == 5


def test_a_truncated_bundle_does_not_reach_into_the_next_chunk() -> None:
    frame = answer(consumed([sized(THREE)[:20], sized(THREE)]))
    assert "partial_bundle" in said(frame, "chunks.0")
    assert len(said(frame, "chunks.1.bundles.0.bundle.messages")) == 3
    assert said(frame, "chunks.1.partition") == 1


def test_a_bundle_shorter_than_its_header_does_not_damage_the_next_chunk() -> None:
    frame = answer(consumed([b"\x02\x4c\x01" + sized(THREE), sized(THREE)]))
    assert codes(frame) == ["bundle-header"]
    assert len(said(frame, "chunks.1.bundles.0.bundle.messages")) == 3


def test_a_chunk_longer_than_the_payload() -> None:
    frame = answer(consumed([sized(THREE)], lie=7))
    assert codes(frame) == ["chunks-cut"]
    assert len(said(frame, "chunks.0.bundles.0.bundle.messages")) == 3


# Bundles.


def test_a_wrong_message_count_is_reported_and_bytes_decide() -> None:
    frame = answer(consumed([sized(b"\x08" + message() * 3, plain(message()))]))
    assert codes(frame) == ["message-count"]
    bundles = said(frame, "chunks.0.bundles")
    assert [each["sequence_number"] for each in bundles[0]["bundle"]["messages"]] == [1, 2, 3]
    assert bundles[1]["bundle"]["messages"][0]["sequence_number"] == 3  # base + count, as the reader has it


def test_a_message_longer_than_its_bundle_is_reported_and_the_next_bundle_read() -> None:
    broken = b"\x08" + message() + b"\x00" + bytes(8) + b"\x7fshort"
    frame = talked(produce((b"foo", [(0, broken), (1, THREE)])))[0]
    assert (frame.status, codes(frame)) == ("malformed", ["message-cut"])
    assert len(said(frame, "topics.0.partitions.1.bundle.messages")) == 3


def test_sparse_bundles_of_one_and_two_messages_have_no_gaps() -> None:
    one = b"\x44" + struct.pack("<Q", 7) + message()
    two = b"\x48" + struct.pack("<Q", 9) + b"\x05" + message() + message()
    frame = answer(consumed([sized(one, two, plain(message()))], base=999))
    bundles = said(frame, "chunks.0.bundles")
    assert [each["sequence_number"] for each in bundles[0]["bundle"]["messages"]] == [7]
    assert [each["sequence_number"] for each in bundles[1]["bundle"]["messages"]] == [9, 15]
    assert [each["sequence_number"] for each in bundles[2]["bundle"]["messages"]] == [16]


def test_a_sparse_bundle_beyond_the_last_number_wraps_instead_of_raising() -> None:
    far = b"\x48" + struct.pack("<Q", END) + b"\x05" + message() + message()
    numbers = [
        each["sequence_number"] for each in said(answer(consumed([sized(far)])), "chunks.0.bundles.0.bundle.messages")
    ]
    assert numbers == [END, 5]


def test_same_timestamp_on_the_first_message_means_zero_and_does_not_cross_bundles() -> None:
    frame = answer(consumed([sized(plain(message()), plain(message(flags=2)))]))
    assert said(frame, "chunks.0.bundles.1.bundle.messages.0.timestamp") == "1970-01-01T00:00:00.000Z"


def test_a_time_in_microseconds_stays_a_number() -> None:
    frame = answer(consumed([sized(plain(message(time=TIME * 1000)))]))
    assert said(frame, "chunks.0.bundles.0.bundle.messages.0.timestamp") == TIME * 1000


def test_an_empty_key_differs_from_a_missing_key() -> None:
    keyed = b"\x01" + struct.pack("<Q", TIME) + b"\x00" + b"\x00"
    first = said(answer(consumed([sized(plain(keyed, message()))])), "chunks.0.bundles.0.bundle.messages")
    assert (first[0]["key"], "key" in first[1]) == ("", False)


@pytest.mark.parametrize(("flags", "codec"), [(6, "codec 2"), (7, "codec 3")])
def test_an_unassigned_codec_leaves_its_messages_opaque_and_the_next_bundle_readable(flags: int, codec: str) -> None:
    frame = answer(consumed([sized(bytes([flags]) + b"opaque", plain(message()))]))
    assert codes(frame) == ["unknown-codec"]
    assert said(frame, "chunks.0.bundles.0.bundle.codec") == codec
    assert said(frame, "chunks.0.bundles.0.bundle.message_set") == b"opaque".hex()
    assert said(frame, "chunks.0.bundles.1.bundle.messages.0.sequence_number") == 2


def test_broken_snappy_is_a_finding_and_the_next_bundle_readable() -> None:
    frame = answer(consumed([sized(b"\x05\x80\x02garbage", plain(message()))]))
    assert codes(frame) == ["decompression"]
    assert said(frame, "chunks.0.bundles.1.bundle.messages.0.sequence_number") == 2


def test_a_sparse_compressed_bundle_is_numbered() -> None:
    inside = bytes(cramjam.snappy.compress_raw(message() + message(gap=3) + message(flags=4) + message()))
    packed = b"\x51" + struct.pack("<Q", 10) + shortest(20) + inside
    messages = said(answer(consumed([sized(packed)])), "chunks.0.bundles.0.bundle.messages")
    assert [each["sequence_number"] for each in messages] == [10, 14, 15, 31]


def test_decompression_stops_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget.BUDGET.own, "remaining", 2000)
    monkeypatch.setattr(budget.BUDGET.own, "in_frame", True)
    frame = answer(consumed([sized(SNAPPY, SNAPPY)]))
    assert [(finding.group, finding.code) for finding in frame.findings][-1] == ("limit", "decompression")
    assert len(said(frame, "chunks.0.bundles.0.bundle.messages")) == 1
    assert "messages" not in said(frame, "chunks.0.bundles.1.bundle")


def test_findings_about_bundles_are_bounded() -> None:
    frame = answer(consumed([sized(*[b"\x06x"] * 100)]))
    assert len(codes(frame)) == conversation_bundles.MAX_REPORTED + 1
    assert frame.findings[-1].code == "more-findings"


def test_bit_7_is_ignored_if_the_documented_layout_does_not_fit() -> None:
    frame = answer(consumed([sized(b"\x88" + message(b"one") + message(b"two"))]))
    assert codes(frame) == ["extra-flags"]
    assert [each["body"] for each in said(frame, "chunks.0.bundles.0.bundle.messages")] == [b"one".hex(), b"two".hex()]


def test_bit_7_with_a_compressed_bundle_follows_the_document() -> None:
    frame = answer(consumed([sized(b"\x85\x00" + SNAPPY[1:])]))
    assert said(frame, "chunks.0.bundles.0.bundle.extra.extra_flags") == []
    assert said(frame, "chunks.0.bundles.0.bundle.messages.0.body") == "41" * 1000


# Requests and responses.


def test_overtaking_responses_find_their_requests() -> None:
    tail, status = consume({0: END}, 6), b"\x0a\x04\0\0\0\x07\0\0\0"
    state = BY_NAME["V03"].data[:5] + struct.pack("<I", 7) + BY_NAME["V03"].data[9:]
    frames = talked(
        tail,
        status,
        produce((b"foo", [(0, THREE)]), request=8),
        b"<" + state,
        b"<" + consumed([sized(THREE)], 6),
        b"<" + produced(8, b"\0"),
    )
    assert [frame.request for frame in frames[3:]] == [2, 1, 3]
    assert not any(codes(frame) for frame in frames)


def test_a_request_for_the_tail_marks_no_message_as_dropped() -> None:
    frames = talked(consume({0: END}), b"<" + consumed([sized(THREE)], base=50))
    assert "below_requested" not in said(frames[1], "chunks.0.bundles.0.bundle.messages.0")
    assert said(frames[1], "topics.0.partitions.0.requested_start") == "end: new messages only"


def test_messages_before_the_requested_one_are_marked() -> None:
    frames = talked(consume({0: 3}), b"<" + consumed([sized(THREE)]))
    messages = said(frames[1], "chunks.0.bundles.0.bundle.messages")
    assert [each.get("below_requested") for each in messages] == [True, True, None]


def test_one_result_covers_a_topic_that_the_request_names_twice() -> None:
    request = produce((b"no", [(1, THREE)]), (b"foo", []), (b"yes", [(2, THREE)]), (b"no", [(5, THREE)]))
    frames = talked(request, b"<" + produced(1, b"\xff\x00"))
    named = [
        {key: each[key] for key in each if key not in ("result", "result_code")} for each in said(frames[1], "results")
    ]
    assert named == [{"topic": "no", "partitions": [1, 5]}, {"topic": "yes", "partition": 2}]
    assert codes(frames[1]) == ["not-stored"]


def test_more_results_than_requested_are_reported() -> None:
    frames = talked(produce((b"foo", [(0, THREE)])), b"<" + produced(1, b"\0\0"))
    assert codes(frames[1]) == ["results-mismatch"]


def test_results_without_their_request_say_why_names_are_missing() -> None:
    frame = answer(produced(9, b"\0\xfc\x7f\0\0\x02\x03\x2b"))
    assert codes(frame) == ["results-unnamed", "not-stored"]
    assert said(frame, "results.1.endpoint") == "127.0.0.2:11011"


def test_a_request_id_reused_before_its_response_is_reported() -> None:
    assert codes(talked(consume({0: 0}), consume({0: 5}))[1]) == ["id-reused"]


def test_discovered_partitions_without_the_disabled_ones_have_no_numbers() -> None:
    ask = framed(6, struct.pack("<I", 1) + str8(b"foo"))
    tell = framed(6, struct.pack("<I", 1) + str8(b"foo") + struct.pack("<HQQ", 2, 1, 9))
    assert "partition" not in said(talked(ask, b"<" + tell)[1], "partitions.0")


def test_an_unanswered_replica_request_does_not_shift_later_pairs() -> None:
    lost, asked = BY_NAME["V35a"].data, BY_NAME["V35a"].data.replace(b"nope", b"nops")
    reply = BY_NAME["V35b"].data.replace(b"nope", b"nops")
    assert talked(lost, asked, b"<" + reply)[2].request == 2


def test_a_replica_response_without_topics_has_no_surplus_bytes() -> None:
    frame = answer(framed(9, struct.pack("<IH", 2, 0)))
    assert (said(frame, "topics"), "stray" in said(frame), frame.status) == ([], False, "ok")


def test_bytes_of_the_header_after_its_last_topic_do_not_shift_the_chunks() -> None:
    frame = answer(consumed([sized(THREE)], rest=b"\1\2\3"))
    assert codes(frame) == ["header-rest"]
    assert len(said(frame, "chunks.0.bundles.0.bundle.messages")) == 3


# Messages that brokers refuse.


def test_an_unknown_message_type_is_a_finding() -> None:
    run = whole_stack(Part(1, 1, PING), Part(1, 0, BY_NAME["V16"].data + framed(13, b"what") + BY_NAME["V02"].data))
    frames = [frame for frame in run.frames if frame.side == 0]
    assert [frame.type for frame in frames] == ["Produce", None, "Status"]
    assert codes(frames[1]) == ["unknown-message"]
    assert run.totals.undecoded == 0


def test_a_payload_above_the_limit_is_a_frame_of_five_bytes() -> None:
    bad = struct.pack("<BI", 1, 256 * 1024 * 1024 + 1)
    run = whole_stack(Part(1, 1, PING), Part(1, 0, BY_NAME["V16"].data + bad))
    last = run.frames[-1]
    assert (last.type, last.status, last.length, codes(last)) == ("Produce", "malformed", 5, ["payload-too-long"])
    assert (run.totals.undecoded, run.totals.closes) == (0, True)
    assert Tank().split(struct.pack("<BI", 1, 256 * 1024 * 1024)).bad is None


def test_obsolete_types_and_wrong_senders_are_reported() -> None:
    frames = talked(BY_NAME["V39"].data, PING, b"<" + framed(5, b""))
    assert [codes(frame) for frame in frames] == [["obsolete"], ["client-ping"], ["wrong-side"]]


# Roles, and recognising TANK.


@in_one_test("vector", VECTORS, ids=lambda vector: vector.name)
def test_sides_are_inferred_from_message_layout(vector: Any) -> None:
    ambiguous = {"V08", "V09a", "V07", "V39"}
    talk = TankConversation(Start(Connection(1, ("10.0.0.1:4000", "10.0.0.2:5000"), (4000, 5000))), (11011,))
    frame = frame_of(talk, vector.data, 0)
    talk.decode(frame, STYLE)
    if vector.name not in ambiguous:
        assert (frame.sender, frame.type) == (vector.sender, vector.type)
    else:
        assert frame.sender in (None, vector.sender)


STARTS: list[tuple[str, bytes, bool, type | None]] = [
    ("ping on another port", PING, False, Undecided),
    ("ping on the known port", PING, True, Verdict),
    ("ping and an acknowledgement", PING + BY_NAME["V20"].data, False, Verdict),
    ("ping and something else", PING + b"\xff\xff\xff\xff\xff\xff", False, Rejected),
    ("a produce", BY_NAME["V16"].data, False, Verdict),
    ("the start of a long produce", produce((b"foo", [(0, plain(message(bytes(100_000))))]))[:60], False, Verdict),
    (
        "the start of a produce whose bundle is too long",
        BY_NAME["V16"].data[:28] + b"\x7f" + BY_NAME["V16"].data[29:40],
        False,
        Rejected,
    ),
    ("a consume", BY_NAME["V25a"].data, False, Verdict),
    ("a status request, which could be anything", BY_NAME["V02"].data, False, Undecided),
    ("TPKT", b"\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x03\x00\x00\x00", False, Rejected),
    ("MySQL", b"\x03\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00", False, Rejected),
    ("HTTP", b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", True, Rejected),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", True, Rejected),
    ("RabbitMQ Stream", b"\x00\x00\x00\x14\x00\x11\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00", True, Rejected),
]


@pytest.mark.parametrize(
    ("what", "data", "port", "expected"), STARTS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_first_bytes_of_a_connection(what: str, data: bytes, port: bool, expected: type) -> None:
    verdict = Tank().recognise(data, started=True, final=False, port=port)
    assert isinstance(verdict, expected), what
    if not isinstance(verdict, Undecided):  # and it is not taken back
        early = [Tank().recognise(data[:size], started=True, final=False, port=port) for size in range(1, len(data))]
        assert all(isinstance(each, expected | Undecided) for each in early)


def test_random_bytes_are_not_tank() -> None:
    chance = random.Random(1)
    for _ in range(300):
        data = chance.randbytes(chance.randrange(20, 400))
        for started in (True, False):
            assert isinstance(Tank().recognise(data, started=started, final=True, port=False), Rejected)


def test_a_late_start_is_recognised_on_any_port() -> None:
    stream = BY_NAME["V25b"].data[50:] + BY_NAME["V26"].data + BY_NAME["V27"].data
    verdict = Tank().recognise(stream, started=False, final=False, port=False)
    assert verdict == Verdict(len(BY_NAME["V25b"].data) - 50, client=False)


# After gaps.


def test_search_result_does_not_depend_on_segmentation() -> None:
    noise = random.Random(2).randbytes(300) + b"\x01\x10\x00\x00\x00" + bytes(30) + b"\x02\x00\x01\x00\x00" + bytes(300)
    stream = noise + BY_NAME["V30a"].data + BY_NAME["V25a"].data
    whole = Tank().search(stream, final=False)
    assert whole == Found(len(noise), True)
    start = 0
    for arrived in range(len(stream) + 1):
        found = Tank().search(stream[start:arrived], final=False)
        start += found.position
        if found.found:
            break
    assert start == len(noise)


def test_a_search_through_noise_discards_searched_bytes() -> None:
    for seed in range(4):
        data = random.Random(seed).randbytes(50_000)
        found = Tank().search(data, final=True)
        assert not found.found
        assert found.position >= len(data) - 4


@pytest.mark.parametrize(
    "pattern",
    [
        *(b"\x02\0\0\0\x01", b"\0"),
        *(pytest.param(each, marks=pytest.mark.slow) for each in (b"\x01\x01\0\0\0", b"\x02\0", b"\x06\0\x01\0\0")),
    ],
)
def test_searching_false_headers_is_linear_and_finds_none(pattern: bytes) -> None:
    data = pattern * (50_000 // len(pattern))
    assert not Tank().search(data, final=True).found


def test_a_gap_in_a_bundle_costs_no_other_bundle() -> None:
    request = produce((b"foo", [(0, THREE), (1, plain(message(b"x" * 100), message(b"y" * 100)))]))
    for end, bundles in ((len(request) - 20, 2), (50, 1)):
        talk = conversation()
        frame = Frame(
            talk.connection,
            0,
            request[:end],
            0,
            end,
            0,
            len(request),
            len(request) - end,
            [1],
            1,
            1,
            1,
            "partial",
            is_partial=True,
        )
        talk.decode(frame, STYLE)
        entries = said(frame, "topics.0.partitions")
        assert len(entries) == bundles
        assert "messages" not in frame.generated  # the count is not known
        assert not {"partial_message", "message_set"} & set(entries[-1]["bundle"])
        assert codes(frame) == []


def test_a_gap_in_a_chunk_is_not_a_partial_bundle() -> None:
    data = consumed([sized(THREE, THREE)])[:-10]
    talk = conversation()
    frame = Frame(
        talk.connection, 1, data, 0, len(data), 0, len(data) + 10, 10, [1], 1, 1, 1, "partial", is_partial=True
    )
    talk.decode(frame, STYLE)
    chunk = said(frame, "chunks.0")
    assert "partial_bundle" not in chunk
    assert [each["sequence_number"] for each in chunk["bundles"][1]["bundle"]["messages"]] == [4, 5]


def test_messages_of_a_bundle_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_MESSAGES", 5)
    monkeypatch.setattr(conversation_bundles, "MAX_MESSAGES", 5)
    monkeypatch.setattr(compiler, "decoder", compiler.decoder.__wrapped__)
    data = consumed([sized(b"\x18" + message() * 6)])
    scapy = RESPONSES[2](data)
    values = compiler.careful(RESPONSES[2], data, 0, len(data)).values
    assert scapy.values() == values
    read = values["chunks"][0]["bundles"][0]["bundle"]
    assert (len(read["messages"]), read["partial_message"]) == (5, message())
