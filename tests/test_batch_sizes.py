"""A damaged capture gives the same frames in the same order for any batch size (issue 12, point 3)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.damage import read
from tests.net.craft import Talk, batches
from tests.support import dissect
from wiredecode.capture import PacketBatch, open_capture
from wiredecode.dissect import dissector as dissector_module
from wiredecode.dissect.dissector import Dissector
from wiredecode.frames.frame import Frame
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import Limits

CAPTURES = Path(__file__).parent.parent / "captures"
MOST = 250
SAMPLE = ["nats/03-pubsub.pcap", "rabbitmq-stream/c43_basic.pcap"]


def said(frame: Frame) -> tuple[Any, ...]:
    """Everything of a frame, including findings and place."""
    place = frame.number, frame.connection.number, frame.side, frame.offset, frame.length, frame.missing, frame.packets
    findings = [finding.record() for finding in frame.findings]
    return *place, frame.time_ns, frame.type, frame.status, frame.request, frame.layers, findings


Packets = list[tuple[int, bytes, int]]
"""Time, captured bytes, length on the wire."""


def packets(path: Path) -> Packets:
    found: Packets = []
    for batch in open_capture([path]):
        columns = (batch.time_ns, batch.start, batch.captured, batch.original)
        for time_ns, start, size, original in zip(*(column.tolist() for column in columns), strict=True):
            found.append((time_ns, batch.buffer[start : start + size], original))
    return found[:MOST]


def damaged(source: Packets, damage: str, seed: int) -> Packets:
    """Packets lost, bytes changed, bytes cut off, or the beginning lost and bytes changed."""
    rng, kept = random.Random(seed), []
    for time_ns, data, original in source[len(source) // 3 if damage == "middle" else 0 :]:
        if damage == "lost" and rng.random() < 0.06:
            continue
        if damage in ("changed", "middle") and len(data) > 70 and rng.random() < 0.2:
            place = rng.randrange(66, len(data))
            data = data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
        kept.append((time_ns, data[:110] if damage == "cut" else data, original))
    return kept


def in_batches(source: Packets, size: int) -> Iterator[PacketBatch]:
    for at in range(0, len(source), size):
        part = source[at : at + size]
        timed, lengths = [(time_ns, data) for time_ns, data, _ in part], [original for _, _, original in part]
        yield PacketBatch.from_packets(timed, 1, at + 1, lengths)


@pytest.mark.parametrize("damage", ["lost", "changed", "cut", "middle"])
@pytest.mark.parametrize("path", SAMPLE)
def test_a_damaged_capture_in_batches_of_any_size(path: str, damage: str) -> None:
    source = damaged(packets(CAPTURES / path), damage, seed=7)
    whole = [said(frame) for frame in dissect(in_batches(source, MOST)).frames]
    assert whole
    for size in (1, 7, 64):
        assert [said(frame) for frame in dissect(in_batches(source, size)).frames] == whole


@pytest.mark.parametrize("lost", [824, 188, 124, 60])
def test_separate_connections_have_the_times_of_the_whole_capture(lost: int) -> None:
    """Packets were moved and one is lost: bytes wait for it equally long with and without other connections."""
    every = read(CAPTURES / "rabbitmq-stream" / "d_shuffled_dups.pcap")
    kept = np.delete(np.arange(len(every)), lost)
    limits, whole = Limits(), rows_of(every, kept)
    segments = HeaderReader(limits, Counter(), Counter()).read(whole)
    clients = np.maximum(segments.ports >> 16 & 0xFFFF, segments.ports & 0xFFFF)
    apart = []
    for client in set(clients.tolist()):
        apart += independent_values([rows_of(whole, segments.row[clients == client])])
    assert sorted(apart) == sorted(independent_values([whole]))


def rows_of(batch: PacketBatch, rows: np.ndarray) -> PacketBatch:
    names = ("start", "captured", "original", "time_ns", "linktype", "interface", "number")
    columns = {name: getattr(batch, name)[rows] for name in names}
    return replace(batch, **columns)


def independent_values(source: list[PacketBatch]) -> list[tuple[Any, ...]]:
    """Values of frames that do not depend on other connections."""
    return [
        (frame.connection.endpoints, frame.side, frame.offset, frame.time_ns, frame.first_ns, frame.type, frame.status)
        for frame in dissect(source).frames
    ]


def test_a_client_with_wrong_first_bytes_is_recognised_from_its_server() -> None:
    """The client's first packet alone is not recognised; the server's response is."""
    talk = Talk(server=("10.0.0.2", 4222))
    info = b'INFO {"server_id":"S","version":"2.10.0","max_payload":1048576,"proto":1}\r\n'
    start = [*talk.handshake(), *talk.send(0, b"\x01\x02\x03\x04" * 8), *talk.send(1, info)]
    rest = [*talk.send(0, b"PING\r\n"), *talk.send(1, b"PONG\r\n"), *talk.send(0, b"PING\r\n" * 3)]
    whole = [said(frame) for frame in dissect(batches([*start, *rest])).frames]
    assert [entry[8] for entry in whole if entry[2] == 1] == ["INFO", "PONG"]
    assert [said(frame) for frame in dissect(batches([*start, *rest], 1)).frames] == whole


def test_an_operation_ended_by_later_bytes_is_ready_with_them() -> None:
    """The body of the second PUB is too short; only the bytes of the next packet show it."""
    talk, other = Talk(server=("10.0.0.2", 4222)), Talk(client=("10.0.0.7", 7), server=("10.0.0.2", 4222))
    hello = b'CONNECT {"verbose":false,"pedantic":false,"lang":"go","version":"1.0","protocol":1}\r\n'
    source = [*talk.handshake(), *talk.send(0, hello), *other.handshake(), *other.send(0, hello)]
    source += talk.send(0, b"PUB one 3\r\nabc\r\nPUB two 5\r\nab")
    source += other.send(0, b"PUB other 2\r\nxy\r\n")
    source += talk.send(0, b"c\r\nPUB three 3\r\nabc\r\n")
    source += other.send(0, b"PUB other 2\r\nxy\r\n")
    whole = [said(frame) for frame in dissect(batches(source)).frames]
    for size in (1, 2, 3):
        assert [said(frame) for frame in dissect(batches(source, size)).frames] == whole


def test_packets_full_of_tiny_frames_are_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of `+OK` once gave a million frames in one step (nats-ok-small)."""
    whole = read(CAPTURES / "nats" / "08-pipelined-small.pcap")
    expected = [frame.number for frame in Dissector().feed(whole)]
    monkeypatch.setattr(dissector_module, "PART_FRAMES", 100)
    monkeypatch.setattr(dissector_module, "MIN_PART_BYTES", 1000)
    parted = Dissector()
    sizes: list[int] = []
    feed = parted.network.feed

    def counted(part: PacketBatch) -> Any:
        sizes.append(len(part))
        return feed(part)

    monkeypatch.setattr(parted.network, "feed", counted)
    assert [frame.number for frame in parted.feed(whole)] == expected
    assert len(sizes) > len(expected) // 200 and sum(sizes) == len(whole)
