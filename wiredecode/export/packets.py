"""Packets of captures as pcapng: all, those of some frames, or those of their connections; comments name the frames."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import BinaryIO

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.capture.info import CaptureInfo
from wiredecode.capture.live.pcapng_writer import PcapNgWriter
from wiredecode.frames.escape import counted, escape
from wiredecode.frames.frame import Frame
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import Limits
from wiredecode.net.segments import ACK, SYN, FlowKey, reverse
from wiredecode.net.types import Connection


class ConnectionPackets:
    """Chooses the packets of connections, with ACKs, handshakes, ends and repeated segments; fed in packet order.

    ``connections``: from a complete reassembly of the same capture, as a connection lasts until the packet at which
    it was forgotten.
    """

    def __init__(self, connections: Iterable[Connection], last: int, limits: Limits) -> None:
        """``last``: the number of the last packet of the capture."""
        self._last = last
        self._begins = {connection.first: connection for connection in connections}
        self._flows: dict[FlowKey, Connection] = {}
        self._reader = HeaderReader(limits, Counter(), Counter())

    def rows(self, batch: PacketBatch) -> Int64s:
        """Places in the batch of the packets that belong to the connections."""
        segments = self._reader.read(batch)
        facts = segments.completed_by.tolist(), segments.flags.tolist(), segments.row.tolist()
        chosen = set()
        for flow, ready, flags, row in zip(segments.flows(), *facts, strict=True):
            if ready in self._begins:
                self._flows[flow] = self._flows[reverse(flow)] = self._begins.pop(ready)
            connection = self._flows.get(flow)
            if connection is not None and self._lasts(connection, ready, flags):
                chosen.add(row)
        return np.array(sorted(chosen), np.int64)

    def _lasts(self, connection: Connection, packet: int, flags: int) -> bool:
        """Whether the connection is not over at this packet of its flow; the last of the capture ends it, too."""
        if packet == connection.first or packet < connection.end_packet:
            return True
        return packet == connection.end_packet == self._last and flags & (SYN | ACK) != SYN


NAMED_FRAMES = 20
"""Frames that the comment of one packet names."""
SHOWN_FINDINGS, KEPT_FINDINGS = 10, 100_000
"""Findings in the comment of one packet, and remembered in total, as each is a text."""


class ChosenPackets:
    """The packets of selected frames, 24 bytes each; ``whole``: all packets of their connections."""

    def __init__(self, *, whole: bool) -> None:
        self.frames = 0
        self._frames = array("q"), array("q"), array("i")
        """Packet, frame, type: one of each per packet of a frame."""
        self._types: dict[str, int] = {}
        self._findings: dict[int, list[str]] = {}
        """Findings of the frames that a packet ended."""
        self.connections: dict[Connection, None] | None = {} if whole else None

    def select(self, frames: Iterable[Frame]) -> None:
        """Choose the packets of these frames."""
        types, (packets, numbers, kinds) = self._types, self._frames
        for frame in frames:
            self.frames += 1
            kind = types.setdefault(frame.shown_type, len(types))
            if frame.findings and len(self._findings) < KEPT_FINDINGS and frame.packets:
                comments = self._findings.setdefault(max(frame.packets), [])
                comments += [f"{each.severity}: {escape(each.message)}" for each in frame.findings][
                    : max(0, SHOWN_FINDINGS - len(comments))
                ]
            for packet in frame.packets:
                packets.append(packet)
                numbers.append(frame.number)
                kinds.append(kind)
            if self.connections is not None:
                self.connections[frame.connection] = None

    def finish(self, also: Iterable[int] = ()) -> None:
        """All frames came: sort them by packet. ``also``: numbers of more packets."""
        packets, numbers, kinds = (np.array(column, np.int64) for column in self._frames)
        order = np.argsort(packets, kind="stable")
        self.packets, self._numbers, self._kinds = packets[order], numbers[order], kinds[order]
        self._names = list(self._types)
        self.wanted = np.union1d(self.packets, np.array([*also], np.int64))

    def comments(self, numbers: Int64s) -> dict[int, str]:
        """Comments by place among these packets: frames that a packet carried, findings of those that it ended."""
        begin = np.searchsorted(self.packets, numbers, "left").tolist()
        end = np.searchsorted(self.packets, numbers, "right").tolist()
        return {at: self._comment(a, b) for at, (a, b) in enumerate(zip(begin, end, strict=True)) if a < b}

    def _comment(self, begin: int, end: int) -> str:
        some = range(begin, min(end, begin + NAMED_FRAMES))
        texts = [f"{self._numbers[at]} ({self._names[self._kinds[at]]})" for at in some]
        more = f" and {end - begin - NAMED_FRAMES} more" if end - begin > NAMED_FRAMES else ""
        named = f"wiredecode frame{'s' if end - begin > 1 else ''} {', '.join(texts)}{more}"
        return "\n".join([named, *self._findings.get(int(self.packets[begin]), ())])


class PacketFile:
    """Packets that are written to ``stream``."""

    def __init__(self, stream: BinaryIO) -> None:
        self._writer = PcapNgWriter(stream)
        self.written = 0

    def __str__(self) -> str:
        """The number of packets: ``12 packets``."""
        return counted(self.written, "packet")

    def passing(self, batches: Iterable[PacketBatch], info: CaptureInfo) -> Iterator[PacketBatch]:
        """Pass on batches, and write all their packets."""
        for batch in batches:
            self._writer.write(batch, info.interfaces)
            self.written += len(batch)
            yield batch

    def copy(self, files: list[str], chosen: ChosenPackets, last: int, limits: Limits) -> None:
        """Write the chosen packets of captures, up to number ``last``; an earlier pass reported what cannot be read."""
        capture, flows = open_capture(files), None
        if chosen.connections is not None:
            flows = ConnectionPackets(chosen.connections, last, limits)
        with suppress(CaptureError):
            for batch in capture:
                if not len(batch):
                    continue
                rows = np.flatnonzero(np.isin(batch.number, chosen.wanted)) if flows is None else flows.rows(batch)
                part = batch.select(rows)
                self._writer.write(part, capture.info.interfaces, chosen.comments(part.number))
                self.written += len(part)
