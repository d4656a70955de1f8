"""From files to parcels of packets, each for one bucket, and back (docs/how-it-works.md, "Map and reduce").

A row per packet would cost Java more than all other work. So a row is a parcel: packets of one bucket and file, their
facts as an array of :data:`HEADS`, and their bytes. Packets are sent whole, as headers are shorter than columns of
their fields, and the same code reads them after the shuffle. Packets wait together and are divided by one sort, so the
work does not depend on the number of buckets. Nothing here needs Spark.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wiredecode.arrays import Int32s, Int64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.dataclasses import dataclass
from wiredecode.dissect.following import PacketNotes
from wiredecode.frames.totals import Totals
from wiredecode.net import link
from wiredecode.net.buckets import FACTORS, Buckets
from wiredecode.net.headers import HeaderReader
from wiredecode.net.ip import TCP
from wiredecode.net.limits import Limits
from wiredecode.net.link import Octets
from wiredecode.net.logical_time import LATEST, Clock

PARCELS = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in (
            ("source", pa.string()),
            ("bucket", pa.int32()),
            ("clock", pa.int64()),
            ("file_ns", pa.int64()),
            ("file", pa.string()),
            ("place", pa.int64()),
            ("heads", pa.binary()),
            ("data", pa.binary()),
        )
    ]
)
"""``clock`` and ``place`` are those of the first packet; ``file_ns``: time of the file's first packet. ``heads``: an
array of :data:`HEADS`, ``data``: the bytes of these packets, one after the other. Without heads, ``data`` has TLS
secrets of the file, or a report (bucket :data:`REPORTS`)."""
EMPTY = {"clock": 0, "file_ns": 0, "file": "", "place": 0, "heads": b""}
HEADS = np.dtype(
    [
        *((name, "<i8") for name in ("clock", "place", "time_ns", "original")),
        *((name, "<i4") for name in ("linktype", "interface", "captured")),
    ]
)
"""``clock``: capture time in the file, which never goes back; ``place`` and ``interface`` count within the file."""
ORDER = ("source", "bucket", "clock", "file_ns", "file", "place")
"""The order in which parcels are read: by time, then by name of the file."""
NOTES = -1
"""Link type of notes: they are at the place of the packet that completed their frames."""
FACTS = ("clock", "place", "time_ns", "original", "linktype", "interface")
"""Members of it that are columns of packets after the shuffle."""
REPORTS = -1
"""The bucket of reports."""
PARCEL_BYTES, WAITING_BYTES = 1 << 20, 32 << 20
"""Most captured bytes of a parcel, but for its last packet, and of packets that wait until they are divided."""
SENT_BYTES = 4 << 20
"""Captured bytes of parcels that are sent together."""
IPV6_FRAGMENT = 44


@dataclass(frozen=True)
class File:
    """A file, or the part of one, that is read in one go."""

    name: str
    source: str
    """Capture point; files of one point are one capture."""
    first_ns: int
    """Time of the first packet of the whole file."""
    place: int = 0
    """Place in the file of the first packet of this part."""


class PacketParcels:
    """Makes parcels of the packets of ``file``; packets without TCP are only counted in ``totals``.

    ``sessions_only``: only those of connections that may know of others, and no reports.
    """

    def __init__(self, file: File, buckets: Buckets, limits: Limits, *, sessions_only: bool = False) -> None:
        self.file, self._buckets, self._sessions_only = file, buckets, sessions_only
        self._of_file = {"source": file.source, "file_ns": file.first_ns, "file": file.name}
        self.totals = Totals()
        self._clock = Clock(int(limits.gap_seconds * 1e9))
        self._headers = HeaderReader(limits, self.totals.not_decoded, self.totals.limits)
        self._vlan_tags = limits.vlan_tags
        self._next_row = file.place
        self._waiting: list[tuple[Int32s, npt.NDArray[np.void], pa.Array]] = []
        """Buckets, heads and bytes of packets."""
        self._size = 0
        self._most = min(WAITING_BYTES, PARCEL_BYTES * buckets.count)

    def rows(self, batches: Iterable[PacketBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of :data:`PARCELS`, and at the end a report. A :class:`CaptureError` is a report too."""
        file = self.file
        try:
            for batch in batches:
                if batch.secrets:
                    yield self._secrets(batch.secrets)
                if len(batch):
                    yield from self._gather(batch)
        except CaptureError as error:
            if not self._sessions_only:
                yield from (report(file.source, problem=str(each), file=file.name) for each in error.errors)
        yield from self._send()
        if self._sessions_only:
            return
        self._headers.finish()
        self.totals.tcp_packets = self._headers.tcp_packets
        yield report(file.source, totals=pack(self.totals), file=file.name, place=file.place)

    def _secrets(self, secrets: Sequence[bytes]) -> pa.RecordBatch:
        """Secrets for all buckets, before their packets: the bucket that needs them is not known here."""
        first = {**EMPTY, **self._of_file, "clock": self.file.first_ns, "place": -1}
        rows = [{**first, "bucket": to, "data": data} for to in range(self._buckets.count) for data in secrets]
        return pa.RecordBatch.from_pylist(rows, PARCELS)

    def _gather(self, batch: PacketBatch) -> Iterator[pa.RecordBatch]:
        """Add the packets of a batch to those that wait; yield the parcels of all if they are many."""
        rows, buckets, clock = self._deal(batch)
        place, self._next_row = self._next_row, self._next_row + len(batch)
        if not len(rows):
            return
        heads = np.empty(len(rows), HEADS)
        heads["clock"], heads["place"] = clock[rows], rows + place
        for name in ("time_ns", "original", "linktype", "interface", "captured"):
            heads[name] = getattr(batch, name)[rows]
        self._waiting.append((buckets, heads, slice_buffer(batch.buffer, batch.start, batch.captured, rows)))
        self._size += int(heads["captured"].sum()) + heads.nbytes
        if self._size >= self._most:
            yield from self._send()

    def _send(self) -> Iterator[pa.RecordBatch]:
        """The parcels of all packets that wait, by bucket."""
        if not self._waiting:
            return
        buckets, heads = (np.concatenate([each[part] for each in self._waiting]) for part in (0, 1))
        data = pa.concat_arrays([each[2] for each in self._waiting])
        self._waiting, self._size = [], 0
        if (buckets[1:] < buckets[:-1]).any():
            order = np.argsort(buckets, kind="stable")
            buckets, heads, data = buckets[order], heads[order], data.take(pa.array(order))
        ends = np.cumsum(heads["captured"], dtype=np.int64)
        begins = ends - heads["captured"]
        size = ends - begins[np.searchsorted(buckets, buckets)]  # of its bucket until then
        filled = (size - 1) // PARCEL_BYTES
        first = np.flatnonzero(np.concatenate([[True], (buckets[1:] != buckets[:-1]) | (filled[1:] != filled[:-1])]))
        edges, places = np.append(first, len(heads)), np.append(begins[first], ends[-1])
        low = 0
        while low < len(first):
            high = max(int(np.searchsorted(places, places[low] + SENT_BYTES, "right")) - 1, low + 1)
            yield self._parcels(buckets, heads, data, edges[low : high + 1])
            low = high

    def _parcels(self, buckets: Int32s, heads: npt.NDArray[np.void], data: pa.Array, edges: Int64s) -> pa.RecordBatch:
        """Parcels of the packets between each two edges."""
        first, some = edges[:-1], slice(int(edges[0]), int(edges[-1]))
        part = data.slice(some.start, some.stop - some.start)
        _, offsets, content = part.buffers()
        ends = np.frombuffer(offsets, np.int32)[part.offset : part.offset + len(part) + 1]
        columns = {name: pa.repeat(value, len(first)) for name, value in self._of_file.items()}
        columns |= {name: pa.array(heads[name][first]) for name in ("clock", "place")}
        columns["bucket"] = pa.array(buckets[first])
        columns["heads"] = binary(heads[some].tobytes(), (edges - edges[0]) * HEADS.itemsize)
        columns["data"] = binary(content, ends[edges - edges[0]])
        return pa.RecordBatch.from_pydict(columns, PARCELS)

    def _deal(self, batch: PacketBatch) -> tuple[Int64s, Int32s, Int64s]:
        """Places of packets with TCP, in order; their buckets; the clock of the whole batch."""
        clock = self._clock.advance(batch.time_ns)
        fragments = tcp_fragments(batch, self._vlan_tags)
        segments = self._headers.read(batch)
        rows, buckets = segments.row, self._buckets.of(segments)
        if self._sessions_only:
            chosen = self._buckets.have_session(segments)
            rows, buckets = rows[chosen], buckets[chosen]
        self.totals.packets += len(batch)
        self.totals.add_times(batch.time_ns)
        if not len(fragments):
            return rows, buckets, clock
        plain = ~np.isin(rows, fragments)  # they go to all buckets: only the first one has the ports
        count = self._buckets.count
        rows = np.concatenate([rows[plain], np.repeat(fragments, count)])
        every = np.tile(np.arange(count, dtype=np.int32), len(fragments))
        buckets = np.concatenate([buckets[plain], every])
        order = np.argsort(rows, kind="stable")
        return rows[order], buckets[order], clock


