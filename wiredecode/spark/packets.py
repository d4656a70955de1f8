"""From files to rows of packets, each with the bucket that it goes to: what is shuffled (docs/spark.md).

A row holds the whole packet, for its headers are shorter than columns of what they say, and the same code reads them
again behind the shuffle. Nothing here needs Spark.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wiredecode.arrays import Int32s, Int64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.frames.totals import Totals
from wiredecode.net import link
from wiredecode.net.buckets import FACTORS, Buckets
from wiredecode.net.clock import Clock
from wiredecode.net.headers import HeaderReader
from wiredecode.net.ip import TCP
from wiredecode.net.limits import Limits
from wiredecode.net.link import Octets

PACKETS = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in (
            ("source", pa.string()),
            ("bucket", pa.int32()),
            ("clock", pa.int64()),
            ("file_ns", pa.int64()),
            ("file", pa.int64()),
            ("place", pa.int64()),
            ("time_ns", pa.int64()),
            ("linktype", pa.int32()),
            ("interface", pa.int32()),
            ("original", pa.int64()),
            ("data", pa.binary()),
        )
    ]
)
"""``clock`` is the capture time in the file, which never goes back; ``file_ns`` the time of the file's first packet;
``place`` the packet's place in the file; ``interface`` counts within the file. A row of ``linktype`` :data:`REPORT` or
:data:`SECRETS` is no packet."""
ORDER = ("source", "bucket", "clock", "file_ns", "file", "place")
"""The order in which a bucket is to be read: that of the files merged by time."""
WITHIN = ORDER[2:]
"""The order of the packets of one bucket."""
REPORT, SECRETS = -1, -2
"""In place of a link type: a report, and TLS secrets that a file brings, which come before its packets."""
IPV6_FRAGMENT = 44


@dataclass(frozen=True)
class File:
    """A file, or the part of one, that is read in one go."""

    name: str
    source: str
    """Its capture point: files of one are one capture."""
    first_ns: int
    """Time of the first packet of the whole file."""
    place: int = 0
    """Where the first packet of this part stands in the file."""

    @property
    def id(self) -> int:
        return int.from_bytes(blake2b(self.name.encode(), digest_size=8).digest(), "big") >> 1


class PacketRows:
    """Makes rows of the packets of ``file``, of each batch those of a bucket together.

    Packets without TCP are counted in ``totals``, and are in no row.
    """

    def __init__(self, file: File, buckets: Buckets, limits: Limits) -> None:
        self.file, self._buckets = file, buckets
        self.totals = Totals()
        self._clock = Clock(int(limits.hole_seconds * 1e9))
        self._headers = HeaderReader(limits, self.totals.not_decoded, self.totals.limits)
        self._vlan_tags = limits.vlan_tags
        self._place = file.place

    def rows(self, batches: Iterable[PacketBatch]) -> Iterator[pa.RecordBatch]:
        """The rows, and at the end a report. A :class:`CaptureError` is a report too."""
        try:
            for batch in batches:
                if batch.secrets:
                    yield self._secrets(batch.secrets)
                if len(batch):
                    yield self._rows(batch)
        except CaptureError as error:
            yield from (report(self.file.source, problem=str(each), file=self.file.name) for each in error.errors)
        self._headers.finish()
        self.totals.tcp_packets = self._headers.tcp_packets
        yield report(self.file.source, totals=packed(self.totals), file=self.file.name, place=self.file.place)

    def _secrets(self, secrets: Sequence[bytes]) -> pa.RecordBatch:
        """Rows for all buckets: who needs them is not known here."""
        row = {"source": self.file.source, "clock": self.file.first_ns, "linktype": SECRETS, "place": -1}
        own = row | {"file_ns": self.file.first_ns, "file": self.file.id}
        rows = [own | {"bucket": to, "data": data} for to in range(self._buckets.count) for data in secrets]
        return no_packets(rows)

    def _rows(self, batch: PacketBatch) -> pa.RecordBatch:
        clock = self._clock.advance(batch.time_ns)
        fragments = tcp_fragments(batch, self._vlan_tags)
        segments = self._headers.read(batch, clock)
        rows, buckets = segments.row, self._buckets.of(segments)
        if len(fragments):  # they go to all buckets: only the first one tells the ports
            plain = ~np.isin(rows, fragments)
            count = self._buckets.count
            everywhere = np.tile(np.arange(count, dtype=np.int32), len(fragments))
            rows = np.concatenate([rows[plain], np.repeat(fragments, count)])
            buckets = np.concatenate([buckets[plain], everywhere])
        order = np.lexsort((rows, buckets))
        rows, buckets = rows[order], buckets[order]
        self.totals.packets += len(batch)
        self.totals.add_times(batch.time_ns)
        place, self._place = self._place, self._place + len(batch)
        return packet_rows(self.file, batch, clock, rows, buckets, place)


def tcp_fragments(batch: PacketBatch, vlan_tags: int) -> Int64s:
    """The packets of a batch that are fragments of TCP."""
    octets = Octets(batch.buffer)
    at, ethertype = link.network_layer(batch, octets, vlan_tags)
    whole = batch.start + batch.captured - at >= 20
    found = [np.empty(0, np.int64)]
    four = np.flatnonzero((ethertype == link.IPV4) & whole)
    if len(four):
        found.append(four[(octets.u16(at[four] + 6) & 0x3FFF != 0) & (octets.u8(at[four] + 9) == TCP)])
    six = np.flatnonzero((ethertype == link.IPV6) & whole)
    if len(six):
        found.append(six[octets.u8(at[six] + 6) == IPV6_FRAGMENT])
    return np.sort(np.concatenate(found))


def packet_rows(
    file: File, batch: PacketBatch, clock: Int64s, rows: Int64s, buckets: Int32s, place: int
) -> pa.RecordBatch:
    """Some packets of a batch as rows; ``place`` is that of the first packet of the batch."""
    count = len(rows)
    columns: dict[str, Any] = {
        "source": pa.repeat(file.source, count),
        "bucket": buckets,
        "clock": clock[rows],
        "file_ns": np.full(count, file.first_ns, np.int64),
        "file": np.full(count, file.id, np.int64),
        "place": rows + place,
        "time_ns": batch.time_ns[rows],
        "linktype": batch.linktype[rows],
        "interface": batch.interface[rows],
        "original": batch.original[rows],
        "data": sliced(batch.buffer, batch.start, batch.captured, rows),
    }
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in PACKETS], schema=PACKETS)


def sliced(buffer: bytes, start: Int64s, length: Int64s, rows: Int64s) -> pa.Array:
    """Some of the pieces of a buffer as a column; pieces follow each other, mostly."""
    stop = start + length
    if len(start) and len(buffer) < 1 << 31 and (start[1:] >= stop[:-1]).all():
        edges = np.stack([start, stop], axis=1).astype(np.int32).ravel()  # a piece, what lies between, a piece ...
        every = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(buffer)])
        return every.take(pa.array(rows * 2))
    places = zip(start[rows].tolist(), stop[rows].tolist(), strict=True)
    return pa.array([buffer[first:last] for first, last in places], pa.binary())


# Reports: what is not a packet, and is to reach whoever started it all.


def report_text(source: str, **content: Any) -> str:
    """What a report says: ``totals`` (see :func:`packed`) of a ``file`` from a ``place`` on, or of a ``bucket``;
    ``problem`` in a ``file``; ``apart``: protocols and ports of connections that know of each other, and were decoded
    apart. Spark may tell one twice, where a task ran again."""
    return json.dumps({"source": source, **content})


def report(source: str, **content: Any) -> pa.RecordBatch:
    """A row that is no packet. It goes to bucket 0."""
    values = {"source": source, "linktype": REPORT, "data": report_text(source, **content).encode()}
    return no_packets([values])


def no_packets(rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows that are no packets; what they do not tell is nothing."""
    defaults: dict[Any, Any] = {pa.string(): "", pa.binary(): b""}
    nothing = {field.name: defaults.get(field.type, 0) for field in PACKETS}
    return pa.RecordBatch.from_pylist([{**nothing, **row} for row in rows], schema=PACKETS)


