"""Rows of the table of frames that were never frames: blocks, read by columns, put between the rows of frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from wiredecode.fields.columns.reader import COMPLETE, Columns, reader
from wiredecode.fields.columns.rows import Bools, Int64s
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames import columns
from wiredecode.frames.block import BlockLayer, FrameBlock
from wiredecode.frames.frame import OK, Frame
from wiredecode.protocols.reading import FrameDecoder
from wiredecode.tables.schema import OTHER


def per_block(values: Callable[[FrameBlock], Any]) -> Callable[[list[FrameBlock], pa.DataType], pa.Array]:
    """A column of which all frames of a block have the same value."""

    def column(blocks: list[FrameBlock], kind: pa.DataType) -> pa.Array:
        return pa.array(map(values, blocks), kind).take(
            pa.array(np.repeat(np.arange(len(blocks)), [*map(len, blocks)]))
        )

    return column


def per_kind(values: Callable[[FrameBlock], Sequence[Any]]) -> Callable[[list[FrameBlock], pa.DataType], pa.Array]:
    """A column that follows from the kinds: the value of each is in a tuple of the block."""

    def column(blocks: list[FrameBlock], kind: pa.DataType) -> pa.Array:
        known = [values(block) for block in blocks]
        firsts = np.cumsum([0, *map(len, known)])
        places = [first + block.kinds.astype(np.int64) for first, block in zip(firsts, blocks, strict=False)]
        return pa.array([*chain.from_iterable(known)], kind).take(pa.array(np.concatenate(places)))

    return column


def numbers(values: Callable[[FrameBlock], Int64s]) -> Callable[[list[FrameBlock], pa.DataType], pa.Array]:
    """A column of the block."""
    return lambda blocks, kind: pa.array(np.concatenate([values(block) for block in blocks])).cast(kind)


def copied_from(blocks: list[FrameBlock], kind: pa.DataType) -> pa.Array:
    found = np.concatenate([copies_of(block) for block in blocks])
    return pa.array(found, kind, mask=found == 0)


def copies_of(block: FrameBlock) -> Int64s:
    """Ids of the frames that its frames are copies of, 0 for none."""
    return np.zeros(len(block), np.int64) if block.copies is None else block.copies


def empty_lists(blocks: list[FrameBlock], kind: pa.DataType) -> pa.Array:
    offsets = np.zeros(sum(map(len, blocks)) + 1, np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.nulls(0, kind.value_type), type=kind)


def packets(blocks: list[FrameBlock], kind: pa.DataType) -> pa.Array:
    """The packets that carried each frame, in the order of their numbers, each once."""
    counts, found = zip(*map(carriers, blocks), strict=True)
    offsets = np.concatenate(([0], np.cumsum(np.concatenate(counts)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(found)), type=kind)


def carriers(block: FrameBlock) -> tuple[Int64s, Int64s]:
    """How many packets carried each frame, and their numbers."""
    if (np.diff(block.packet) <= 0).any():  # a packet that came in two pieces, or not in its turn
        lists = [
            sorted({*block.packet[low : high + 1].tolist()})
            for low, high in zip(block.low.tolist(), block.high.tolist(), strict=True)
        ]
        return np.array([*map(len, lists)], np.int64), np.array([*chain.from_iterable(lists)], np.int64)
    counts = block.high + 1 - block.low
    before = np.cumsum(counts) - counts
    return counts, block.packet[np.repeat(block.low - before, counts) + np.arange(int(counts.sum()))]


VALUES: dict[str, Callable[[list[FrameBlock], pa.DataType], pa.Array]] = {
    "frame": numbers(lambda block: block.ids),
    "time": numbers(lambda block: block.time_ns),
    "packets": packets,
    "offset": numbers(lambda block: block.base + block.starts),
    "length": numbers(lambda block: block.stops - block.starts),
    "protocol": per_kind(lambda block: block.protocols or (block.protocol,) * len(block.types)),
    "type": per_kind(lambda block: block.types),
    "code": per_kind(lambda block: block.codes or (None,) * len(block.types)),
    "findings": empty_lists,
    "copy_of": copied_from,
}
"""Columns that differ from frame to frame."""
COLUMNS = {each.name: per_block(attrgetter(each.attribute)) for each in columns.COLUMNS} | VALUES
"""All columns of blocks but ``layers``."""


# Layers.

FEW = 8
"""Fewer frames of one layer are read faster one by one."""


@dataclass(slots=True)
class LayerRows:
    """What is known of a layer in some rows of a table."""

    rows: Int64s
    """Which."""
    there: Bools
    """Which of them have the layer."""
    fields: Mapping[str, pa.Array]
    """Members of the layer, null where it is not there."""


@dataclass(slots=True)
class Wanted:
    """Frames that have the same layer, in the order of their rows."""

    rows: Int64s
    data: list[bytes]
    codes: Int64s
    generated: list[Mapping[str, Any]]
    """What other frames tell: ``generated[codes[i]]`` about frame i."""
    origin: list[Frame] | BlockFrames
    """The frames, which can make their records; or where in blocks they are."""
    copies: Int64s | None = None
    """Ids of the frames that frames of blocks are copies of, 0 for none."""

    def record(self, layer: type[Layer], index: int, style: Style) -> dict[str, Any]:
        """The layers of one of them, which columns could not hold."""
        if isinstance(self.origin, BlockFrames):
            return self.origin.record(layer, index, self.generated[int(self.codes[index])], style)
        return recorded(self.origin[index], style)


@dataclass(slots=True)
class BlockFrames:
    """Frames of blocks."""

    parts: list[tuple[FrameBlock, Int64s]]
    """Blocks, and which of their frames."""
    order: Int64s
    """Places of the frames among those of ``parts``."""

    def record(self, layer: type[Layer], index: int, generated: Mapping[str, Any], style: Style) -> dict[str, Any]:
        """The layers of one of the frames, as its conversation would have made them."""
        place = int(self.order[index])
        ends = np.cumsum([len(rows) for _, rows in self.parts])
        part = int(np.searchsorted(ends, place, "right"))
        block, rows = self.parts[part]
        row = int(rows[place - int(ends[part])])  # counted from behind
        frame = block.part(row, row + 1).frames()[0]
        FrameDecoder(layer, None).read(frame, style)
        assert frame.layers is not None
        made = frame.layers[layer.filter_name]
        made.update(generated)
        if block.copies is not None and block.copies[row]:
            made["copy_of"] = int(block.copies[row])
        layer.complete_record(made)
        layers: dict[str, Any] = frame.layers
        return layers


def recorded(frame: Frame, style: Style) -> dict[str, Any]:
    """The layers of a frame whose record may still be to be made."""
    if frame.recorder is not None:
        frame.recorder(frame, style)
        frame.recorder = None
    return frame.layers or {}


def of_frames(frames: list[Frame], rows: Int64s) -> tuple[dict[type[Layer], Wanted], list[int]]:
    """The frames that can be read as columns, by layer, and which of them are or become records; they have ``rows``."""
    found: dict[type[Layer], list[int]] = {}
    records = []
    for index, frame in enumerate(frames):
        if frame.recorder is None or frame.layer is None or frame.status != OK:
            records.append(index)
        else:
            found.setdefault(frame.layer, []).append(index)
    for layer, indexes in list(found.items()):
        if len(indexes) < FEW:
            records += found.pop(layer)
    return {layer: one_by_one(frames, rows, indexes) for layer, indexes in found.items()}, records


def one_by_one(frames: list[Frame], rows: Int64s, indexes: list[int]) -> Wanted:
    """Frames of one layer, each of which is an object."""
    order = np.array(indexes)[np.argsort(rows[indexes])]
    chosen = [frames[index] for index in order.tolist()]
    places: dict[int, int] = {}
    codes = [places.setdefault(id(frame.generated), len(places)) for frame in chosen]
    generated = list({id(frame.generated): frame.generated for frame in chosen}.values())
    data = [frame.data for frame in chosen]
    return Wanted(rows[order], data, np.array(codes), generated, chosen)


def by_layer(blocks: Iterable[FrameBlock], rows: Iterable[Int64s]) -> dict[type[Layer], Wanted]:
    """Sort the frames of blocks by layer; ``rows`` tells the row of each frame of each block."""
    found: dict[type[Layer], list[tuple[FrameBlock, Int64s, BlockLayer]]] = {}
    for block, own in zip(blocks, rows, strict=True):
        for each in block.layers:
            found.setdefault(each.layer, []).append((block, own[each.rows], each))
    return {layer: gathered(parts) for layer, parts in found.items()}


def gathered(parts: list[tuple[FrameBlock, Int64s, BlockLayer]]) -> Wanted:
    data: list[bytes] = []
    codes: list[Int64s] = []
    generated: list[Mapping[str, Any]] = []
    for block, _, each in parts:
        starts, stops = block.starts[each.rows].tolist(), block.stops[each.rows].tolist()
        data += [block.buffer[start:stop] for start, stop in zip(starts, stops, strict=True)]
        codes.append(each.codes + len(generated))
        generated += each.generated
    rows = np.concatenate([own for _, own, _ in parts])
    order = np.argsort(rows)
    ordered = [data[place] for place in order.tolist()]
    sources = [(block, each.rows) for block, _, each in parts]
    found = BlockFrames(sources, order)
    copies = np.concatenate([copies_of(block)[each.rows] for block, _, each in parts])[order]
    return Wanted(rows[order], ordered, np.concatenate(codes)[order], generated, found, copies)


def read(layer: type[Layer], wanted: Wanted, style: Style, raw: bool, kind: pa.StructType) -> tuple[LayerRows, Bools]:
    """What the table has of a layer, ``kind`` being its type of all layers; which of the frames that holds."""
    none = np.zeros(len(wanted.rows), np.bool_)
    nothing = LayerRows(wanted.rows[none], none[none], {})
    members = {member.name: member.type for member in kind}
    chosen = layer.filter_name in members or OTHER in members
    found = reader(layer, style, raw) if chosen or not isinstance(wanted.origin, BlockFrames) else None
    if found is None:
        return nothing, none if chosen or not isinstance(wanted.origin, BlockFrames) else ~none
    sizes = np.array([*map(len, wanted.data)], np.int64)
    stops = np.cumsum(sizes)
    columns = found.read(b"".join(wanted.data), stops - sizes, stops)
    if layer.filter_name not in members:
        return nothing, none if chosen else columns.plain
    return shown(layer, wanted, columns, members[layer.filter_name], nothing)


def shown(
    layer: type[Layer], wanted: Wanted, columns: Columns, kind: pa.StructType, nothing: LayerRows
) -> tuple[LayerRows, Bools]:
    """The members that the table has of a layer, and what other frames tell."""
    fields, plain = columns.fields, columns.plain
    if layer in COMPLETE:
        COMPLETE[layer](fields)
    for name in {name: None for values in wanted.generated for name in values}:
        fields[name] = pa.array([values.get(name) for values in wanted.generated]).take(pa.array(wanted.codes))
    if wanted.copies is not None and wanted.copies.any():
        fields["copy_of"] = pa.array(wanted.copies, mask=wanted.copies == 0)
    names = {field.name for field in kind}
    if OTHER in names and not holds(kind, pa.struct([(name, array.type) for name, array in fields.items()])):
        return nothing, np.zeros(len(plain), np.bool_)
    fields = {name: array for name, array in fields.items() if name in names}
    if not plain.all():
        fields = {name: array.filter(pa.array(plain)) for name, array in fields.items()}
    return LayerRows(wanted.rows[plain], plain[plain], fields), plain


def holds(kind: pa.DataType, found: pa.DataType) -> bool:
    """Whether a type has a place for every member of another: the rest has one in records only."""
    if pa.types.is_list(kind) and pa.types.is_list(found):
        return holds(kind.value_type, found.value_type)
    if not (pa.types.is_struct(kind) and pa.types.is_struct(found)):
        return True
    return all(
        kind.get_field_index(field.name) >= 0 and holds(kind.field(field.name).type, field.type) for field in found
    )


def parts_of(kind: pa.StructType, rows: Int64s, members: Mapping[str, pa.Array]) -> dict[str, LayerRows]:
    """The layers of rows that were made one by one."""
    found = {}
    for name, array in members.items():
        if name != OTHER:
            inner = zip(kind.field(name).type, array.flatten(), strict=True)
            fields = {field.name: column for field, column in inner if column.null_count < len(column)}
            found[name] = LayerRows(rows, np.asarray(array.is_valid()), fields)
    return found


class Joiner:
    """Puts the parts of columns of ``size`` rows together."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._places: dict[tuple[int, ...], pa.Array] = {}

    def joined(self, parts: Sequence[tuple[Int64s, pa.Array]], kind: pa.DataType) -> pa.Array:
        """``parts``: rows, and what is in them; null in all others."""
        arrays = [array if array.type == kind else array.cast(kind) for _, array in parts]
        first_rows = parts[0][0]
        if len(parts) == 1 and len(first_rows) == self.size and bool((np.diff(first_rows) > 0).all()):
            return arrays[0]
        key = tuple(id(rows) for rows, _ in parts)
        places = self._places.get(key)
        if places is None:
            found = np.full(self.size, -1, np.int64)
            first = 0
            for rows, _ in parts:
                found[rows] = np.arange(first, first + len(rows))
                first += len(rows)
            places = self._places[key] = pa.array(found, mask=found < 0)
        return (arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)).take(places)

    def layer(self, kind: pa.StructType, parts: Sequence[LayerRows]) -> tuple[dict[str, pa.Array], pa.Array | None]:
        """Those members of a layer that some part has, and where the layer is null."""
        there = np.zeros(self.size, np.bool_)
        for part in parts:
            there[part.rows[part.there]] = True
        columns = {}
        for field in kind:
            given = [(part.rows, part.fields[field.name]) for part in parts if field.name in part.fields]
            if given:
                columns[field.name] = self.joined(given, field.type)
        return columns, None if there.all() else pa.array(~there)
