"""Requests and responses as layers: one for each layout, made from the table when it is first met."""

from functools import cache, partial
from typing import Any

from wiredecode import fields
from wiredecode.fields import (
    Array,
    Binary,
    CompactLength,
    Int16,
    Int32,
    Kind,
    LengthOf,
    NullableStruct,
    Rest,
    Struct,
    Text,
    compiler,
)
from wiredecode.fields.layer import Layer, Style
from wiredecode.fields.sized import Inner
from wiredecode.fields.tagged import TaggedFields, UnknownTags, tagged
from wiredecode.fields.versions import Versions
from wiredecode.protocols.kafka import NAME, names
from wiredecode.protocols.kafka.layers_records import read_batches
from wiredecode.protocols.kafka.layers_table import APIS, ERRORS, MESSAGES, Layout, Part

Header = tuple[int, int]
"""Number of the API (-1: a message inside a field) and version of the header."""


def header_of(name: str, version: int, *, flexible: bool) -> Header:
    """ApiVersions answers without tags: the client cannot know yet what the broker speaks."""
    key = MESSAGES[name].key
    if name.endswith("Response"):
        return key, int(flexible and key != names.API_VERSIONS)
    if key < 0 or (key == names.CONTROLLED_SHUTDOWN and version == 0):
        return key, 0
    return key, 2 if flexible else 1


def begin(name: str, header: Header) -> list[Kind]:
    """The header of a message."""
    key, version = header
    if key < 0:
        return []
    size = Int32("size", "bytes that follow", unit="bytes", fill=LengthOf())
    correlation = Int32("correlation_id", "ties a response to its request")
    tags = Struct("header_tags", structure("header_tags", (True, ()), False), "tagged fields of the header")
    if name.endswith("Response"):
        return [size, correlation, tags][: 2 + version]
    api = [
        Int16("api_key", "what is asked for", names=APIS, default=key),
        Int16("api_version", "version of request and response"),
    ]
    client = Text("client_id", "name that the client gives itself", length=Int16, null=-1)
    return [size, *api, correlation, *[client, tags][:version]]


@cache
def structure(name: str, layout: Layout, hides: bool) -> type[Layer]:
    """A structure inside a message; ``hides``: its ``value`` may be a secret."""
    flexible, parts = layout
    return made(name.title().replace("_", ""), flexible, [field(part, flexible, hides) for part in parts], {})


def made(name: str, flexible: bool, kinds: list[Kind], more: dict[str, Any]) -> type[Layer]:
    """A layer, which has tagged fields if it is flexible."""
    tags = [UnknownTags()] if flexible else []
    return type(name, (TaggedFields if flexible else Layer,), {"fields_desc": [*kinds, *tags], **more})


def field(part: Part, flexible: bool, hides: bool) -> Kind:
    """One field of a structure."""
    name, kind, array, null, tag, layout = part
    doc, nothing = name.replace("_", " "), -1 if null else None
    found: Kind
    if array:
        element = field((name, kind, False, False, None, layout), flexible, hides)
        found = Array(name, element, doc, count=CompactLength if flexible else Int32, null=nothing)
    elif layout is not None:
        found = (NullableStruct if null else Struct)(name, structure(name, layout, hides), doc)
    elif kind in ("str", "bytes", "records"):
        sized = Text if kind == "str" else partial(Binary, inner=CONTENTS.get(name))
        hidden = name in names.HIDDEN or (hides and name == "value")
        length = CompactLength if flexible else Int16 if kind == "str" else Int32
        found = sized(name, doc, length=length, null=nothing, secret=hidden, free=kind == "str" and name in names.FREE)
    elif kind == "Int16" and (name == "error" or name.endswith("_error")):
        found = Int16(name, doc, names=ERRORS)
    else:
        found = Int16(name, doc, names=APIS) if name == "api_key" else getattr(fields, kind)(name, doc)
    return found if tag is None else tagged(tag, found)


def read_member(field: str, name: str, value: bytes, style: Style, before: dict[str, Any]) -> dict[str, Any] | None:
    """Topics or partitions of a consumer, in place of the bytes; None: those of another kind of group."""
    version = int.from_bytes(value[:2])
    if version not in versions(name):
        return None
    try:
        shown, reached = compiler.record(layer_of(name, version), value, 2, len(value), style)
    except compiler.FAILED:
        return None
    return {field: {"version": version, **shown}} if reached == len(value) else None


MEMBER_DATA = {
    **dict.fromkeys(("metadata", "member_metadata"), "ConsumerProtocolSubscription"),
    **dict.fromkeys(("assignment", "member_assignment"), "ConsumerProtocolAssignment"),
}
"""Bytes that consumers of a group exchange, and their contents: a version, then the fields."""
CONTENTS: dict[str, Inner] = {
    "batches": read_batches,
    **{field: partial(read_member, field, name) for field, name in MEMBER_DATA.items()},
}
"""By field, the decoder of its bytes."""


def make(name: str, layout: tuple[Header, Layout], version: int) -> type[Layer]:
    header, (flexible, parts) = layout
    kinds: list[Any] = [*begin(name, header), *(field(part, flexible, name in names.HIDDEN_VALUES) for part in parts)]
    known = {"topics_named", *(kind.name for kind in kinds)}
    members = {
        "filter_name": NAME,
        "facts": tuple(each for each in names.FACTS if each in known)[:6],
        "remade": (layer_of, (name, version)),
        "__doc__": f"{name}, version {version} and those of equal layout.",
    }
    return made(f"{name}V{version}", flexible, kinds, members)


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


def opaque(name: str, doc: str, *kinds: Kind) -> type[Layer]:
    """A layer of this module, the last field of which is all that cannot be read."""
    facts = [kind.name for kind in kinds if kind.name in ("api_key", "api_version")] or [kinds[-2].name]
    members = {"filter_name": NAME, "facts": tuple(facts), "__module__": __name__, "__doc__": doc}
    return made(name, False, [*kinds], members)


UnknownRequest = opaque(
    "UnknownRequest",
    "A request of an API or version that is not in the table.",
    *begin("FetchRequest", (names.FETCH, 0)),
    Rest("undecided", "client id and the fields of a version that is not known", secret=True),
)
UnknownResponse = opaque(
    "UnknownResponse",
    "A response whose request is not known.",
    *begin("FetchResponse", (names.FETCH, 0)),
    Rest("undecided", "fields of a response whose request is not known", secret=True),
)
SaslToken = opaque(
    "SaslToken",
    "A token of SASL without a header, after SaslHandshake of version 0.",
    begin("FetchResponse", (names.FETCH, 0))[0],
    Rest("token", "token of the mechanism", secret=True),
)
OTHERS: tuple[type[Layer], ...] = (UnknownRequest, UnknownResponse, SaslToken)
