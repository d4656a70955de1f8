"""Copies of messages without replies are linked to the published original, or to nothing (issue 12, point 7)."""

from __future__ import annotations

import pytest

from tests.damage import CAPTURES, losses
from tests.protocols.test_nats_surprises import INFO, QUIET, ROUTE, C, S, many
from wiredecode.capture import open_capture
from wiredecode.cli import main
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats import conversation_memory

ONE, TWO = b"PUB a 4\r\n\1\2\3\4\r\n", b"PUB a 4\r\n\5\6\7\x08\r\n"
Said = tuple[int, int, bytes]


def got(data: bytes, sid: int = 1) -> bytes:
    """The delivery of the message that ``data`` publishes."""
    return data.replace(b"PUB a", b"MSG a %d" % sid)


def opened(*subscribed: bytes) -> list[Said]:
    """Connection 1 publishes, the next ones subscribe."""
    first: list[Said] = [(1, S, INFO), (1, C, QUIET)]
    return first + [said for at, sub in enumerate(subscribed, 2) for said in ((at, S, INFO), (at, C, QUIET + sub))]


def originals(*said: Said) -> tuple[list[Frame], list[int | None]]:
    """The frames with a payload, and for each its original's index among them (None: not a copy)."""
    frames = [frame for frame in many(*said).frames if "size" in frame.values]
    places = {frame.number: place for place, frame in enumerate(frames)}
    originals = [frame.generated.get("copy_of") for frame in frames if frame.type not in ("PUB", "HPUB")]
    for frame in frames:
        assert (frame.layers or {})["nats"].get("copy_of") == frame.generated.get("copy_of")
    return frames, [None if number is None else places[number] for number in originals]


SUB = b"SUB a 1\r\n"
CASES: dict[str, tuple[list[Said], list[int | None]]] = {
    "a delivery": ([*opened(SUB), (1, C, ONE), (2, S, got(ONE))], [0]),
    "the same again and again, in order": ([*opened(SUB), (1, C, ONE * 3), (2, S, got(ONE) * 3)], [0, 1, 2]),
    "two subscriptions of one client": (
        [*opened(b"SUB a 1\r\nSUB > 2\r\n"), (1, C, ONE * 2), (2, S, got(ONE) + got(ONE, 2) + got(ONE, 2) + got(ONE))],
        [0, 0, 1, 1],
    ),
    "published before the subscription": (
        [*opened(), (1, C, ONE), *opened(SUB)[2:], (1, C, ONE), (2, S, got(ONE))],
        [1],
    ),
    "a queue shares the same messages": ([*opened(b"SUB a q 1\r\n"), (1, C, ONE * 2), (2, S, got(ONE))], [None]),
    "a queue shares different messages": (
        [*opened(b"SUB a q 1\r\n"), (1, C, ONE + TWO), (2, S, got(TWO))],
        [1],
    ),
    "the SUB was not captured": (
        [(1, S, INFO), (1, C, QUIET), (2, S, INFO), (1, C, ONE * 2), (2, S, got(ONE))],
        [None],
    ),
    "nor was it, and it may be a queue": (
        [(1, S, INFO), (1, C, QUIET), (2, S, INFO), (1, C, TWO + ONE * 2), (2, S, got(TWO) + got(ONE) * 2)],
        [0, None, None],
    ),
    "what was not published": ([*opened(SUB), (1, C, TWO), (2, S, got(ONE))], [None]),
    "delivered twice what was published once": ([*opened(SUB), (1, C, ONE), (2, S, got(ONE) * 2)], [0, None]),
    "headers": (
        [
            *opened(SUB),
            (1, C, b"HPUB a 16 18\r\nNATS/1.0\r\nA:b\r\n\r\n\1\2\r\n".replace(b"16 18", b"17 19")),
            (2, S, b"HMSG a 1 17 19\r\nNATS/1.0\r\nA:b\r\n\r\n\1\2\r\n"),
        ],
        [0],
    ),
    "a route forwards an uncaptured message": (
        [*opened(SUB), (3, S, ROUTE), (3, C, ROUTE), (3, C, b"RMSG $G a 4\r\n\1\2\3\4\r\n"), (2, S, got(ONE))],
        [None, 0],
    ),
    "a route": (
        [
            *opened(SUB),
            (3, S, ROUTE),
            (3, C, ROUTE),
            (1, C, ONE),
            (3, C, b"RMSG $G a 4\r\n\1\2\3\4\r\n"),
            (2, S, got(ONE)),
        ],
        [0, 0],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_copies_of_plain_messages(case: str) -> None:
    said, expected = CASES[case]
    assert originals(*said)[1] == expected


def test_more_messages_than_the_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_memory, "MAX_CONTENTS", 2)
    different = [b"PUB a 4\r\n%04d\r\n" % number for number in range(10)]
    said = [*opened(SUB), (1, C, b"".join(different)), (2, S, b"".join(map(got, different)))]
    assert originals(*said)[1] == [None] * 8 + [8, 9]
    monkeypatch.setattr(conversation_memory, "MAX_SAME", 2)
    assert originals(*opened(SUB), (1, C, ONE * 9), (2, S, got(ONE)))[1] == [None]


def test_lost_packets_never_link_a_copy_to_another_message() -> None:
    assert losses(CAPTURES / "nats" / "10-split-writes.pcap", range(3)).wrong == []


def test_lines_show_copies_if_a_filter_needs_them(capsys: pytest.CaptureFixture[str]) -> None:
    capture = str(CAPTURES / "nats" / "03-pubsub.pcap")
    main(["pcap", capture, "--summary", "-q", "-Y", "nats.copy_of"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 14 and all("copy_of=" in line for line in lines)
    main(["pcap", capture, "-q", "-T", "fields", "-e", "nats.copy_of"])
    assert [line for line in capsys.readouterr().out.splitlines() if line] == [
        line.rpartition("copy_of=")[2] for line in lines
    ]


def test_jetstream_deliveries_are_copies_of_the_publish() -> None:
    """Matched by the sequence in the stream, which the response to the publish contains; also if redelivered."""
    from tests.support import dissect

    frames = dissect(open_capture([CAPTURES / "nats" / "13-jetstream.pcap"])).frames
    found = {frame.number: frame for frame in frames}
    delivered = [frame for frame in frames if str(frame.values.get("reply", "")).startswith("$JS.ACK.ORD.")]
    delivered = [frame for frame in delivered if frame.type in ("MSG", "HMSG")]
    assert len(delivered) > 10
    for frame in delivered:
        original = found[frame.generated["copy_of"]]
        assert original.type in ("PUB", "HPUB")
        assert all(original.values[name] == frame.values[name] for name in ("subject", "data"))
