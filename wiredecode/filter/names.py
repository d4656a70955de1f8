"""Every name that filters know: of frames, connections and findings, and of protocols, from the catalogue."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from operator import attrgetter
from typing import Any

from wiredecode.dataclasses import replace
from wiredecode.fields.layer import Layer
from wiredecode.filter.model import Field, Level, Type, Values, close_names, did_you_mean, nearest
from wiredecode.filter.values import Records, as_any, field_reader, values_below
from wiredecode.filter.wireshark_names import ABSENT, ALIASES, ELSEWHERE, IN_PACKETS, OF_HEADERS, packet_values
from wiredecode.frames.columns import NAMES, FrameName
from wiredecode.frames.frame import MALFORMED, OK, OUTCOMES, PARTIAL, UNDECODED, Frame
from wiredecode.protocols import registry
from wiredecode.protocols.base import Protocol
from wiredecode.protocols.catalogue import (
    FRAME_ENTRIES,
    RECORD_NAMES,
    FieldEntry,
    amqp_entries,
    catalogue,
    filter_name,
    generated_entries,
)

Address = IPv4Address | IPv6Address
TYPES = {
    "boolean": Type.BOOLEAN,
    "bytes": Type.BYTES,
    "duration": Type.DURATION,
    "enum": Type.ENUM,
    "flags": Type.STRING,
    "string": Type.STRING,
    "list<string>": Type.STRING,
    "structure": Type.STRUCTURE,
    "timestamp": Type.TIME,
    "time": Type.TIME,
    "address": Type.ADDRESS,
    "uuid": Type.STRING,
}
"""By the word of the catalogue; types with ``int`` are numbers, all others can be anything."""
AMQP = ("amqp", "amqp091")
"""Protocols that Wireshark calls ``amqp``."""
MAPS = ("map", "any", "struct")
"""Types of the catalogue below which, as below generated fields, there may be names that no declaration knows."""


PAIRS = (("key", "value"), ("tag", "data"))
"""Members of structures that are the entries of a map: headers, properties, tagged fields."""


def is_copy(name: str) -> bool:
    """Whether a field is about copies of messages: it is known only if requested."""
    return name.endswith(".copy_of")


@cache
def address_of(endpoint: str) -> tuple[Address | None, int | None]:
    """Address and port of ``address:port``."""
    address, _, port = endpoint.rpartition(":")
    try:
        return ip_address(address.strip("[]")), int(port)
    except ValueError:
        return None, None


def frame_fields() -> dict[str, Field]:
    """The names of :data:`wiredecode.frames.columns.NAMES`."""
    multi_valued = {**_multi_valued(), **packet_values()}
    by_name = {}
    for each in NAMES:
        single = None if each.name in multi_valued else _single_valued(each)
        get = multi_valued[each.name] if single is None else _as_values(single)
        type_ = Type.STRUCTURE if each.type == "protocol" and each.name != "frame" else type_of(each.type)
        comparable = each.column is not None and each.comparable and single is not None
        words = WORDS.get(each.name)
        level = Level[each.level.upper()]
        by_name[each.name] = Field(each.name, type_, level, get, words=words, comparable=comparable)
    severity = by_name["finding.severity"]
    by_name[severity.name] = replace(
        severity,
        names=SEVERITIES,
        words=SEVERITIES.keys,
        codes=lambda frame: [SEVERITIES[each] for each in severity.get(frame)],
    )
    return by_name


def _single_valued(name: FrameName) -> Callable[[Frame], Any]:
    """Reader of a name that has at most one value."""
    calculated: dict[str, Callable[[Frame], Any]] = {
        "frame.time_relative": lambda frame: frame.time_ns - frame.connection.capture_ns,
        "frame.protocol": lambda frame: frame.protocol or None,
        "frame.outcome": lambda frame: frame.outcome or None,
        "tcp.srcport": lambda frame: address_of(frame.source)[1],
        "tcp.dstport": lambda frame: address_of(frame.destination)[1],
        "ip.src": lambda frame: address_of(frame.source)[0],
        "ip.dst": lambda frame: address_of(frame.destination)[0],
    }
    attribute = name.attribute or (name.column.attribute if name.column is not None else "")
    return calculated.get(name.name) or attrgetter(attribute)


def _as_values(single: Callable[[Frame], Any]) -> Callable[[Frame], Values]:
    def get(frame: Frame) -> Values:
        value = single(frame)
        return [] if value is None else [value]

    return get


def _multi_valued() -> dict[str, Callable[[Frame], Values]]:
    """Readers of names that may have several values."""

    def both(index: int) -> Callable[[Frame], Values]:
        return lambda frame: [
            value for end in frame.connection.endpoints if (value := address_of(end)[index]) is not None
        ]

    def of_finding(name: str) -> Callable[[Frame], Values]:
        get = attrgetter(name)
        return lambda frame: [value for finding in frame.findings if (value := get(finding)) is not None]

    return {
        **{f"finding.{name}": of_finding(name) for name in ("severity", "group", "code", "message", "field")},
        "finding": lambda frame: list(frame.findings),
        "frame": lambda frame: [frame.data],
        "frame.packets": attrgetter("packets"),
        "tcp": lambda frame: [frame.connection],
        "tcp.port": both(1),
        "ip": lambda frame: [frame.connection] if _version(frame) == 4 else [],
        "ipv6": lambda frame: [frame.connection] if _version(frame) == 6 else [],
        "ip.addr": both(0),
        "frame.protocols": lambda frame: [":".join(_layers(frame))],
        "tcp.payload": lambda frame: [frame.data],
        "_ws.malformed": lambda frame: [True] if frame.status == MALFORMED else [],
    }


def _layers(frame: Frame) -> Iterable[str]:
    """Protocols of a frame, the outer first."""
    outer = frame.protocol if frame.layer is None else frame.layer.filter_name
    return dict.fromkeys((outer, *(inner.layer.filter_name for inner in frame.inner)))


def _version(frame: Frame) -> int | None:
    """4 or 6; None: the frame has no address."""
    address = address_of(frame.source)[0]
    return None if address is None else address.version


def type_of(word: str) -> Type:
    """The type of a field, from its description in the catalogue."""
    if word == "protocol":
        return Type.PROTOCOL
    word = word.removeprefix("array of ")
    for name in (word.removesuffix("es"), word.removesuffix("s"), word, word.split(" ")[0]):
        if name in TYPES:
            return TYPES[name]
    return Type.NUMBER if "int" in word else Type.ANY


MAX_HINTS = 5
"""Fields that a hint about an unknown name suggests."""


def _depth(name: str) -> tuple[int, bool]:
    """Sort key: fields of frames before those of protocols, outer before inner."""
    return name.count("."), name not in {entry.name for entry in FRAME_ENTRIES}


def _by_end(names: Sequence[str]) -> dict[str, str]:
    """By their last words; of several names the first."""
    return {name.rpartition(".")[2]: name for name in reversed(names)}


def _hint_elsewhere(names: Sequence[str]) -> str:
    """A hint at the least deep of ``names``, which are sorted."""
    return did_you_mean([each for each in names if _depth(each)[0] == _depth(names[0])[0]][:MAX_HINTS])


class Names:
    """Meanings of names; protocols are imported when a name needs them, since each takes its time."""

    def __init__(self, *, secrets: bool = False) -> None:
        self.records = Records(secrets=secrets)
        self._frames = frame_fields()
        self._first = frozenset(each.partition(".")[0] for each in (*self._frames, *ALIASES))
        """First words of names that no protocol has."""

    def find(self, name: str) -> Field | None:
        """The field of that name, which may be that of a record; None: there is none."""
        name = filter_name(ALIASES.get(name, name))
        field = self._frames.get(name)
        if field is not None:
            return field
        if name in ABSENT:
            return Field(name, Type.STRUCTURE, Level.CONNECTION, lambda frame: [])
        prefix, _, rest = name.partition(".")
        if prefix not in self._first and prefix in entries_by_name(prefix):
            return self._protocol(name, prefix, rest)
        return None

    def _protocol(self, name: str, prefix: str, rest: str) -> Field | None:
        fields = entries_by_name(prefix)
        if not rest:
            meant = AMQP if prefix == "amqp" else (prefix,)
            return Field(name, Type.PROTOCOL, Level.HEADER, _bytes_of(*meant))
        entries = fields.get(name)
        if entries is not None:
            return self._declared_field(name, entries)
        if rest in ("type", "code"):
            type_, words = (Type.NUMBER, None) if rest == "code" else (Type.STRING, type_names)
            return Field(name, type_, Level.HEADER, _as_values(_own(prefix, attrgetter(rest))), words=words)
        if prefix == "amqp":
            return self._amqp(name, rest) or self.find(f"amqp091.{rest}")
        before, _, after = name.partition(".amqp.")
        if after and f"{before}.amqp" in fields:
            inner = self._amqp(f"amqp.{after}", after)
            return inner and self._record_field(name, inner.type)
        if pair := self._pair(name, fields):
            return pair
        parent, _, word = name.rpartition(".")
        # A member of a JSON object that no layer declares, and that is not misspelled:
        other = f"{parent}.other" in fields and not close_names(word, (each[len(parent) + 1 :] for each in fields))
        above = (name[: dot.start()] for dot in re.finditer(r"\.", name))
        free = any(entry.type in MAPS[:2] for each in above for entry in fields.get(each, ()))
        return self._record_field(name, Type.ANY) if free or _is_open(fields.get(parent, ())) or other else None

    def _pair(self, name: str, fields: Mapping[str, list[FieldEntry]]) -> Field | None:
        """The value of a key in an array of keys and values, such as headers; the key may hold dots."""
        dots = [each.start() for each in re.finditer(r"\.", name)]
        found = ((name[:dot], name[dot + 1 :], _pair_of(name[:dot], fields)) for dot in reversed(dots))
        parent, word, pair = next((each for each in found if each[2]), ("", "", None))
        if pair is None:
            return None
        key, value = pair
        pairs = self._record_field(parent, Type.STRUCTURE)

        def get(frame: Frame) -> Values:
            shown = (each for each in pairs.get(frame) if isinstance(each, dict) and str(each.get(key)) == word)
            return as_any([each.get(value) for each in shown])

        return replace(pairs, name=name, type=Type.ANY, get=get)

    def _declared_field(self, name: str, entries: list[FieldEntry]) -> Field:
        if name.startswith("amqp."):
            field = self._amqp(name, name.removeprefix("amqp."))
            assert field is not None
            return field
        type_, names = merge_entries(entries)
        secret = any(entry.secret for entry in entries)
        single = name.count(".") == 1 and not any(
            entry.generated or entry.type[:5] in ("array", "struc") for entry in entries
        )
        layer = layer_of(name)
        get, level = field_reader(name, type_, self.records, layer, single=single)
        codes = None
        if type_ is Type.ENUM:
            codes = field_reader(f"{name}_code", Type.NUMBER, self.records, layer, single=single)[0]
        complete = level is Level.RECORD
        verbatim = name.partition(".")[2] in layer.verbatim
        return Field(name, type_, level, get, codes, names, secret, complete, verbatim=verbatim)

    def _record_field(self, name: str, type_: Type) -> Field:
        get, level = field_reader(name, type_, self.records, layer_of(name))
        return Field(name, type_, level, get, complete=level is Level.RECORD)

    def _amqp(self, name: str, rest: str) -> Field | None:
        """A field of AMQP messages, anywhere in the frame."""
        fields, parts, records = entries_by_name("amqp"), rest.split("."), self.records
        if name not in fields and (len(parts) < 2 or not _is_open(fields.get(f"amqp.{parts[0]}", ()))):
            return None
        word = fields[name][0].type if name in fields else "any"
        type_ = type_of(word) if word not in ("array of bytes", "timestamp") else Type.ANY
        return Field(
            name, type_, Level.FIELDS, lambda frame: as_any(list(values_below(records.of(frame), "amqp", parts)))
        )

    def near(self, name: str, more: Iterable[str] = ()) -> str:
        """A hint at a name that is like this one: a field of that name elsewhere, or one below the same word."""
        if name in IN_PACKETS:
            return f"; packets have it: wiredecode sql FILE 'select packet, {IN_PACKETS[name]} from packets'"
        if name in ELSEWHERE:
            return f"; {ELSEWHERE[name]}"
        word, _, rest = name.partition(".")
        own = (*self._frames, *ALIASES, *more)
        known = own if rest and word in self._first else (*self.all(), *more)
        names = sorted((each for each in known if each[0] != "_"), key=_depth)
        same = [each for each in names if each.casefold().endswith(f".{name.casefold()}")]
        if same or not rest:
            short = {entry.name.rpartition(".")[2]: entry.name for entry in reversed(FRAME_ENTRIES)} | RECORD_NAMES
            short = _by_end(names) | short
            return _hint_elsewhere(same) or nearest(name, [*short, *names], short)
        first = dict.fromkeys(each.partition(".")[0] for each in names)
        if word not in first and not (below := close_names(word, first)):
            return _hint_elsewhere([each for each in names if each.endswith(f".{rest}")])
        prefix = f"{word if word in first else below[0]}."
        inside = [each.removeprefix(prefix) for each in names if each.startswith(prefix)]
        short = _by_end(inside)
        return (
            nearest(rest, inside, prefix=prefix)
            or nearest(rest.rpartition(".")[2], short, short, prefix)
            or f"; wiredecode fields {prefix[:-1]} lists those that there are"
            + ", tshark has those of packets" * (word in OF_HEADERS)
            + ", those of AMQP 0-9-1 begin with amqp091" * (word == "amqp")
        )

    def all(self) -> list[str]:
        """Every name, for suggestions and completion."""
        names = [*self._frames, *ALIASES]
        for prefix in prefixes():
            names += [prefix, f"{prefix}.type", f"{prefix}.code", *entries_by_name(prefix)]
        return list(dict.fromkeys(names))


def _pair_of(parent: str, fields: Mapping[str, list[FieldEntry]]) -> tuple[str, str] | None:
    """The members of a structure that are the key and the value, if it has no others."""
    members = {each[len(parent) + 1 :] for each in fields if each.startswith(f"{parent}.")} if parent in fields else ()
    return next((pair for pair in PAIRS if {*pair} == members), None)


def _is_open(entries: Iterable[FieldEntry]) -> bool:
    """Whether there may be names below a field that no declaration knows."""
    return any(entry.generated or entry.type in MAPS for entry in entries)


def _bytes_of(*prefixes: str) -> Callable[[Frame], Values]:
    """The bytes of a protocol in a frame: one value per layer of one of these names."""

    def get(frame: Frame) -> Values:
        carried = [inner.data for inner in frame.inner if inner.layer.filter_name in prefixes]
        own = (frame.protocol if frame.layer is None else frame.layer.filter_name) in prefixes
        return [frame.data, *carried] if own else carried

    return get


def _own(prefix: str, get: Callable[[Frame], Any]) -> Callable[[Frame], Any]:
    return lambda frame: get(frame) if frame.protocol == prefix else None


def merge_entries(entries: list[FieldEntry]) -> tuple[Type, dict[str, int]]:
    """The type of a name that several message types have, and its names of numbers."""
    declared = [entry for entry in entries if not entry.generated]
    types = {type_of(entry.type) for entry in declared}
    names = {name: number for entry in declared if entry.type[:4] == "enum" for number, name in entry.values.items()}
    return types.pop() if len(types) == 1 else Type.ANY, names


@cache
def prefixes() -> tuple[str, ...]:
    """The first words of all fields of all protocols."""
    names = {layer.filter_name for protocol in registry.protocols() for layer in protocol.layers()}
    return (*sorted(names), "amqp")


def type_names() -> Iterator[str]:
    """All types of messages; a protocol is imported when the names before it have been taken."""
    for entry in registry.protocol_entries():
        yield from entry.load().type_names()


def protocol_names() -> Iterator[str]:
    """All protocols; those in the built-in list come first, and are not imported."""
    yield from (entry.name for entry in registry.protocol_entries())
    yield from prefixes()


WORDS: dict[str, Callable[[], Iterable[str]]] = {
    "frame.type": type_names,
    "frame.protocol": protocol_names,
    "frame.status": lambda: (OK, PARTIAL, MALFORMED, UNDECODED),
    "frame.sender": lambda: ("client", "server"),
    "frame.outcome": lambda: OUTCOMES,
}
SEVERITIES = {"note": 0, "warning": 1, "error": 2}


@cache
def protocols_for(prefix: str) -> tuple[Protocol, ...]:
    """The protocols that may have fields with this first word: the one of that name, else all."""
    named = registry.by_name(prefix)
    return (named,) if named is not None else registry.protocols()


@cache
def layers_named(prefix: str) -> tuple[type[Layer], ...]:
    """The layers whose fields begin with a word."""
    return tuple(layer for each in protocols_for(prefix) for layer in each.layers() if layer.filter_name == prefix)


def layer_of(name: str) -> type[Layer]:
    """One of the layers of a field; the attributes used here are equal in all."""
    return next(iter(layers_named(name.partition(".")[0])), Layer)


@cache
def entries_by_name(prefix: str) -> dict[str, list[FieldEntry]]:
    """The catalogue of the fields that begin with a word; the word alone is the protocol."""
    by_name: dict[str, list[FieldEntry]] = {}
    if prefix == "amqp":
        entries: Iterable[FieldEntry] = amqp_entries()
    else:
        entries = [*catalogue(layers_named(prefix)), *generated_entries(protocols_for(prefix))]
    for entry in entries:
        if entry.name.partition(".")[0] == prefix:
            by_name.setdefault(entry.name, []).append(entry)
    if by_name:
        by_name[prefix] = []
    return by_name


NEW_TEST = re.compile(r"(?:^|[(!&|^]|\b(?:and|or|xor|not))\s*$")
"""Ends of filters after which a name begins."""


def completions(incomplete: str) -> list[str]:
    """Completions of a filter whose last word is the beginning of a name; none of a number, or inside quotes."""
    match = re.search(r"(?<![\w.])[A-Za-z_][\w.]*$", incomplete)
    word = match[0] if match else ""
    before = incomplete[: len(incomplete) - len(word)]
    if before.count('"') % 2 or not (word or NEW_TEST.search(before)):
        return []
    return [before + name for name in Names().all() if name.startswith(word)]
