"""Damaged frames: what a parser must survive, and its readers must agree on."""

import random
from collections.abc import Callable

Mutation = Callable[[bytes, random.Random], bytes]
BOUNDARIES = (0, 1, 0x08, 0x7F, 0x80, 0xC0, 0xFC, 0xFF, 0x0A, 0x0D, 0x20, 0x39, 0x7B)
"""Bytes at the boundaries of numbers, varints, texts and lines."""


def bit_flips(raw: bytes, chance: random.Random) -> bytes:
    """One or three bits are flipped."""
    out = bytearray(raw)
    for _ in range(chance.choice([1, 1, 3])):
        out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
    return bytes(out)


def other_bytes(raw: bytes, chance: random.Random) -> bytes:
    """One to three bytes are replaced."""
    out = bytearray(raw)
    for _ in range(chance.randint(1, 3)):
        out[chance.randrange(len(out))] = chance.choice((*BOUNDARIES, chance.randrange(256)))
    return bytes(out)


def truncation(raw: bytes, chance: random.Random) -> bytes:
    """The end is missing."""
    return raw[: chance.randrange(1, max(2, len(raw)))]


def tampered_length(raw: bytes, chance: random.Random) -> bytes:
    """Two or four bytes become a length that is almost right, or far too large."""
    width: int = chance.choice([2, 4])
    place = chance.randrange(min(4, len(raw)), max(5, len(raw) - width))
    left = len(raw) - place - width
    far = [0, 1, 256**width - 1, 256**width // 2]
    value: int = chance.choice([*far, max(0, left), max(0, left + 1), max(0, left - 1)])
    if chance.random() < 0.3:
        return raw[:place] + value.to_bytes(width, "little") + raw[place + width :]
    return raw[:place] + value.to_bytes(width, "big") + raw[place + width :]


def insertion(raw: bytes, chance: random.Random) -> bytes:
    """One to five bytes inserted between others."""
    place = chance.randrange(min(4, len(raw)), len(raw) + 1)
    return raw[:place] + chance.randbytes(chance.randint(1, 5)) + raw[place:]


def deletion(raw: bytes, chance: random.Random) -> bytes:
    """One to five bytes are missing in the middle."""
    place = chance.randrange(len(raw))
    return raw[:place] + raw[place + chance.randint(1, 5) :]


MUTATIONS: tuple[Mutation, ...] = (bit_flips, other_bytes, truncation, tampered_length, insertion, deletion)
