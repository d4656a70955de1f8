"""The same capture without secrets, addresses, names and bodies, packet by packet.

Every byte after the headers of a packet is blanked first. Then each decoded frame puts its bytes, replaced,
back onto the packets that carried it. So bytes that were not decoded do not come through.
"""

import os
from collections import Counter, deque
from collections.abc import Iterable
from typing import BinaryIO

from wiredecode.anonymize.contents import Pseudonymizer
from wiredecode.anonymize.key import Key
from wiredecode.anonymize.packets import AnonymizedPacket, Packets, batch_of, seal
from wiredecode.anonymize.streams import Streams
from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.info import Interface
from wiredecode.capture.live.pcapng_writer import PcapNgWriter, block_sizes
from wiredecode.dataclasses import replace
from wiredecode.dissect.identify import FOREIGN
from wiredecode.frames.frame import Frame
from wiredecode.net.limits import Limits
from wiredecode.net.types import Chunk, Connection, Event
from wiredecode.protocols.registry import carried_by, protocols
from wiredecode.protocols.shared.redaction import Disguises, Rules

WINDOW_BYTES = 32 * 1024 * 1024
"""Packets that wait for their frames, before they are written."""
LATE_BYTES = 32 * 1024 * 1024
"""Packets that were written, and may still be corrected, where the output is a file."""
PACKET_BYTES = 800
"""Memory for one packet, besides three times its bytes."""
DATA_AT = 28
"""Where the packet begins in its block of pcapng."""
WRITE_PACKETS = 4096


def disguises() -> Disguises:
    """Return the declarations of all protocols. Names of a carrier and of a carried protocol hold words of both."""
    rules_by_name: dict[str, Rules] = {}
    for protocol in protocols():
        own = dict(protocol.disguises())
        for carried in carried_by(protocol.name):
            own.update(carried.disguises())
        words = frozenset(word for rules in own.values() for word in rules.words)
        rules_by_name.update({name: replace(rules, words=words) for name, rules in own.items()})
    return rules_by_name


class Anonymizer:
    """Takes packets and their frames, and writes the packets with replaced contents to ``file``.

    ``patches``: the file can be corrected where it was already written.
    """

    def __init__(
        self,
        file: BinaryIO,
        key: Key,
        limits: Limits,
        *,
        names: bool = False,
        bodies: bool = False,
        keep_unknown: bool = False,
        patches: bool = True,
    ) -> None:
        self._file, self._writer, self._patches = file, PcapNgWriter(file, system=False), patches
        self._keep_unknown = keep_unknown
        self._packets = Packets(key, limits.vlan_tags)
        self.disguise = Pseudonymizer(key, disguises(), names, bodies, keep_unknown)
        self._streams = Streams()
        self._waiting: deque[AnonymizedPacket] = deque()
        self._late: deque[AnonymizedPacket] = deque()
        self._waiting_bytes = self._late_bytes = 0
        self._interfaces: list[Interface] = []
        self.written = self.frames = 0
        self.others: Counter[str] = Counter()
        """Connections that are not decoded, by their likely protocol."""

    def add_packets(self, batch: PacketBatch, interfaces: list[Interface]) -> None:
        """The next packets, before they are decoded."""
        self._interfaces = [Interface(one.linktype, one.snaplen, name=f"if{at}") for at, one in enumerate(interfaces)]
        for packet in self._packets.read(batch):
            self._streams.hold(packet)
            self._waiting.append(packet)
            self._waiting_bytes += _cost(packet)

    def events(self, events: list[Event]) -> None:
        """Take the events that reassembly made of the packets."""
        for event in events:
            if isinstance(event, Chunk):
                self._streams.chunk(event)
                if event.offset == 0:
                    self._greet(event)

    def _greet(self, chunk: Chunk) -> None:
        """Remember the first bytes of a stream that is not decoded, to identify its protocol."""
        greetings = (start for starts in FOREIGN.values() for start in starts)
        if start := next(filter(chunk.data.startswith, greetings), b""):
            self._streams.paint(chunk.direction, 0, start, start, whole=False)

    def add_frames(self, frames: Iterable[Frame]) -> None:
        """Put the frames that are ready back onto their packets, and write what need not wait longer."""
        for frame in frames:
            self.frames += 1
            if frame.inner_index:
                continue  # it is inside another one
            direction = frame.connection.directions[frame.side]
            now = self.disguise.frame(frame)
            for packet in self._streams.paint(direction, frame.offset, frame.data, now):
                if packet.written is not None:
                    self._patch(packet)
        self._write(WINDOW_BYTES)

    def over(self, connection: Connection, foreign: str | None) -> None:
        """A connection is over, and all of its frames came."""
        self._streams.forget(connection)
        if foreign is not None:
            self.others[foreign] += 1

    def finish(self) -> None:
        """No more packets come."""
        self._write(0)
        while self._late:
            self._give_up(self._late.popleft())

    @property
    def blanked(self) -> Counter[str]:
        """Bytes that were blanked because they could not be replaced, by reason."""
        return self.disguise.blanked + self._packets.blanked

    # Packets on their way out.

    def _write(self, most: int) -> None:
        """Write the oldest packets while more than ``most`` bytes wait."""
        while self._waiting and self._waiting_bytes > most:
            chosen: list[AnonymizedPacket] = []
            while self._waiting and self._waiting_bytes > most and len(chosen) < WRITE_PACKETS:
                packet = self._waiting.popleft()
                self._waiting_bytes -= _cost(packet)
                chosen.append(packet)
            self._put(chosen)

    def _put(self, packets: list[AnonymizedPacket]) -> None:
        for packet in packets:
            self._close(packet)
        batch = batch_of(packets)
        self._writer.write(batch, self._interfaces)
        self.written += len(packets)
        sizes = block_sizes(batch).tolist()
        at = self._writer.size - sum(sizes)
        for packet, size in zip(packets, sizes, strict=True):
            packet.written = at + DATA_AT
            at += size
            if packet.is_done or not self._patches:
                self._give_up(packet)
            else:
                self._late.append(packet)
                self._late_bytes += _cost(packet)
        while self._late_bytes > LATE_BYTES:
            packet = self._late.popleft()
            self._late_bytes -= _cost(packet)
            self._give_up(packet)

    def _give_up(self, packet: AnonymizedPacket) -> None:
        self._streams.release(packet)
        if not packet.is_done:
            self.disguise.blanked["bytes of no frame"] += packet.done.count(0)

    def _close(self, packet: AnonymizedPacket) -> None:
        payload = packet.payload
        if payload is None or payload.start == payload.stop:
            return
        if self._keep_unknown and not self._streams.is_known(packet):
            packet.now[payload.start : payload.stop] = packet.was[payload.start : payload.stop]
            packet.done[:] = b"\1" * len(packet.done)
        seal(packet, payload.ip, payload.tcp, payload.stop)

    def _patch(self, packet: AnonymizedPacket) -> None:
        payload = packet.payload
        assert payload is not None and packet.written is not None
        seal(packet, payload.ip, payload.tcp, payload.stop)
        self._file.flush()
        os.pwrite(self._file.fileno(), packet.now, packet.written)


def _cost(packet: AnonymizedPacket) -> int:
    return 3 * len(packet.was) + PACKET_BYTES
