"""Captures from Python: ``wiredecode.read``, ``check``, ``follow`` and others (docs/python.md)."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from glob import glob, has_magic
from html import escape
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from wiredecode.capture import CaptureError, open_capture
from wiredecode.capture.errors import Postponed
from wiredecode.dataclasses import dataclass, field, replace
from wiredecode.dissect.dissector import ConnectionCallback, Demand, Dissector
from wiredecode.extras import need
from wiredecode.frames.escape import escape as printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import BYTES as CHOICES
from wiredecode.frames.totals import Totals
from wiredecode.net.limits import limits_of
from wiredecode.protocols.registry import decoding
from wiredecode.results import CaptureAnswer, Tabular, exact_type
from wiredecode.view.notebook import ShownFrame, style

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.capture.batch import PacketBatch
    from wiredecode.filter import Filter
    from wiredecode.results import CheckResult, FlowsResult, FollowResult, StatsResult, TraceResult
    from wiredecode.tables.reader import LevelsReader
    from wiredecode.tls.keylog import KeyLog

Path_ = str | os.PathLike[str] | BinaryIO
Item = TypeVar("Item")
Made = TypeVar("Made", bound=CaptureAnswer)

__all__ = ["DamagedCapture", "Dissection", "check", "exact_type", "flows", "follow", "read", "stats", "trace"]

FRAMES, MESSAGES, PACKETS, CONNECTIONS, FLOWS = LEVELS = ("frames", "messages", "packets", "connections", "flows")
RAW = "raw"
CAPTURE, STABLE = "capture", "stable"
ALL = range(sys.maxsize)
"""Every frame or row."""
SHOWN = 10
"""Frames of a capture that a notebook shows."""


class DamagedCapture(UserWarning):
    """Part of a capture could not be read; what came before it is in the result."""


def read(
    paths: Path_ | Iterable[Path_],
    *,
    level: str = FRAMES,
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002 - as -Y is called
    decode_as: Mapping[int, str] | None = None,
    bytes: str = RAW,  # noqa: A002 - as --bytes
    show_secrets: bool = False,
    limits: Mapping[str, float] | None = None,
    keylog: str | os.PathLike[str] | None = None,
    strict: bool = True,
    ids: str = CAPTURE,
    utc: bool = False,
    two_passes: bool = False,
) -> Dissection:
    """Dissect captures; nothing is opened before the result is used.

    paths: a file name, several (one capture in time order), ``-`` for standard input, or binary file objects. A name
    that is no file may be a pattern: ``ring/*.pcap``.
    level: what iterating and tables give: ``frames``, ``messages``, ``packets``, ``connections`` or ``flows``. columns:
    of tables, such as ``["time", "type", "layers.nats.subject"]``. filter: only what a display filter chooses, such as
    ``"latency > 5ms"`` (docs/filters.md). decode_as: what is spoken on a port, ``{15552: "rabbitmq_stream"}`` or
    ``"nats/3"`` with a dialect. bytes: how tables hold bytes: ``raw``, or text as ``hex``, ``base64``, ``text``,
    ``sha256``, ``length``. show_secrets: leave passwords and tokens readable. limits: of reassembly, by name, as
    ``--limit`` has them. strict: damage raises CaptureError, after everything before it came out; otherwise it is a
    DamagedCapture warning. ids: ``capture`` numbers connections, frames and packets; ``stable`` is for tables that are
    made of a capture part by part (docs/tables.md, "Stable ids"). utc: times in ``filter`` that name no zone are
    in UTC, not in that of this machine. two_passes: frames and messages know answers that come later than one pass can
    wait for (outcome ``late``), since the captures are read once more before.

    keylog: a file of TLS secrets (docs/tls.md), for which the extra ``tls`` is needed.

    Raises ValueError for a wrong argument, column or filter, or a pattern that nothing matches; OSError for a key log.
    """
    single = isinstance(paths, str | os.PathLike) or hasattr(paths, "read")
    given: Any = paths
    several: list[Any] = [given] if single else list(given)
    if level not in LEVELS:
        raise ValueError(f"no level is called {level!r}; there is {', '.join(LEVELS)}")
    if ids not in (CAPTURE, STABLE):
        raise ValueError(f"there are no {ids!r} ids; there are {CAPTURE} and {STABLE}")
    if filter is not None:
        from wiredecode.filter import compile_filter

        display = compile_filter(filter, secrets=show_secrets, utc=utc)
        if level == PACKETS:
            from wiredecode.tables.reader import where

            where(display, level, blocks=False)
    if bytes not in (RAW, *CHOICES):
        raise ValueError(f"bytes={bytes!r}: it is one of {', '.join((RAW, *CHOICES))}")
    if isinstance(columns, str):
        raise ValueError(f"columns are a list: columns=[{columns!r}]")
    if columns is not None:
        from wiredecode.tables.reader import table_schema
        from wiredecode.tables.schema import select

        select(table_schema(level, bytes), columns)
    demand = Demand(
        levels=(level,),
        columns=None if columns is None else list(columns),
        decode_as=decoding(decode_as or {}),
        bytes_choice=bytes,
        show_secrets=show_secrets,
        limits=limits_of(limits or {}),
        keys=None if keylog is None else _keys(keylog),
        stable_ids=ids == STABLE,
        two_passes=two_passes,
    )
    return Dissection([each for path in several for each in _files_of(path)], demand, filter, strict=strict, utc=utc)


def check(paths: Path_ | Iterable[Path_], **reading: Any) -> CheckResult:
    """Find the problems of captures: ``assert not wiredecode.check("a.pcap").errors``.

    ``reading``: further arguments of :func:`read`, which has also the errors.
    """
    return read(paths, **reading).check()


def follow(
    paths: Path_ | Iterable[Path_],
    connection: int | None = None,
    *,
    address: str | None = None,
    port: int | None = None,
    **reading: Any,
) -> FollowResult:
    """Show one connection as a dialogue, see :meth:`Dissection.follow`. ``reading``: arguments of :func:`read`."""
    return read(paths, **reading).follow(connection, address=address, port=port)


def trace(paths: Path_ | Iterable[Path_], *, nth: int = 1, **wanted: Any) -> TraceResult:
    """Follow one message to its consumers: arguments of :meth:`Dissection.trace`, the others are of :func:`read`."""
    reading = {name: wanted.pop(name) for name in [*wanted] if name in READING}
    return read(paths, **reading).trace(nth=nth, **wanted)


def stats(
    paths: Path_ | Iterable[Path_],
    *,
    tables: Sequence[str] | None = None,
    interval: str = "auto",
    hops: bool = False,
    **reading: Any,
) -> StatsResult:
    """Count what is in captures, see :meth:`Dissection.stats`. ``reading``: arguments of :func:`read`."""
    return read(paths, **reading).stats(tables=tables, interval=interval, hops=hops)


def flows(paths: Path_ | Iterable[Path_], by: str = "topic", **reading: Any) -> FlowsResult:
    """See who publishes what, and who gets it: :meth:`Dissection.flows`. ``reading``: arguments of :func:`read`."""
    return read(paths, **reading).flows(by)


def _files_of(path: Path_) -> list[str | BinaryIO]:
    """The file, or those that a pattern matches."""
    if not isinstance(path, str | os.PathLike):
        return [path]
    name = os.fspath(path)
    if not has_magic(name) or os.path.lexists(name):
        return [name]
    matching: list[str | BinaryIO] = [*sorted(glob(name))]  # noqa: PTH207 - the pattern may be absolute
    if not matching:
        raise ValueError(f"no file matches {name!r}")
    return matching


@dataclass(repr=False, eq=False)
class Dissection(Tabular):
    """Captures, dissected as often as asked: made by :func:`read`.

    Iterating gives Frame objects one by one, in order, or dictionaries at the other levels. It
    is an Arrow stream too (``__arrow_c_stream__``): polars, DuckDB and pyarrow take it as it is.
    """

    paths: list[str | BinaryIO]
    demand: Demand
    filter: str | None = None
    strict: bool = True
    utc: bool = False
    part: range = ALL
    """The frames or rows that are meant."""
    errors: list[CaptureError] = field(default_factory=list, init=False)
    """Read errors of the last run."""
    _damage: Postponed = field(default_factory=Postponed, init=False)
    """Of the last pass for an answer."""
    _reader_in_use: Any = field(default=None, init=False)
    _length: int | None = field(default=None, init=False)
    _first_ns: int = field(default=0, init=False)
    """Time of the first packet of the last pass."""
    _running: weakref.WeakSet[Generator[Any]] = field(default_factory=weakref.WeakSet, init=False)

    def __iter__(self) -> Iterator[Any]:
        if self.level != FRAMES:
            return self._start(self._rows())
        return self._start(self._frames())

    def __getitem__(self, key: int | slice) -> Any:
        """``capture[30]``: one frame or row, counted from 0; ``capture[10:20]``: a dissection of only these.

        The captures are read up to there. Raises IndexError beyond the end, ValueError for a step.
        """
        if isinstance(key, slice):
            if key.step not in (None, 1):
                raise ValueError("every row of a part is meant: leave out the step")
            negative = any(each is not None and each < 0 for each in (key.start, key.stop))
            meant = range(len(self))[key] if negative else ALL[key]
            return replace(self, part=self.part[meant.start : meant.stop])
        place = key + len(self) if key < 0 else key
        if place >= 0:
            with closing(iter(self[place : place + 1])) as running:
                for item in running:
                    return item
        raise IndexError(f"there is no number {key}: {self.level} are counted from 0")

    def head(self, n: int = 5) -> Dissection:
        """The first ``n`` frames or rows."""
        part: Dissection = self[:n]
        return part

    def __len__(self) -> int:
        """Number of frames, messages or packets; the captures are read for it once, which is quicker than
        iterating. Raises TypeError for streams, which can be read once.
        """
        if self._is_stream:
            raise TypeError("a stream can be read once: count while iterating")
        if self._length is None:
            twice, columns = self.demand.two_passes and self.filter is not None, self.schema.names[:1]
            narrow = replace(self, demand=replace(self.demand, columns=columns, two_passes=twice), strict=False)
            with warnings.catch_warnings(action="ignore", category=DamagedCapture):
                self._length = sum(len(batch) for batch in narrow.batches())
        return self._length

    def __bool__(self) -> bool:
        return True

    def frames(self) -> Dissection:
        """The same captures at the level of frames."""
        return self._at(FRAMES)

    def messages(self) -> Dissection:
        """The same captures at the level of messages: a row per published or delivered message."""
        return self._at(MESSAGES)

    def packets(self) -> Dissection:
        """The same captures at the level of packets."""
        return self._at(PACKETS)

    def connections(self) -> Dissection:
        """The same captures at the level of connections: who, how they began and ended, and their TCP health."""
        return self._at(CONNECTIONS)

    def _at(self, level: str) -> Dissection:
        if level == self.level:
            return self
        return replace(self, demand=replace(self.demand, levels=(level,), columns=None), part=ALL)

    # Answers of one pass, as commands give them.

    def check(self) -> CheckResult:
        """Find problems: ``.errors``, ``.warnings``, ``.notes``; as text the report of ``wiredecode check``.

        With a filter: the problems of connections that have a frame that it chooses, and of the whole capture.
        Damage raises CaptureError, as in iterating; its ``result`` are the problems before it.
        """
        from wiredecode.check import Checker
        from wiredecode.check.verdict import concerns, verdict
        from wiredecode.results import CheckResult

        checker, chosen = Checker(), set[int]()
        for frame, counts in self.chosen_frames(checker.demand(self.demand), on_end=checker.end, look=checker.look):
            checker.frame(frame)
            if counts:
                chosen.add(frame.connection.number)
        problems = [each for each in checker.finish() if self.filter is None or concerns(each, chosen)]
        conclusion = verdict(checker.coverage, problems, self.totals, damaged=bool(self.errors))
        return self._answer(CheckResult(problems, conclusion, checker.report.first_ns, [*map(str, self.paths)]))

    def stats(self, *, tables: Sequence[str] | None = None, interval: str = "auto", hops: bool = False) -> StatsResult:
        """Count frames, latencies, confirms, throughput and more: ``stats["latency"]`` is an Arrow table.

        ``tables``: names, all by default. ``interval``: of throughput, as ``10s``; ``auto`` is one that fits. ``hops``:
        messages that servers pass on count each time. Raises ValueError for other words.
        """
        from wiredecode.results import StatsResult
        from wiredecode.stats.counters import Counters
        from wiredecode.stats.tables import choose_statistics, seconds

        wanted, length = choose_statistics(tables), None if interval == "auto" else seconds(interval)
        counters = Counters(wanted, length, hops=hops, whole=self.filter is None)
        for frame, counts in self.chosen_frames(counters.demand(self.demand), on_decoded=counters.end):
            counters.frame(frame, counts=counts)
        counted = counters.finish()
        return self._answer(StatsResult({statistic.name: counted.table(statistic) for statistic in wanted}))

    def flows(self, by: str = "topic") -> FlowsResult:
        """Publishers, topics and consumers: a row per topic and consumer, as ``wiredecode flows --json`` has it.

        ``by``: ``topic``, ``partition``, ``client`` or ``second``. Raises ValueError for another word.
        """
        from wiredecode.flows import Flows
        from wiredecode.flows.table import BY, rows
        from wiredecode.frames.message import Messages
        from wiredecode.results import FlowsResult

        if by not in BY:
            raise ValueError(f"by={by!r}: it is one of {', '.join(BY)}")
        counted, messages = Flows(by_second=by == "second", copies=True), Messages()
        for frame, counts in self.chosen_frames(counted.demand(self.demand, messages)):
            parts = messages.of(frame)
            if counts:
                counted.frame(frame, parts)
        return self._answer(FlowsResult(rows(counted.portable(), by), by, self._first_ns))

    def trace(
        self,
        *,
        frame: int | None = None,
        message: int | None = None,
        id: str | int | None = None,  # noqa: A002 - as --id
        topic: str | None = None,
        text: str | None = None,
        body: bytes | None = None,
        key: str | bytes | None = None,
        nth: int = 1,
        own_clocks: bool = False,
    ) -> TraceResult:
        """Follow one message to its consumers, as ``wiredecode trace`` does, in two passes.

        ``frame``: its number, ``message``: which one of the frame, from 1. ``id``: publishing id, sequence, offset,
        correlation or message id. ``text``, ``body``: what its body holds. ``nth``: which match, from 1.
        ``own_clocks``: several captures keep their own times. Raises ValueError if nothing says which message,
        or there is no nth match, and TypeError for streams.
        """
        from wiredecode.results import TraceResult
        from wiredecode.trace import Collector, Criteria, Finder
        from wiredecode.trace.clocks import compare

        if frame is None and id is None and text is None and body is None and key is None:
            raise ValueError("which message? Give frame=, id=, text=, body= or key=")
        if self._is_stream:
            raise TypeError("a stream can be read once, and a trace reads twice")
        contents = [] if text is None else [text.encode(errors="surrogateescape")]
        contents += [] if body is None else [body]
        wanted = key.encode(errors="surrogateescape") if isinstance(key, str) else key
        index, name = None if message is None else message - 1, None if id is None else str(id)
        finder = Finder(Criteria(frame, index, name, topic, wanted, tuple(contents)))
        files = [str(path) for path in self.paths]
        shifts = [0 if each is None else -each.offset_ns for each in ([] if own_clocks else compare(files))]
        demand = replace(self.demand, link_responses=False, messages=finder.messages)
        for each, _ in self.chosen_frames(demand, shifts_ns=shifts):
            finder.frame(each)
        if not finder.found:
            return self._answer(TraceResult([], nth, self._first_ns, finder.why()))
        collector = Collector(finder.found)
        demand = replace(self.demand, link_responses=True, messages=collector.messages)
        for each, _ in self.chosen_frames(demand, shifts_ns=shifts):
            collector.frame(each)
        found = collector.found()
        if not 0 < nth <= len(found):
            raise ValueError(f"nth={nth}: the messages that match are {len(found)}")
        return self._answer(TraceResult(found, nth, self._first_ns, ""))

    def follow(
        self, connection: int | None = None, *, address: str | None = None, port: int | None = None
    ) -> FollowResult:
        """Follow one connection: its frames, and as text the dialogue of ``wiredecode follow``.

        ``connection``: its number; without it the only one with frames that address, port and filter choose. Raises
        LookupError if there is none, or if several fit.
        """
        from wiredecode.results import FollowResult

        number = self._connection(connection, address, port)
        frames = replace(
            self.frames(), filter=f"tcp.stream == {number}", part=ALL, strict=self.strict and not self.errors
        )
        return self._answer(FollowResult(number, frames, frames._dialogue))

    def _connection(self, number: int | None, address: str | None, port: int | None) -> int:
        """The number of the connection that is meant."""
        from wiredecode.view.follow import ConnectionFilter, Survey

        survey, wanted = Survey(self._display()), ConnectionFilter(number, address, port)
        for frame, _ in self.chosen_frames(replace(self.demand, link_responses=False, copies=False)):
            survey.frame(frame)
        fit = [each for each in survey.activities if survey.fits(each) and wanted.fits(each.connection)]
        if len(fit) == 1:
            return fit[0].connection.number
        if not fit:
            raise LookupError("no connection with frames fits")
        numbers = ", ".join(str(each.connection.number) for each in fit[:SHOWN])
        more = f" and {len(fit) - SHOWN:,} more" if len(fit) > SHOWN else ""
        raise LookupError(f"which connection? These have frames: {numbers}{more}")

    def _dialogue(self) -> str:
        """The dialogue of a connection, which the filter chooses."""
        from wiredecode.frames.message import Messages
        from wiredecode.view.dialogue import Dialogue
        from wiredecode.view.theme import TreeOptions

        parts, messages = list[str](), Messages(secrets=self.demand.show_secrets)
        sink: Any = SimpleNamespace(text=parts.append, encoding="utf-8")
        demand = replace(self.demand, link_responses=True, messages=messages)

        def frames() -> Iterator[Frame]:
            for frame, counts in self.chosen_frames(demand):
                if counts:
                    yield frame
                else:
                    messages.of(frame)

        Dialogue(sink, TreeOptions(secrets=self.demand.show_secrets), messages=messages).show(frames())
        return "".join(parts).rstrip("\n")

    @property
    def level(self) -> str:
        """The level that iterating and tables give."""
        return self.demand.levels[0]

    # Frames and rows.

    def _read_twice(self, demand: Demand) -> Demand:
        """The demand with answers to requests that are answered late, found by a first pass, if one is wanted."""
        if demand.two_passes and self._is_stream and self.level in (FRAMES, MESSAGES):
            raise TypeError("a stream can be read once: leave out two_passes")
        return demand.read_twice(lambda: open_capture(self.paths))

    def _frames(self) -> Generator[Frame]:
        display, packets = self._display(), open_capture(self.paths)
        shown = style(show_secrets=self.demand.show_secrets)
        demand = replace(self.demand, style=shown, select=display, frame=ShownFrame)
        dissector = self._reader_in_use = Dissector(self._read_twice(demand))
        if display is None:
            yield from islice(self._whole(dissector.frames(packets)), self.part.start, self.part.stop)
            return
        matching = (frame for frame in self._whole(dissector.frames(packets)) if display.matches(frame))
        yield from islice(matching, self.part.start, self.part.stop)

    def chosen_frames(
        self,
        demand: Demand,
        *,
        on_end: ConnectionCallback | None = None,
        on_decoded: ConnectionCallback | None = None,
        look: Callable[[PacketBatch], None] | None = None,
        shifts_ns: Sequence[int] = (),
    ) -> Generator[tuple[Frame, bool]]:
        """All frames before damage, and whether the filter chooses them. ``demand``: of the pass.

        ``on_end``, ``on_decoded``: get connections that are over. ``look``: gets packets before their frames.
        ``shifts_ns``: what is added to the times of each capture.
        """
        display, self._first_ns = self._display(), 0
        packets = open_capture(self.paths, shifts_ns=shifts_ns) if any(shifts_ns) else open_capture(self.paths)

        def seen() -> Iterator[PacketBatch]:
            for batch in packets:
                if len(batch) and not self._first_ns:
                    self._first_ns = int(batch.time_ns[0])
                if look is not None:
                    look(batch)
                yield batch

        demand = demand.read_twice(lambda: open_capture(self.paths)).for_filters(display)
        dissector = self._reader_in_use = Dissector(demand, on_end=on_end, on_decoded=on_decoded)
        self.errors, self._damage = [], Postponed()
        with self._damage:
            for frame in dissector.frames(seen()):
                yield frame, display is None or display.matches(frame)
        if self._damage.error is not None:
            self.errors = self._damage.error.errors

    def _answer(self, result: Made) -> Made:
        """The result, which keeps damage of the last run; this is raised with it, or a warning."""
        error = self._damage.error
        if error is not None:
            result.damage = self.errors
            if self.strict:
                error.result = result
                raise error
            _warn(error)
        return result

    def _display(self) -> Filter | None:
        """The filter, new for every run."""
        if self.filter is None:
            return None
        from wiredecode.filter import compile_filter

        return compile_filter(self.filter, secrets=self.demand.show_secrets, utc=self.utc)

    def _rows(self) -> Generator[dict[str, Any]]:
        from wiredecode.tables.rows import rows

        for batch in self.batches():
            yield from rows(batch, lambda data: data)

    def _whole(self, items: Iterable[Item]) -> Generator[Item]:
        """The items; damage is raised or reported after the last one."""
        self.errors = []
        try:
            yield from items
        except CaptureError as error:
            self.errors = error.errors
            if self.strict:
                raise
            _warn(error)

    def _start(self, running: Generator[Item]) -> Generator[Item]:
        self._running.add(running)
        return running

    # Tables.

    @property
    def schema(self) -> pa.Schema:
        """The schema of tables and batches (docs/tables.md); nothing is read for it."""
        from wiredecode.export.tables import Projection

        return Projection.of(self._reader().schemas[self.level], self.demand.columns).schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches of bounded size, in order. Needs pyarrow."""
        return self._start(self._batches())

    def _batches(self) -> Generator[pa.RecordBatch]:
        from wiredecode.export.tables import Projection

        reader = self._reader_in_use = self._reader()
        projection = Projection.of(reader.schemas[self.level], self.demand.columns)
        first, end = self.part.start, self.part.stop
        done = 0
        for _, batch in self._whole(reader.rows(open_capture(self.paths))):
            rows = batch.slice(max(first - done, 0), max(end - max(first, done), 0))
            done += len(batch)
            if len(rows) or self.part == ALL:
                yield projection.apply(rows)
            if done >= end:
                return

    def table(self) -> pa.Table:
        """Everything as one Arrow table, in memory. Damage raises CaptureError; its ``result`` has the rows before."""
        import pyarrow as pa

        batches = []
        try:
            for batch in self.batches():
                batches.append(batch)  # noqa: PERF402 - those before damage are kept
        except CaptureError as error:
            error.result = pa.Table.from_batches(batches, self.schema)
            raise
        return pa.Table.from_batches(batches, self.schema)

    def reader(self) -> pa.RecordBatchReader:
        """A pyarrow reader of the batches, which can be used once."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface; every call begins anew."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def _reader(self) -> LevelsReader:
        from wiredecode.tables.reader import LevelsReader

        return LevelsReader(self._read_twice(replace(self.demand, select=self._display())))

    # Accounts.

    @property
    def totals(self) -> Totals:
        """Totals of every packet and byte, of the last run; before the first one, the captures are read for it."""
        if self._reader_in_use is None:
            for _ in self:
                pass
        totals: Totals = self._reader_in_use.totals
        return totals

    def close(self) -> None:
        """End iterations that are under way, and close their files."""
        for running in list(self._running):
            running.close()

    def __enter__(self) -> Dissection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # For people.

    @property
    def _is_stream(self) -> bool:
        return any(not isinstance(path, str) or path == "-" for path in self.paths)

    @property
    def name(self) -> str:
        """The files, in a few words."""
        first = self.paths[0]
        name = printable(Path(first).name if isinstance(first, str) else str(getattr(first, "name", "stream")))
        return name if len(self.paths) == 1 else f"{name} and {len(self.paths) - 1} more"

    def __repr__(self) -> str:
        return f"<Dissection of {self.name}, {self.level}>"

    def _repr_html_(self) -> str:
        """The first frames, a line each that opens to a tree; of streams, which can be read once, the name only."""
        head = f"<p>{escape(repr(self))}</p>"
        if self.level != FRAMES or self._is_stream:
            return head
        shown, running = [], replace(self, strict=False)
        with running, warnings.catch_warnings(action="ignore", category=DamagedCapture):
            for frame in running:
                shown.append(frame._repr_html_())
                if len(shown) == SHOWN:
                    break
        return head + "".join(shown) + (f"<p>the first {SHOWN} frames</p>" if len(shown) == SHOWN else "")


def _warn(error: CaptureError) -> None:
    """A DamagedCapture warning that names the line of the user, however many functions of packages are between."""
    level, caller = 1, sys._getframe()
    while caller.f_back is not None and str(caller.f_globals.get("__name__")).partition(".")[0] in BETWEEN:
        level, caller = level + 1, caller.f_back
    warnings.warn(str(error), DamagedCapture, stacklevel=level)


BETWEEN = frozenset(("wiredecode", "pandas", "polars", "pyarrow", "duckdb"))
"""Packages that read captures for the user."""
READING = frozenset(inspect.signature(read).parameters) - {"paths"}
"""Arguments of :func:`read`."""


def _keys(keylog: str | os.PathLike[str]) -> KeyLog:
    """The TLS secrets of a file."""
    need("cryptography", "keylog")
    from wiredecode.tls.keylog import KeyLog

    return KeyLog([Path(keylog)])
