"""One direction into frames: the packet that completes a late-recognised frame, and the notes of a frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wiredecode.dissect.accounts import Accounts
from wiredecode.frames.frame import Frame
from wiredecode.frames.framer import Framer
from wiredecode.net.logical_time import logical_time
from wiredecode.net.types import Chunk, Connection, Gap, Note
from wiredecode.protocols.base import Found, Split

CONFIRM = 3
"""Frames in a row that a search wants to see."""


class Letters:
    """Frames of three bytes, ``<`` and two letters; the search needs several in a row."""

    name = "letters"

    def split_first(self, data: bytes) -> Split:
        return self.split(data)

    def split(self, data: bytes) -> Split:
        whole = len(data) // 3 * 3
        wrong = next((at for at in range(0, whole, 3) if data[at : at + 1] != b"<"), None)
        ends = [*range(3, (whole if wrong is None else wrong) + 1, 3)]
        return Split(ends, 0 if wrong is not None else 3, None if wrong is None else "a frame begins with <")

    def search(self, data: bytes, *, final: bool) -> Found:
        for at in range(len(data)):
            row = data[at : at + 3 * CONFIRM : 3]
            if set(row) == {ord("<")} and (final or len(data) >= at + 3 * CONFIRM):
                return Found(at, True)
        return Found(0, False)


def connection() -> Connection:
    return Connection(1, ("10.0.0.1:4000", "10.0.0.2:5552"), (4000, 5552), first=1)


def packets(owner: Connection, offset: int, *sent: tuple[int, bytes]) -> Chunk:
    """A chunk with a piece per packet: its number and payload; packet n was sent at n * 1000 ns."""
    numbers = np.array([number for number, _ in sent], np.int64)
    ends = offset + np.cumsum([len(data) for _, data in sent])
    times = numbers * 1000
    return Chunk(owner.directions[0], offset, b"".join(data for _, data in sent), ends, numbers, times, numbers, times)


def framer_of(owner: Connection, splitter: Any, out: list[Any], *, in_sync: bool = True) -> Framer:
    """The framer of a connection's first side; ``splitter`` is a minimal protocol."""
    return Framer(owner.directions[0], splitter, out, in_sync)


def after_a_gap(*sent: tuple[int, bytes]) -> list[Any]:
    """The frames if 30 bytes are missing before these packets."""
    owner, out = connection(), []
    framer = framer_of(owner, Letters(), out)
    framer.gap(Gap(owner.directions[0], 0, 30, "not captured", 1, 1000))
    framer.chunk(packets(owner, 30, *sent))
    return out


def test_frames_after_a_gap_are_ready_with_the_packet_that_identified_them() -> None:
    sent = [(2, b"xx<ab"), (3, b"<cd"), (4, b"<ef"), (7, b"<gh"), (9, b"<ij")]
    undecoded, *frames = after_a_gap(*sent)
    assert (undecoded.status, undecoded.ready, undecoded.time_ns) == ("undecoded", 4, 2000)
    assert [frame.data for frame in frames] == [b"<ab", b"<cd", b"<ef", b"<gh", b"<ij"]
    assert [frame.ready for frame in frames] == [4, 4, 4, 7, 9], "packet 4 brought the third frame in a row"
    assert [frame.time_ns for frame in frames] == [2000, 3000, 4000, 7000, 9000], "the times are their own"
    assert [frame.packets for frame in frames] == [[2], [3], [4], [7], [9]]


def test_bytes_after_a_gap_are_searched_in_growing_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts, split = [], Letters.split
    monkeypatch.setattr(Letters, "split", lambda self, data: cuts.append(data) or split(self, data))
    sent = [(number, b"<%02d" % (number % 100)) for number in range(2, 258)]
    assert [frame.ready for frame in after_a_gap(*sent)] == [4, 4, *range(4, 258)]
    assert len(cuts) < 10
    sent[60] = 62, b"xx"
    found = [(frame.status, frame.ready) for frame in after_a_gap(*sent)]
    before, after = (
        [("ok", ready) for ready in (4, 4, *range(4, 62))],
        [("ok", ready) for ready in (65, 65, *range(65, 258))],
    )
    assert found == [*before, ("undecoded", 65), *after], "what was lost is looked for packet by packet again"


def frame(owner: Connection, side: int, ready: int) -> Frame:
    return Frame(owner, side, b"", 0, 0, 0, 0, 0, [ready], logical_time(ready), ready * 1000, ready * 1000)


def note(owner: Connection, side: int, packet: int) -> Note:
    return Note(owner.directions[side], 0x01020304, logical_time(packet), "late-data", f"noted at {packet}")


@pytest.mark.parametrize(("ready", "borne"), [(6, []), (7, [7]), (8, [7, 8]), (9, [7, 8])])
def test_a_frame_has_the_notes_up_to_its_completing_packet(ready: int, borne: list[int]) -> None:
    owner, accounts = connection(), Accounts()
    for packet in (7, 8, 10):
        accounts.add_note(note(owner, 0, packet))
    first, other, last = frame(owner, 0, ready), frame(owner, 1, 99), frame(owner, 0, 10)
    for each in (first, other, last):
        accounts.frame(each)
    text = "noted at {0} (stream offset 16909060, packet {0})"
    assert [finding.message for finding in first.findings] == [text.format(packet) for packet in borne]
    rest = [packet for packet in (7, 8, 10) if packet not in borne]
    assert [finding.message for finding in last.findings] == [text.format(packet) for packet in rest]
    assert not other.findings
    assert not accounts.has_notes(owner, 0)
    assert accounts.totals.notes == {"late-data": 3}