def binary(content: Any, edges: npt.NDArray[Any]) -> pa.Array:
    """Bytes between each two edges as a column."""
    buffers = [None, pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)


def tcp_fragments(batch: PacketBatch, vlan_tags: int) -> Int64s:
    """The packets of a batch that are fragments of TCP."""
    octets = Octets(batch.buffer)
    at, ethertype = link.network_layer(batch, octets, vlan_tags)
    whole = batch.start + batch.captured - at >= 20
    rows = [np.empty(0, np.int64)]
    four = np.flatnonzero((ethertype == link.IPV4) & whole)
    if len(four):
        rows.append(four[(octets.u16(at[four] + 6) & 0x3FFF != 0) & (octets.u8(at[four] + 9) == TCP)])
    six = np.flatnonzero((ethertype == link.IPV6) & whole)
    if len(six):
        rows.append(six[octets.u8(at[six] + 6) == IPV6_FRAGMENT])
    return np.sort(np.concatenate(rows))


def slice_buffer(buffer: bytes, start: Int64s, length: Int64s, rows: Int64s) -> pa.Array:
    """Slices of a buffer as a column; fast if they are in order."""
    stop = start + length
    if len(start) and len(buffer) < 1 << 31 and (start[1:] >= stop[:-1]).all():
        edges = np.stack([start, stop], axis=1).astype(np.int32).ravel()  # a piece, the bytes up to the next one, ...
        every = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(buffer)])
        return every.take(pa.array(rows * 2))
    spans = zip(start[rows].tolist(), stop[rows].tolist(), strict=True)
    return pa.array([buffer[first:last] for first, last in spans], pa.binary())


