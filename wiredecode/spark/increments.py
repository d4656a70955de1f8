"""Runs that continue earlier ones: nothing is read again, and connections continue (docs/spark.md, "Increments").

Each run is a *step*, one commit of tables of Delta or Iceberg. ``log.json`` in the folder of states has the files of
every step, and the states of its buckets, from which the next step continues.
A late file begins before a step ends: that step and the later ones are done again from the state before it, as one
step, which replaces their rows.

The plan of a step is in ``next.json`` until the step is in the log: after a kill it is done again unchanged.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache, partial
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from wiredecode.capture import CaptureError
from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.remote import location_of, open_file, store_errors
from wiredecode.dataclasses import asdict, dataclass, field, replace
from wiredecode.dissect import stored
from wiredecode.export.lake import open_lake
from wiredecode.export.lake.run import TableRun, content, run_of
from wiredecode.export.lake.table import TABLES, create_file
from wiredecode.frames.totals import Totals
from wiredecode.spark import pipeline
from wiredecode.spark.accounts import TaskReports
from wiredecode.spark.decode import BucketReader, Decoded, TableDemand
from wiredecode.spark.files import Inputs, find
from wiredecode.spark.folder import lock_folder
from wiredecode.spark.parcels import packets, report_text
from wiredecode.spark.pipeline import Metrics, Tasks, make_plan
from wiredecode.spark.writing import LakeRun
from wiredecode.tables.reader import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FORMAT = 8
"""Version of the folder of states; increase it if anything stored changes, also attributes of classes."""
CODEC = "zstd"
OPTIONS = "the states were written with other options: repeat those, or name a new folder of states"
VERSION = (
    "the states were written by {}, and this is {}: finish with that version (the same command with --finish), "
    "then name a new folder of states"
)
DAMAGED = "the state is damaged: name a new folder of states"


class OtherState(ValueError):
    """A state of another version or another demand; ``str()`` is one line."""


class BucketState(BucketReader):
    """Decodes the packets of a bucket in several runs.

    ``dumps`` and ``loads`` keep it between runs: rows are those of :func:`wiredecode.spark.decode.decode` for any
    division of the packets. Open requests and incomplete frames wait in the state.
    """

    def __init__(self, demand: TableDemand, source: str, bucket: int) -> None:
        super().__init__(demand, source, bucket, blocks=False)
        self.packets = 0
        """Number of packets."""

    def feed(self, batch: PacketBatch) -> Iterator[Rows]:
        """The rows that the next packets complete; they are counted from ``packets`` + 1."""
        self.packets += len(batch)
        return self.convert(self.push(self.dissector.feed(batch)))

    def finish(self, since: Totals | None = None) -> Iterator[Decoded]:
        """The rows of all that waits, and the report; ``since``: what earlier reports counted."""
        yield from self.convert(self.push(self.dissector.finish()))
        yield self.report(since)

    def dumps(self) -> bytes:
        """The state as bytes: sizes and digest, and the compressed result of :func:`stored.dump`."""
        nodes, blobs = stored.dump((self.packets, *self.suspend()))
        packed: bytes = pa.compress(nodes + blobs, CODEC, asbytes=True)
        return b"%d %d %s\n%s" % (len(nodes), len(blobs), digest(packed).encode(), packed)

    @classmethod
    def loads(cls, demand: TableDemand, source: str, bucket: int, data: bytes) -> BucketState:
        """The state of :meth:`dumps`. Raises :class:`OtherState`."""
        header, _, packed = data.partition(b"\n")
        *sizes, summed = header.split(b" ")
        if summed != digest(packed).encode() or len(sizes) != 2:
            raise OtherState(DAMAGED)
        state = cls(demand, source, bucket)
        of_nodes, of_blobs = map(int, sizes)
        try:
            data = pa.decompress(packed, of_nodes + of_blobs, CODEC, asbytes=True)
            state.packets, *kept = stored.load(data[:of_nodes], data[of_nodes:])
        except (AttributeError, LookupError, TypeError, ValueError) as error:  # a class that is missing or has changed
            raise OtherState(VERSION.format(f"another wiredecode ({error})", running())) from None
        state.resume(*kept)
        return state


def mark(demand: TableDemand) -> str:
    """Format, version, and a digest of the demand: what states depend on."""
    return f"{FORMAT} {running()} {digest(repr(sorted(demand.__getstate__().items())).encode())}"


def check(written: str, demand: TableDemand) -> None:
    """Raise :class:`OtherState` if the mark of states is not that of this version and ``demand``."""
    number, _, rest = written.partition(" ")
    before = rest.partition(" ")[0]
    if not number.isdigit() or not before:
        raise OtherState(DAMAGED)
    if (number, before) != (str(FORMAT), running()):
        raise OtherState(VERSION.format(f"wiredecode {before} (format {number})", f"{running()} (format {FORMAT})"))
    if written != mark(demand):
        raise OtherState(OPTIONS)


def running() -> str:
    """The version of this program."""
    try:
        return version("wiredecode")
    except PackageNotFoundError:  # out of a checkout, or an archive
        return "unknown"


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


LOG, NEXT, STATE = "log.json", "next.json", "state-"
STEPS_WITH_STATES = 35
"""The last steps that keep their states: files that are later than all of them are left out."""
State = Sequence[Any]
"""Source, bucket, and the file that holds the state."""


@dataclass(frozen=True)
class StepFile:
    """A file of a step. ``digest``: of its content."""

    source: str
    first_ns: int
    size: int
    digest: str


@dataclass
class IncrementStep:
    """One unit of work. Without files it brings all connections to their end."""

    number: int
    files: dict[str, StepFile] = field(default_factory=dict)
    before: int = 0
    """Number of steps of the log that stay; this one replaces the others."""
    last: dict[str, int] = field(default_factory=dict)
    """Time of the last packet of each source, in ns."""
    states: list[State] | None = None
    """States of all buckets after it; None: no longer kept."""
    forgotten: int = 0
    """Files of old steps that are gone."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> IncrementStep:
        return cls(**{**values, "files": {name: StepFile(**file) for name, file in values["files"].items()}})


