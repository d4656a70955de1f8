"""Pravega in Wireshark: see ``wireshark.lua`` beside this file."""

from collections.abc import Mapping
from typing import Any

from wiredecode.fields.lua import LuaReader, LuaWriter, Script, sized
from wiredecode.protocols.catalogue import generated_types, source_beside
from wiredecode.protocols.pravega import names
from wiredecode.protocols.pravega.conversation import AMBIGUOUS
from wiredecode.protocols.pravega.evidence import CURRENT, INSIDE, KNOWN, alternatives
from wiredecode.protocols.pravega.layers import Unknown
from wiredecode.protocols.pravega.layers_kinds import JavaText
from wiredecode.protocols.pravega.layers_older import proposal
from wiredecode.protocols.pravega.protocol import GENERATED


def tables(writer: LuaWriter) -> Mapping[str, Any]:
    proposals = [proposal(name) for name in names.PROPOSALS]
    older = {code: candidates for code in sorted(KNOWN) if (candidates := alternatives(code))}
    others = (*older.values(), *(each.values() for each in proposals))
    named = [*CURRENT.values(), *(layer for layers in others for layer in layers)]
    return {
        "current": {code: writer.layer(layer) for code, layer in CURRENT.items()},
        "older": {code: [writer.layer(layer) for layer in layers] for code, layers in older.items()},
        "proposals": [{code: writer.layer(layer) for code, layer in each.items()} for each in proposals],
        "types": {layer.__name__: layer.type_name for layer in named if layer.__name__ != layer.type_name},
        "known": {*KNOWN, *(code for each in proposals for code in each)},
        "inside": {code for code, layer in CURRENT.items() if layer in INSIDE},
        "ambiguous": AMBIGUOUS,
        "client_types": names.CLIENT_TYPES,
        "server_types": names.SERVER_TYPES,
        "failures": names.FAILURES,
        "unknown": writer.layer(Unknown),
    }


def java_text(writer: LuaWriter, kind: JavaText) -> LuaReader:
    return "java_text", sized(writer, kind)[1]


UNTOLD = (
    *(".block", ".append", ".acknowledged_appends", ".requests", ".begun_in", ".whole", ".whole_length"),
    *(".whole_data", ".at_tail", ".end_of_segment"),
)

SCRIPT = Script(
    source_beside(__file__),
    tables,
    kinds={JavaText: java_text},
    added={
        **generated_types(GENERATED, without=UNTOLD),
        **dict.fromkeys(("pravega.append_length", "pravega.event_count", "pravega.unfinished_event_bytes"), "uint32"),
    },
)
