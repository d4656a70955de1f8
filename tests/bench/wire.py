"""Two-way TCP captures of generated traffic: handshakes, segments, ACKs, valid checksums, times in microseconds.

A *talk* is an endless generator of :class:`Turn`: what its connections say next, one write after another. Talks
run side by side, each at its share of the link's rate, until the capture is large enough; then every connection
is closed. The capture depends on nothing but the arguments.
"""

from __future__ import annotations

import heapq
import itertools
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

CLIENT, SERVER = 0, 1
MICROSECOND = 1_000
SECOND = 1_000_000_000
START_NS = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z: when the made capture begins."""
SEGMENT = 1_448
"""Payload of a full segment: Ethernet, IPv4, TCP with timestamps."""
LINK_BITS = 200_000_000
"""Bits of payload per second over all talks."""
FIN, SYN, PSH, ACK = 1, 2, 8, 16
FLUSH_TURNS = 512
FILE_HEADER = struct.Struct("<IHHiIII")
RECORD = struct.Struct("<IIII")
TCP_HEADER = struct.Struct(">IIBBHHHHHII")
"""Sequence number to the end of the timestamps option; ports before it."""
IP_START = struct.Struct(">BBHHHBBH")


class Send(NamedTuple):
    """One write of an application."""

    side: int
    data: bytes
    connection: int = 0
    """Of the talk's connections."""


class Turn(NamedTuple):
    """Writes in order, and the counts that a decoder must find."""

    sends: Sequence[Send]
    frames: int
    messages: int = 0
    """Published or delivered messages: the rows of the message table."""


Talk = Iterator[Turn]


@dataclass(frozen=True, slots=True)
class Speaker:
    """A kind of talk: how to begin one, towards which port, over how many connections."""

    begin: Callable[[random.Random, int], Talk]
    port: int
    connections: int = 1
    turns: int = 0
    """After that many the connections close, and others take their place; 0: they stay."""


@dataclass(slots=True)
class Trouble:
    """Shares of segments with payload that are dropped, repeated or late."""

    share: float = 0.0
    rng: random.Random = field(default_factory=lambda: random.Random(5))

    def times(self, time_ns: int) -> tuple[int, ...]:
        """Times of the segment in the capture: usually one, its own."""
        if not self.share or self.rng.random() >= self.share:
            return (time_ns,)
        kind = self.rng.randrange(3)
        if kind == 0:
            return ()
        late = time_ns + self.rng.randrange(20, 400) * MICROSECOND
        return (time_ns, late) if kind == 1 else (late,)


class Connection:
    """One TCP connection: turns writes into packets."""

    def __init__(self, number: int, port: int, rng: random.Random) -> None:
        client = (10 << 24 | 1 + number).to_bytes(4)
        server = (192 << 24 | 168 << 16 | 10 + number % 3).to_bytes(4)
        # Below 57000, which tshark decodes as IRC.
        ports = struct.pack(">HH", 49_152 + (7919 * number) % 7_800, port)
        self.addresses = (client + server, server + client)
        self.ports = (ports, ports[2:] + ports[:2])
        # Far from where sequence numbers wrap around, or the same capture in two sizes would differ in kind.
        self.sequence = [rng.randrange(1 << 30), rng.randrange(1 << 30)]
        self.identification = [rng.randrange(1 << 16), rng.randrange(1 << 16)]
        self.unacknowledged = [0, 0]
        """Full segments of each side that the other one has not acknowledged yet."""

    def packet(self, side: int, time_ns: int, payload: bytes = b"", flags: int = ACK, options: bytes = b"") -> bytes:
        """An Ethernet frame with right checksums; the sequence number of ``side`` moves on."""
        milliseconds = time_ns // 1_000_000 & 0xFFFFFFFF
        acknowledged = self.sequence[1 - side] & 0xFFFFFFFF if flags & ACK else 0
        words = 8 + len(options) // 4 << 4
        head = TCP_HEADER.pack(
            *(self.sequence[side] & 0xFFFFFFFF, acknowledged, words, flags, 502, 0, 0, 0x0101, 0x080A),
            *(milliseconds, milliseconds - 1 & 0xFFFFFFFF),
        )
        segment = b"".join((self.ports[side], head, options, payload))
        length = len(segment)
        addresses = self.addresses[side]
        pseudo = addresses + struct.pack(">HH", 6, length)
        checksum = internet_checksum(pseudo + segment + (b"\0" if length & 1 else b""))
        number = self.identification[side] = self.identification[side] + 1 & 0xFFFF
        start = IP_START.pack(0x45, 0, 20 + length, number, 0x4000, 64, 6, 0)
        ip = start[:10] + internet_checksum(start + addresses).to_bytes(2) + addresses
        ethernet = ETHERNET[side]
        self.sequence[side] += len(payload) + (1 if flags & (SYN | FIN) else 0)
        return b"".join((ethernet, ip, segment[:16], checksum.to_bytes(2), segment[18:]))


