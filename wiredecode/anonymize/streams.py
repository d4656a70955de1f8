"""From frames back onto packets: which packets hold the bytes of a stream, copies of them included."""

from bisect import bisect_left, insort
from ipaddress import ip_address

from wiredecode.anonymize.packets import AnonymizedPacket, Flow
from wiredecode.dataclasses import dataclass, field
from wiredecode.net.types import Chunk, Connection, Direction

HALF, MASK = 1 << 31, 0xFFFFFFFF


@dataclass(slots=True)
class Held:
    """The packets of one direction of a pair of endpoints that are held, by their place in it."""

    packets: list[tuple[int, int, AnonymizedPacket]] = field(default_factory=list)
    """Place, number, packet; sorted."""
    by_number: dict[int, AnonymizedPacket] = field(default_factory=dict)
    last: int | None = None
    """Place of the newest: others are near."""
    first_seq: int = 0
    longest: int = 0
    has_frames: bool = False
    """Frames were found in it."""
    over: bool = False
    """Its connection is over: it goes with its last packet."""

    def position_of(self, seq: int) -> int:
        """The place of a sequence number: it does not wrap around."""
        if self.last is None:
            self.first_seq, self.last = seq, 0
        delta = (seq - self.first_seq - self.last) & MASK
        return self.last + (delta - (1 << 32) if delta >= HALF else delta)

    def within(self, start: int, stop: int) -> list[AnonymizedPacket]:
        """Packets with bytes from ``start`` up to ``stop``."""
        begin = bisect_left(self.packets, (start - self.longest, 0))
        packets = []
        for at, _, packet in self.packets[begin : bisect_left(self.packets, (stop, 0), begin)]:
            if at + len(packet.done) > start:
                packets.append(packet)
        return packets


class Streams:
    """All packets that are held."""

    def __init__(self) -> None:
        self._flows: dict[Flow, Held] = {}
        self._origins: dict[Direction, int] = {}
        """The place in its flow at which the stream of a direction begins."""
        self._keys: dict[Direction, Flow] = {}

    def hold(self, packet: AnonymizedPacket) -> None:
        """A packet came. What it repeats of others is replaced as it was there."""
        payload = packet.payload
        if payload is None or payload.start == payload.stop:
            return
        held = self._flows.setdefault(payload.flow, Held())
        held.over = False
        at = packet.at = held.last = held.position_of(payload.seq)
        held.longest = max(held.longest, len(packet.done))
        for earlier in held.within(at, at + len(packet.done)):
            _copy(earlier, packet)
        entry = at, packet.number, packet
        if held.packets and held.packets[-1] > entry:
            insort(held.packets, entry)
        else:
            held.packets.append(entry)
        held.by_number[packet.number] = packet

    def release(self, packet: AnonymizedPacket) -> None:
        """A packet is no longer held."""
        flow = packet.payload.flow if packet.payload is not None else None
        held = self._flows.get(flow) if flow is not None else None
        if flow is None or held is None or held.by_number.pop(packet.number, None) is None:
            return
        entry = packet.at, packet.number
        index = bisect_left(held.packets, entry)
        del held.packets[index]
        if not held.packets and (held.over or not held.has_frames):
            del self._flows[flow]

    def chunk(self, chunk: Chunk) -> None:
        """The stream continues: now its position in its flow is known."""
        direction = chunk.direction
        held = self._flows.get(self._key(direction))
        if held is None:
            return
        start = chunk.offset
        for number, end in zip(chunk.packet.tolist(), chunk.ends.tolist(), strict=True):
            packet, size = held.by_number.get(number), end - start
            if packet is not None and packet.payload is not None and size:
                at = packet.payload.start
                data = chunk.data[start - chunk.offset : end - chunk.offset]
                skipped = next(
                    (skip for skip in (0, len(packet.done) - size) if packet.was[at + skip : at + skip + size] == data),
                    None,
                )
                if skipped is not None:
                    self._origins[direction] = packet.at + skipped - start
                    return
            start = end

    def forget(self, connection: Connection) -> None:
        """A connection is over, and so are its frames."""
        for direction in connection.directions:
            self._origins.pop(direction, None)
            key = self._keys.pop(direction, None)
            held = self._flows.get(key) if key is not None else None
            if held is not None and key is not None:
                held.over = True
                if not held.packets:
                    del self._flows[key]

    def paint(
        self, direction: Direction, offset: int, was: bytes, now: bytes, *, whole: bool = True
    ) -> list[AnonymizedPacket]:
        """Replace bytes of a stream in all their copies; return the packets that changed."""
        origin, held = self._origins.get(direction), self._flows.get(self._key(direction))
        if origin is None or held is None:
            return []
        held.has_frames = held.has_frames or whole
        start = origin + offset
        first, stop = direction.connection.first, start + len(was)
        return [
            packet for packet in held.within(start, stop) if packet.number >= first and _paint(packet, start, was, now)
        ]

    def is_known(self, packet: AnonymizedPacket) -> bool:
        """Whether frames were found in its stream."""
        held = self._flows.get(packet.payload.flow) if packet.payload is not None else None
        return held is not None and held.has_frames

    def _key(self, direction: Direction) -> Flow:
        key = self._keys.get(direction)
        if key is None:
            ends = [each.rpartition(":") for each in direction.connection.endpoints]
            side = direction.side
            source, target = (ip_address(ends[at][0].strip("[]")).packed for at in (side, 1 - side))
            ports = b"".join(int(ends[at][2]).to_bytes(2, "big") for at in (side, 1 - side))
            key = self._keys[direction] = (source, target, ports)
        return key


def _paint(packet: AnonymizedPacket, start: int, was: bytes, now: bytes) -> bool:
    """Replace what a packet holds of bytes that lie at ``start``, where it holds the same."""
    payload = packet.payload
    assert payload is not None
    low, high = max(start, packet.at), min(start + len(was), packet.at + len(packet.done))
    first, size = payload.start + low - packet.at, high - low
    if packet.was[first : first + size] != was[low - start : high - start]:
        return False
    packet.now[first : first + size] = now[low - start : high - start]
    packet.done[low - packet.at : high - packet.at] = b"\1" * size
    return True


def _copy(source: AnonymizedPacket, target: AnonymizedPacket) -> None:
    """Replace a packet's repeated bytes as in the earlier packet, if they were replaced there."""
    assert source.payload is not None
    low, high = max(source.at, target.at), min(source.at + len(source.done), target.at + len(target.done))
    if low >= high or source.done.find(0, low - source.at, high - source.at) >= 0:
        return
    first = source.payload.start + low - source.at
    _paint(target, low, source.was[first : first + high - low], bytes(source.now[first : first + high - low]))
