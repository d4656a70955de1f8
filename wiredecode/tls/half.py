"""One direction of a connection in TLS: its records, and where in the stream, and in which packets, their bytes lie."""

from bisect import bisect_left, bisect_right
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from wiredecode.dataclasses import dataclass
from wiredecode.net.types import Chunk, Direction, Event, Gap

if TYPE_CHECKING:
    from wiredecode.tls.ciphers import Opener

HEADER = 5
MAX_RECORD = (1 << 14) + 2048
"""RFC 5246 section 6.2.3; TLS 1.3 allows less."""
MIN_RECORD = HEADER + 17
"""So short may a record of a cipher with a tag be; it bounds how many lie in a gap."""
MAX_TRIES = 4096
"""Records that are tried after a gap before the direction is given up."""
KINDS = b"\x14\x15\x16\x17"


@dataclass(slots=True, eq=False)
class Record:
    """A record with a part of the handshake, or an alert, and no content; decrypted if it was encrypted."""

    direction: Direction
    offset: int
    """Stream offset of the record."""
    data: bytes
    """Header and content; its length is that of the content."""
    decrypted: bool
    packets: list[int]
    times: list[int]
    """Times of these packets."""
    first_ns: int
    """Time of the packet that carried its first byte."""
    ready: int
    """The packet with which it could be read."""
    ready_ns: int


class Half:
    """Bytes of one direction as they come, and the decrypted content that is passed on.

    ``only_read``: other code passes on and counts all bytes.
    """

    def __init__(self, direction: Direction, offset: int, *, only_read: bool = False) -> None:
        self.direction, self.only_read = direction, only_read
        self.at = self.offset = offset
        """Stream offset of the next byte, on the wire and in clear."""
        self.opener: Opener | None = None
        self.secret = b""
        """TLS 1.3: the traffic secret of ``opener``."""
        self.handshake = b""
        """Bytes of handshake messages that are not whole yet."""
        self.queue: deque[Chunk | Gap] = deque()
        """Events that came, and are not fed yet."""
        self.clear = True
        """No record was seen yet: what comes before the first one is no TLS."""
        self.lost: int | None = None
        """Wire bytes since the last record before a gap, while the next record is looked for."""
        self.tries, self.most_tries = 0, MAX_TRIES
        self.begun = True
        """False: it begins before the capture, and no record was opened yet."""
        self.dead = False
        """No more records can be opened."""
        self._data = b""
        self._base = offset
        self._ends: list[int] = []
        self._columns: tuple[list[int], ...] = ([], [], [], [])
        self._parts: list[bytes] = []
        self._pieces: list[tuple[int, int, int, int, int]] = []
        self._start = offset

    def feed(self, chunk: Chunk) -> None:
        """Take the next bytes of the wire."""
        unread = len(self._data) - (self.at - self._base)
        keep = bisect_right(self._ends, self.at)
        self._data = (self._data[self.at - self._base :] if unread else b"") + chunk.data
        self._base = self.at
        del self._ends[:keep]
        self._ends += chunk.ends.tolist()
        for column, more in zip(self._columns, (chunk.packet, chunk.time_ns, chunk.ready, chunk.ready_ns), strict=True):
            del column[:keep]
            column += more.tolist()

    def available(self) -> int:
        """Bytes that are not read yet."""
        return self._base + len(self._data) - self.at

    def peek(self, size: int, skip: int = 0) -> bytes:
        """Bytes from the next one on, ``skip`` of them passed over."""
        begin = self.at - self._base + skip
        return self._data[begin : begin + size]

    def record_size(self) -> int:
        """Bytes of the next record if it is there as a whole, else 0."""
        size = HEADER + int.from_bytes(self.peek(2, 3))
        return size if self.available() >= max(size, HEADER) else 0

    def ready(self, size: int) -> int:
        """The packet with which the next ``size`` bytes are there."""
        return self._columns[2][bisect_left(self._ends, self.at + size)]

    def find(self, start: bytes) -> int:
        """Distance to the next ``start``, or -1."""
        index = self._data.find(start, self.at - self._base)
        return -1 if index < 0 else index - (self.at - self._base)

    def hand_on(self, data: bytes, skip: int, size: int, key_at: int) -> None:
        """Deliver plaintext ``data`` at ``skip``; ``size`` bytes are read. ``key_at``: it was not readable before."""
        if data:
            first, behind = self.at + skip, self.at + size
            last = bisect_left(self._ends, behind)
            _, _, readies, times = self._columns
            ready, ready_ns = max(readies[last], key_at), times[last]
            begin = bisect_right(self._ends, first)
            for index in range(begin, last + 1):
                end = min(self._ends[index], first + len(data))
                shown = self.offset + (len(data) if index == last else end - first)
                self._pieces.append((shown, self._columns[0][index], self._columns[1][index], ready, ready_ns))
                if end == first + len(data):
                    break
            self._parts.append(data)
            self.offset += len(data)
        self.at += size
        self.direction.ignored += size - len(data)

    def drop(self, size: int) -> None:
        """Pass over bytes of the wire that are no content."""
        self.at += size
        if not self.only_read:
            self.direction.ignored += size

    def record(self, kind: int, data: bytes, size: int, key_at: int = 0) -> Record:
        """The next record, of ``size`` bytes with ``data``. ``key_at``: logical time of its key; 0: not encrypted."""
        header = bytes([kind]) + self.peek(2, 1) + len(data).to_bytes(2)
        first, last = bisect_right(self._ends, self.at), bisect_left(self._ends, self.at + size)
        packets, times, readies, ready_ns = self._columns
        carriers, sent = (sorted({*column[first : last + 1]}) for column in (packets, times))
        when = times[first], max(readies[last], key_at), ready_ns[last]
        return Record(self.direction, self.at, header + data, key_at > 0, carriers, sent, *when)

    def waiting(self) -> int:
        """Bytes that are not fed yet."""
        return sum(len(item.data) for item in self.queue if isinstance(item, Chunk))

    def wire_gap(self, length: int) -> None:
        """Bytes on the wire are missing: discard the partly read record."""
        rest = self.available()
        self.drop(rest)
        self.lost = (self.lost or 0) + rest + length
        self.at += length
        self._data, self._base, self.tries = b"", self.at, 0
        self._ends.clear()
        for column in self._columns:
            column.clear()

    def flush(self, out: list[Event]) -> None:
        """Make a Chunk of the content collected for the output."""
        if self._parts:
            ends, packet, time_ns, ready, ready_ns = np.array(self._pieces, np.int64).T.copy()
            data = b"".join(self._parts)
            out.append(Chunk(self.direction, self._start, data, ends, packet, time_ns, ready, ready_ns))
            self._parts, self._pieces = [], []
        self._start = self.offset

    def gap(self, length: int, size: int, out: list[Event]) -> None:
        """Content of ``length`` bytes is missing before the next record, which has ``size`` bytes."""
        if not self.begun:
            self.begun, self.most_tries = True, MAX_TRIES
            return
        self.flush(out)
        index = bisect_left(self._ends, self.at + size)
        ready, ready_ns = self._columns[2][index], self._columns[3][index]
        out.append(Gap(self.direction, self.offset, length, "not captured", ready, ready_ns))
        self.offset += length
        self._start = self.offset
