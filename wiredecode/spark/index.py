"""What is in the files, by connection: packets, bytes and time of each, from headers alone (docs/spark.md, "The plan").

Reading headers costs a fraction of decoding, and the rows are small. They are kept beside the tables and used again for
files that are the same. Nothing here needs Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wiredecode.capture.batch import Int64s, PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.frames.totals import Totals
from wiredecode.net.buckets import Uint64s, session, units
from wiredecode.net.clock import Clock
from wiredecode.net.connections import endpoint
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import Limits
from wiredecode.net.segments import IPV6_FLOW, Segments
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.packets import File, tcp_fragments
from wiredecode.spark.state import running

INDEX = pa.schema(
    [
        ("file", pa.string()),
        ("source", pa.string()),
        ("first_ns", pa.int64()),
        ("place", pa.int64()),
        ("size", pa.int64()),
        ("settings", pa.string()),
        ("counted", pa.string()),
        ("problems", pa.list_(pa.string())),
        ("whole", pa.bool_()),
        ("unit", pa.list_(pa.int64())),
        ("name", pa.list_(pa.string())),
        ("packets", pa.list_(pa.int64())),
        ("bytes", pa.list_(pa.int64())),
        ("begin_ns", pa.list_(pa.int64())),
        ("end_ns", pa.list_(pa.int64())),
    ]
)
"""A row per file, or part of a large one. ``settings``: what else the row depends on. ``counted``: JSON, packets as
:class:`Totals` counts them. ``whole``: its connections can be decoded from the files that have them, for nothing is in
fragments of IP, no limit was reached, and there are no TLS secrets, which connections in other files may need.
The lists have an entry for each of :func:`wiredecode.net.buckets.units`."""
COUNTED = ("packets", "tcp_packets", "first_ns", "last_ns")


def settings_of(demand: TableDemand, step: int) -> str:
    """What the index of a part depends on beside the file; ``step``: size of parts."""
    from dataclasses import asdict

    return json.dumps([running(), sorted(demand.sessions.items()), sorted(asdict(demand.reassembly).items()), step])


class Indexer:
    """Counts the packets of ``file`` by connection."""

    def __init__(self, file: File, limits: Limits, sessions: Mapping[int, str]) -> None:
        self.file, self._sessions = file, sessions
        self._limits, self._totals = limits, Totals()
        self._clock = Clock(int(limits.hole_seconds * 1e9))
        self._headers = HeaderReader(limits, self._totals.not_decoded, self._totals.limits)
        self._whole = True
        self._found: dict[int, tuple[str, Int64s]] = {}
        """Name, and packets, bytes, first and last time, by unit."""

    def row(self, batches: Iterable[PacketBatch], size: int, settings: str) -> pa.RecordBatch:
        """The row of :data:`INDEX`; what cannot be read is told in it."""
        problems: list[str] = []
        try:
            for batch in batches:
                self._whole = self._whole and not batch.secrets
                if len(batch):
                    self._add(batch)
        except CaptureError as error:
            problems = [str(each) for each in error.errors]
        self._headers.finish()
        totals = self._totals
        totals.tcp_packets = self._headers.tcp_packets
        counted = {name: getattr(totals, name) for name in COUNTED} | {"not_decoded": dict(totals.not_decoded)}
        numbers = np.array([numbers for _, numbers in self._found.values()], np.int64).reshape(-1, 4).T
        row = {
            **{name: getattr(self.file, name) for name in ("source", "first_ns", "place")},
            "file": self.file.name,
            "size": size,
            "settings": settings,
            "problems": problems,
            "counted": json.dumps(counted),
            "whole": self._whole and not totals.limits,
            "unit": np.array(list(self._found), np.uint64).view(np.int64).tolist(),
            "name": [name for name, _ in self._found.values()],
            **{
                name: column.tolist()
                for name, column in zip(("packets", "bytes", "begin_ns", "end_ns"), numbers, strict=True)
            },
        }
        return pa.RecordBatch.from_pylist([row], schema=INDEX)

    def _add(self, batch: PacketBatch) -> None:
        segments = self._headers.read(batch, self._clock.advance(batch.time_ns))
        self._whole = self._whole and not len(tcp_fragments(batch, self._limits.vlan_tags))
        self._totals.packets += len(batch)
        self._totals.add_times(batch.time_ns)
        if not len(segments):
            return
        own, at, places = np.unique(units(segments, self._sessions), return_index=True, return_inverse=True)
        packets = np.bincount(places, minlength=len(own))
        sizes = np.bincount(places, batch.captured[segments.row], minlength=len(own)).astype(np.int64)
        begin, end = np.full(len(own), np.iinfo(np.int64).max), np.zeros(len(own), np.int64)
        np.minimum.at(begin, places, segments.time_ns)
        np.maximum.at(end, places, segments.time_ns)
        new = zip(own.tolist(), at.tolist(), np.stack([packets, sizes, begin, end], axis=1), strict=True)
        for unit, row, numbers in new:
            known = self._found.get(unit)
            if known is None:
                self._found[unit] = self._name(segments, row, unit), numbers
            else:
                known[1][:2] += numbers[:2]
                known[1][2] = min(known[1][2], numbers[2])
                known[1][3] = max(known[1][3], numbers[3])

    def _name(self, segments: Segments, row: int, unit: int) -> str:
        """Both endpoints, or what the connections speak that know of each other."""
        for name in self._sessions.values():
            if int(session(name)) == unit:
                return f"connections of {name}"
        ports, ipv6 = int(segments.ports[row]), bool(int(segments.ports[row]) & IPV6_FLOW)
        sides = (
            endpoint(int(segments.source_high[row]), int(segments.source_low[row]), ports >> 16 & 0xFFFF, ipv6),
            endpoint(int(segments.target_high[row]), int(segments.target_low[row]), ports & 0xFFFF, ipv6),
        )
        return " - ".join(sorted(sides))


def known_rows(index: pa.Table) -> dict[tuple[Any, ...], int]:
    """The rows of an index by what they are of: :func:`key`."""
    columns = [index[name].to_pylist() for name in KEY]
    return {key: row for row, key in enumerate(zip(*columns, strict=True))}


KEY = ("file", "source", "first_ns", "place", "size", "settings")
"""A file is the same as before if its name, its size and its first packet are."""


def counted(row: Mapping[str, Any]) -> Totals:
    """The packets of a part, as they were counted."""
    counts = json.loads(row["counted"])
    totals = Totals(**{name: counts[name] for name in COUNTED})
    totals.not_decoded.update(counts["not_decoded"])
    return totals


def flat(index: pa.Table, name: str) -> npt.NDArray[Any]:
    """A column of lists, one list after the other."""
    found: npt.NDArray[Any] = pa.concat_arrays([part.flatten() for part in index[name].chunks]).to_numpy()
    return found


def unit_numbers(index: pa.Table) -> Uint64s:
    """The units of all rows."""
    found: Uint64s = flat(index, "unit").astype(np.int64).view(np.uint64)
    return found


def rows_of(index: pa.Table, wanted: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Some rows, without their lists of units."""
    names = [field.name for field in INDEX if not pa.types.is_list(field.type) or field.name == "problems"]
    yield from index.select(names).take(pa.array(list(wanted), pa.int64())).to_pylist()
