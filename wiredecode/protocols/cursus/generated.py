"""What records show otherwise than it is declared: texts by the names of their parameters, never in their pieces."""

from __future__ import annotations

from wiredecode.protocols.cursus import names
from wiredecode.protocols.cursus.layers import TEXT_LAYERS
from wiredecode.protocols.cursus.reader import KEPT

COLUMNS = {names.TEXT: "string", names.INTEGER: "int64", names.BOOLEAN: "bool"}
REPLIES = ((names.REPLY_TEXTS, "string"), (names.REPLY_INTEGERS, "int64"), (names.REPLY_BOOLEANS, "bool"))

COLUMN_TYPES = {
    **{
        f"cursus.{kind.name}": "-"
        for layer in TEXT_LAYERS
        for kind in layer.fields_desc
        if layer.filter_name == "cursus" and kind.name not in (*KEPT, "data", "text")
    },
    **{f"cursus.{name}": COLUMNS[kind] for name, kind in sorted(names.PARAMETERS.values())},
    **{f"cursus.{names.REPLY_NAMES.get(word, word)}": kind for words, kind in REPLIES for word in sorted(words)},
    "cursus.partition": "int32",  # text in the older document's batches
    "cursus.seq_end": "int64",  # -1 where there is none
    "cursus.messages.transaction_marker": "string",
    "cursus.messages.transactional_id": "string",
    "cursus.message": "string",
    "cursus.payload": "json",
    "cursus.offsets": "list<struct>",
    "cursus.commits": "-",  # the same as text, for lines
    "cursus.offsets.partition": "int64",
    "cursus.offsets.offset": "int64",
    "cursus.offsets.earliest": "int64",
    "cursus.offsets.latest": "int64",
    "cursus.offsets.leo": "int64",
    "cursus.offsets.hwm": "int64",
    "cursus.offset_count": "int64",
    "cursus.assignments": "list<int64>",
    "cursus.snapshot": "json",
    "cursus.snapshots": "json",
    "cursus.brokers": "json",
    "cursus.cluster": "json",
    "cursus.details": "list<string>",
    "cursus.ignored_words": "list<string>",
    "cursus.other_fields": "json",
    "cursus.json": "json",
    "cursus.text": "string",
    "cursus.status": "string",
    "cursus.error": "string",
    "cursus.error_class": "string",
    "cursus.retryable": "bool",
    "cursus.in_reply_to": "string",
    "cursus.last_offset": "int64",
    "cursus.producer_epoch": "int64",
    "cursus.seq_num": "int64",
    "cursus.group_name": "string",
    "cursus.topic_name": "string",
    "cursus.last_rebalance": "string",
    "cursus.member_count": "int64",
    "cursus.partition_count": "int64",
    "cursus.members": "json",
    "cursus.policy": "json",
    "cursus.seq_start": "uint64",
    "cursus.message_count": "int64",
    "cursus_compressed.data": "binary",
    "cursus_compressed.compression": "string",
    "cursus_compressed.inflated_length": "int64",
}
