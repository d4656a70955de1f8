"""Reports of the tasks, combined: totals by source, and read errors. Nothing here needs Spark."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from wiredecode.dataclasses import dataclass, field
from wiredecode.flows import Flows
from wiredecode.flows.table import rows
from wiredecode.frames.record import totals_record
from wiredecode.frames.totals import Totals
from wiredecode.spark.parcels import unpack
from wiredecode.tables.flows import table
from wiredecode.tables.portable import portable_rows, portable_schema
from wiredecode.tables.reader import FLOWS, table_schema

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
class TaskReports:
    """Reports of the tasks."""

    totals: Totals = field(default_factory=Totals)
    sources: dict[str, Totals] = field(default_factory=dict)
    """Totals by source."""
    problems: list[tuple[str, str, str]] = field(default_factory=list)
    """Source, file, and read error with its place."""
    apart: list[tuple[str, int]] = field(default_factory=list)
    """Protocols and ports of connections that know of each other, and were decoded apart."""
    states: dict[tuple[str, int], str] = field(default_factory=dict)
    """Location of the state of a source's bucket that the next run continues from."""
    flows: dict[str, Flows] = field(default_factory=dict)
    """By source, if they are wanted."""
    counted: dict[str, Any] = field(default_factory=dict)
    """For statistics, by source."""
    reports: list[str] = field(default_factory=list)
    """Sources of all tables."""

    @classmethod
    def of(cls, reports: Iterable[str]) -> "TaskReports":
        """Put reports together; each counts once, however often it came."""
        accounts = cls(reports=list(dict.fromkeys(reports)))
        records = [json.loads(text) for text in accounts.reports]
        decoded = {each["source"] for each in records if "bucket" in each}
        for each in records:
            source = each["source"]
            if "state" in each:
                accounts.states[source, each["bucket"]] = each["state"]
            if "counted" in each:
                accounts._count(source, unpack(each["counted"]))
            if "flows" in each:
                part = unpack(each["flows"])
                accounts.flows[source] = accounts.flows[source] + part if source in accounts.flows else part
            if "problem" in each:
                accounts.problems.append((source, each["file"], each["problem"]))
            if "totals" not in each:
                continue
            accounts.apart += ((name, port) for name, port in each.get("apart", ()))
            total, counts = accounts.sources.setdefault(source, Totals()), unpack(each["totals"])
            if "bucket" in each:
                total.add_connections(counts)
                continue
            total.add_packets(counts)
            if source not in decoded:  # else buckets count what their headers reached, too
                total.limits.update(counts.limits)
        accounts.problems.sort()
        accounts.apart = sorted(set(accounts.apart))
        accounts.sources = dict(sorted(accounts.sources.items()))
        for total in accounts.sources.values():
            accounts.totals.add_packets(total)
            accounts.totals.add_connections(total)
        return accounts

    def _count(self, source: str, part: Any) -> None:
        """Add what a bucket counted."""
        if source in self.counted:
            self.counted[source].merge(part)
        else:
            self.counted[source] = part


def totals_rows(accounts: TaskReports) -> Iterator[tuple[Any, ...]]:
    """Rows of the table of totals: the numbers of ``--summary-json``, one to a row, by source."""
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
        for foreign in record["other_protocols"]:
            for name in ("bytes", "connections"):
                yield row("other_protocols", name, foreign[name], foreign["looks_like"], None, None, foreign["port"])
        for (protocol, kind, status), count in sorted(totals.frames.items()):
            yield row("frames", "count", count, protocol, kind, status, None)


def flows_table(accounts: TaskReports) -> pa.Table:
    """The table of flows, of all sources."""
    schema = portable_schema(table_schema(FLOWS))
    batches = [
        portable_rows(batch, source, schema)
        for source, flows in sorted(accounts.flows.items())
        for batch in table(rows(flows)).to_batches()
    ]
    return pa.Table.from_batches(batches, schema)


def tables(accounts: TaskReports) -> dict[str, pa.Table]:
    """The tables of totals and problems."""
    contents = {TOTALS: (TOTALS_SCHEMA, totals_rows(accounts)), PROBLEMS: (PROBLEMS_SCHEMA, accounts.problems)}
    return {
        name: pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in content], schema)
        for name, (schema, content) in contents.items()
    }
