"""Message bodies that compress as real ones do: JSON with numbers, names and identifiers, no two alike."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator

POOL = 4_096
CITIES = ("Lisbon", "Oslo", "Nairobi", "Osaka", "Quito", "Turin", "Perth", "Cork", "Graz", "Hanoi")
WORDS = ("please", "leave", "parcel", "with", "neighbour", "call", "before", "noon", "door", "code", "blue", "gate")
STATES = ("created", "paid", "packed", "shipped", "delivered", "returned")


def _parts(rng: random.Random, size: int) -> tuple[bytes, bytes]:
    """The text before and after the number of ten digits in a body of ``size`` bytes."""
    fields = (
        f'"state":"{rng.choice(STATES)}","city":"{rng.choice(CITIES)}"',
        f'"amount":{rng.randrange(100_000) / 100:.2f},"items":{rng.randrange(1, 40)}',
        f'"customer":"{rng.randrange(1 << 32):08x}","lat":{rng.uniform(-90, 90):.5f}',
        f'"note":"{" ".join(rng.choices(WORDS, k=12))}"',
        f'"trace":"{rng.randrange(1 << 64):016x}{rng.randrange(1 << 64):016x}"',
    )
    rest = ("," + ",".join(rng.sample(fields, len(fields)))).encode()
    return b'{"id":', rest[: size - 17] + b"}"


@functools.cache
def _pool(least: int, most: int) -> tuple[tuple[bytes, bytes], ...]:
    """The cached bodies, which each conversation shuffles."""
    rng = random.Random(least * 1000 + most)
    return tuple(_parts(rng, rng.randint(max(least, 17), most)) for _ in range(POOL))


def bodies(rng: random.Random, least: int, most: int) -> Iterator[bytes]:
    """Endless bodies of ``least`` to ``most`` bytes (at least 17), each with a different number."""
    pool = list(_pool(least, most))
    number = 1_000_000_000
    while True:
        rng.shuffle(pool)
        for head, tail in pool:
            number += 1
            yield b"%s%d%s" % (head, number, tail)