ETHERNET = (bytes.fromhex("020000000002020000000001 0800"), bytes.fromhex("020000000001020000000002 0800"))
SYN_OPTIONS = bytes.fromhex("020405b4 0402 0303 07 010101")
"""Maximum segment size 1460, SACK permitted, window scale 7, and padding."""


def internet_checksum(data: bytes) -> int:
    """RFC 1071, of an even number of bytes: the sum of 16-bit words modulo 65535 is the number's remainder."""
    return 0xFFFF - int.from_bytes(data) % 0xFFFF


class Group:
    """A talk and its connections on one clock, so that capture order is the order of writes."""

    def __init__(self, number: int, speaker: Speaker, first: int, seed: int) -> None:
        self.rng = random.Random(seed * 1_000_003 + number)
        self.speaker, self.turns_left = speaker, speaker.turns or -1
        self.talk = speaker.begin(self.rng, number)
        self.connections = [Connection(first + k, speaker.port, self.rng) for k in range(speaker.connections)]
        self.clock = START_NS + self.rng.randrange(20_000) * MICROSECOND

    def tick(self, least: int, most: int) -> int:
        self.clock += self.rng.randrange(least, most) * MICROSECOND
        return self.clock


class Capture:
    """The file being written, and packets not yet in order."""

    def __init__(self, file: BinaryIO, trouble: Trouble, segment: int) -> None:
        self.file, self.trouble, self.segment = file, trouble, segment
        self.pending: list[tuple[int, bytes]] = []
        self.bytes, self.packets = FILE_HEADER.size, 0
        self.recording = True
        file.write(FILE_HEADER.pack(0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))

    def add(self, time_ns: int, packet: bytes, payload: bool = False) -> None:
        if not self.recording:
            return
        if payload:
            for time in self.trouble.times(time_ns):
                self.pending.append((time, packet))
                self.bytes += RECORD.size + len(packet)
        else:
            self.pending.append((time_ns, packet))
            self.bytes += RECORD.size + len(packet)

    def flush(self, before_ns: int) -> None:
        """Write the packets before that time, in order."""
        self.pending.sort(key=lambda pair: pair[0])
        parts: list[bytes] = []
        kept = 0
        for time_ns, packet in self.pending:
            if time_ns >= before_ns:
                break
            seconds, rest = divmod(time_ns, SECOND)
            parts += (RECORD.pack(seconds, rest // 1000, len(packet), len(packet)), packet)
            kept += 1
        del self.pending[:kept]
        self.packets += kept
        self.file.write(b"".join(parts))


def play(group: Group, turn: Turn, out: Capture) -> int:
    """Write a turn as packets; its payload bytes."""
    total = 0
    for send, after in itertools.zip_longest(turn.sends, turn.sends[1:]):
        connection, side = group.connections[send.connection], send.side
        if send.side == SERVER:
            group.tick(60, 600)
        last = len(send.data) - out.segment
        for at in range(0, len(send.data), out.segment):
            part = send.data[at : at + out.segment]
            time_ns = group.tick(3, 14)
            out.add(time_ns, connection.packet(side, time_ns, part, ACK | PSH if at >= last else ACK), payload=True)
            connection.unacknowledged[side] += 1
            if connection.unacknowledged[side] == 2:
                time_ns = group.tick(1, 9)
                out.add(time_ns, connection.packet(1 - side, time_ns))
                connection.unacknowledged[side] = 0
        connection.unacknowledged[1 - side] = 0
        total += len(send.data)
        if connection.unacknowledged[side] and after is None:
            time_ns = group.tick(40, 200)
            out.add(time_ns, connection.packet(1 - side, time_ns))
            connection.unacknowledged[side] = 0
    return total


def open_connections(group: Group, out: Capture) -> None:
    for connection in group.connections:
        for side, flags, options in ((CLIENT, SYN, SYN_OPTIONS), (SERVER, SYN | ACK, SYN_OPTIONS), (CLIENT, ACK, b"")):
            time_ns = group.tick(20, 90)
            out.add(time_ns, connection.packet(side, time_ns, b"", flags, options))


def close_connections(group: Group, out: Capture) -> None:
    for connection in group.connections:
        for side, flags in ((CLIENT, FIN | ACK), (SERVER, FIN | ACK), (CLIENT, ACK)):
            time_ns = group.tick(20, 90)
            out.add(time_ns, connection.packet(side, time_ns, b"", flags))


class Stage:
    """The talks that run side by side, and counts of their frames and messages."""

    def __init__(self, speakers: Sequence[Speaker], out: Capture) -> None:
        self.out = out
        self.counts = {"connections": 0, "frames": 0, "messages": 0}
        self.numbers = itertools.count()
        self.groups = [self.begin(speaker) for speaker in speakers]

    def begin(self, speaker: Speaker) -> Group:
        group = Group(next(self.numbers), speaker, 1 + self.counts["connections"], 7)
        self.counts["connections"] += speaker.connections
        return group

    def say(self, number: int, begin_ns: int) -> int:
        """Write the next turn of a talk; return its payload bytes. A talk that ends is replaced."""
        group = self.groups[number]
        group.clock = max(group.clock, begin_ns)
        turn = next(group.talk)
        said = play(group, turn, self.out)
        self.counts["frames"] += turn.frames
        self.counts["messages"] += turn.messages
        group.turns_left -= 1
        if group.turns_left == 0:
            close_connections(group, self.out)
            following = self.groups[number] = self.begin(group.speaker)
            following.clock = group.tick(20, 400)
            open_connections(following, self.out)
        return said


def write_capture(
    path: Path,
    speakers: Sequence[Speaker],
    size: int,
    loss: float = 0.0,
    *,
    midstream: bool = False,
    segment: int = SEGMENT,
) -> dict[str, int]:
    """Write at least ``size`` bytes of all speakers' talks; every speaker has finished at least its first turn.

    ``midstream``: the capture was begun later than the first connections, which have opened and said their first turn.
    ``segment``: most payload bytes of a packet.
    The result counts bytes, packets, connections, and by the talks' own account frames and messages.
    """
    pace = 8 * SECOND * len(speakers) // LINK_BITS
    with path.open("wb") as file:
        out = Capture(file, Trouble(loss), segment)
        stage = Stage(speakers, out)
        out.recording = not midstream
        for group in stage.groups:
            open_connections(group, out)
            if midstream:
                play(group, next(group.talk), out)
        out.recording = True
        heap = [(group.clock, number) for number, group in enumerate(stage.groups)]
        heapq.heapify(heap)
        turns = 0
        while out.bytes < size or turns < 3 * len(speakers):
            begin, number = heap[0]
            said = stage.say(number, begin)
            group = stage.groups[number]
            pause = int(said * pace * group.rng.uniform(0.5, 1.5))
            heapq.heapreplace(heap, (max(group.clock + 20 * MICROSECOND, begin + pause), number))
            turns += 1
            if turns % FLUSH_TURNS == 0:
                out.flush(heap[0][0])
        for group in stage.groups:
            close_connections(group, out)
        out.flush(1 << 63)
    return {"bytes": out.bytes, "packets": out.packets, **stage.counts}
