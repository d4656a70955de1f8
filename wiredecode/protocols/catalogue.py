"""Every field of every protocol, read off the declarations: for reference pages, filter names and completion."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import Array, Binary, Flags, Kind, Number, Struct, plain
from wiredecode.fields.layer import Layer
from wiredecode.frames.columns import NAMES
from wiredecode.protocols.base import Generated, Protocol
from wiredecode.protocols.shared.amqp import SECTIONS

AMQP_MEANING = "AMQP 1.0 section, below the message that has it: messages.amqp, chunk.entries.amqp"
MAX_DEPTH = 16
"""Nesting of structures that is followed."""


@dataclass
class FieldEntry:
    """One field name, merged over the message types that have it."""

    name: str
    """Filter name: ``rabbitmq_stream.chunk.entries.data``."""
    type: str
    meaning: str
    unit: str = ""
    secret: bool = False
    messages: list[str] = field(default_factory=list)
    """Message types, by the names of their classes; a version that differs has its own class."""
    values: dict[int, str] = field(default_factory=dict)
    """Names of an enumeration's values or of flags."""
    generated: bool = False
    """No layer declares it: the protocol adds it to what is on the wire."""

    @property
    def description(self) -> str:
        """Meaning and unit, and whether it is secret."""
        return ", ".join(filter(None, (self.meaning, self.unit and f"in {self.unit}", "secret" if self.secret else "")))

    def record(self) -> dict[str, object]:
        """JSON-ready; keys of ``values`` become text."""
        return {
            "name": self.name,
            "type": self.type,
            "meaning": self.meaning,
            "unit": self.unit or None,
            "secret": self.secret,
            "messages": self.messages,
            "values": {str(number): name for number, name in self.values.items()},
            "generated": self.generated,
        }


def catalogue(layers: Iterable[type[Layer]]) -> list[FieldEntry]:
    """The fields of message types, in the order of their declarations; the same name and type occur once."""
    entries: dict[tuple[str, str], FieldEntry] = {}
    for layer in dict.fromkeys(layers):
        for entry in _entries(layer, layer.filter_name, MAX_DEPTH):
            existing = entries.setdefault((entry.name, entry.type), entry)
            if layer.__name__ not in existing.messages:
                existing.messages.append(layer.__name__)
            if entry.meaning and entry.meaning not in existing.meaning:
                existing.meaning = f"{existing.meaning}; {entry.meaning}" if existing.meaning else entry.meaning
    return list(entries.values())


FRAME_ENTRIES = [FieldEntry(each.name, each.type, each.meaning) for each in NAMES]
"""Properties of every frame, of any protocol: names for filters."""
RECORD_NAMES = {
    each.column.name: each.name
    for each in NAMES
    if each.column is not None and each.column.name not in (each.name, "latency_ns")
}
"""Keys of records and columns of tables that filters call otherwise; the fields below ``layers`` have one name."""


def filter_name(name: str) -> str:
    """Filter name of a key of records: ``frame.type``, ``nats.subject`` for ``layers.nats.subject``, ``frame``."""
    first, dot, rest = name.partition(".")
    if first == "layers" and rest:
        return rest
    if first == "findings":
        return f"finding{dot}{rest}"
    return name if first == "frame" else RECORD_NAMES.get(name, name)


def column_name(name: str, columns: Container[str]) -> str:
    """The column of a table or record that has these ``columns``, for its own name or that of a filter."""
    if name in columns:
        return name
    alias = {"latency": "latency_ns", **{filtered: column for column, filtered in RECORD_NAMES.items()}}.get(name, name)
    if name == "frame.number" and "packet" in columns:
        alias = "packet"
    return alias if alias in columns else f"layers.{name}" if f"layers.{name}" in columns else name


class UnknownColumn(ValueError):
    """A column that a table or record does not have; the message names it and the nearest one."""


