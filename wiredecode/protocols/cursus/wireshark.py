"""Cursus in Wireshark: see ``wireshark.lua`` beside this file."""

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import Kind
from wiredecode.fields.lua import LuaCode, LuaReader, LuaWriter, Script, array, pcre, sized
from wiredecode.protocols.catalogue import ftype, generated_types, source_beside
from wiredecode.protocols.cursus import layers, names, names_texts
from wiredecode.protocols.cursus.layers_batch import BATCHES, LABELS
from wiredecode.protocols.cursus.layers_kinds import CREDENTIAL, DecimalText, PatternText, Sequence, TextList
from wiredecode.protocols.cursus.protocol import COLUMN_TYPES, GENERATED

TEXTS = {
    "command": layers.Command,
    "payload": layers.PayloadCommand,
    "auth": layers.AuthCommand,
    "positional": layers.PositionalCommand,
    "discovery": layers.DiscoveryCommand,
    "envelope": layers.Envelope,
    "success": layers.Success,
    "failure": layers.Failure,
    "control": layers.StreamControl,
    "json": layers.JsonReply,
    "text": layers.TextReply,
    "empty": layers.Empty,
    "compressed": layers.Compressed,
    "unknown": layers.Unknown,
}
CLIENT = ("command", "payload", "auth", "positional", "discovery")
SERVER = ("success", "failure", "control", "json", "text")


def tables(writer: LuaWriter) -> Mapping[str, Any]:
    texts = {name: writer.layer(layer) for name, layer in TEXTS.items()}
    silent = [*CLIENT, *SERVER, "envelope"]
    return {
        "texts": texts,
        "is_text": {texts[name] for name in silent},
        "of_client": {texts[name] for name in CLIENT},
        "of_server": {texts[name] for name in SERVER},
        "batches": {dialect: writer.layer(layer) for dialect, layer in BATCHES.items()},
        "historic": [dialect for dialect in LABELS if dialect not in ("cur", "seed")],
        "body": LuaCode('{name="body", prefix="cursus", fields={{"", "cursus_body"}}}'),
        "raw_command": pcre(layers.RAW_COMMAND),
        "envelope_command": pcre(layers.ENVELOPE_COMMAND),
        "discovery_command": pcre(layers.DISCOVERY_COMMAND),
        "credential": pcre(CREDENTIAL.pattern),
        "parameters": names.PARAMETERS,
        "payload_commands": names.PAYLOAD_COMMANDS,
        "offset_commands": names.OFFSET_COMMANDS,
        "positional": names.POSITIONAL,
        "positional_2025": names.POSITIONAL_2025,
        "reply_integers": names.REPLY_INTEGERS,
        "reply_booleans": names.REPLY_BOOLEANS,
        "reply_texts": names.REPLY_TEXTS,
        "reply_names": names.REPLY_NAMES,
        "error_classes": names.ERROR_CLASSES,
        "json_types": names_texts.JSON_TYPES,
    }


def pattern_text(writer: LuaWriter, kind: PatternText) -> LuaReader:
    pattern = kind.pattern
    return "stretch", {"pattern": writer.pattern(pattern) if isinstance(pattern, bytes) else None}


def text_list(writer: LuaWriter, kind: TextList) -> LuaReader:
    bound = kind.whole_bound
    tag = bound.tag if isinstance(bound, layers.Before) else None
    return "text_list", {"element": array(writer, kind)[1]["element"], "tag": tag}


KINDS: dict[type[Kind], Any] = {
    PatternText: pattern_text,
    TextList: text_list,
    DecimalText: lambda writer, kind: ("decimal_text", sized(writer, kind)[1]),
    Sequence: lambda writer, kind: ("sequence", {}),
}

SCRIPT = Script(
    source_beside(__file__).replace("@TEXTS@", source_beside(__file__, "_texts")),
    tables,
    kinds=KINDS,
    types={DecimalText: "int64", Sequence: "int64"},
    added={
        **{name: ftype(column) for name, column in COLUMN_TYPES.items() if column != "-"},
        **generated_types(GENERATED),
    },
)
