"""Captures from Python: ``wiredecode.read`` (docs/python.md)."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from glob import glob, has_magic
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from wiredecode.capture import CaptureError, open_capture
from wiredecode.dataclasses import dataclass, field, replace
from wiredecode.dissect.dissector import ConnectionCallback, Demand, Dissector
from wiredecode.extras import need
from wiredecode.frames.escape import escape as printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.totals import Totals
from wiredecode.net.limits import limits_of
from wiredecode.protocols.registry import decoding
from wiredecode.view.notebook import ShownFrame, row_fields, style

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.filter import Filter
    from wiredecode.tables.reader import LevelsReader
    from wiredecode.tls.keylog import KeyLog

Path_ = str | os.PathLike[str] | BinaryIO
Item = TypeVar("Item")

__all__ = ["DamagedCapture", "Dissection", "read"]

FRAMES, MESSAGES, PACKETS, CONNECTIONS, FLOWS = LEVELS = ("frames", "messages", "packets", "connections", "flows")
RAW = "raw"
CAPTURE, STABLE = "capture", "stable"
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

    Raises ValueError for a wrong argument, or a pattern that nothing matches; OSError for a key log.
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

        compile_filter(filter, secrets=show_secrets, utc=utc)
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
class Dissection:
    """Captures, dissected as often as asked: made by :func:`read`.

    Iterating gives Frame objects one by one, in order, or dictionaries at the other levels. It
    is an Arrow stream too (``__arrow_c_stream__``): polars, DuckDB and pyarrow take it as it is.
    """

    paths: list[str | BinaryIO]
    demand: Demand
    filter: str | None = None
    strict: bool = True
    utc: bool = False
    errors: list[CaptureError] = field(default_factory=list, init=False)
    """Read errors of the last run."""
    _reader_in_use: Any = field(default=None, init=False)
    _length: int | None = field(default=None, init=False)
    _running: weakref.WeakSet[Generator[Any]] = field(default_factory=weakref.WeakSet, init=False)

    def __iter__(self) -> Iterator[Any]:
        return self._start(self._frames() if self.level == FRAMES else self._rows())

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

    def flows(self, by: str = "topic") -> pa.Table:
        """Publishers, topics and consumers: a row per topic and consumer, as ``wiredecode flows --json`` has it.

        ``by``: ``topic``, ``partition``, ``client`` or ``second``. Raises ``ValueError`` for another word.
        """
        from wiredecode.flows import Flows
        from wiredecode.flows.table import BY, rows
        from wiredecode.frames.message import Messages
        from wiredecode.tables.flows import table

        if by not in BY:
            raise ValueError(f"by={by!r}: it is one of {', '.join(BY)}")
        counted, display = Flows(by_second=by == "second", copies=True), self._display()
        messages = Messages()
        demand = replace(counted.demand(self.demand, messages), select=display)
        for frame in self._whole(self._dissector(demand).frames(open_capture(self.paths))):
            parts = messages.of(frame)
            if display is None or display.matches(frame):
                counted.frame(frame, parts)
        return table(rows(counted.portable(), by))

    def _at(self, level: str) -> Dissection:
        if level == self.level:
            return self
        return replace(self, demand=replace(self.demand, levels=(level,), columns=None))

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
        dissector = self._dissector(self._read_twice(demand))
        if display is None:
            yield from self._whole(dissector.frames(packets))
            return
        for frame in self._whole(dissector.frames(packets)):
            if display.matches(frame):
                yield frame

    def frames_and_choices(
        self, wanted: Callable[[Demand], Demand], ended: ConnectionCallback | None
    ) -> Generator[tuple[Frame, bool]]:
        """All frames, and whether the filter chooses them. ``wanted``: what is done; ``ended``: gets connections."""
        display, packets = self._display(), open_capture(self.paths)
        dissector = self._dissector(wanted(self.demand).for_filters(display), on_decoded=ended)
        for frame in self._whole(dissector.frames(packets)):
            yield frame, display is None or display.matches(frame)

    def _dissector(self, demand: Demand, on_decoded: ConnectionCallback | None = None) -> Dissector:
        """A dissector whose totals are those of the run."""
        dissector = self._reader_in_use = Dissector(demand, on_decoded=on_decoded)
        return dissector

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
            warnings.warn(str(error), DamagedCapture, stacklevel=3)

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
        for _, batch in self._whole(reader.rows(open_capture(self.paths))):
            yield projection.apply(batch)

    def table(self) -> pa.Table:
        """Everything as one Arrow table, in memory."""
        return self.reader().read_all()

    to_arrow = table

    def to_pandas(self) -> Any:
        """Everything as a pandas DataFrame: integers in pandas' nullable types (``Int64``), nested values in
        ``ArrowDtype``, so that none is rounded beside a missing one. Needs pandas.
        """
        need("pandas", "to_pandas()")
        return self.table().to_pandas(types_mapper=exact_type)

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        """The rows of :meth:`to_pandas` for ``pandas.DataFrame(capture)``, as dataclasses, which it takes apart."""
        import numpy

        table = self.to_pandas()
        row = type("Row", (), {"__dataclass_fields__": row_fields(table)})
        rows = numpy.empty(len(table), object)
        for index, values in enumerate(table.itertuples(index=False, name=None)):
            rows[index] = row()
            vars(rows[index]).update(zip(table, values, strict=True))
        return rows

    def to_polars(self) -> Any:
        """Everything as a polars DataFrame. Needs polars."""
        need("polars", "to_polars()")
        import polars

        return polars.DataFrame(self)

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


def exact_type(kind: pa.DataType) -> Any:
    """The type of pandas that holds all values of an Arrow type; None: the one that Arrow chooses."""
    import pandas
    from pyarrow import types

    if types.is_nested(kind):
        return pandas.ArrowDtype(kind)
    name = str(kind).replace("uint", "UInt").replace("int", "Int")  # Int64, UInt32
    return pandas.api.types.pandas_dtype(name) if types.is_integer(kind) else None


def _keys(keylog: str | os.PathLike[str]) -> KeyLog:
    """The TLS secrets of a file."""
    need("cryptography", "keylog")
    from wiredecode.tls.keylog import KeyLog

    return KeyLog([Path(keylog)])