class Long(Letters):
    """Frames of 30 bytes that begin with ``<``."""

    def split(self, data: bytes) -> Split:
        return Split([*range(30, len(data) + 1, 30)], 30)


def around_a_gap(*sent: tuple[int, bytes]) -> list[Frame]:
    """The frames of 10 bytes of a frame of 30 in packet 1, then 10 missing bytes, then these packets."""
    owner, out = connection(), []
    framer = framer_of(owner, Long(), out)
    framer.chunk(packets(owner, 0, (1, b"<" + bytes(9))))
    framer.gap(Gap(owner.directions[0], 10, 10, "not captured", 2, 2000))
    framer.chunk(packets(owner, 20, *sent))
    assert framer.framed == sum(frame.length - frame.missing for frame in out)
    return out


def summary(frame: Frame) -> tuple[Any, ...]:
    times = frame.first_ns, frame.time_ns
    return frame.offset, frame.length, frame.missing, frame.status, frame.packets, frame.ready, *times


def test_a_frame_with_a_gap_has_the_packets_up_to_its_end() -> None:
    found = around_a_gap((4, bytes(6)), (5, bytes(4) + b"<ab"), (6, bytes(20)), (7, bytes(7)), (8, b"<" + bytes(29)))
    assert [summary(frame) for frame in found] == [
        (0, 30, 10, "partial", [1, 4, 5], 5, 1000, 5000),
        (30, 30, 0, "ok", [5, 6, 7], 7, 5000, 7000),
        (60, 30, 0, "ok", [8], 8, 8000, 8000),
    ]
    assert found[1].data == b"<ab" + bytes(27)


def test_a_frame_with_a_gap_ends_where_its_packet_does() -> None:
    (frame,) = around_a_gap((4, bytes(6)), (5, bytes(4)))
    assert summary(frame) == (0, 30, 10, "partial", [1, 4, 5], 5, 1000, 5000)
    frame, after = around_a_gap((4, bytes(10)), (5, b"<" + bytes(29)))
    assert (frame.packets, frame.ready, summary(after)) == ([1, 4], 4, (30, 30, 0, "ok", [5], 5, 5000, 5000))


def test_a_frame_whose_sender_closed_has_the_number_of_sent_bytes() -> None:
    owner, out = connection(), []
    framer = framer_of(owner, Long(), out)
    framer.chunk(packets(owner, 0, (1, b"<" + bytes(11))))
    framer.close("the sender closed", 2, 2000)
    (frame,) = out
    assert [(each.code, each.message) for each in frame.findings] == [
        ("closed-inside", "the sender closed after 12 of 30 bytes")
    ]


def test_long_undecoded_ranges_are_several_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiredecode.frames.framer.UNDECODED_SPAN", 10)
    owner, out = connection(), []
    framer = framer_of(owner, Letters(), out, in_sync=False)
    framer.chunk(packets(owner, 40, (1, bytes(7)), (2, bytes(18))))
    framer.end("the capture ends", 3)
    assert [(frame.offset, frame.length, frame.packets) for frame in out] == [
        (40, 10, [1, 2]),
        (50, 10, [2]),
        (60, 5, [2]),
    ]
    assert [frame.findings[-1].range for frame in out] == [(0, 10), (0, 10), (0, 5)]
    assert framer.undecoded == 25


def test_a_gap_in_the_header_of_a_frame_makes_its_size_unknown() -> None:
    class Headed(Letters):
        """The first four bytes of a frame are its size."""

        def split(self, data: bytes) -> Split:
            return Split([], 0)

    owner, out = connection(), []
    framer = framer_of(owner, Headed(), out)
    framer.chunk(packets(owner, 0, (1, b"<<<")))
    framer.gap(Gap(owner.directions[0], 3, 10, "not captured", 2, 2000))
    framer.end("the capture ends", 3)
    (frame,) = out
    assert (frame.status, [finding.code for finding in frame.findings]) == ("undecoded", ["header-cut", "no-frame"])
    assert frame.findings[0].message == "3 bytes are too few for the size of a frame"


@pytest.mark.parametrize(("bytes_seen", "ready"), [(3, 2), (4, 3), (5, 4), (6, 4)])
def test_a_frame_ended_by_later_bytes_is_ready_with_the_last_of_them(bytes_seen: int, ready: int) -> None:
    class Undecided(Letters):
        def split(self, data: bytes) -> Split:
            return Split([3, 6], known_at=[(0, bytes_seen)])

    owner, out = connection(), []
    framer = framer_of(owner, Undecided(), out)
    framer.chunk(packets(owner, 0, (2, b"<ab"), (3, b"<"), (4, b"cd")))
    assert [frame.ready for frame in out] == [ready, 4]