def known_columns(names: Iterable[str], columns: Sequence[str], hint: str = "") -> list[str]:
    """The columns of these names, which may be those of filters. Raises UnknownColumn for the first unknown one."""
    there = frozenset(columns)
    chosen = list(dict.fromkeys(column_name(name, there) for name in names))
    for name in chosen:
        if name not in there:
            near = get_close_matches(name, columns, 1)
            raise UnknownColumn(f"there is no column {name}{f'; did you mean {near[0]}?' if near else hint}")
    return chosen


def column_word(column: str) -> str:
    """The type of a generated field as types of declared ones are spelled."""
    if column.startswith("list<"):
        return f"array of {'structures' if column in ('list<struct>', 'list<json>') else f'{column[5:-1]}s'}"
    return {"bool": "boolean", "binary": "bytes", "json": "any", "-": "any"}.get(column, column)


def generated_entries(protocols: Iterable[Protocol]) -> list[FieldEntry]:
    """Fields that protocols add to what is on the wire."""
    return [
        FieldEntry(name, column_word(field.column), field.meaning, generated=True)
        for protocol in protocols
        for name, field in protocol.generated_fields().items()
    ]


def _entries(layer: type[Layer], prefix: str, depth: int) -> Iterator[FieldEntry]:
    for declared in layer.fields_desc:
        kind = plain(declared)
        if kind.hidden:
            continue
        name = f"{prefix}.{kind.name}"
        inner = kind.element if isinstance(kind, Array) else kind
        values = dict(inner.names or {}) if isinstance(inner, Number) else {}
        yield FieldEntry(name, type_name(kind), kind.doc, kind.unit, kind.secret, [], values)
        if isinstance(kind, Number) and kind.code_name:
            yield FieldEntry(f"{prefix}.{kind.code_name}", kind.column, f"number of {kind.name}", "", kind.secret)
        if isinstance(inner, Struct) and depth:
            yield from _entries(inner.layer, name, depth - 1)


def amqp_entries() -> list[FieldEntry]:
    """The sections of AMQP 1.0 messages, which are below the structure that holds the message's bytes."""
    entries = [FieldEntry(f"amqp.{section.name}", section.type, AMQP_MEANING) for section in SECTIONS]
    for section in SECTIONS:
        meaning = f"field of the {section.name} section"
        typed = zip(section.fields, section.types, strict=True)
        entries += [FieldEntry(f"amqp.{section.name}.{name}", type_, meaning) for name, type_ in typed]
    return sorted(entries, key=lambda entry: entry.name.split(".")[1])


def type_name(kind: Kind) -> str:
    """The type of a field in a record, in a word or two."""
    if isinstance(kind, Struct):
        return "structure"
    if isinstance(kind, Array):
        if isinstance(kind.element, Number) and kind.element.names and not isinstance(kind.element, Flags):
            return "array of names"  # their numbers are not kept
        return f"array of {type_name(kind.element)}{'s' if not isinstance(kind.element, Binary) else ''}"
    if isinstance(kind, Flags):
        return "flags"
    if isinstance(kind, Number) and kind.names:
        return f"enum ({kind.column})"
    words = {"binary": "bytes", "bool": "boolean", "fixed_size_binary[16]": "uuid", "json": "map"}
    return words.get(kind.column, kind.column.split("[")[0])


TYPES = {"json": "string", "struct": "none", "binary": "bytes"}


def source_beside(module: str, part: str = "") -> str:
    """The Lua of a protocol, which is beside its module; ``part`` is the end of the name of a further file."""
    path = Path(module)
    return path.with_name(f"{path.stem}{part}.lua").read_text()


def ftype(column: str) -> str:
    """The type in Wireshark of a column."""
    column = column.removeprefix("list<").removesuffix(">")
    return TYPES.get(column, column)


def generated_types(generated: Mapping[str, Generated], *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Generated fields with their types in Wireshark, but those whose names end ``without``: Lua cannot know them."""
    shown = {name: field.column for name, field in generated.items() if field.column != "-"}
    return {name: ftype(column) for name, column in shown.items() if not name.endswith(without)}
