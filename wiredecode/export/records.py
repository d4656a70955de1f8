"""Frames as records, byte for byte as ``pcap --json`` writes them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wiredecode.dataclasses import replace
from wiredecode.dissect.dissector import Dissector
from wiredecode.export.job import Export
from wiredecode.fields.layer import Style
from wiredecode.frames.columns import KEYS
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import BYTES, JsonArray, dumps, record, record_line
from wiredecode.protocols.catalogue import catalogue, generated_entries, known_columns
from wiredecode.protocols.registry import protocols

Record = dict[str, Any]
Line = Callable[[Frame], bytes]
Tree = dict[str, Any]
"""A tree of names: each leads to a Tree or None."""


class RecordExport(Export):
    """Records as lines or as one array, whole or with some of their columns."""

    def begin(self, *, analyse: bool) -> Dissector:
        """Open the output; return the dissector. Raises UnknownColumn."""
        job, demand = self.job, self.job.demand
        self._columns = None if demand.columns is None else _check_columns(demand.columns)
        self._show = BYTES[job.bytes or "hex"]
        if demand.select is not None and demand.stable_ids:
            demand.select.check_stable()
        style = Style(self._show, demand.show_secrets)
        dissector = Dissector(replace(job.read_twice(), style=style, analyse=analyse))
        self.open()
        return dissector

    def write(self, frames: Iterable[Frame], output: Any, guard: Callable[[Line], Line]) -> None:
        """Write the record of every frame to ``output``; ``guard`` protects what makes it."""
        line, self._output = guard(self._line()), output
        array = self._array = JsonArray(output.write, b"[\n", b"\n]\n") if self.form.name == "json" else None
        write = output.write if array is None else array.add
        for frame in frames:
            lines = line(frame)  # several, if another process made them
            self.done += lines.count(b"\n")
            write(lines)

    def _line(self) -> Line:
        ranges, show = self.job.ranges, self._show
        if self._columns is None:
            return lambda frame: record_line(frame, ranges=ranges, show=show)  # a partial takes longer
        pick = picker(self._columns)
        return lambda frame: dumps(pick(record(frame, ranges=ranges)), show)

    def end(self) -> None:
        """Close the array."""
        if self._array is not None:
            self._array.close()
            self._output.flush()


def _check_columns(names: Sequence[str]) -> list[str]:
    """The columns of records by name: their keys, and fields below ``layers``. Raises :class:`UnknownColumn`."""
    layers = [layer for protocol in protocols() for layer in protocol.layers()]
    fields = [entry.name for entry in (*catalogue(layers), *generated_entries(protocols()))]
    tops = dict.fromkeys(name.split(".")[0] for name in fields)
    columns = [*KEYS, *(f"layers.{name}" for name in (*tops, *fields))]
    return known_columns(names, columns, f"; there is {', '.join(KEYS)}")


def picker(names: Sequence[str]) -> Callable[[Record], Record]:
    """Selector of columns from a record: the same record with these keys only, in the order asked for.

    ``layers.rabbitmq_stream.stream`` keeps its place below ``layers``; names reach through arrays into their elements.
    Fields that a frame does not have are left out, as they are in the record.
    """
    wanted: Tree = {}
    for name in names:
        _add(wanted, name.split("."))
    return lambda record: _pick(record, wanted)


def _add(tree: Tree, path: list[str]) -> None:
    """Add a path; None means everything below a name."""
    *front, last = path
    for step in front:
        below = tree.setdefault(step, {})
        if below is None:
            return
        tree = below
    tree[last] = None


def _pick(value: Any, wanted: Tree | None) -> Any:
    if wanted is None:
        return value
    if isinstance(value, list):
        return [_pick(element, wanted) for element in value]
    if not isinstance(value, dict):
        return value
    return {name: _pick(value[name], below) for name, below in wanted.items() if name in value}