# Reports to the driver.


def report_text(source: str, **content: Any) -> str:
    """A report as JSON. Spark may repeat one if a task ran again.

    ``totals`` (see :func:`pack`) of a ``file`` from a ``place`` on, or of a ``bucket``, with ``counted`` for
    statistics; ``problem`` in a ``file``; ``apart``: protocols and ports of connections that know of each other, and
    were decoded separately.
    """
    return json.dumps({"source": source, **content})


def report(source: str, **content: Any) -> pa.RecordBatch:
    """A report as a row of :data:`PARCELS`."""
    row = {**EMPTY, "source": source, "bucket": REPORTS, "data": report_text(source, **content).encode()}
    return pa.RecordBatch.from_pylist([row], PARCELS)


def pack(counted: Any) -> str:
    """Return totals and the like as text."""
    return base64.b64encode(pickle.dumps(counted)).decode()


def unpack(text: str) -> Any:
    """Return what :func:`pack` got; only for texts that this program itself has written."""
    return pickle.loads(base64.b64decode(text))


# After the shuffle: the parcels of a bucket become packets in order again.


def by_bucket(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, int, Iterator[pa.RecordBatch]]]:
    """Source, bucket and parcels of each bucket, one after the other; take the parcels before the next bucket."""
    rows = (batch.slice(number, 1) for batch in batches for number in range(len(batch)))
    for (source, bucket), some in groupby(rows, lambda row: (value(row, "source"), value(row, "bucket"))):
        yield source, bucket, some


def value(row: pa.RecordBatch, name: str) -> Any:
    return row.column(name)[0].as_py()


