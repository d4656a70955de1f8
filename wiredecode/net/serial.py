"""Serial number arithmetic of TCP sequence numbers, modulo 2**32 (RFC 1982, RFC 9293 section 3.4)."""

from __future__ import annotations

MASK = (1 << 32) - 1
HALF = 1 << 31


def advance(seq: int, count: int) -> int:
    """The sequence number ``count`` bytes after ``seq``."""
    return (seq + count) & MASK


def distance(start: int, seq: int) -> int:
    """How far ``seq`` lies after ``start``: in [-2**31, 2**31), negative when it lies before."""
    return ((seq - start + HALF) & MASK) - HALF
