"""NATS in WebSockets: fragments, compression with a shared context, and late starts.

Issue 12, point 10.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tests.conftest import in_one_test
from tests.net.craft import batches
from tests.support import Part, Run, Segments, craft, dissect, every
from wiredecode.protocols.nats import transport_s2 as s2
from wiredecode.protocols.nats import transport_websocket as websocket
from wiredecode.protocols.nats.protocol import Nats
from wiredecode.protocols.registry import DecodeAs

C, S = 0, 1
INFO = b'INFO {"server_id":"NA","version":"2.12.2","proto":1,"max_payload":1048576,"client_id":7,"headers":true} \r\n'
QUIET = b'CONNECT {"verbose":false,"lang":"js","headers":true}\r\n'
GET = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
OK = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
CARRIER = "WebSocket frame"
PING, CLOSE = 0x89, 0x88
KEY = b"\x01\x02\x03\x04"


def frame(first: int, data: bytes, masked: bool = False) -> bytes:
    size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")
    if masked:
        return bytes([first, size[0] | 0x80]) + size[1:] + KEY + websocket.unmask(data, KEY)
    return bytes([first]) + size + data


def fragments(payload: bytes, cuts: Sequence[int], compressed: bool, masked: bool = False) -> list[bytes]:
    """A binary message in frames that end at ``cuts``."""
    places = [0, *cuts, len(payload)]
    out = []
    for index, (start, stop) in enumerate(itertools.pairwise(places)):
        first = (0x02 | 0x40 * compressed) if index == 0 else 0
        first |= 0x80 if index == len(cuts) else 0
        out.append(frame(first, payload[start:stop], masked))
    return out


class Deflate:
    """Compresses messages of one side; ``keep``: with a context shared by all messages."""

    def __init__(self, keep: bool) -> None:
        self.keep, self.stream = keep, zlib.compressobj(9, wbits=-15)

    def __call__(self, data: bytes, mode: int = zlib.Z_SYNC_FLUSH) -> bytes:
        if not self.keep:
            self.stream = zlib.compressobj(9, wbits=-15)
        out = self.stream.compress(data) + self.stream.flush(mode)
        if mode == zlib.Z_FINISH:
            self.stream = zlib.compressobj(9, wbits=-15)
            return out + b"\0"
        assert out.endswith(b"\0\0\xff\xff")
        return out[:-4]


def message(number: int) -> bytes:
    body = b'{"order":%d,"customer":"0x01020304","text":"the same in every message"}' % number
    return b"MSG orders.created 17 %d\r\n%s\r\n" % (len(body), body)


def run_of(packets: Segments) -> Run:
    return dissect(batches(packets), known=(Nats(),))


def talk(*said: tuple[int, bytes], port: int = 8080, size: int = 1460) -> Run:
    return run_of(craft([Part(1, *one) for one in said], every(size), port))


def operations(run: Run) -> list[tuple[str | None, str]]:
    return [(one.type, one.status) for one in run.frames if one.type not in (CARRIER, "HTTP")]


def bodies(run: Run) -> list[Any]:
    return [one.layers["nats"]["data"] for one in run.of("MSG") if one.layers]


@pytest.mark.parametrize("size", [1460, 7])
@pytest.mark.parametrize("keep", [False, True], ids=["no takeover", "takeover"])
def test_fragments_of_a_compressed_message_share_one_deflate_stream(keep: bool, size: int) -> None:
    pack, plain = Deflate(keep), [message(number) for number in range(6)]
    head: list[tuple[int, bytes]] = [(C, GET), (S, OK + frame(0x82, INFO)), (C, frame(0x82, QUIET, masked=True))]
    for each in plain:
        payload = pack(each)
        cuts = sorted(random.Random(each).sample(range(1, len(payload)), 3))
        parts = fragments(payload, cuts, compressed=True)
        head.append((S, b"".join([*parts[:2], frame(PING, b"ping"), *parts[2:]])))  # control frames come between
    run = talk(*head, size=size)
    assert operations(run) == [("INFO", "ok"), ("CONNECT", "ok"), *[("MSG", "ok")] * 6]
    assert run.totals.undecoded == 0 and run.totals.closes
    assert {found.code for one in run.frames for found in one.findings} == {"not-subscribed"}
    got = run.of("MSG")
    assert [one.data for one in got] == plain
    last = [one for one in run.frames if one.type == CARRIER and one.data[0] == 0x80]
    assert [one.generated["inside"] for one in got] == [one.number for one in last]
    first = [one for one in run.frames if one.type == CARRIER and one.data[0] == 0x42]
    assert all(
        {*head.packets, *tail.packets} <= {*one.packets} for head, tail, one in zip(first, last, got, strict=True)
    )


def test_plain_and_masked_fragments() -> None:
    publish = b"PUB orders.created 300\r\n" + bytes(range(256)) + bytes(44) + b"\r\n"
    plain = fragments(publish, [1, 20, 126], compressed=False, masked=True)
    packed = fragments(Deflate(False)(publish), [3, 9], compressed=True, masked=True)
    run = talk((C, GET), (S, OK + frame(0x82, INFO)), (C, b"".join([frame(0x82, QUIET, True), *plain, *packed])))
    assert operations(run) == [("INFO", "ok"), ("CONNECT", "ok"), ("PUB", "ok"), ("PUB", "ok")]
    assert [one.data for one in run.of("PUB")] == [publish] * 2


def test_a_message_with_a_final_block_of_deflate() -> None:
    pack = Deflate(True)
    said = b"".join(frame(0xC2, pack(message(number), zlib.Z_FINISH)) for number in range(3))
    run = talk((C, GET), (S, OK + frame(0x82, INFO) + said))
    assert operations(run) == [("INFO", "ok"), *[("MSG", "ok")] * 3]


def damaged(keep: bool, lost: Iterable[int]) -> Run:
    """Six compressed messages in three fragments each, a packet a fragment, of which some are ``lost``."""
    pack, parts = Deflate(keep), [Part(1, C, GET), Part(1, S, OK + frame(0x82, INFO))]
    for number in range(6):
        payload = pack(message(number))
        parts += [Part(1, S, part) for part in fragments(payload, [5, len(payload) - 3], compressed=True)]
    packets = craft(parts, every(1460), 8080)
    drop = {len(packets) - 18 + index for index in lost}
    return run_of([packet for index, packet in enumerate(packets) if index not in drop])


@in_one_test("lost", range(18))
@pytest.mark.parametrize("keep", [False, True], ids=["no takeover", "takeover"])
def test_lost_fragments_cost_only_dependent_messages(keep: bool, lost: int) -> None:
    run = damaged(keep, [lost])
    sent = [message(number) for number in range(6)]
    got = [one.data for one in run.of("MSG") if one.status == "ok"]
    before, after = sent[: lost // 3], sent[lost // 3 + 1 :]
    assert got[: len(before)] == before
    assert got[len(before) :] == [each for each in after if each in got]
    if not keep:
        # After a loss, a search wants four consecutive operations, or the last ones of the capture.
        assert got[len(before) :] == after
    assert run.totals.closes
    why = {found.code for one in run.frames for found in one.findings}
    assert not why & {"deflate", "s2-block"}
    if keep and after:
        assert "deflate-context" in why


def test_damage_inside_a_compressed_message_is_reported() -> None:
    bad = frame(0xC2, b"\xff" * 20)
    run = talk((C, GET), (S, OK + frame(0x82, INFO) + bad + frame(0xC2, Deflate(False)(message(1) + message(2) * 3))))
    assert {found.code for one in run.frames for found in one.findings} == {"deflate", "not-subscribed"}
    assert len(run.of("MSG")) == 4


def test_a_message_above_the_limit_is_reported_and_the_next_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket.WebSocketMessages.__init__, "__defaults__", (5000,))
    bomb = b"MSG a 1 9000\r\n" + bytes(9000) + b"\r\n"
    pack = Deflate(False)
    said = frame(0xC2, pack(bomb)) + frame(0xC2, pack(message(1) * 4))
    run = talk((C, GET), (S, OK + frame(0x82, INFO) + said))
    assert "carried" in {found.code for one in run.frames for found in one.findings}
    assert [one.length for one in run.of("MSG")] == [len(message(1))] * 4


def test_fragments_without_a_first_fragment_are_ignored() -> None:
    messages = websocket.WebSocketMessages()
    taken = [messages.feed(first, b"PING\r\n") for first in (0x00, 0x80, 0x82, 0x02, 0x89, 0x80, 0x80, 0x82)]
    assert [one.data for one in taken] == [None, None, b"PING\r\n", b"PING\r\n", b"", b"PING\r\n", None, b"PING\r\n"]
    assert {one.why for one in taken if one.data is None} == {websocket.ORPHAN}


@pytest.mark.parametrize(
    "data",
    [
        b"\x8f\x00",
        b"\xc8\x00",
        b"\xc0\x00",
        b"\xa2\x00",
        b"\x08\x00",
        b"\x83\x00",
        b"\x88\x7e\x00\x80",
        b"\x82\x7f" + b"\x01" * 8,
    ],
)
def test_invalid_websocket_frames(data: bytes) -> None:
    assert isinstance(websocket.stop_of(data, 0), str)


# In the middle.


def late(said: Sequence[tuple[int, bytes]], port: int = 8080, begin: int = 0) -> Run:
    """The same without the start of the connection, which identifies the protocol."""
    packets = craft([Part(1, *one) for one in said], every(1460), port)
    return run_of(packets[3 + begin :])


@pytest.mark.parametrize("keep", [False, True], ids=["no takeover", "takeover"])
@pytest.mark.parametrize("begin", range(9))
def test_a_compressed_websocket_without_its_start_is_recognised(begin: int, keep: bool) -> None:
    pack, said = Deflate(keep), [(C, GET), (S, OK + frame(0x82, INFO)), (C, frame(0x82, QUIET, True))]
    for number in range(8):
        payload = pack(message(number) * 2)
        said += [(S, part) for part in fragments(payload, [len(payload) // 2], compressed=True)]
    said += [(C, frame(0x82, b"PUB orders.created 2\r\nhi\r\n" * 5, True))]
    run = late(said, begin=begin)
    sent = {message(number) for number in range(8)}
    assert {one.data for one in run.of("MSG")} <= sent
    assert {one.type for one in run.frames} <= {CARRIER, "HTTP", "INFO", "CONNECT", "MSG", "PUB", None}
    assert len(run.of("PUB")) == 5
    first = max(0, -(-(begin - 3) // 2))
    if not keep or begin < 2:
        assert {one.data for one in run.of("MSG")} == {message(number) for number in range(first, 8)}


@pytest.mark.parametrize("begin", range(9))
def test_forced_nats_is_recognised_inside_a_websocket_without_its_start(begin: int) -> None:
    """Plain NATS is still recognised on the same port."""
    said = [(C, GET), (S, OK + frame(0x82, INFO)), (C, frame(0x82, QUIET, True))]
    said += [(S, frame(0x82, message(number))) for number in range(8)]
    packets = craft([Part(1, *one) for one in said], every(1460), 8080)[3 + begin :]
    plain = craft([Part(1, S, message(number)) for number in range(8)], every(1460), 8080)[3:]
    for captured, expected in ((packets, 8 - max(0, begin - 3)), (plain, 8)):
        run = dissect(batches(captured), known=(Nats(),), decode_as={8080: DecodeAs(Nats(), None)})
        assert [one.data for one in run.of("MSG")] == [message(number) for number in range(8)][-expected:]
        assert run.totals.undecoded in (0, len(GET))


def test_the_masked_side_is_the_client_after_a_late_start() -> None:
    run = late([(C, frame(0x82, b"PUB a 2\r\nhi\r\nPUB a 2\r\nho\r\n", True)), (S, frame(0x82, b"PING\r\n"))])
    assert [(one.type, one.sender) for one in run.frames if one.type != CARRIER] == [
        ("PUB", "client"), ("PUB", "client"), ("PING", "server"),
    ]  # fmt: skip


@pytest.mark.parametrize("data", [b"\x82\x05hello" * 9, b"\x81\x02hi", bytes(range(0x82, 0xFF)) * 20, b"\x82"])
def test_other_websockets_are_not_claimed(data: bytes) -> None:
    assert not late([(S, data)], port=8080).frames


@pytest.mark.parametrize("first", [1, 5, 30])
@pytest.mark.parametrize("port", [6222, 7422])
def test_a_late_start_inside_an_s2_chunk_is_recognised_at_the_next_chunk(first: int, port: int) -> None:
    def chunk(data: bytes) -> bytes:
        body = s2.masked_crc(data).to_bytes(4, "little") + data
        return b"\x01" + len(body).to_bytes(3, "little") + body

    plain = [b"RMSG $G orders.created 60\r\n" + bytes([64 + number]) * 60 + b"\r\n" for number in range(6)]
    said = b"".join(map(chunk, plain))
    run = late([(S, said[first:])], port=port)
    assert [(one.type, one.status) for one in run.frames if one.protocol == "nats" and one.data in plain] == [
        ("RMSG", "ok")
    ] * 5
