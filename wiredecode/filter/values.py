"""Reads the values of one field from a frame: from its record, or from values decoded without one."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from wiredecode.dataclasses import replace
from wiredecode.fields import EPOCH, Array, Kind, Number, Struct, compiler, plain, redact
from wiredecode.fields.credentials import without_secrets
from wiredecode.fields.layer import Added, Layer, Style
from wiredecode.filter.model import Level, Type, Values
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.carried import without_carried_secrets

KEEP: Callable[[bytes], Any] = bytes
"""Shows bytes unchanged."""
RAW = Style(show=KEEP)
"""Records for filters: bytes stay bytes, secrets stay hidden."""
Reader = Callable[[Frame], Values]


class Records:
    """The records of frames that were decoded without one; the last is kept, since filters ask several times."""

    def __init__(self, *, secrets: bool = False) -> None:
        self.style = replace(RAW, secrets=True) if secrets else RAW
        self._frame: Frame | None = None
        self._layers: dict[str, Any] = {}

    def of(self, frame: Frame) -> dict[str, Any]:
        """The record of the frame's layers, with bytes as bytes; as declared, not as other frames complete it."""
        if frame is not self._frame:
            self._layers, self._frame = layers_of(frame, self.style), frame
        return self._layers


def layers_of(frame: Frame, style: Style) -> dict[str, Any]:
    """Layers of a record for a frame decoded without: all declared fields, and generated ones at the top."""
    if frame.layer is None:
        return {}
    try:
        if frame.is_partial:
            raise compiler.DecodeError
        record, _ = compiler.record(frame.layer, frame.buffer, frame.start, frame.stop, style)
    except compiler.FAILED:
        values = compiler.careful(frame.layer, frame.buffer, frame.start, frame.stop).values
        record = frame.layer.present(values, style)
    record.update(frame.generated)
    frame.layer.complete_record(record)
    return {frame.layer.filter_name: record}


def field_reader(
    path: str, type_: Type, records: Records, declared: type[Layer], *, single: bool = False
) -> tuple[Reader, Level]:
    """Return the reader of a field, ``layer.name.name``, and the level that it needs.

    ``declared``: a layer of that name. ``single``: the field is declared, at the top of its layer, with one value, and
    no other source.
    """
    layer, *parts = path.split(".")
    convert = CONVERT.get(type_, list)

    def complete(frame: Frame) -> Values:
        return convert(values_at((frame.layers or {}).get(layer), parts, 0))

    later = declared.added is Added.NOTHING or (single and declared.added is Added.IN_ELEMENTS)
    if not later or parts[0] in declared.by_record:
        return complete, Level.RECORD

    def from_record(frame: Frame) -> Values:
        return convert(values_at(records.of(frame).get(layer), parts, 0))

    readers: dict[type[Layer], Reader] = {}

    def read(frame: Frame) -> Values:
        if frame.layer is None or frame.layer.filter_name != layer:
            return []
        reader = readers.get(frame.layer)
        if reader is None:
            reader = readers[frame.layer] = _reader(frame.layer, parts, convert, from_record, records.style.secrets)
        return reader(frame)

    return read, Level.FIELDS


def _reader(
    of: type[Layer], parts: list[str], convert: Callable[[Values], Values], full: Reader, secrets: bool
) -> Reader:
    """Reader of a field of the frames of one message type, without a record."""
    declared = _declared_kind(of, parts)
    if declared is None:
        return lambda frame: _generated_values(frame, parts[0])
    if declared is ...:
        return full
    kind, coded = declared
    show = _converter(kind, coded, secrets)
    name = kind.name

    def shallow(frame: Frame) -> Values:
        if parts[0] in frame.generated:
            return _generated_values(frame, parts[0])
        if name not in frame.values:
            return []
        value = frame.values[name]
        if frame.inner and isinstance(value, bytes) and not secrets:
            value = without_carried_secrets(frame, value)
        if show is None:
            return [value]
        shown = show(value)
        return convert(shown if isinstance(shown, list) else [shown])

    return shallow


def _converter(kind: Kind, coded: bool, secrets: bool) -> Callable[[Any], Any] | None:
    """Converter of a decoded value to its form in records; None: they show it unchanged."""
    if kind.secret and not secrets:
        return lambda value: value if value is None else redact(value)
    if kind.free and not secrets:
        return lambda value: kind.present(without_secrets(value, redact) if value else value, KEEP)
    if coded or (isinstance(kind, Number) and type(kind).present is Number.present and not kind.names):
        return None
    return lambda value: kind.present(value, KEEP)


def _generated_values(frame: Frame, name: str) -> Values:
    if name not in frame.generated:
        return []
    value = frame.generated[name]
    return list(value) if isinstance(value, list) else [value]


def _declared_kind(layer: type[Layer], parts: list[str]) -> Any:
    """The kind of a field, and whether its number is used; None: no such field; ``...``: the record is needed."""
    bulky = False
    for declared in layer.fields_desc:
        kind = plain(declared)
        bulky = bulky or (isinstance(kind, Array) and kind.bulk)
        coded = isinstance(kind, Number) and kind.code_name == parts[0]
        if kind.name != parts[0] and not coded:
            continue
        if bulky or len(parts) > 1 or isinstance(kind, Struct | Array) or getattr(kind, "inner", None):
            return ...
        return kind, coded
    return None if len(parts) == 1 else ...


def values_at(value: Any, parts: list[str], index: int) -> Values:
    """Values at a path of a record; elements of arrays one by one."""
    if isinstance(value, list):
        return [each for element in value for each in values_at(element, parts, index)]
    if index == len(parts):
        return [] if value is ... else [value]
    if not isinstance(value, dict):
        return []
    values = values_at(value.get(parts[index], ...), parts, index + 1)
    for end in range(index + 2, len(parts) + 1) if parts[index] not in value else ():  # a key with dots
        if (inner := value.get(".".join(parts[index:end]), ...)) is not ...:
            values = values_at(inner, parts, end)
    further = value.get("further") if index == 0 and parts[0] != "further" else None
    return values + values_at(further, parts, index) if further else values


def values_below(value: Any, key: str, parts: list[str]) -> Iterator[Any]:
    """Values at a path below every ``key`` of a record."""
    if isinstance(value, list):
        for element in value:
            yield from values_below(element, key, parts)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield from values_at(inner, parts, 0)
            elif isinstance(inner, list | dict):
                yield from values_below(inner, key, parts)


# From values of records to values to compare.


def as_any(values: Values) -> Values:
    return [getattr(each, "raw", each) for each in values]


@lru_cache(maxsize=1024)
def time_ns(text: str, *, utc: bool = True) -> int | None:
    """ns since the epoch of an RFC 3339 time, or None. Without a zone it is UTC (``utc``) or local."""
    head, _, fraction = text.partition(".")
    zone = fraction.lstrip("0123456789")
    digits = fraction.removesuffix(zone)
    try:
        when = datetime.fromisoformat(head + zone)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC) if utc else when.astimezone()
    seconds = (when - EPOCH) // timedelta(seconds=1)
    return seconds * 1_000_000_000 + int((digits + "000000000")[:9])


CONVERT: dict[Type, Callable[[Values], Values]] = {
    Type.BYTES: lambda values: [each if isinstance(each, bytes) else getattr(each, "raw", None) for each in values],
    Type.TIME: lambda values: [time_ns(each) if isinstance(each, str) else None for each in values],
    Type.ENUM: lambda values: [each if isinstance(each, str) else None for each in values],
    Type.ANY: as_any,
}
