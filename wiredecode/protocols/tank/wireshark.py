"""TANK in Wireshark: see ``wireshark.lua`` beside this file."""

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import Bounded, Kind
from wiredecode.fields.lua import LuaReader, LuaWriter, Script, array, number
from wiredecode.protocols.catalogue import generated_types, source_beside
from wiredecode.protocols.tank import names
from wiredecode.protocols.tank.layers import REQUESTS, RESPONSES, ListedTopics, StrayBytes, Unknown
from wiredecode.protocols.tank.layers_bundle import Bundles, Chunks, GappedMessage, Message, Messages
from wiredecode.protocols.tank.layers_kinds import Endpoint, HeaderArray, HeaderRest, Tail
from wiredecode.protocols.tank.protocol import GENERATED


def tables(writer: LuaWriter) -> Mapping[str, Any]:
    return {
        "requests": {code: writer.layer(layer) for code, layer in REQUESTS.items()},
        "responses": {code: writer.layer(layer) for code, layer in RESPONSES.items()},
        "unknown": writer.layer(Unknown),
        "messages": writer.code_of(Messages("messages")),
        "names": names.MESSAGES,
        "codecs": names.CODECS,
        "sparse": names.SPARSE,
        "sparse_first": names.SPARSE_FIRST,
        "results": names.PRODUCE_RESULTS,
        "whole_topic": names.WHOLE_TOPIC,
        "starts": {str(number): text for number, text in names.STARTS.items()},
    }


def in_header(inside: str, more: dict[str, Any]) -> LuaReader:
    return "in_header", {"inside": inside, **more}


def messages(writer: LuaWriter, kind: Messages) -> LuaReader:
    return "messages", {"simple": writer.layer(Message), "gapped": writer.layer(GappedMessage)}


def element_layer(reader: str, kind: Any, writer: LuaWriter) -> LuaReader:
    return reader, {"layer": writer.layer(kind.element.layer)}


def read_list(writer: LuaWriter, kind: ListedTopics) -> LuaReader:
    alone, cluster = writer.code_of(kind.alone.element), writer.code_of(kind.element)
    return "listed_topics", {"of": kind.count, "element": cluster, "alone": alone}


KINDS: dict[type[Kind], Any] = {
    Endpoint: lambda writer, kind: ("endpoint", {}),
    HeaderArray: lambda writer, kind: in_header(*array(writer, kind)),
    HeaderRest: lambda writer, kind: in_header("rest", {}),
    StrayBytes: lambda writer, kind: in_header(*number(writer, kind)),
    Bounded: lambda writer, kind: ("bundle_structure", {"size": kind.size, "layer": writer.layer(kind.layer)}),
    Tail: lambda writer, kind: ("tail_structure", {"layer": writer.layer(kind.layer)}),
    Messages: messages,
    Bundles: lambda writer, kind: element_layer("bundles", kind, writer),
    Chunks: lambda writer, kind: element_layer("chunks", kind, writer),
    ListedTopics: read_list,
}
"""Kinds of fields that only TANK has."""

SCRIPT = Script(
    source_beside(__file__),
    tables,
    kinds=KINDS,
    added={
        **generated_types(GENERATED, without=("_bytes", ".problem")),
        "tank.topic": "string",
        "tank.partition": "uint16",
        "tank.messages": "uint32",
        **{
            f"tank.{path}.{name}": "uint32"
            for path in ("topics.partitions.bundle", "chunks.bundles.bundle", "chunks.partial_bundle")
            for name in ("message_count", "uncompressed_length")
        },
    },
)
