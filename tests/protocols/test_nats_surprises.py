"""Unexpected behaviour of NATS on the wire, one test each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.effort import grows_with_length_only
from tests.net.craft import SECOND, batches
from tests.support import STYLE, Part, Run, Segments, codes, craft, dissect, every
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import dumps, record
from wiredecode.protocols.base import Rejected, Undecided, Verdict
from wiredecode.protocols.nats import transport_s2 as s2
from wiredecode.protocols.nats import transport_streams
from wiredecode.protocols.nats.conversation_memory import MAX_REQUESTS, NatsMemory
from wiredecode.protocols.nats.layers import Connect, HPub, Pub
from wiredecode.protocols.nats.protocol import Nats
from wiredecode.protocols.nats.transport_websocket import UPGRADE, unmask
from wiredecode.protocols.registry import DecodeAs
from wiredecode.protocols.shared.proxy import SIGNATURE

INFO = b'INFO {"server_id":"NA","version":"2.12.2","proto":1,"max_payload":1048576,"client_id":7,"headers":true} \r\n'
QUIET = b'CONNECT {"verbose":false,"lang":"go","headers":true,"no_responders":true}\r\n'
ROUTE = b'INFO {"server_id":"NR","version":"2.12.2","proto":3,"lnoc":true,"lnocu":true,"route_pool_size":3}\r\n'

C, S = 0, 1


def talk(*said: tuple[int, bytes], port: int = 4222, style: Style = STYLE) -> Run:
    """Dissect one connection from (side, bytes); the client is side 0."""
    return many(*((1, side, data) for side, data in said), port=port, style=style)


def many(*said: tuple[int, int, bytes], port: int = 4222, style: Style = STYLE) -> Run:
    """Dissect several connections from (connection, side, bytes)."""
    packets = craft([Part(*part) for part in said], every(1460), port)
    return dissect(batches(packets), known=(Nats(),), style=style)


def fields(frame: Frame) -> dict[str, Any]:
    assert frame.layers is not None
    row: dict[str, Any] = frame.layers["nats"]
    return row


# Requests and replies.


def test_a_request_is_paired_on_every_hop() -> None:
    run = many(
        (1, S, INFO), (2, S, INFO), (1, C, QUIET + b"SUB _INBOX.a.* 1\r\n"), (2, C, QUIET + b"SUB svc 4\r\n"),
        (1, C, b"PUB svc _INBOX.a.1 2\r\nhi\r\n"),
        (2, S, b"MSG svc 4 _INBOX.a.1 2\r\nhi\r\n"),
        (2, C, b"PUB _INBOX.a.1 3\r\nyes\r\n"),
        (1, S, b"MSG _INBOX.a.1 1 3\r\nyes\r\n"),
    )  # fmt: skip
    asked, brought, answer, got = run.frames[-4:]
    assert (asked.response, brought.response) == (got.number, answer.number)
    assert (answer.request, got.request) == (brought.number, asked.number)
    assert fields(brought)["copy_of"] == asked.number
    assert fields(got)["copy_of"] == answer.number
    assert got.latency_ns == got.time_ns - asked.time_ns > 0


def test_reply_inbox_on_another_connection_than_the_request() -> None:
    run = many(
        (1, S, INFO), (2, S, INFO), (1, C, QUIET), (2, C, QUIET + b"SUB _INBOX.b 9\r\n"),
        (1, C, b"PUB svc _INBOX.b 2\r\nhi\r\n"),
        (2, S, b"HMSG _INBOX.b 9 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"),
    )  # fmt: skip
    asked, got = run.frames[-2:]
    assert (got.request, asked.response) == (asked.number, got.number)
    assert "no-responders" in codes(got)
    assert fields(got)["status"] == 503


def test_a_fixed_reply_subject_is_no_copy() -> None:
    run = talk((S, INFO), (C, QUIET + b"PUB a r 1\r\nx\r\n" * 2))
    assert ["copy_of" in fields(frame) for frame in run.frames[-2:]] == [False, False]


def test_gateways_rewrite_reply_subjects() -> None:
    gateway = b'INFO {"server_id":"NG","version":"2.12.2","gateway":"B"}\r\n'
    run = many(
        (1, S, INFO), (1, C, QUIET + b"PUB svc _INBOX.g 1\r\nq\r\n"),
        (2, S, gateway), (2, C, b"RMSG $G svc _GR_.abcdef.ghijkl._INBOX.g 1\r\nq\r\n"),
        (2, S, b"RMSG $G _GR_.abcdef.ghijkl._INBOX.g 1\r\na\r\n"),
        (1, S, b"MSG _INBOX.g 1 1\r\na\r\n"),
    )  # fmt: skip
    asked, forwarded, answer, got = (frame for frame in run.frames if "size" in frame.values)
    assert fields(forwarded)["copy_of"] == asked.number
    assert (answer.request, got.request) == (forwarded.number, asked.number)
    assert forwarded.dialect == "gateway"


def test_requests_are_not_shared_between_captures() -> None:
    protocol = Nats()
    first, second = protocol.new_session(), protocol.new_session()
    assert first.memory is not second.memory
    assert protocol.memory.requests == {}


def test_requests_are_forgotten_after_a_count_or_a_time() -> None:
    memory = NatsMemory()
    frame = talk((S, INFO), (C, QUIET + b"PUB a r 1\r\nx\r\n")).frames[-1]
    for number in range(MAX_REQUESTS + 5):
        memory.ask(frame, {"subject": "a", "reply": f"r{number}", "data": b""}, first=True)
    assert len(memory.requests) == MAX_REQUESTS
    late = talk((S, INFO), (C, QUIET + b"PUB r9 1\r\nx\r\n")).frames[-1]
    late.time_ns = frame.time_ns + 31 * SECOND
    memory.answer(late, {"subject": "r9", "data": b""}, first=True)
    assert late.request is None


# Subscriptions.


def test_a_sid_names_its_subject_until_unsub_takes_effect() -> None:
    run = talk(
        (S, INFO), (C, QUIET + b"SUB a.*  1\r\nSUB b q 2\r\nUNSUB 1 2\r\n"),
        (S, b"MSG a.x 1 0\r\n\r\nMSG b 2 0\r\n\r\nMSG a.y 1 0\r\n\r\nMSG c 3 0\r\n\r\n"),
        (C, b"UNSUB 2 \r\nSUB new 2\r\n"), (S, b"MSG new 2 0\r\n\r\n"),
    )  # fmt: skip
    generated = [frame.generated for frame in run.of("MSG")]
    assert generated[0] == generated[2] == {"subscription": "a.*"}
    assert generated[1] == {"subscription": "b", "queue": "q"}
    assert codes(run.of("MSG")[3]) == ["not-subscribed"]
    assert generated[4] == {"subscription": "new"}
    assert [frame.generated.get("subscription") for frame in run.of("UNSUB")] == ["a.*", "b"]


def test_name_of_a_liftbridge_server_gives_its_namespace() -> None:
    run = talk((S, INFO), (C, b'CONNECT {"lang":"go","name":"LIFT.liftbridge-default.server-a.raft"}\r\n'))
    generated = run.frames[1].generated
    assert (generated["namespace"], generated["server"], generated["purpose"]) == (
        "liftbridge-default",
        "server-a",
        "raft",
    )


def test_ok_is_paired_for_verbose_clients_only() -> None:
    run = talk((S, INFO), (C, b'CONNECT {"lang":"x"}\r\nSUB a 1\r\nPING\r\n'), (S, b"+OK\r\n+OK\r\nPONG\r\n"))
    by_type = {frame.type: frame.number for frame in run.frames}
    assert [frame.request for frame in run.of("+OK")] == [by_type["CONNECT"], by_type["SUB"]]
    assert run.of("PONG")[0].request == by_type["PING"]
    unasked = talk((S, INFO), (C, b"PUB a 1\r\nx\r\n"), (S, b"+OK\r\n"))
    assert unasked.frames[-1].request == unasked.frames[-2].number


# Lines as they are.


def test_unusual_spellings_of_operations() -> None:
    run = talk((S, INFO), (C, b"pUb\t \ta \t r\t003 \r\nabc\r\nsub a\n pInG\n".replace(b" pInG", b"pInG junk")))
    publish = run.of("PUB")[0]
    assert fields(publish)["size"] == 3
    assert (publish.values["subject"], publish.values["reply"]) == ("a", "r")
    assert [(frame.type, frame.status) for frame in run.frames[1:]] == [
        ("PUB", "ok"),
        ("SUB", "malformed"),
        ("PING", "ok"),
    ]


def test_cr_is_allowed_in_subjects_of_pub_only() -> None:
    assert Pub(b"PUB a\rb 1\r\nx\r\n").values()["subject"] == "a\rb"
    run = talk((S, INFO), (C, b"SUB a\rq\r1\r\n"))
    assert {name: run.frames[1].values[name] for name in ("subject", "queue", "sid")} == {
        "subject": "a",
        "queue": "q",
        "sid": "1",
    }


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (b"PUB a\r\n", "size"),
        (b"PUB a 1234567890\r\n", "size"),
        (b"PUB a -1\r\n", "size"),
        (b"PUB a b c 1\r\nx\r\n", "size"),
        (b"HPUB a 9 2\r\nxx\r\n", "header_block"),
        (b"HPUB a x 2\r\nxx\r\n", "header_size"),
        (b"UNSUB\r\n", None),
        (b"HPUBX 1 2\r\n", "line"),
        (b"UNSUB 1 x\r\n", "max_messages"),
        (b"SUB a b c d\r\n", "line_end"),
        (b"FOO bar\r\n", "line"),
        (b"\r\n", "line"),
        (b'CONNECT {"user":"u",\r\n', "options.other"),
    ],
)
def test_malformed_lines_do_not_affect_the_next_frame(line: bytes, field: str | None) -> None:
    run = talk((S, INFO), (C, QUIET + line + b"PING\r\n"))
    assert run.totals.closes
    assert run.totals.undecoded == 0
    assert run.frames[-1].type == "PING"
    wrong = run.frames[2]
    assert wrong.status == "malformed"
    assert wrong.findings[0].severity == "error"
    assert wrong.findings[0].field == field or field is None


def test_an_absurd_size_does_not_swallow_the_stream() -> None:
    run = talk((S, INFO), (C, QUIET + b"PUB a 999999999\r\nPING\r\n"))
    assert [frame.type for frame in run.frames[2:]] == ["PUB", "PING"]
    assert run.frames[2].status == "malformed"


def test_payload_above_max_payload() -> None:
    run = talk((S, INFO.replace(b"1048576", b"8")), (C, QUIET + b"PUB a 9\r\n123456789\r\n"))
    assert codes(run.of("PUB")[0]) == ["max-payload"]


@pytest.mark.parametrize(
    ("text", "severity"), [(b"'Unknown Protocol Operation'", "error"), (b"'Invalid Subject'", "warning")]
)
def test_err_is_fatal_or_not(text: bytes, severity: str) -> None:
    run = talk((S, INFO), (C, QUIET), (S, b"-ERR " + text + b"\r\n"))
    assert run.frames[-1].findings[0].severity == severity
    assert fields(run.frames[-1])["error"] == text.decode().strip("'")


@pytest.mark.parametrize("secrets", [False, True])
def test_nonstandard_headers_stay_raw_and_hidden(secrets: bool) -> None:
    said = (S, INFO), (C, QUIET + b"HPUB foo 12 17\r\nname:derek\r\nHELLO\r\n")
    run = talk(*said, style=Style(secrets=secrets))
    assert codes(run.frames[-1]) == ["header-block"]
    shown = b"name:derek\r\n".hex() if secrets else "<redacted 12 bytes>"
    assert fields(run.frames[-1])["header_block"] == shown
    assert run.frames[-1].values["header_block"] == b"name:derek\r\n"
    assert fields(run.frames[-1])["data"] == b"HELLO".hex()


def test_a_header_block_is_built_from_its_fields() -> None:
    packet = HPub(subject="a", version="NATS/1.0", status=100, description="Idle Heartbeat", data=b"x")
    assert bytes(packet) == b"HPUB a 31 32\r\nNATS/1.0 100 Idle Heartbeat\r\n\r\nx\r\n"


# Server links.


def test_a_dedicated_route_names_no_account_in_either_direction() -> None:
    dialer = ROUTE.replace(b'"lnoc"', b'"route_account":"$G","lnoc"')
    run = talk(
        (S, ROUTE), (C, dialer + b"RS+ x.q grp 2\r\nRMSG x.plain 4\r\nover\r\n"),
        (S, b"RMSG x.plain re.ply 2\r\nhi\r\nLS- leafcl x.q\r\nHMSG x | g h 0 1\r\nz\r\n"), port=6222,
    )  # fmt: skip
    interest, first, second, gone, third = run.frames[2:]
    assert fields(first) == {
        "operation": "RMSG", "subject": "x.plain", "size": 4, "data": b"over".hex(), "account": "$G",
    }  # fmt: skip
    assert (fields(second)["subject"], fields(second)["reply"]) == ("x.plain", "re.ply")
    assert fields(interest)["weight"] == 2
    assert (fields(gone)["origin"], fields(gone)["subject"]) == ("leafcl", "x.q")
    assert fields(third)["queues"] == ["g", "h"]
    assert {frame.dialect for frame in run.frames} == {"route"}


def test_ls_minus_has_an_origin_only_if_both_ends_support_it() -> None:
    old = ROUTE.replace(b'"lnocu":true,', b"")
    for first, expected in ((ROUTE, {"origin": "o", "account": "$G"}), (old, {"account": "o", "subject": "$G"})):
        run = talk((S, first), (C, ROUTE + b"LS- o $G s\r\n"), port=6222)
        assert expected.items() <= fields(run.frames[-1]).items()


def test_operations_of_a_leaf_link() -> None:
    leaf = b'CONNECT {"server_id":"NL","name":"leaf","is_hub":false,"user":"u","pass":"p"}\r\n'
    run = talk(
        (S, INFO), (C, leaf + b"LS+ a.b q 3\r\nLMSG a.b + r q1 q2 2\r\nhi\r\n"), (S, b"LMSG a | q 0\r\n\r\n"), port=7422
    )
    interest, message, answer = run.frames[2:]
    assert message.dialect == "leaf"
    assert (fields(interest)["queue"], fields(interest)["weight"]) == ("q", 3)
    assert (fields(message)["reply"], fields(message)["queues"]) == ("r", ["q1", "q2"])
    assert "reply" not in fields(answer)


@pytest.mark.parametrize(
    ("said", "link", "last"),
    [
        (b"RS+ $G a\r\nLS+ o $G b\r\nHMSG $G a 0 0\r\n\r\n", "route", {"account": "$G", "subject": "a"}),
        (b"A+ $G\r\nRMSG $G a 0\r\n\r\n", "gateway", {"account": "$G", "subject": "a"}),
        (b"LS+ a\r\nLMSG a r 0\r\n\r\n", "leaf", {"subject": "a", "reply": "r"}),
    ],
)
def test_link_kind_is_inferred_from_operations_after_a_late_start(said: bytes, link: str, last: dict[str, str]) -> None:
    packets = craft([Part(1, S, said * 3)], every(1460), 6222, handshake=False)
    run = dissect(batches(packets), known=(Nats(),))
    assert {frame.dialect for frame in run.frames} == {link}
    assert last.items() <= fields(run.frames[-1]).items()


def test_damaged_s2_chunks_are_findings() -> None:
    stream = (
        s2.IDENTIFIER + b"\x01\n\x00\x00\xab\x90\xcc$PONG\r\n" + b"\x00\x08\x00\x00\x00\x00\x00\x00\x05\xff\xff\xff"
    )
    run = talk((S, ROUTE), (C, stream), port=6222)
    assert [(frame.type, codes(frame)) for frame in run.frames[2:]] == [
        ("S2 chunk", ["s2-crc"]),
        ("PONG", []),
        ("S2 chunk", ["s2-block"]),
    ]
    assert run.totals.closes


def chunk(plain: bytes) -> bytes:
    """An uncompressed S2 chunk."""
    body = s2.masked_crc(plain).to_bytes(4, "little") + plain
    return b"\x01" + len(body).to_bytes(3, "little") + body


def inside(run: Run) -> list[tuple[str | None, str]]:
    return [(frame.type, frame.status) for frame in run.frames if "inside" in frame.generated]


def test_a_chunk_inside_a_chunk_is_not_unpacked() -> None:
    """Otherwise a few bytes could expand without limit."""
    bomb = chunk(chunk(b"PING\r\n") * 3) + chunk(b"PONG\r\n")
    run = talk((S, ROUTE), (C, s2.IDENTIFIER + bomb), port=6222)
    assert inside(run) == [("PONG", "ok")]
    assert codes(run.frames[2]) == ["no-frame"]
    assert run.totals.closes
    assert run.totals.undecoded == 0


def test_garbage_in_a_chunk_is_reported_with_its_reason() -> None:
    said = b"PING\r\n\x02\x01nothing\r\n" + b"PONG\r\n" * 4
    run = talk((S, ROUTE), (C, s2.IDENTIFIER + chunk(said)), port=6222)
    assert inside(run) == [("PING", "ok")] + [("PONG", "ok")] * 4
    (finding,) = run.frames[2].findings
    assert finding.message == "11 bytes inside belong to no operation: these bytes are no operation"


def test_more_operations_in_a_chunk_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_streams, "MAX_OPERATIONS", 10)
    monkeypatch.setattr(transport_streams, "SLICE_BYTES", 30)
    run = talk((S, ROUTE), (C, s2.IDENTIFIER + chunk(b"PING\r\n" * 100) + chunk(b"PONG\r\n" * 9)), port=6222)
    assert inside(run) == [("PING", "ok")] * 15 + [("PONG", "ok")] * 9
    assert codes(run.frames[2]) == ["carried"]
    assert run.totals.limits == {"carried": 1}


def test_operations_around_a_damaged_chunk_are_not_mixed() -> None:
    message = b"RMSG $G a 30\r\n" + b"x" * 30 + b"\r\n"
    good, more = message * 3 + message[:20], message[20:] + b"PING\r\n" * 4
    damaged = b"\x00\x08\x00\x00\x00\x00\x00\x00\x05\xff\xff\xff"
    run = talk((S, ROUTE), (C, s2.IDENTIFIER + chunk(good) + damaged + chunk(more)), port=6222)
    assert inside(run) == [("RMSG", "ok")] * 3 + [("RMSG", "partial")] + [("PING", "ok")] * 4
    assert "frame-cut" in codes(run.of("RMSG")[-1])
    assert codes(run.of("S2 chunk")[-1]) == ["no-frame"]


def test_operations_around_a_missing_chunk_are_not_mixed() -> None:
    message = b"RMSG $G a 30\r\n" + b"x" * 30 + b"\r\n"
    parts = [chunk(message + message[:25]), chunk(message[25:] + message[:25]), chunk(message[25:] + b"PING\r\n" * 4)]
    said = [Part(1, S, ROUTE), Part(1, C, s2.IDENTIFIER), *(Part(1, C, part) for part in parts)]
    made = craft(said, lambda data: [(0, data)], 6222)
    whole, lossy = (dissect(batches(kept), known=(Nats(),)) for kept in (made, made[:-2] + made[-1:]))
    assert inside(whole) == [("RMSG", "ok")] * 3 + [("PING", "ok")] * 4
    assert inside(lossy) == [("RMSG", "ok"), ("RMSG", "partial")] + [("PING", "ok")] * 4
    assert lossy.totals.closes


def test_an_s2_stream_that_began_before_the_capture() -> None:
    message = b"RMSG $G a 30\r\n" + b"x" * 30 + b"\r\n"
    said = b"".join(map(chunk, [message[30:] + message, b"PING\r\n" * 4]))
    packets = craft([Part(1, C, s2.IDENTIFIER + said)], every(1460), 6222, handshake=False)
    forced = {6222: DecodeAs(Nats(), "route")}
    run = dissect(batches(packets), known=(Nats(),), decode_as=forced)
    assert inside(run) == [("RMSG", "ok")] + [("PING", "ok")] * 4


def test_recognised_bytes_keep_the_dialect_that_the_user_chose() -> None:
    """Late operations are recognised as NATS of an unknown link: then the user knows more."""
    packets = craft([Part(1, C, b"PING\r\n" * 4)], every(1460), 6222, handshake=False)
    run = dissect(batches(packets), known=(Nats(),), decode_as={6222: DecodeAs(Nats(), "gateway")})
    assert [frame.dialect for frame in run.frames] == ["gateway"] * 4


def test_many_small_chunks_are_linear() -> None:
    """Bytes that wait for the end of their frame are neither framed nor copied again with each chunk."""

    def read(count: int) -> Callable[[], None]:
        message = b"RMSG $G a %d\r\n" % (40 * count) + bytes(40 * count) + b"\r\n"
        small = b"".join(chunk(message[at : at + 40]) for at in range(0, len(message), 40))
        packets = craft([Part(1, S, ROUTE), Part(1, C, s2.IDENTIFIER + small)], every(1460), 6222)
        return lambda: read_all(packets, [("RMSG", "ok")])

    def read_all(packets: Segments, expected: list[tuple[str, str]]) -> None:
        assert inside(dissect(batches(packets), known=(Nats(),))) == expected

    assert grows_with_length_only(read, 800)


@pytest.mark.parametrize("wrapped", [False, True])
def test_searching_garbage_without_lines_is_linear(wrapped: bool) -> None:
    def search(count: int) -> Callable[[], None]:
        garbage = b"PUB a \x01" * 10
        said = s2.IDENTIFIER + chunk(garbage) * count if wrapped else garbage * count
        packets = craft([Part(1, S, ROUTE), Part(1, C, said)], every(81), 6222)

        def read() -> None:
            assert dissect(batches(packets), known=(Nats(),)).totals.closes

        return read

    assert grows_with_length_only(search, 150)


def test_pongs_are_not_paired_across_a_gap() -> None:
    """After a lost PONG, the next one may answer any PING."""
    ping, pong, more = b"PING\r\n", b"PONG\r\n", b"MSG a 1 2\r\nhi\r\n" * 4
    said = [(S, INFO), (C, QUIET), (C, ping), (C, ping), (S, pong), (S, pong + more), (C, ping), (S, pong)]
    packets = craft([Part(1, *part) for part in said], every(1460), 4222)
    first, second = [packets[at] for at in (*range(7), 8)], packets[9:]  # the first PONG is lost
    run = dissect(batches([(0.0, packet) for packet in first] + [(60.0, packet) for packet in second]), known=(Nats(),))
    assert [frame.request is not None for frame in run.of("PONG")] == [False, True]


def test_a_delivery_after_a_lost_pull_has_no_latency() -> None:
    """Pulls share a reply subject, so the delivery may answer the pull that was not captured."""
    pull, answer = (
        b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c _INBOX.a 2\r\n{}\r\n",
        b"HMSG _INBOX.a 1 16 16\r\nNATS/1.0 404\r\n\r\n\r\n",
    )
    said = [
        (S, INFO),
        (C, QUIET + b"SUB _INBOX.a 1\r\n"),
        (C, pull),
        (C, pull + b"PING\r\n"),
        (S, answer),
        (S, b"PONG\r\n"),
    ]
    packets = craft([Part(1, *part) for part in said], every(1460), 4222)
    whole, lossy = (dissect(batches(each), known=(Nats(),)) for each in (packets, packets[:6] + packets[7:]))
    assert [frame.request is not None for run in (whole, lossy) for frame in run.of("HMSG")] == [True, True]
    assert [frame.latency_ns is not None for run in (whole, lossy) for frame in run.of("HMSG")] == [True, False]


BLOCKS = {
    "literal": (b"\x05\x10hello", b"hello"),
    "long literal": (b"\x3d\xf0\x3c" + bytes(61), bytes(61)),
    "copy, 11-bit offset": (b"\x0a\x10hello\x05\x05", b"hello" * 2),
    "copy, 16-bit offset": (b"\x0a\x10hello\x12\x05\x00", b"hello" * 2),
    "copy, 32-bit offset": (b"\x0a\x10hello\x13\x05\x00\x00\x00", b"hello" * 2),
    "overlapping copy": (b"\x09\x00a\x11\x01", b"a" * 9),
    "repeat": (b"\x10\x0cabcd\x01\x04\x11\x00", b"abcd" * 4),
    "repeat, 1-byte length": (b"\x12\x0cabcd\x01\x04\x15\x00\x02", b"abcdabcd" + b"abcdabcdab"),
    "repeat, 2-byte length": (b"\x8d\x02\x0cabcd\x01\x04\x19\x00\x01\x00", (b"abcd" * 70)[:269]),
}
BAD_BLOCKS = {
    "copy from before the start": b"\x05\x00a\x01\x05",
    "cut literal": b"\x05\x10hel",
    "cut copy": b"\x0a\x10hello\x12\x05",
    "more than announced": b"\x02\x10hello",
    "less than announced": b"\x09\x10hello",
    "absurd length": b"\xff\xff\xff\xff\x0f\x00a",
    "nothing": b"",
}


@pytest.mark.parametrize("name", BLOCKS)
def test_s2_blocks(name: str) -> None:
    block, plain = BLOCKS[name]
    assert s2.decode(block, 1000) == plain


@pytest.mark.parametrize("name", BAD_BLOCKS)
def test_damaged_s2_blocks(name: str) -> None:
    with pytest.raises(s2.DamageError):
        s2.decode(BAD_BLOCKS[name], 1000)


# Transports.


def test_tls_after_info_is_reported() -> None:
    run = talk((S, INFO), (C, b"\x16\x03\x01\x00\x05hello"), (S, b"\x16\x03\x03\x00\x02hi\x17\x03\x03\x00\x01x"))
    assert [(frame.protocol, frame.type) for frame in run.frames] == [
        ("nats", "INFO"),
        ("tls", "Handshake"),
        ("tls", "Handshake"),
        ("tls", "ApplicationData"),
    ]
    assert [len(frame.findings) for frame in run.frames] == [0, 1, 0, 0]


def websocket(data: bytes, masked: bool) -> bytes:
    key = b"\x01\x02\x03\x04" if masked else b""
    size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")
    size = bytes([size[0] | (0x80 if masked else 0)]) + size[1:]
    return b"\x82" + size + key + (unmask(data, key) if masked else data)


def test_operations_split_over_websocket_frames_at_any_byte() -> None:
    get = b"GET /?jwt=s3cret HTTP/1.1\r\nUpgrade: websocket\r\nCookie: t=s3cret\r\n\r\n"
    ok = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
    assert UPGRADE.search(get)
    run = talk(
        (C, get), (S, ok + websocket(INFO, False)),
        (C, websocket(QUIET + b"PU", True) + websocket(b"B a 2\r\nhi\r\n", True)), port=8080,
    )  # fmt: skip
    carrier = "WebSocket frame"
    assert [frame.type for frame in run.frames] == [
        *("HTTP", "HTTP", carrier, "INFO", carrier, "CONNECT", carrier, "PUB"),
    ]
    assert fields(run.frames[-1])["subject"] == "a"
    assert run.frames[-1].packets == sorted({*run.frames[4].packets, *run.frames[6].packets})
    assert run.frames[-1].offset == len(QUIET)
    assert run.totals.undecoded == 0
    assert b"s3cret" not in b"".join(dumps(record(frame)) for frame in run.frames)
    assert b"s3cret".hex().encode() not in b"".join(dumps(record(frame)) for frame in run.frames)


@pytest.mark.parametrize(
    "preface",
    [b"PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\n", SIGNATURE + b"\x21\x11\x00\x0c" + bytes(12)],
)
def test_a_proxy_preface(preface: bytes) -> None:
    for port in (4222, 14222):
        run = talk((C, preface), (S, INFO), (C, QUIET), port=port)
        assert [frame.type for frame in run.frames] == ["PROXY", "INFO", "CONNECT"]


# Secrets.

SECRETS = ("pass", "auth_token", "jwt", "nkey", "sig", "proxy_sig")


def test_credentials_are_hidden_unless_requested() -> None:
    options = {name: f"s3cret-{name}" for name in SECRETS} | {"PASS": "s3cret-upper", "my_token": "s3cret-mine"}
    options["user"] = "alice"
    line = b"CONNECT " + json.dumps(options).encode() + b"\r\n"
    hidden = talk((S, INFO), (C, line)).frames[1]
    assert b"s3cret" not in dumps(record(hidden))
    assert fields(hidden)["options"]["sig"] == "<redacted 10 bytes>"
    assert fields(hidden)["options"]["user"] == "alice"  # no secret, as RabbitMQ's
    shown = talk((S, INFO), (C, line), style=Style(secrets=True)).frames[1]
    assert fields(shown)["options"]["sig"] == "s3cret-sig"


@pytest.mark.parametrize("end", [b"", b'"', b'"}x', b'","verbose":'])
def test_broken_json_shows_no_password(end: bytes) -> None:
    run = talk((S, INFO), (C, b'CONNECT {"verbose":false,"pass":"s3cret' + end + b"\r\nPING\r\n"))
    assert b"s3cret" not in dumps(record(run.frames[1]))
    assert run.frames[1].status == "malformed"
    assert fields(run.frames[1])["options"]["verbose"] is False


def test_ranges_of_credentials_are_exact_so_that_dumps_can_hide_them() -> None:
    raw = b'CONNECT {"lang":"go", "pass" : "s3cret","user":"me"}\r\n'
    ranges = Connect(raw).flat_ranges()
    assert raw[slice(*ranges["options.pass"])] == b"s3cret"
    assert raw[slice(*ranges["options.user"])] == b"me"


def test_payloads_of_the_auth_callout_and_header_tokens_are_hidden() -> None:
    block = b"NATS/1.0\r\nAuthorization: Bearer s3cret\r\nX-Auth-Token: s3cret\r\nPlain: x\r\n\r\n"
    run = talk(
        (S, INFO),
        (
            C,
            QUIET
            + b"PUB $SYS.REQ.USER.AUTH 6\r\ns3cret\r\nHPUB a %d %d\r\n" % (len(block), len(block))
            + block
            + b"\r\n",
        ),
    )
    text = b"".join(dumps(record(frame)) for frame in run.frames)
    assert b"s3cret" not in text
    assert b"s3cret".hex().encode() not in text
    assert fields(run.frames[-1])["headers"][2] == {"key": "Plain", "value": "x"}


# Recognising.


def first(data: bytes, **kw: bool) -> type:
    return type(Nats().recognise(data, **{"started": True, "final": True, "port": False, **kw}))


def test_other_protocols_are_not_claimed() -> None:
    for data in (
        b"CONNECT host:443 HTTP/1.1\r\n\r\n",
        b"+OK POP3 server ready\r\n+OK\r\n",
        b"PING\r\nPING\r\nPING\r\nPING\r\n",
        b"-ERR unknown command\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"INFO server\r\n",
        b'INFO {"version":1}\r\n',
        b"SUB a\r\n",
        b"\x16\x03\x01\x00\x05hello",
        b"\x00\x00\x00\x0e\x00\x11\x00\x01",
    ):
        assert first(data) is Rejected, data
        assert first(data, started=False) is Rejected, data


def test_consecutive_operations_identify_nats_without_a_handshake() -> None:
    assert first(b"loose end\r\nMSG a 1 2\r\nhi\r\nMSG a 1 2\r\nho\r\n", started=False) is Verdict
    assert first(b"loose end\r\nMSG a 1 2\r\nhi\r\n", started=False) is Rejected
    assert first(b"loose end\r\nMSG a 1 2\r\nhi\r\n", started=False, port=True) is Verdict
    assert first(b"PUB a 2\r\nhi\r\nPI", started=False, final=False) is Undecided


def test_a_greeting_split_anywhere_stays_undecided() -> None:
    for data in (INFO, QUIET):
        for cut in range(len(data)):
            answer = Nats().recognise(data[:cut], started=True, final=False, port=False)
            assert not isinstance(answer, Rejected), data[:cut]
        assert isinstance(Nats().recognise(data, started=True, final=False, port=False), Verdict)


# Searching.


def test_operations_inside_a_payload_break_the_chain_of_a_search() -> None:
    evil = b"MSG evil 1 3\r\nabc\r\nPING\r\n"
    data = b"half a body\r\n" + evil + b"\r\n" + b"MSG real 1 1\r\nx\r\n" * 5
    for size in range(len(data) + 1):
        found = Nats().search(data[:size], final=False)
        assert not found.found or found.position == data.index(b"MSG real")
    assert Nats().search(data, final=False).found


def test_a_search_drops_bytes_that_cannot_be_a_start() -> None:
    assert Nats().search(b"x" * 200_000, final=False).position > 60_000
    assert Nats().search(b"x\n" * 100_000, final=False).position > 199_000


def test_a_repeated_line_does_not_reuse_the_payload_of_the_first() -> None:
    line = b"PUB again.and.again 4\r\n"
    run = talk((S, INFO), (C, QUIET + line + b"1st!\r\n" + line + b"2nd!\r\n" + line + b"3rd!XY"))
    said = [fields(frame) for frame in run.frames if frame.type == "PUB"]
    assert [each.get("data") for each in said] == [b"1st!".hex(), b"2nd!".hex(), b"3rd!".hex()]
    assert [frame.status for frame in run.frames if frame.type == "PUB"] == ["ok", "ok", "malformed"]
