"""A segment of a real conversation is lost and retransmitted 0.5 to 60 s later: the frames stay the same.

Issue 12, point 1.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.support import capture, dissect, meaning, packets
from wiredecode.capture import PacketBatch
from wiredecode.frames.frame import Frame
from wiredecode.testing.dissection import Result

CAPTURES = Path(__file__).parent.parent.parent / "captures"
SAMPLE = (
    *("rabbitmq-stream/c43_basic", "rabbitmq-stream/c43_multi", "nats/04-request-reply", "nats/14-cluster-routes"),
    *("liftbridge/30-lb-publish-ack", "cursus/consume", "cursus/group", "pravega/append_basic"),
    *("pravega/segment_admin", "tank/tank_03_produce_single", "tank/tank_08_consume_positions"),
)
SEGMENTS = 8
"""Number of segments of each capture that are lost, each in a separate run."""
WAITS = (0.5, 1.5, 3.0, 17.0, 60.0)
"""Seconds until a segment is retransmitted."""
RELAYED = ("nats", "liftbridge")
"""Their answers come over other connections, whose packets keep their times."""
FIN, SYN, RST = 1, 2, 4
Flow = tuple[bytes, bytes]


class Packet:
    """A packet of Ethernet and IPv4 that carries TCP."""

    def __init__(self, time_ns: int, data: bytes) -> None:
        self.time_ns, self.data = time_ns, data
        self.tcp = 14 + 4 * (data[14] & 15)
        self.seq, self.ack, shape, self.flags = struct.unpack_from("!IIBB", data, self.tcp + 4)
        self.size = 14 + struct.unpack_from("!H", data, 16)[0] - self.tcp - 4 * (shape >> 4)
        ports = data[self.tcp : self.tcp + 2], data[self.tcp + 2 : self.tcp + 4]
        self.flow: Flow = data[26:30] + ports[0], data[30:34] + ports[1]

    def with_ack(self, ack: int) -> tuple[int, bytes]:
        return self.time_ns, self.data[: self.tcp + 8] + struct.pack("!I", ack) + self.data[self.tcp + 12 :]


def late(path: Path, lost: int, wait_ns: int) -> list[tuple[int, bytes]]:
    """A capture whose packet ``lost`` is retransmitted ``wait_ns`` later, as TCP would continue.

    Segments in flight follow it in time; the receiver repeats its ACK for each. Bytes that the receiver sends after
    it read the segment, and all later packets of this connection, are delayed.
    """
    every = [Packet(*packet) for packet in packets(path)]
    segment = every[lost]
    sent: list[tuple[int, bytes]] = []
    shift = 0
    for index, packet in enumerate(every):
        received = packet.flow == segment.flow[::-1] and (packet.ack - segment.seq) % 2**32 in range(1, 2**31)
        if index == lost:
            sent.append((packet.time_ns + wait_ns, packet.data))
        elif index < lost or packet.flow not in (segment.flow, segment.flow[::-1]):
            sent.append((packet.time_ns, packet.data))
        else:
            if packet.flags & (SYN | RST) or (received and (packet.size or packet.flags & FIN)):
                shift = wait_ns
            waits = received and packet.time_ns < segment.time_ns + wait_ns and not shift
            sent.append(packet.with_ack(segment.seq) if waits else (packet.time_ns + shift, packet.data))
    return sorted(sent, key=lambda packet: packet[0])


def said(result: Result) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The contents of each frame by its place, and the request of its connection that it answers."""
    places = {frame.number: place(frame) for frame in result.frames}
    found = {}
    for frame in result.frames:
        found[place(frame)] = meaning(frame, linked=False) | {"sender": frame.sender, "missing": frame.missing}
        if frame.protocol not in RELAYED:
            found[place(frame)]["request"] = places.get(frame.request or 0)
    return found


def place(frame: Frame) -> tuple[Any, ...]:
    endpoints = frame.source, frame.destination
    return *endpoints, frame.connection.number, frame.offset


def losses(path: Path) -> list[tuple[int, float]]:
    """Indices of segments and waits, the same in each run."""
    chance = random.Random(path.stem)
    carriers = [index for index, packet in enumerate(packets(path)) if Packet(*packet).size > 1]
    return [(index, chance.choice(WAITS)) for index in sorted(chance.sample(carriers, min(SEGMENTS, len(carriers))))]


@pytest.mark.parametrize("name", SAMPLE)
def test_a_late_retransmission_costs_no_frame(name: str) -> None:
    path = CAPTURES / f"{name}.pcap"
    true = said(capture(path))
    codes = {(f.group, f.code) for frame in capture(path).frames for f in frame.findings}
    for lost, wait in losses(path):
        result = dissect([PacketBatch.from_packets(late(path, lost, round(wait * 1e9)))])
        assert said(result) == true, (lost, wait)
        assert {(f.group, f.code) for frame in result.frames for f in frame.findings} <= codes, (lost, wait)
