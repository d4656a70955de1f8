"""Recognising Cursus, cutting it into frames, and finding the next frame after a gap."""

from collections.abc import Iterable, Mapping
from typing import Any

from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import IdentityReader
from wiredecode.frames.splitter import LengthPrefix, Number
from wiredecode.protocols.base import Generated, Start, generated_of
from wiredecode.protocols.cursus import NAME, PORTS, names, names_texts
from wiredecode.protocols.cursus.conversation import CursusConversation
from wiredecode.protocols.cursus.conversation_bodies import KEPT
from wiredecode.protocols.cursus.evidence import MAX_FRAME_BYTES, SEEKER
from wiredecode.protocols.cursus.layers import TEXT_LAYERS
from wiredecode.protocols.cursus.layers_batch import BATCHES, LABELS
from wiredecode.protocols.cursus.names import COMMANDS
from wiredecode.protocols.shared.proxy import LAYERS as PROXY_LAYERS
from wiredecode.protocols.shared.proxy import BehindProxy

COLUMNS = {names.TEXT: "string", names.INTEGER: "int64", names.BOOLEAN: "bool"}
REPLIES = ((names.REPLY_TEXTS, "string"), (names.REPLY_INTEGERS, "int64"), (names.REPLY_BOOLEANS, "bool"))
PARAMETER, REPLY = "parameter of commands", "field of replies"

REPLIED = {names.REPLY_NAMES.get(word, word): (kind, REPLY) for words, kind in REPLIES for word in sorted(words)}
COMPUTED = generated_of(NAME)
TOLD = {
    **REPLIED,
    **{
        name: (COLUMNS[kind], f"{PARAMETER}, {REPLY}" if name in REPLIED else PARAMETER)
        for name, kind in sorted(names.PARAMETERS.values())
    },
    **{name.removeprefix(f"{NAME}."): field for name, field in COMPUTED.items() if name.startswith(f"{NAME}.")},
}
"""Fields of texts and JSON replies: Arrow type and meaning."""
DECLARED = {"type"}.union(  # cursus.type is that of the frame
    kind.name for layer in (*BATCHES.values(), *TEXT_LAYERS) for kind in layer.fields_desc if layer.filter_name == NAME
)
GENERATED = {f"{NAME}.{name}": Generated(*field) for name, field in TOLD.items() if name not in DECLARED} | {
    name: field for name, field in COMPUTED.items() if not name.startswith(f"{NAME}.")
}
COLUMN_TYPES = {
    **{
        f"{NAME}.{kind.name}": "-"
        for layer in TEXT_LAYERS
        for kind in layer.fields_desc
        if layer.filter_name == NAME and kind.name not in (*KEPT, "data", "text")
    },
    **{f"{NAME}.{name}": column for name, (column, _) in TOLD.items() if name in DECLARED},
    "cursus.partition": "int32",  # text in the older document's batches
    "cursus.seq_end": "int64",  # -1 where there is none
    "cursus.seq_start": "uint64",
    "cursus.details": "list<string>",
    "cursus.text": "string",
    "cursus_compressed.data": "binary",
}


def member(frame: Frame) -> Mapping[str, Any]:
    """The identity of a client; the names in ``generated`` are printable."""
    facts = frame.generated
    return {"name": facts["member"], "group": facts["group"]} if "member" in facts and "group" in facts else {}


class Cursus(BehindProxy):
    """The protocol of the Cursus broker, in its dialects from 2025-11 to 2026-08."""

    name = NAME
    title = "Cursus"
    ports = PORTS
    seeker = SEEKER
    dialects = tuple(LABELS)
    requests = {"cursus": COMMANDS}
    summary_keys = tuple(names.NAMES["summary-keys"])
    generated, column_types = GENERATED, COLUMN_TYPES
    framing = LengthPrefix(Number(0, 4, 0, MAX_FRAME_BYTES), after=4, header=4)

    def identities(self) -> Mapping[str | None, IdentityReader]:
        return dict.fromkeys(("JOIN_GROUP", "STREAM"), member)

    def conversation(self, start: Start) -> CursusConversation:
        return CursusConversation(start)

    def layers(self) -> Iterable[type[Layer]]:
        return [*BATCHES.values(), *TEXT_LAYERS, *PROXY_LAYERS]

    def type_names(self) -> Iterable[str]:
        return [
            *sorted(names.COMMANDS),
            *names.DISCOVERY,
            *sorted(names.OTHER_TYPES),
            *(name for _, name in names_texts.JSON_TYPES),
        ]


PROTOCOL = Cursus
