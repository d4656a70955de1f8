"""The same bytes in other segments: those of each side, divided, reordered, repeated, and put into packets again."""

import random
from collections.abc import Callable, Iterable
from itertools import pairwise

from wiredecode.dataclasses import dataclass
from wiredecode.frames.frame import Frame
from wiredecode.testing.packets import Talk


@dataclass
class Part:
    """Consecutive bytes of one side of one connection."""

    connection: int
    side: int
    data: bytes


def dialogue(frames: Iterable[Frame]) -> list[Part]:
    """Both sides of all connections, in the order in which their frames were complete.

    Side 0 of a part is the endpoint that opened the connection.
    """
    parts: list[Part] = []
    for frame in frames:
        side = frame.side ^ (frame.connection.initiator or 0)
        last = parts[-1] if parts else None
        if last is not None and (last.connection, last.side) == (frame.connection.number, side):
            last.data += frame.data
        else:
            parts.append(Part(frame.connection.number, side, frame.data))
    return parts


Segments = list[tuple[int, bytes]]
"""Segments of a part, in the order of sending: (place in the part, bytes)."""
Cutting = Callable[[bytes], Segments]


def craft(parts: Iterable[Part], cut: Cutting, server_port: int = 5552, handshake: bool = True) -> list[bytes]:
    """Packets that carry the parts, each cut by ``cut``."""
    talks: dict[int, Talk] = {}
    packets: list[bytes] = []
    for part in parts:
        talk = talks.get(part.connection)
        if talk is None:
            client = ("10.0.0.1", 40000 + part.connection)
            talk = talks[part.connection] = Talk(client, ("10.0.0.2", server_port))
            packets += talk.handshake() if handshake else []
        first = talk.seq[part.side]
        packets += [talk.packet(part.side, data, first + offset) for offset, data in cut(part.data)]
        talk.seq[part.side] += len(part.data)
    return packets


def every(size: int) -> Cutting:
    """Segments of ``size`` bytes, in order."""
    return lambda data: [(offset, data[offset : offset + size]) for offset in range(0, len(data), size)]


def random_cuts(seed: int, mean: int = 40) -> Cutting:
    """Segments of random length, in order."""
    chance = random.Random(seed)

    def cut(data: bytes) -> Segments:
        cuts_at = [0]
        while cuts_at[-1] < len(data):
            cuts_at.append(min(len(data), cuts_at[-1] + chance.randint(1, 2 * mean)))
        return [(a, data[a:b]) for a, b in pairwise(cuts_at)]

    return cut


def reorder(seed: int, window: int = 4) -> Cutting:
    """Random segments, each group of ``window`` in random order."""
    chance, cuts = random.Random(seed), random_cuts(seed)

    def cut(data: bytes) -> Segments:
        segments = cuts(data)
        for low in range(0, len(segments), window):
            group = segments[low : low + window]
            chance.shuffle(group)
            segments[low : low + window] = group
        return segments

    return cut


def duplicate(seed: int) -> Cutting:
    """Random segments, half of them sent again after a few others."""
    chance, cuts = random.Random(seed), random_cuts(seed)

    def cut(data: bytes) -> Segments:
        sent: Segments = []
        again: Segments = []
        for segment in cuts(data):
            sent.append(segment)
            again += [segment] * chance.randint(0, 1)
            if len(again) > 3:
                sent.append(again.pop(chance.randrange(len(again))))
        return sent + again

    return cut


def overlap(seed: int) -> Cutting:
    """Random segments that begin before the end of the one before and reach into the next one."""
    chance, cuts = random.Random(seed), random_cuts(seed)

    def cut(data: bytes) -> Segments:
        sent: Segments = []
        for offset, segment in cuts(data):
            low = max(0, offset - chance.randint(0, 30))
            sent.append((low, data[low : offset + len(segment) + chance.randint(0, 30)]))
        return sent

    return cut


CUTTINGS: dict[str, Callable[[], Cutting]] = {
    "byte by byte": lambda: every(1),
    "two bytes": lambda: every(2),
    "seven bytes": lambda: every(7),
    "random": lambda: random_cuts(1),
    "random again": lambda: random_cuts(2, 200),
    "reordered": lambda: reorder(3),
    "reordered far": lambda: reorder(4, window=40),
    "duplicated": lambda: duplicate(5),
    "overlapped": lambda: overlap(6),
}
