"""Frames as record batches: the record of docs/records.md, typed (docs/tables.md, "Frames").

Built from the records that conversations make (``frame.layers``), dissected with a style whose ``show`` returns bytes
unchanged, or renders them if the schema says so. A value that its column cannot hold is in the ``other`` of
its layer, so that nothing is lost.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import orjson
import pyarrow as pa

from wiredecode.fields.layer import Style
from wiredecode.filter.values import KEEP
from wiredecode.frames import columns
from wiredecode.frames.escape import valid
from wiredecode.frames.frame import Frame, strip
from wiredecode.frames.record import BYTES, encode_json
from wiredecode.tables.schema import INTEGER_RANGES, ORDER, OTHER, RAW, is_enumeration, is_json

OnMisfit = Callable[[int, str, Any], None]
"""Takes a value that has no column: its row, its path from there (``.messages[0].key``), and the value."""

Show = Callable[[bytes], str]

COLUMNS: dict[str, Callable[[Frame], Any]] = {
    **{each.name: attrgetter(each.attribute) for each in columns.COLUMNS},
    ORDER.name: attrgetter("number"),
    "layers": lambda frame: frame.layers or {},
    "copy_of": lambda frame: frame.generated.get("copy_of"),
    "findings": lambda frame: [finding.record() for finding in frame.findings] if frame.findings else [],
}


def style_for(bytes_choice: str = RAW, *, show_secrets: bool = False) -> Style:
    """The style with which frames are dissected for a table. ``bytes_choice``: ``raw``, or a key of ``BYTES``."""
    return Style(KEEP if bytes_choice == RAW else BYTES[bytes_choice], show_secrets)


class FrameTable:
    """Makes record batches of ``schema``: :func:`~wiredecode.tables.schema.frames_schema`, or some of its columns.

    ``bytes_choice`` says how bytes are shown where text has them: in columns of JSON text, for example.
    """

    def __init__(self, schema: pa.Schema, bytes_choice: str = RAW, *, failures: Counter[str] | None = None) -> None:
        self.schema = schema
        self._failures: Counter[str] = Counter() if failures is None else failures
        """Errors of wiredecode that cost the contents of a row."""
        show = BYTES["hex" if bytes_choice == RAW else bytes_choice]
        self._builder = ArrayBuilder(show)

    def batch(self, frames: Sequence[Frame]) -> pa.RecordBatch:
        """One row per frame."""
        try:
            return self._batch(frames)
        except Exception:
            for frame in frames:
                try:
                    self._batch([frame])
                except Exception as error:
                    self._failures[strip(frame, error, "put into a table").message] += 1
            return self._batch(frames)

    def _batch(self, frames: Sequence[Frame]) -> pa.RecordBatch:
        columns = [
            self._builder.layers(field, list(map(COLUMNS["layers"], frames)))
            if field.name == "layers"
            else self._column(field, frames)
            for field in self.schema
        ]
        return pa.record_batch(columns, schema=self.schema)

    def _column(self, field: pa.Field, frames: Sequence[Frame]) -> pa.Array:
        values = list(map(COLUMNS[field.name], frames))
        if field.name == "time":
            return pa.array(values, pa.int64()).cast(field.type)
        return self._builder.array(field, values, ignore)


def ignore(row: int, path: str, value: Any) -> None:
    """For columns whose values always fit."""


class ArrayBuilder:
    """JSON-ready values into arrays. ``show`` renders bytes in text."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._nulls: dict[pa.DataType, pa.Array] = {}

    def layers(self, field: pa.Field, records: list[dict[str, Any]]) -> pa.Array:
        return self.fill(len(records), field.type, self.members(field.type, records))

    def members(self, kind: pa.StructType, records: list[dict[str, Any]]) -> dict[str, pa.Array]:
        """The layers that the records have; the ``other`` of each takes what has no place in it."""
        given = _scatter(records)
        unknown: dict[int, dict[str, Any]] = {}
        names = {member.name for member in kind}
        for name in sorted(given.keys() - names):
            for row, value in enumerate(given[name]):
                if value is not None:
                    unknown.setdefault(row, {})[name] = value
        columns = {member.name: self._layer(member, given[member.name]) for member in kind if member.name in given}
        if unknown and OTHER in names:
            columns[OTHER] = self._json([unknown.get(row) for row in range(len(records))])
        return columns

    def fill(self, size: int, kind: pa.StructType, columns: dict[str, pa.Array], mask: pa.Array = None) -> pa.Array:
        """A structure of these members; the others are null."""
        whole = [columns[field.name] if field.name in columns else self.null(size, field.type) for field in kind]
        return pa.StructArray.from_arrays(whole, fields=list(kind), mask=mask)

    def _layer(self, field: pa.Field, records: list[Any]) -> pa.Array:
        undeclared: dict[int, dict[str, Any]] = {}

        def misfit(row: int, path: str, value: Any) -> None:
            undeclared.setdefault(row, {})[path.removeprefix(".")] = value

        def others() -> pa.Array:
            return self._json([undeclared.get(row) for row in range(len(records))]) if undeclared else None

        return self._struct(field.type, records, misfit, others)

    def array(self, field: pa.Field, values: list[Any], misfit: OnMisfit) -> pa.Array:
        """A column of ``values``, null where one is None; values that do not fit are reported, and null."""
        kind = field.type
        if is_json(field):
            return self._json(values)
        if pa.types.is_struct(kind):
            return self._struct(kind, _only(dict, values, misfit), misfit)
        if pa.types.is_list(kind):
            return self._list(kind, _only(list, values, misfit), misfit)
        if pa.types.is_timestamp(kind):
            return _times(kind, values, misfit)
        if pa.types.is_string(kind):
            return text_array(self._texts(field, values, misfit), kind)
        if pa.types.is_binary(kind):
            return pa.array(_only(bytes, values, misfit), kind)
        if pa.types.is_boolean(kind):
            return pa.array(_only(bool, values, misfit), kind)
        return _integers(kind, values, misfit)

    def _struct(
        self, kind: pa.StructType, values: list[Any], misfit: OnMisfit, others: Callable[[], pa.Array] | None = None
    ) -> pa.Array:
        """``others`` makes the member OTHER, once everything is reported."""
        size, given = len(values), _scatter(values)
        columns = {}
        for field in kind:
            column = given.pop(field.name, None)
            if column is not None:
                columns[field.name] = self.array(field, column, _below(misfit, f".{field.name}"))
        for name in sorted(given):  # names without a member
            for row, value in enumerate(given[name]):
                if value is not None:
                    misfit(row, f".{name}", value)
        if others is not None and (undeclared := others()) is not None:
            columns[OTHER] = undeclared
        return self.fill(size, kind, columns, _mask(values))

    def _list(self, kind: pa.ListType, values: list[Any], misfit: OnMisfit) -> pa.Array:
        offsets = [0, *accumulate([len(value) if value else 0 for value in values])]

        def misfit_of_element(element: int, path: str, value: Any) -> None:
            row = bisect_right(offsets, element) - 1
            misfit(row, f"[{element - offsets[row]}]{path}", value)

        elements = self.array(kind.value_field, list(chain.from_iterable(filter(None, values))), misfit_of_element)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type=kind, mask=_mask(values))

    def _texts(self, field: pa.Field, values: list[Any], misfit: OnMisfit) -> list[str | None]:
        kinds = set(map(type, values))
        if kinds <= {str, type(None)}:
            return values
        if bytes in kinds:  # records show text, or bytes that are no text
            values = [self._show(value) if type(value) is bytes else value for value in values]
        if is_enumeration(field):  # a number without a name is its own name
            values = [str(value) if isinstance(value, int) else value for value in values]
        return _only(str, values, misfit)

    def _json(self, values: list[Any]) -> pa.Array:
        show = self._show
        try:  # nearly always; text, as bytes of orjson keep room for more
            texts = [None if value is None else orjson.dumps(value, show).decode() for value in values]
        except TypeError:
            texts = [None if value is None else encode_json(value, show).decode() for value in values]
        return pa.array(texts, pa.string())

    def null(self, size: int, kind: pa.DataType) -> pa.Array:
        """Nulls; those of the last size are kept, as a wide structure of nulls is slow to make."""
        nulls = self._nulls.get(kind)
        if nulls is None or len(nulls) < size:
            nulls = self._nulls[kind] = pa.nulls(size, kind)
        return nulls if len(nulls) == size else nulls.slice(0, size)


