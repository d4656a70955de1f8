"""NATS in Wireshark, with what it carries: see ``wireshark.lua`` beside this file."""

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import Binary
from wiredecode.fields.lua import LuaReader, LuaWriter, Script, array, sized
from wiredecode.protocols.catalogue import source_beside
from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.layers import BLOCK, Headers, Remainder, Status, Unknown, Version
from wiredecode.protocols.nats.layers_decoders import DEDICATED, GRAMMARS, WITH_ORIGIN
from wiredecode.protocols.nats.transport import S2Chunk
from wiredecode.protocols.registry import carried_by


def tables(writer: LuaWriter) -> Mapping[str, Any]:
    made: dict[str, Any] = {
        "grammars": {
            link: {name: writer.layer(layer) for name, layer in grammar.items()} for link, grammar in GRAMMARS.items()
        },
        "dedicated": {name: writer.layer(layer) for name, layer in DEDICATED.items()},
        "with_origin": [writer.layer(WITH_ORIGIN[True]), writer.layer(WITH_ORIGIN[False])],
        "unknown": writer.layer(Unknown),
        "s2": writer.layer(S2Chunk),
        "operations": set(names.OPERATIONS),
        "counted": names.COUNTED,
        "link_operations": names.LINK_OPERATIONS,
        "client_sends": names.CLIENT_SENDS,
        "server_sends": names.SERVER_SENDS,
        "gateway_commands": names.GATEWAY_COMMANDS,
        "harmless": names.HARMLESS_SYSTEM.pattern,
        "block": BLOCK.pattern,
    }
    for script in carried_scripts():
        made |= script.tables(writer)
    return made


def carried_scripts() -> list[Script]:
    """The scripts of what NATS carries."""
    found = (one.wireshark() for one in carried_by("nats"))
    return [script for script in found if script is not None]


def binary(writer: LuaWriter, kind: Binary) -> LuaReader:
    return ("payload", {}) if kind.name == "data" and kind.length == "size" else sized(writer, kind)


SCRIPT = Script(
    "\n".join([source_beside(__file__), *(script.source for script in carried_scripts())]),
    tables,
    kinds={
        Binary: binary,
        Remainder: lambda writer, kind: ("remainder", {}),
        Version: lambda writer, kind: ("version", {}),
        Status: lambda writer, kind: ("status", {}),
        Headers: lambda writer, kind: ("headers", {"element": array(writer, kind)[1]["element"]}),
        **{kind: spell for script in carried_scripts() for kind, spell in script.kinds.items()},
    },
    added={
        **{f"nats.{name}": "string" for name in ("subscription", "queue", "account", "namespace", "server", "purpose")},
        "nats.gateway_command": "string",
        **{name: ftype for script in carried_scripts() for name, ftype in script.added.items()},
    },
)
