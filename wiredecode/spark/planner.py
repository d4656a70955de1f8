"""Who decodes what: tasks that read only the files of their connections, or the shuffle (docs/spark.md, "The plan").

A connection that is in few files is decoded by a task that reads these, so no packet has to be sent anywhere. Where
connections are in many files, few tasks may each read all files; many would read too much, and packets are shuffled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from wiredecode.capture.batch import Int64s
from wiredecode.capture.errors import CaptureError
from wiredecode.net.buckets import Chosen, Uint64s, session
from wiredecode.spark.decode import TableDemand, ended, report_row, row_batch
from wiredecode.spark.index import counted, flat, rows_of, unit_numbers
from wiredecode.spark.packets import File, packed, report_text
from wiredecode.spark.splits import merged

Divide = Literal["auto", "direct", "shuffle"]
ONCE, MOST_READS = 1.5, 3.0
"""So often may all files be read, on average, by as many tasks as the shuffle has, and by one per core."""
NARROW = 2.0
"""A connection is in few files, if these have so many times the bytes that a task is meant to have."""
WORTHWHILE = 0.3
"""So much of all bytes must be decoded without a shuffle, or everything is shuffled."""
RATES = 20_000_000, 3_000_000
"""Bytes that a core decodes in a second: of messages in large batches, and of messages of a few bytes each."""
MB = 1_000_000


@dataclass(frozen=True)
class Task:
    """Connections that are decoded from some files, by themselves."""

    name: str
    source: str
    files: tuple[File, ...]
    units: Uint64s
    bytes: int
    reports: tuple[str, ...] = ()
    """On files that no other task tells of."""


@dataclass(frozen=True)
class Division:
    """``tasks``, and what is shuffled: of ``rows`` of the index the connections ``shuffled``, None: all of them."""

    tasks: list[Task] = field(default_factory=list)
    shuffled: dict[str, Uint64s] | None = None
    rows: list[int] | None = None
    lines: tuple[str, ...] = ()

    @property
    def shuffles(self) -> bool:
        return self.shuffled is None or bool(self.shuffled)


class Units:
    """What the index says of all connections: arrays with an entry for each, in the order of their first file."""

    def __init__(self, index: pa.Table, files: Sequence[File]) -> None:
        self.files = files
        self.size = np.zeros(len(files), np.int64)
        """Bytes of each file."""
        place = {(file.source, file.name): number for number, file in enumerate(files)}
        sources, names = index["source"].to_pylist(), index["file"].to_pylist()
        self.row_file = np.array([place[key] for key in zip(sources, names, strict=True)], np.int64)
        np.add.at(self.size, self.row_file, index["size"].to_numpy())
        codes = {name: number for number, name in enumerate(sorted(set(sources)))}
        self.sources = list(codes)
        counts = np.array([len(found) for found in index["unit"]], np.int64)
        self.entry_row = np.repeat(np.arange(len(index)), counts)
        row_source = np.array([codes[name] for name in sources], np.int64)
        keys = np.empty(len(self.entry_row), [("source", np.int64), ("unit", np.uint64)])
        keys["source"], keys["unit"] = row_source[self.entry_row], unit_numbers(index)
        found, first, self.entry_unit = np.unique(keys, return_index=True, return_inverse=True)
        self.source, self.unit, count = found["source"], found["unit"], len(found)
        self.bytes = np.bincount(self.entry_unit, flat(index, "bytes"), minlength=count).astype(np.int64)
        self._names, self._first = index["name"], first
        pairs = np.unique(self.entry_unit * max(len(files), 1) + self.row_file[self.entry_row])
        self.pair_unit, self.pair_file = np.divmod(pairs, max(len(files), 1))
        self.files_bytes = np.bincount(self.pair_unit, self.size[self.pair_file], minlength=count).astype(np.int64)
        self.first_file = np.full(count, len(files), np.int64)
        np.minimum.at(self.first_file, self.pair_unit, self.pair_file)
        broken = {codes[name] for name, whole in zip(sources, index["whole"].to_pylist(), strict=True) if not whole}
        self.whole = ~np.isin(self.source, list(broken))
        """Whether they can be decoded from files alone."""

    def __len__(self) -> int:
        return len(self.unit)

    def name(self, number: int) -> str:
        """Both endpoints."""
        return str(pa.concat_arrays([part.flatten() for part in self._names.chunks])[int(self._first[number])])

    def files_of(self, chosen: Int64s) -> Int64s:
        """The files that some units are in."""
        return np.unique(self.pair_file[np.isin(self.pair_unit, chosen)])


def divided(
    index: pa.Table, files: Sequence[File], demand: TableDemand, tasks: int, cores: int, divide: Divide
) -> Division:
    """Who decodes what. ``files`` in their order; ``tasks``: as many as the shuffle has; ``cores``: of the cluster."""
    if not len(index):
        return Division()
    units = Units(index, files)
    total = int(units.size.sum())
    usable = np.flatnonzero(units.whole)
    if divide == "shuffle" or not len(usable):
        return Division(lines=plan_lines(units, None, [], demand))
    groups = in_turn(units, usable, tasks)
    if reads(units, groups) > ONCE * total:
        few = balanced(units, usable, cores)
        if reads(units, few) <= MOST_READS * total or divide == "direct":
            groups = few
        else:
            narrow = usable[units.files_bytes[usable] <= NARROW * total / tasks]
            groups = in_turn(units, narrow, tasks)
            if units.bytes[narrow].sum() < WORTHWHILE * total or reads(units, groups) > ONCE * total:
                return Division(lines=plan_lines(units, None, [], demand))
    direct = np.concatenate(groups) if groups else np.empty(0, np.int64)
    rest = np.setdiff1d(np.arange(len(units)), direct)
    shuffled = {units.sources[code]: units.unit[rest[units.source[rest] == code]] for code in set(units.source[rest])}
    read = sorted({int(row) for row in units.entry_row[np.isin(units.entry_unit, rest)]})
    made = [task(units, group, number) for number, group in enumerate(groups)]
    made = reporting(made, index, units, set(read))
    return Division(made, shuffled, read, plan_lines(units, rest, groups, demand))


def in_turn(units: Units, chosen: Int64s, count: int) -> list[Int64s]:
    """Units for ``count`` tasks: those that begin in the same files together."""
    most = math.ceil(units.bytes[chosen].sum() / max(count, 1))
    order = chosen[np.lexsort((units.files_bytes[chosen], units.first_file[chosen], units.source[chosen]))]
    groups: list[list[int]] = []
    filled, source = 0, -1
    for number in order.tolist():
        if not groups or filled + units.bytes[number] > most or units.source[number] != source:
            groups.append([])
            filled, source = 0, int(units.source[number])
        groups[-1].append(number)
        filled += int(units.bytes[number])
    return [np.array(group, np.int64) for group in groups]


def balanced(units: Units, chosen: Int64s, count: int) -> list[Int64s]:
    """Units for ``count`` tasks of each source, the largest first, each to who has least."""
    groups: list[list[int]] = []
    for source in np.unique(units.source[chosen]).tolist():
        own = chosen[units.source[chosen] == source]
        some: list[list[int]] = [[] for _ in range(min(count, len(own)))]
        filled = [0] * len(some)
        for number in own[np.argsort(-units.bytes[own], kind="stable")].tolist():
            least = filled.index(min(filled))
            some[least].append(number)
            filled[least] += int(units.bytes[number])
        groups += some
    return [np.array(group, np.int64) for group in groups]


def reads(units: Units, groups: Sequence[Int64s]) -> int:
    """Bytes that all tasks read together."""
    group_of = np.full(len(units), -1, np.int64)
    for number, group in enumerate(groups):
        group_of[group] = number
    mine = group_of[units.pair_unit]
    pairs = np.unique(mine[mine >= 0] * len(units.files) + units.pair_file[mine >= 0])
    return int(units.size[pairs % max(len(units.files), 1)].sum())


def task(units: Units, group: Int64s, number: int) -> Task:
    files = tuple(units.files[place] for place in units.files_of(group).tolist())
    source = units.sources[int(units.source[group[0]])]
    return Task(f"task {number}", source, files, np.sort(units.unit[group]), int(units.bytes[group].sum()))


def reporting(tasks: list[Task], index: pa.Table, units: Units, shuffled: set[int]) -> list[Task]:
    """The same, and each tells of files that nobody before told of; those that the shuffle reads are told of there."""
    left = [number for number in range(len(index)) if number not in shuffled]
    teller: dict[tuple[str, str], int] = {}
    for number, each in enumerate(tasks):
        for file in each.files:
            teller.setdefault((file.source, file.name), number)
    texts: list[list[str]] = [[] for _ in tasks]
    for row in rows_of(index, left):
        own = texts[teller.get((row["source"], row["file"]), 0)]
        own += [report_text(row["source"], problem=text, file=row["file"]) for text in row["problems"]]
        own.append(report_text(row["source"], totals=packed(counted(row)), file=row["file"], place=row["place"]))
    return [replace(each, reports=tuple(own)) for each, own in zip(tasks, texts, strict=True)]


def plan_lines(units: Units, rest: Int64s | None, groups: Sequence[Int64s], demand: TableDemand) -> tuple[str, ...]:
    """The plan in lines for people."""
    total, size = int(units.bytes.sum()), int(units.size.sum())
    shuffled = total if rest is None else int(units.bytes[rest].sum())
    lines = []
    if groups:
        times = reads(units, groups) / max(size, 1)
        count = f"{len(groups)} task{'s' if len(groups) > 1 else ''}"
        lines.append(
            f"{count} decode {_mb(total - shuffled)} without a shuffle; together they read all files {times:.1f} times"
        )
    if shuffled:
        why = "" if units.whole.all() else "; there are fragments of IP or TLS secrets in files, or a limit was reached"
        lines.append(f"{_mb(shuffled)} are shuffled by connection{why}")
    if len(units):
        most = int(np.argmax(units.bytes))
        least, longest = (units.bytes[most] / rate for rate in RATES)
        share = units.bytes[most] / max(total, 1)
        known = {int(session(name)) for name in demand.sessions.values()}
        alone = ", which know of each other and are not divided" if int(units.unit[most]) in known else ""
        lines.append(
            f"largest of {len(units):,}: {units.name(most)}{alone}: {_mb(units.bytes[most])}, {share:.0%}, "
            f"about {least:,.0f} to {longest:,.0f} s of one core, by the size of messages"
        )
    return tuple(lines)


def _mb(size: Any) -> str:
    return f"{int(size) / MB:,.1f} MB"


# What a task does.


def direct(task: Task, demand: TableDemand) -> Iterator[pa.RecordBatch]:
    """The rows of the connections of a task, and reports; files that are damaged were told of by the index."""
    schema = demand.row_schema()
    yield from (report_row(text, schema) for text in task.reports)
    reader = demand.reader(merged(task.files), Chosen(task.units, demand.sessions, 1))
    try:
        for batch in reader:
            yield row_batch(batch, task.source, demand)
    except CaptureError:
        if demand.fail_fast:
            raise
    yield ended(reader, task.source, task.name, demand)
