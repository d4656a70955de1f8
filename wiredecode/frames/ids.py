"""Ids of connections and frames that need no count over the whole capture (docs/tables.md, "Stable ids").

Numbers in order of time need a reader of everything before. An id is made of facts of the connection
itself: so every tool, and every part of a cluster, finds the same one, however the capture was divided.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from wiredecode.arrays import Int64s

MASK = (1 << 64) - 1
STEP, PLACE = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
"""Odd, so that multiples of them differ in 64 bits."""
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Of the finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit."""


def connection_id(endpoints: tuple[str, str], first_ns: int) -> int:
    """The id of a connection: 0 up to 2**63. ``endpoints``: who sent the first packet comes first; its time in ns."""
    text = f"{first_ns} {endpoints[0]} {endpoints[1]}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1


def frame_id(connection: int, side: int, offset: int, place: int = 0) -> int:
    """The id of a frame at a stream offset of one side: 0 up to 2**63. ``place``: its place inside another."""
    mixed = connection + (2 * offset + side) * STEP + place * PLACE & MASK
    mixed = (mixed ^ mixed >> 30) * FIRST & MASK
    mixed = (mixed ^ mixed >> 27) * SECOND & MASK
    return (mixed ^ mixed >> 31) >> 1


def frame_ids(connection: int, side: int, offsets: Int64s) -> Int64s:
    """The same of many frames."""
    mixed = (2 * offsets + side).astype(np.uint64) * np.uint64(STEP) + np.uint64(connection)
    for shift, factor in ((30, FIRST), (27, SECOND)):
        mixed = (mixed ^ mixed >> np.uint64(shift)) * np.uint64(factor)
    return ((mixed ^ mixed >> np.uint64(31)) >> np.uint64(1)).astype(np.int64)
