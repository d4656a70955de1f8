"""Requests and responses as layers: one for each layout, made from the table when it is first met."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, ClassVar

from wiredecode import fields
from wiredecode.data import storable
from wiredecode.fields import compiler
from wiredecode.fields.layer import Layer, Style
from wiredecode.fields.sized import Inner
from wiredecode.fields.tagged import TaggedFields, UnknownTags, Versions, with_tag
from wiredecode.protocols.kafka import NAME, names
from wiredecode.protocols.kafka.layers_records import (
    COUNT_BYTES,
    Record,
    Records,
    batch_record,
    decode_records,
    secret_ranges,
    slots,
    surplus,
)
from wiredecode.protocols.kafka.layers_table import APIS, ERRORS, MESSAGES, STATES, Layout, Part

Header = tuple[int, int]
"""Number of the API (-1: a message inside a field) and version of the header."""
ENUMS = {"api_key": APIS, "transaction_status": names.TRANSACTION_STATES}


class KafkaMessage(Layer):
    """Base of all requests and responses."""

    fields_desc: ClassVar[Any] = []
    filter_name = NAME


class FlexibleMessage(TaggedFields, KafkaMessage):
    """Base of those with tagged fields."""

    fields_desc: ClassVar[Any] = []


def header_of(name: str, version: int, *, flexible: bool) -> Header:
    """ApiVersions answers without tags: the client cannot know yet what the broker speaks."""
    key = MESSAGES[name].key
    if name.endswith("Response"):
        return key, int(flexible and key != names.API_VERSIONS)
    if not name.endswith("Request"):
        return -1, 0
    return key, 0 if key == names.CONTROLLED_SHUTDOWN and version == 0 else 2 if flexible else 1


def begin(name: str, header: Header) -> list[fields.Kind]:
    key, version = header
    if key < 0:
        return []
    size = fields.Int32("size", "bytes that follow", unit="bytes", fill=fields.LengthOf())
    correlation = fields.Int32("correlation_id", "ties a response to its request")
    tags = fields.Struct("header_tags", structure("header_tags", (True, ()), False), "tagged fields of the header")
    if name.endswith("Response"):
        return [size, correlation, tags][: 2 + version]
    api = [
        fields.Int16("api_key", "what is asked for", names=APIS, default=key),
        fields.Int16("api_version", "version of request and response"),
    ]
    client = fields.Text("client_id", "name that the client gives itself", length=fields.Int16, null=-1, free=True)
    return [size, *api, correlation, *[client, tags][:version]]


@cache
def structure(name: str, layout: Layout, hides: bool) -> type[Layer]:
    """A structure inside a message; ``hides``: its ``value`` may be a secret."""
    flexible, parts = layout
    naming = next((part[0] for part in parts if part[0] in names.NAMING), "")
    kinds = [field(part, flexible, hides, naming) for part in parts]
    return (TaggedFields if flexible else Layer).declare(name.title().replace("_", ""), *kinds, *tags(flexible))


def tags(flexible: bool) -> list[UnknownTags]:
    """The last field of a flexible message or structure."""
    return [UnknownTags()] if flexible else []


def field(part: Part, flexible: bool, hides: bool, naming: str = "") -> fields.Kind:
    """One field of a structure; ``naming``: the field that tells what its ``value`` is."""
    name, kind, array, null, tag, layout = part
    doc, nothing = name.replace("_", " "), -1 if null else None
    built: fields.Kind
    if array:
        element = field((name, kind, False, False, None, layout), flexible, hides)
        built = fields.Array(name, element, doc, count=fields.CompactLength if flexible else fields.Int32, null=nothing)
    elif layout is not None:
        structured = partial(fields.NullableStruct, none=-1 if tag is None else 0) if null else fields.Struct
        built = structured(name, structure(name, layout, hides), doc)
    elif kind in ("str", "bytes", "records"):
        search = secret_ranges if name == "batches" else None
        sized = fields.Text if kind == "str" else partial(fields.Binary, inner=CONTENTS.get(name), credentials=search)
        hidden = name in names.HIDDEN or (hides and name == "value")
        length = fields.CompactLength if flexible else fields.Int16 if kind == "str" else fields.Int32
        free = kind == "str" and name in names.FREE
        named_by = naming if name == "value" else ""
        built = sized(name, doc, length=length, null=nothing, secret=hidden, free=free, named_by=named_by)
    else:
        enumeration = ERRORS if kind == "Int16" and (name == "error" or name.endswith("_error")) else ENUMS.get(name)
        built = getattr(fields, kind)(name, doc, **({"names": enumeration} if enumeration else {}))
    return built if tag is None else with_tag(tag, built)


def inside(name: str, version: int, data: bytes, style: Style) -> dict[str, Any] | None:
    """A message after a number of two bytes; None: the bytes are something else."""
    if version not in versions(name):
        return None
    try:
        shown, reached = compiler.record(layer_of(name, version), data, 2, len(data), style)
    except compiler.FAILED:
        return None
    return shown if reached == len(data) else None


def read_member(field: str, name: str, value: bytes, style: Style, before: dict[str, Any]) -> dict[str, Any] | None:
    """Topics or partitions of a consumer, in place of the bytes; None: those of another kind of group."""
    version = int.from_bytes(value[:2])
    shown = inside(name, version, value, style)
    return None if shown is None else {field: {"version": version, **shown}}


def read_state(record: Mapping[str, Any], style: Style) -> dict[str, Any] | None:
    """A record in which a coordinator keeps a group or transaction; None: the bytes are something else."""
    key, value = record["key"] or b"", record["value"]
    number, version = int.from_bytes(key[:2]), -1 if value is None else int.from_bytes(value[:2])
    for name in [name for each, name in STATES if each == number and key[4:]]:  # with more than an empty name
        about = inside(f"{name}Key", 0, key, style)
        kept = None if value is None else inside(f"{name}Value", version, value, style)
        if about and (kept or value is None):
            return {"type": name, "version": None if value is None else version, "key": about, "value": kept}
    return None


def present_records(style: Style, counted: bytes) -> tuple[list[dict[str, Any]], str]:
    """Records as they are shown, and why some are missing; those of coordinators with what these keep in them."""
    try:
        if (compiler.values(Record, counted, COUNT_BYTES, len(counted))["key"] or b"")[:1] != b"\0":
            shown, reached = compiler.record(Records, counted, 0, len(counted), style)
            return shown["records"], surplus(shown["record_count"], len(counted) - reached)
    except compiler.FAILED:
        pass
    values, missing = decode_records(counted)
    records = [Record.present(each, style) for each in values]
    for record, each in zip(records, values, strict=True):
        if state := read_state(each, style):
            record["coordinator"] = state
    return records, missing


def read_batches(raw: bytes, style: Style, before: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a field with batches, in place of its bytes."""
    whole, rest, problem = slots(raw)
    batches = [batch_record(raw, slot, style, partial(present_records, style)) for slot in whole]
    more = {"partial_batch_bytes": rest, "batches_problem": problem}
    return {"batches": batches, **{name: value for name, value in more.items() if value}}


