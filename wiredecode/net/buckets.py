"""Connections dealt out to parts of a cluster, which see only the packets that are sent to them.

Both directions of a connection, and all its incarnations, are in one bucket, whoever deals: a bucket follows from the
two endpoints alone. Connections that know of each other (docs/architecture.md, "Connections that know of each other")
are in one bucket too; their ports tell which these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

import numpy as np

from wiredecode.capture.batch import Int32s
from wiredecode.net.segments import Segments
from wiredecode.net.share import chosen, pairs


class Buckets:
    """``count`` buckets. ``together``: ports whose connections have one bucket, and what names it."""

    def __init__(self, count: int, together: Mapping[int, str]) -> None:
        self.count = count
        self._together = {port: crc32(name.encode()) % count for port, name in together.items()}

    def of(self, segments: Segments) -> Int32s:
        """The bucket of each segment."""
        found = (pairs(segments) % np.uint64(self.count)).astype(np.int32)
        ports = segments.ports
        for port, bucket in self._together.items():
            found[((ports >> 16 & 0xFFFF) == port) | ((ports & 0xFFFF) == port)] = bucket
        return found


class Bucket:
    """One bucket, as :class:`wiredecode.net.network.Network` wants its share."""

    def __init__(self, buckets: Buckets, number: int) -> None:
        self._buckets, self._number = buckets, number
        self.index = number
        """Fragments are sent to all buckets: the first one counts the limits that they reach."""

    def keep(self, segments: Segments) -> Segments:
        """Its own segments: IP fragments are sent to all buckets."""
        return chosen(segments, self._buckets.of(segments) == self._number)