@dataclass
class StepLog:
    """All steps. ``mark``, ``out``: what they belong to; ``buckets``: of each source."""

    out: str
    mark: str
    buckets: int
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    number: int = 0
    steps: list[IncrementStep] = field(default_factory=list)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> StepLog:
        return cls(**{**values, "steps": [IncrementStep.of(step) for step in values["steps"]]})

    def states(self, steps: int) -> list[State] | None:
        """The states after this many steps."""
        return self.steps[steps - 1].states if steps else []


class ProcessedFiles:
    """The folder of states, wherever fsspec reaches."""

    def __init__(self, uri: str) -> None:
        location = location_of(uri)
        self.uri, self._system, self._path = location.name(location.path).rstrip("/"), location.system, location.path
        self._local = isinstance(self._system, pafs.LocalFileSystem)

    def read(self, name: str) -> Any:
        """Contents of a file of JSON; None: there is none."""
        with store_errors():
            if self._system.get_file_info(f"{self._path}/{name}").type is pafs.FileType.NotFound:
                return None
            with self._system.open_input_stream(f"{self._path}/{name}") as file:
                return json.loads(file.read())

    def write(self, name: str, values: Any) -> None:
        """Write a file atomically."""
        part = f"{name}.part" if self._local else name
        with create_file(f"{self.uri}/{part}") as file:
            file.write(json.dumps(values, indent=1).encode())
        if self._local:
            self._system.move(f"{self._path}/{part}", f"{self._path}/{name}")

    def keep(self, log: StepLog, there: Container[str] = ()) -> None:
        """End of a step: drop unneeded states, failed attempts and old steps. ``there``: existing files."""
        if len(log.steps) > STEPS_WITH_STATES:
            log.steps[:-STEPS_WITH_STATES] = [merge_steps(log.steps[:-STEPS_WITH_STATES], there)]
        self.write(LOG, asdict(log))
        needed = {name for step in log.steps for _, _, name in step.states or ()}
        with store_errors():
            for each in self._system.get_file_info(pafs.FileSelector(self._path)):
                if each.base_name == NEXT or (each.base_name.startswith(STATE) and each.base_name not in needed):
                    self._system.delete_file(each.path)


def merge_steps(steps: list[IncrementStep], there: Container[str]) -> IncrementStep:
    """Return one step in place of old ones, with the files that still exist and without states."""
    files = {name: file for step in steps for name, file in step.files.items()}
    kept = {name: file for name, file in files.items() if name in there}
    gone = sum(step.forgotten for step in steps) + len(files) - len(kept)
    last: dict[str, int] = {}
    for step in steps:
        for source, time_ns in step.last.items():
            last[source] = max(time_ns, last.get(source, time_ns))
    return IncrementStep(steps[-1].number, kept, last=last, forgotten=gone)


# The next step.


Rewritten = Callable[[int], bool]
"""Whether tables were compacted, so that the steps from this index on cannot be replaced."""