CONTENTS: dict[str, Inner] = {
    "batches": read_batches,
    **{field: partial(read_member, field, name) for field, name in names.MEMBER_DATA.items()},
}
"""By field, the decoder of its bytes."""


def make(name: str, layout: tuple[Header, Layout], version: int) -> type[Layer]:
    header, (flexible, parts) = layout
    kinds: list[Any] = [*begin(name, header), *(field(part, flexible, name in names.HIDDEN_VALUES) for part in parts)]
    existing = {"topics_named", *(kind.name for kind in kinds)}
    return (FlexibleMessage if flexible else KafkaMessage).declare(
        f"{name}V{version}",
        *kinds,
        *tags(flexible),
        doc=f"{name}, version {version} and those of equal layout.",
        facts=tuple(each for each in names.FACTS if each in existing)[:6],
        remade=(layer_of, (name, version)),
    )


@storable
def layer_of(name: str, version: int) -> type[Layer]:
    """The layer of a message in one version; KeyError if there is none."""
    return versions(name).layer(version)


@cache
def versions(name: str) -> Versions:
    """A message in all its versions."""

    @cache
    def layout_of(version: int) -> tuple[Header, Layout]:
        layout = MESSAGES[name].layout(version)
        return header_of(name, version, flexible=layout[0]), layout

    return Versions(name, *MESSAGES[name].versions, layout_of, partial(make, name))


def opaque(name: str, doc: str, *kinds: fields.Kind) -> type[Layer]:
    """A layer of this module, the last field of which is all that cannot be read."""
    facts = [kind.name for kind in kinds if kind.name in ("api_key", "api_version")] or [kinds[-2].name]
    return KafkaMessage.declare(name, *kinds, doc=doc, module=__name__, facts=tuple(facts))


UnknownRequest = opaque(
    "UnknownRequest",
    "A request of an API or version that is not in the table.",
    *begin("FetchRequest", (names.FETCH, 0)),
    fields.Rest("undecided", "client id and the fields of a version that is not known", secret=True),
)
UnknownResponse = opaque(
    "UnknownResponse",
    "A response whose request is not known.",
    *begin("FetchResponse", (names.FETCH, 0)),
    fields.Rest("undecided", "fields of a response whose request is not known", secret=True),
)
SaslToken = opaque(
    "SaslToken",
    "A token of SASL without a header, after SaslHandshake of version 0.",
    begin("FetchResponse", (names.FETCH, 0))[0],
    fields.Rest("token", "token of the mechanism", secret=True),
)
OTHERS: tuple[type[Layer], ...] = (UnknownRequest, UnknownResponse, SaslToken)
