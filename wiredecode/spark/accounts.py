"""What tasks report, put together: totals by source, and what could not be read. Nothing here needs Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from wiredecode.frames.totals import Totals
from wiredecode.spark.packets import unpacked

TOTALS, PROBLEMS = "totals", "problems"
TOTALS_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("source", "section", "name", "protocol", "type", "status")),
        ("port", pa.int32()),
        ("value", pa.int64()),
    ]
)
PROBLEMS_SCHEMA = pa.schema([(name, pa.string()) for name in ("source", "file", "problem")])


@dataclass
class Accounts:
    """What the tasks reported."""

    totals: Totals = field(default_factory=Totals)
    sources: dict[str, Totals] = field(default_factory=dict)
    """The same of each source."""
    problems: list[tuple[str, str, str]] = field(default_factory=list)
    """Source, file, and what could not be read of it, where."""
    apart: list[tuple[str, int]] = field(default_factory=list)
    """Protocols and ports of connections that know of each other, and were decoded apart."""
    states: dict[tuple[str, int], str] = field(default_factory=dict)
    """Where the state of a bucket of a source is that the next run goes on from."""
    reports: list[str] = field(default_factory=list)
    """What all of it was made of."""

    @classmethod
    def of(cls, reports: Iterable[str]) -> Accounts:
        """Put reports together; each counts once, however often it came."""
        made = cls(reports=list(dict.fromkeys(reports)))
        found = [json.loads(text) for text in made.reports]
        made.states = {(each["source"], each["bucket"]): each["state"] for each in found if "state" in each}
        made.problems = sorted((each["source"], each["file"], each["problem"]) for each in found if "problem" in each)
        made.apart = sorted({(name, port) for each in found for name, port in each.get("apart", ())})
        counted: dict[str, list[dict[str, Any]]] = {}
        for each in found:
            if "totals" in each:
                counted.setdefault(each["source"], []).append(each)
        made.sources = {source: combined(*_totals(some)) for source, some in sorted(counted.items())}
        made.totals = combined(made.sources.values(), made.sources.values())
        return made


def _totals(reports: Sequence[dict[str, Any]]) -> tuple[list[Totals], list[Totals]]:
    """Totals of files, which have the packets, and of buckets, which have everything else."""
    files = [unpacked(each["totals"]) for each in reports if "bucket" not in each]
    return files, [unpacked(each["totals"]) for each in reports if "bucket" in each]


def combined(files: Iterable[Totals], buckets: Iterable[Totals]) -> Totals:
    """One account: packets are counted where they were read, all else where it was decoded."""
    total, decoded = Totals(), list(buckets)
    for part in files:
        total.add_packets(part)
        if not decoded:
            total.limits.update(part.limits)
    for part in decoded:
        total.add_connections(part)
    return total


def totals_rows(accounts: Accounts) -> Iterator[tuple[Any, ...]]:
    """Rows of the table of totals: the numbers of ``--summary-json``, one to a row, by source."""
    from wiredecode.frames.record import totals_record

    for source, totals in accounts.sources.items():
        record = totals_record(totals)

        def row(section: str, name: str | None, value: int, *kind: Any, source: str = source) -> tuple[Any, ...]:
            return source, section, name, *(kind or (None, None, None, None)), value

        packets = record["packets"]
        yield row("packets", "read", packets["read"])
        yield row("packets", "tcp", packets["tcp"])
        if totals.first_ns is not None:
            yield row("packets", "first_ns", totals.first_ns)
            yield row("packets", "last_ns", totals.last_ns)
        yield from (row("not_decoded", name, count) for name, count in packets["not_decoded"].items())
        yield row("connections", "seen", record["connections"])
        for section in ("payload", "reassembly", "limits_hit"):
            yield from (row(section, name, value) for name, value in record[section].items())
        for other in record["other_protocols"]:
            for name in ("bytes", "connections"):
                yield row("other_protocols", name, other[name], other["looks_like"], None, None, other["port"])
        for (protocol, kind, status), count in sorted(totals.frames.items()):
            yield row("frames", "count", count, protocol, kind, status, None)


def tables(accounts: Accounts) -> dict[str, pa.Table]:
    """The tables of totals and problems."""
    rows = {TOTALS: (TOTALS_SCHEMA, totals_rows(accounts)), PROBLEMS: (PROBLEMS_SCHEMA, accounts.problems)}
    return {
        name: pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in found], schema)
        for name, (schema, found) in rows.items()
    }