class WaitingPackets(NamedTuple):
    """Packets of a parcel that wait for their turn."""

    rows: pa.RecordBatch
    """Columns of HEADS but ``captured``, ``data``, and ``file``: a number made of its name."""
    clock: Int64s
    file: tuple[int, str]
    """Time of the file's first packet, and its name."""
    place: Int64s

    @classmethod
    def of(cls, file: tuple[int, str], rows: Sequence[pa.RecordBatch]) -> WaitingPackets:
        """The packets of parcels of a file, in its order."""
        content, data = (joined(row.column(name)[0].as_buffer() for row in rows) for name in ("heads", "data"))
        heads: npt.NDArray[np.void] = np.frombuffer(content, HEADS)
        columns = {name: pa.array(heads[name].copy()) for name in FACTS}
        columns["data"] = binary(data, np.concatenate([[0], np.cumsum(heads["captured"])]))
        columns["file"] = pa.repeat(pa.scalar(file_number(file[1]), pa.int64()), len(heads))
        batch, clock, place = pa.record_batch(columns), heads["clock"].copy(), heads["place"].copy()
        if (place[1:] < place[:-1]).any():  # packets, and notes of other buckets
            order = np.argsort(place, kind="stable")
            batch, clock, place = batch.take(pa.array(order)), clock[order], place[order]
        return cls(batch, clock, file, place)

    def before(self, parcel: WaitingPackets) -> int:
        """The number of packets before the first one of another parcel."""
        if self.file == parcel.file:  # in the order of the file
            return int(np.searchsorted(self.place, parcel.place[0]))
        return int(np.searchsorted(self.clock, parcel.clock[0], "right" if self.file < parcel.file else "left"))

    def part(self, low: int, high: int) -> WaitingPackets:
        return WaitingPackets(self.rows.slice(low, high - low), self.clock[low:high], self.file, self.place[low:high])