def next_step(
    log: StepLog, inputs: Inputs, rewritten: Rewritten, *, finish: bool
) -> tuple[IncrementStep | None, list[str]]:
    """Return the next step, and reports on files that come too late."""
    fresh = new_files(log, inputs)
    reports = []
    stays = {name: _before(log, file.source, file.first_ns, name) for name, file in fresh.items()}
    there = {file.name for file in inputs.files}
    for name in sorted(stays, key=stays.__getitem__):
        if why := _refusal_reason(log, stays[name], there, rewritten):
            reports.append(_left_out(name, fresh.pop(name), why))
            del stays[name]
    if fresh:
        before = min(stays.values())
        again = {name: file for step in log.steps[before:] for name, file in step.files.items()}
        return IncrementStep(log.number + 1, {**again, **fresh}, before), reports
    if finish and log.steps and log.steps[-1].states:
        return IncrementStep(log.number + 1, before=len(log.steps)), reports
    return None, reports


def _left_out(name: str, file: StepFile, why: str) -> str:
    """A report on a file that comes too late."""
    text = f"{name}: begins before what was read already, {why}; it is left out"
    return report_text(file.source, problem=text, file=name)


def new_files(log: StepLog, inputs: Inputs) -> dict[str, StepFile]:
    """The files whose content no step has. Those of a known name, size and first packet are not read."""
    processed = {name: file for step in log.steps for name, file in step.files.items()}
    digests = {file.digest for file in processed.values()}
    fresh: dict[str, StepFile] = {}
    for file in inputs.files:
        size = inputs.sizes[file.name]
        have = processed.get(file.name)
        if have is not None and (have.first_ns, have.size) == (file.first_ns, size):
            continue
        with suppress(CaptureError, OSError):  # it is gone already
            digest, _ = content(file.name)
            if digest not in digests:
                digests.add(digest)
                fresh[file.name] = StepFile(file.source, file.first_ns, size, digest)
    return fresh


def _before(log: StepLog, source: str, first_ns: int, name: str) -> int:
    """Number of steps that end before a file begins, and do not have a file of its name."""
    for number, step in enumerate(log.steps):
        if name in step.files or first_ns <= step.last.get(source, -1):
            return number
    return len(log.steps)


COMPACTED = "and the tables were compacted since"


def _refusal_reason(log: StepLog, before: int, there: set[str], rewritten: Rewritten) -> str | None:
    """Why steps cannot be done again."""
    again = log.steps[before:]
    if log.states(before) is None:
        return f"{len(again)} runs ago, of which no state is kept"
    gone = {name for step in again for name in step.files} - there
    if count := len(gone) + sum(step.forgotten for step in again):
        return f"together with {count} files that are gone"
    if any(not step.files for step in again):
        return "and all connections were brought to their end"
    return COMPACTED if again and rewritten(before) else None


# In tasks.


@dataclass(frozen=True)
class StateDecoder:
    """Decodes from the states of an earlier step to those of the next, which are files below ``uri``."""

    uri: str
    number: int
    states: Mapping[tuple[str, int], str]

    def __call__(
        self, source: str, bucket: int, rows: Iterator[pa.RecordBatch], demand: TableDemand
    ) -> Iterator[Decoded]:
        """As :func:`wiredecode.spark.decode.decode_bucket`; the report names the new state."""
        state = self.load(source, bucket, demand)
        counted = deepcopy(state.totals)
        for batch in packets(rows, state.packets + 1):
            yield from state.feed(batch)
        name = f"{STATE}{self.number:06}-{secrets.token_hex(6)}"
        with create_file(f"{self.uri}/{name}") as file:
            file.write(state.dumps())
        yield state.report(counted, state=name)

    def load(self, source: str, bucket: int, demand: TableDemand) -> BucketState:
        name = self.states.get((source, bucket))
        if name is None:
            return BucketState(demand, source, bucket)
        with open_file(f"{self.uri}/{name}") as file:
            return BucketState.loads(demand, source, bucket, file.read())

    def finish(self, rows: Iterator[pa.RecordBatch], tasks: Tasks, demand: TableDemand) -> Iterator[Decoded]:
        """Bring the connections of states to their end."""
        for source, bucket in tasks.of(rows):
            state = self.load(source, bucket, demand)
            yield from state.finish(since=deepcopy(state.totals))


# In the driver.


