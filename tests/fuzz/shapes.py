"""Interpret the bytes of a fuzzer as a conversation between client and server, or as packets."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wiredecode.capture.batch import PacketBatch
from wiredecode.testing.packets import START_NS, batches
from wiredecode.testing.segments import Cutting, Part, craft, every, overlap, random_cuts, reorder

SERVER = 0x8000
"""The bit of a part's length that says that the server sent it."""
MAX_PART = 0x7FFF


@dataclass
class TalkInput:
    """The frames of both sides of a connection, and their packets.

    Two bytes choose segmentation and loss; then each part has its length and sender in two bytes.
    """

    how: int
    seed: int
    parts: list[Part]

    @classmethod
    def read(cls, data: bytes) -> TalkInput:
        """Interpret any bytes."""
        how, seed = (*data[:2], 0, 0)[:2]
        parts, at = [], 2
        while at + 2 < len(data):
            head = int.from_bytes(data[at : at + 2], "big")
            size = min(head & MAX_PART, len(data) - at - 2)
            if size:
                parts.append(Part(1, int(bool(head & SERVER)), data[at + 2 : at + 2 + size]))
            at += 2 + size
        return cls(how, seed, parts)

    def write(self) -> bytes:
        out = [bytes([self.how, self.seed])]
        for part in self.parts:
            for at in range(0, len(part.data), MAX_PART):
                piece = part.data[at : at + MAX_PART]
                out += [(len(piece) | (SERVER if part.side else 0)).to_bytes(2, "big"), piece]
        return b"".join(out)

    @property
    def cutting(self) -> Cutting:
        kind = self.how & 7
        made = {1: random_cuts, 2: reorder, 3: overlap}.get(kind)
        return made(self.seed) if made else every(1460 if kind != 4 else 1 + self.seed)

    def packets(self, port: int) -> list[bytes]:
        """The packets; some are lost, or the beginning is."""
        packets = craft(self.parts, self.cutting, server_port=port, handshake=not self.how & 8)
        if self.how & 16 and len(packets) > 4:
            del packets[random.Random(self.seed).randrange(len(packets))]
        return packets

    def source(self, port: int, size: int | None = None) -> Iterator[PacketBatch]:
        """The packets in batches of ``size``; some are truncated."""
        return batches(self.packets(port), size, snaplen=54 + self.seed if self.how & 32 else None)


@dataclass
class PacketsInput:
    """Packets of one link type in two bytes; then each packet has its length, and the milliseconds before it."""

    linktype: int
    packets: list[tuple[int, bytes]]

    @classmethod
    def read(cls, data: bytes) -> PacketsInput:
        linktype = int.from_bytes(data[:2], "big")
        packets, at = [], 2
        while at + 4 <= len(data):
            size, later = struct.unpack_from("!HH", data, at)
            packets.append((later, data[at + 4 : at + 4 + size]))
            at += 4 + min(size, len(data) - at - 4)
        return cls(linktype, packets)

    def write(self) -> bytes:
        out = [self.linktype.to_bytes(2, "big")]
        for later, data in self.packets:
            out += [struct.pack("!HH", len(data), later), data]
        return b"".join(out)

    def source(self, size: int | None = None) -> Iterator[PacketBatch]:
        """The packets in batches of ``size``."""
        now, timed = START_NS, []
        for later, data in self.packets:
            now += later * 1_000_000
            timed.append((now, data))
        step = size or max(1, len(timed))
        for at in range(0, len(timed), step):
            yield PacketBatch.from_packets(timed[at : at + step], self.linktype, at + 1)

    @classmethod
    def of(cls, source: Iterable[PacketBatch], most: int) -> PacketsInput:
        """The first packets of a capture."""
        packets: list[tuple[int, bytes]] = []
        linktype, last = 1, 0
        for batch in source:
            columns = zip(*(column.tolist() for column in (batch.start, batch.captured, batch.time_ns)), strict=True)
            linktype = int(batch.linktype[0]) if len(batch) else linktype
            for start, size, time_ns in columns:
                later = min(max(0, (time_ns - (last or time_ns)) // 1_000_000), 0xFFFF)
                packets.append((later, bytes(batch.buffer[start : start + size])[:0xFFFF]))
                last = time_ns
            if len(packets) >= most:
                break
        return cls(linktype, packets[:most])