def file_number(name: str) -> int:
    """A number made of the name of a file."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") >> 1


def joined(buffers: Iterable[pa.Buffer]) -> Any:
    """One buffer of all; a single one is not copied."""
    first, *others = buffers
    return b"".join((first, *others)) if others else first


def by_file(parcels: Iterable[pa.RecordBatch]) -> Iterator[tuple[tuple[int, str], bool, list[pa.RecordBatch]]]:
    """Time and name of a file, whether they are secrets, and its next parcels: small ones together."""
    rows: list[pa.RecordBatch] = []
    of: tuple[tuple[int, str], bool] | None = None
    size = 0
    for row in parcels:
        owner = (value(row, "file_ns"), value(row, "file")), not row.column("heads")[0].as_buffer().size
        more = row.column("data")[0].as_buffer().size
        if of is not None and (owner != of or size + more > PARCEL_BYTES):
            yield *of, rows
            rows, size = [], 0
        of, size = owner, size + more
        rows.append(row)
    if of is not None:
        yield *of, rows


def packets(
    parcels: Iterable[pa.RecordBatch], number: int = 1, places: PacketPlaces | None = None
) -> Iterator[PacketBatch]:
    """The packets of a bucket's parcels, merged by time, counted from ``number``.

    Secrets come with the next batch, notes with the packets before and after them. ``places`` are noted.
    """
    held: list[WaitingPackets] = []
    secrets: tuple[bytes, ...] = ()
    for some in chain(by_file(parcels), [None]):
        if some is not None and some[1]:
            secrets += tuple(row.column("data")[0].as_py() for row in some[2])
            continue
        opened = None if some is None else WaitingPackets.of(some[0], some[2])
        if places is not None and some is not None:
            places.files[file_number(some[0][1])] = some[0]
        counts = [len(each.clock) if opened is None else each.before(opened) for each in held]
        for batch in _merge_batches([each.part(0, count) for each, count in zip(held, counts, strict=True) if count]):
            batch, notes = without_notes(batch, number)
            if places is not None:
                places.add(batch, number)
            yield packets_of(batch, number, secrets, notes)
            number, secrets = number + len(batch), ()
        counted = zip(held, counts, strict=True)
        held = [each.part(count, len(each.clock)) for each, count in counted if count < len(each.clock)]
        held += [] if opened is None else [opened]


def _merge_batches(parts: list[WaitingPackets]) -> Iterator[pa.RecordBatch]:
    if len(parts) < 2:
        yield from (each.rows for each in parts)
        return
    parts.sort(key=lambda part: part.file)
    table = pa.Table.from_batches([each.rows for each in parts]).combine_chunks()
    files = [*dict.fromkeys(part.file for part in parts)]
    file = np.repeat([files.index(part.file) for part in parts], [len(part.clock) for part in parts])
    order = np.lexsort((table["place"].to_numpy(), file, table["clock"].to_numpy()))
    yield from table.take(order).combine_chunks().to_batches()


def interfaces(file: Int64s, interface: Int32s) -> Int32s:
    """Return a number per interface of each file, by which copies of a packet are recognised."""
    spread = file.astype(np.uint64) ^ (interface.astype(np.uint64) + np.uint64(1)) * np.uint64(FACTORS[0])
    return (spread >> np.uint64(33)).astype(np.int32)


def packets_of(
    rows: pa.RecordBatch, number: int, secrets: tuple[bytes, ...], notes: tuple[PacketNotes, ...] = ()
) -> PacketBatch:
    """Packets in order, counted from ``number``."""
    data = rows.column("data")
    _, ends, values = data.buffers()
    offsets: npt.NDArray[np.int32] = np.frombuffer(ends, np.int32)[data.offset : data.offset + len(data) + 1]
    low, high = int(offsets[0]), int(offsets[-1])
    columns = {name: rows.column(name).to_numpy() for name in ("time_ns", "linktype", "original")}
    return PacketBatch(
        buffer=b"" if values is None else values.slice(low, high - low).to_pybytes(),
        start=offsets[:-1].astype(np.int64) - low,
        captured=np.diff(offsets).astype(np.int64),
        interface=interfaces(rows.column("file").to_numpy(), rows.column("interface").to_numpy()),
        number=np.arange(number, number + len(rows), dtype=np.int64),
        secrets=secrets,
        notes=notes,
        **columns,
    )


# Notes of the frames of a bucket, for the other buckets.


class PacketPlaces:
    """Where the last packets of a bucket are in the order of the capture."""

    def __init__(self) -> None:
        self.files: dict[int, tuple[int, str]] = {}
        """By :func:`file_number`: time of the first packet, and name."""
        self._parts: deque[tuple[int, pa.RecordBatch]] = deque()
        """Number of the first packet, and the rows."""

    def add(self, rows: pa.RecordBatch, number: int) -> None:
        self._parts.append((number, rows.select(["clock", "place", "file"])))

    def of(self, notes: Sequence[PacketNotes]) -> Iterator[tuple[tuple[int, str], int, int]]:
        """File, clock and place of the packets of notes, which come in order: earlier ones are forgotten."""
        for packet, first_ns, *_ in notes:
            if first_ns >= 0:
                yield (0, ""), LATEST, first_ns
                continue
            while len(self._parts) > 1 and self._parts[1][0] <= packet:
                self._parts.popleft()
            first, rows = self._parts[0]
            clock, place, file = (column[packet - first].as_py() for column in rows.columns)
            yield self.files[file], clock, place


def note_parcels(
    source: str, notes: Sequence[PacketNotes], places: PacketPlaces, buckets: Iterable[int]
) -> Iterator[pa.RecordBatch]:
    """Notes as rows of :data:`PARCELS` for ``buckets``."""
    placed = zip(places.of(notes), notes, strict=True)
    for (file_ns, name), some in groupby(placed, lambda each: each[0][0]):
        group = [*some]
        heads = np.zeros(len(group), HEADS)
        heads["clock"], heads["place"] = ([each[0][part] for each in group] for part in (1, 2))
        heads["linktype"], heads["captured"] = NOTES, [len(each[1].content) for each in group]
        row = {"source": source, "file_ns": file_ns, "file": name, "heads": heads.tobytes()}
        row |= {part: int(heads[part][0]) for part in ("clock", "place")}
        row["data"] = b"".join(each[1].content for each in group)
        yield pa.RecordBatch.from_pylist([{**row, "bucket": bucket} for bucket in buckets], PARCELS)


def without_notes(rows: pa.RecordBatch, number: int) -> tuple[pa.RecordBatch, tuple[PacketNotes, ...]]:
    """The packets of rows, counted from ``number``, and the notes between them."""
    are_notes = rows.column("linktype").to_numpy() == NOTES
    if not are_notes.any():
        return rows, ()
    at = np.flatnonzero(are_notes)
    before = (np.cumsum(~are_notes)[at] + number - 1).tolist()
    some = rows.take(pa.array(at))
    columns = (some.column(name).to_pylist() for name in ("clock", "place", "data"))
    notes = tuple(
        PacketNotes(packet, place if clock == LATEST else -1, data)
        for packet, clock, place, data in zip(before, *columns, strict=True)
    )
    return rows.filter(pa.array(~are_notes)), notes