@dataclass
class Increment:
    """Runs that add ``demand`` to the tables at ``out``, with their states in ``book``.

    ``selected``: what of the captures is written, by level, as tables remember it; ``source``: as for
    :func:`pipeline.rows`; ``how``: options of ``pipeline.make_plan``.
    """

    out: str
    book: ProcessedFiles
    demand: TableDemand
    selected: Callable[[str], str]
    source: str = "none"
    how: Mapping[str, Any] = field(default_factory=dict)
    metrics: Metrics | None = None

    def run(self, spark: SparkSession, inputs: Inputs, *, finish: bool = False) -> TaskReports | None:
        """Do the next step; None: nothing to do. Raises ``ValueError`` if the states are of another run."""
        reports = [report_text(each.source, problem=each.text, file=each.file) for each in inputs.problems]
        there = {file.name for file in inputs.files}
        done = False
        with lock_folder(self.book.uri):
            log = self.log()
            pending = self.book.read(NEXT)
            if pending is not None and pending["number"] > log.number:
                planned = IncrementStep.of(pending)
                if self._is_rewritten(log, planned.before):
                    known = {name for earlier in log.steps for name in earlier.files}
                    fresh = {name: file for name, file in planned.files.items() if name not in known | there}
                    reports += [_left_out(name, file, COMPACTED) for name, file in fresh.items()]
                    self.book.keep(log)
                else:
                    reports += self._do(spark, log, planned, there, again=True)
                    done = True
            elif pending is not None or self.book.read(LOG) is None:
                self.book.keep(log)  # the log has that step: only the end of `keep` was missed
            while True:
                step, late = next_step(log, inputs, cache(partial(self._is_rewritten, log)), finish=finish)
                if step is None:
                    break
                self.book.write(NEXT, asdict(step))
                reports += self._do(spark, log, step, there)
                done = True
        return TaskReports.of([*reports, *late]) if done or reports or late else None

    def log(self) -> StepLog:
        """The steps until now. Raises ``ValueError`` if the states are of another run, or of another version."""
        kept = self.book.read(LOG)
        if kept is None:
            return StepLog(self.out, mark(self.demand), self.demand.buckets)
        self.demand = replace(self.demand, buckets=kept.get("buckets", self.demand.buckets))
        check(kept.get("mark", ""), self.demand)
        log = StepLog.of(kept)
        if log.out != self.out:
            raise ValueError(f"these are the states of {log.out}; name another folder for {self.out}")
        return log

    def _do(
        self, spark: SparkSession, log: StepLog, step: IncrementStep, there: set[str], *, again: bool = False
    ) -> list[str]:
        """Do a step, and add it to the log; its reports. ``again``: it may be there already."""
        previous = {(source, bucket): name for source, bucket, name in log.states(step.before) or ()}
        decoder = StateDecoder(self.book.uri, step.number, previous)
        run = partial(self._run, log, step)
        tables = LakeRun(self.out, self.demand.levels, run, self.selected, overwrite=again)
        if step.files:
            how = {**self.how, "buckets": self.demand.buckets}
            plan = make_plan(spark, find(list(step.files), self.source), self.demand, **how)
            plan = replace(plan, sampled=False)
            rows = pipeline.decode_plan(spark, plan, tables.sink, decoder=decoder, metrics=self.metrics)
        else:
            tasks = Tasks([each] for each in previous)
            tail = partial(decoder.finish, tasks=tasks, demand=self.demand)
            rows = pipeline.map_tasks(tasks.rows(spark), tail, tables.sink, self.metrics)
        accounts = tables.commit(rows)
        step.last = {source: totals.last_ns for source, totals in accounts.sources.items() if totals.packets}
        behind = previous | accounts.states if step.files else {}
        step.states = [(source, bucket, name) for (source, bucket), name in behind.items()]
        log.number, log.steps = step.number, [*log.steps[: step.before], step]
        self.book.keep(log, there)
        return accounts.reports

    def _is_rewritten(self, log: StepLog, before: int) -> bool:
        """Whether a table was compacted since the steps after the first ``before``: it knows their rows no longer."""
        again = {name: file for step in log.steps[before:] for name, file in step.files.items()}
        if not again:
            return False
        lake, step = open_lake(self.out), IncrementStep(0, again, before)
        levels = {name: [name.partition("_")[0]] for name in lake.tables()} | {TABLES: self.demand.levels}
        return any(
            lake.is_rewritten(name, self._run(log, step, level)) for name, some in levels.items() for level in some
        )

    def _run(self, log: StepLog, step: IncrementStep, level: str) -> TableRun:
        """The table's run of the step: by its captures, also by those that have changed since."""
        if not step.files:
            return TableRun((), (log.id, step.number))
        files = [item for each in (*log.steps[step.before :], step) for item in each.files.items()]
        captures = {file.digest: (name, file.size, file.digest) for name, file in files}
        return run_of(captures.values(), self.selected(level), self.demand.columns)