def packed(totals: Totals) -> str:
    """Totals as text."""
    return base64.b64encode(pickle.dumps(totals)).decode()


def unpacked(text: str) -> Totals:
    """The totals of :func:`packed`; only for what this program itself has written."""
    totals: Totals = pickle.loads(base64.b64decode(text))
    return totals


# Behind the shuffle.


def packet_batches(parts: Iterable[pa.RecordBatch], first_number: int = 1) -> Iterator[PacketBatch]:
    """The packets of rows of one bucket, counted from ``first_number``, with the secrets that came before them."""
    secrets: tuple[bytes, ...] = ()
    for part in parts:
        secret = part.column("linktype").to_numpy() == SECRETS
        if secret.any():
            secrets += tuple(part.filter(pa.array(secret)).column("data").to_pylist())
            part = part.filter(pa.array(~secret))
        if len(part):
            yield replace(packets_of(part, first_number), secrets=secrets)
            first_number, secrets = first_number + len(part), ()


FIXED = ("time_ns", "linktype", "original", "clock", "file", "interface")


def interfaces(file: Int64s, interface: Int32s) -> Int32s:
    """Return a number per interface of each file: copies of a packet are told by where they were captured."""
    spread = file.astype(np.uint64) ^ (interface.astype(np.uint64) + np.uint64(1)) * np.uint64(FACTORS[0])
    return (spread >> np.uint64(33)).astype(np.int32)


def packets_of(rows: pa.RecordBatch, first_number: int) -> PacketBatch:
    """The packets of rows in the order of :data:`ORDER`; ``number`` counts from ``first_number``."""
    data = rows.column("data")
    _, ends, values = data.buffers()
    offsets: npt.NDArray[np.int32] = np.frombuffer(ends, np.int32)[data.offset : data.offset + len(data) + 1]
    low, high = int(offsets[0]), int(offsets[-1])
    start = offsets[:-1].astype(np.int64) - low
    columns = {name: rows.column(name).to_numpy() for name in FIXED}
    return PacketBatch(
        buffer=b"" if values is None else values.slice(low, high - low).to_pybytes(),
        start=start,
        captured=np.diff(offsets).astype(np.int64),
        original=columns["original"],
        time_ns=columns["time_ns"],
        linktype=columns["linktype"],
        interface=interfaces(columns["file"], columns["interface"]),
        number=np.arange(first_number, first_number + len(rows), dtype=np.int64),
        clock=np.maximum.accumulate(columns["clock"]),
    )