def text_array(values: list[str | None], kind: pa.DataType) -> pa.Array:
    """Texts; those that are no Unicode are written out."""
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array(valid(values), kind)


def _scatter(records: Iterable[dict[str, Any] | None]) -> dict[str, list[Any]]:
    """Records as columns, one per key that occurs and in no order."""
    rows = [record or {} for record in records]
    columns: dict[str, list[Any]] = {name: [None] * len(rows) for name in set().union(*rows)}
    for index, row in enumerate(rows):
        for name, value in row.items():
            columns[name][index] = value
    return columns


def _below(misfit: OnMisfit, prefix: str) -> OnMisfit:
    return lambda row, path, value: misfit(row, prefix + path, value)


def _mask(values: list[Any]) -> pa.Array | None:
    """Where a structure or list is null."""
    return pa.array([value is None for value in values], pa.bool_()) if None in values else None


def _only(wanted: type, values: list[Any], misfit: OnMisfit) -> list[Any]:
    """The values; those of another type are reported and left out."""
    if all(issubclass(kind, wanted) for kind in set(map(type, values)) - {type(None)}):
        return values
    return _fitting(values, misfit, lambda value: isinstance(value, wanted))


def _fitting(values: list[Any], misfit: OnMisfit, fits: Callable[[Any], bool]) -> list[Any]:
    kept = []
    for row, value in enumerate(values):
        fitting = value is None or fits(value)
        kept.append(value if fitting else None)
        if not fitting:
            misfit(row, "", value)
    return kept


def _integers(kind: pa.DataType, values: list[Any], misfit: OnMisfit) -> pa.Array:
    if float not in set(map(type, values)):  # Arrow would truncate it; it refuses all other types
        try:
            return pa.array(values, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
    holds = INTEGER_RANGES[kind]
    whole = _fitting(
        values, misfit, lambda value: isinstance(value, int) and type(value) is not bool and value in holds
    )
    return pa.array(whole, kind)


def _times(kind: pa.TimestampType, values: list[Any], misfit: OnMisfit) -> pa.Array:
    """Times from RFC 3339 text; times beyond its range are numbers in records, and null here."""
    texts = _only(str, values, misfit)
    try:
        return pa.array(texts, pa.string()).cast(kind)
    except pa.ArrowInvalid:
        return pa.array(_fitting(texts, misfit, _is_time), pa.string()).cast(kind)


def _is_time(text: str) -> bool:
    try:
        pa.scalar(text).cast(pa.timestamp("ms", "UTC"))
    except pa.ArrowInvalid:
        return False
    return True
