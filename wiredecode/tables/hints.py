"""Arrow types that declarations do not tell: those of generated fields, and of fields that records show otherwise.

A field is named as in filters; a type is spelled as in :attr:`Kind.column`, or ``list<struct>`` (its members follow),
``json`` (JSON text), ``-`` (records never show the field). What a protocol says in ``column_types`` goes before.
"""

from __future__ import annotations

from collections.abc import Mapping

from wiredecode.protocols.base import Protocol

RABBITMQ = {
    "rabbitmq_stream.stream": "string",
    "rabbitmq_stream.reference": "string",
    "rabbitmq_stream.publisher_id": "uint8",
    "rabbitmq_stream.subscription_id": "uint8",
    "rabbitmq_stream.user": "string",
    "rabbitmq_stream.negotiated_frame_max": "uint32",
    "rabbitmq_stream.negotiated_heartbeat": "uint32",
    "rabbitmq_stream.crc_status": "string",
    "rabbitmq_stream.body": "binary",  # of an unknown frame; hidden only where SASL data may be in it
    "rabbitmq_stream.messages.amqp": "json",
    "rabbitmq_stream.messages.sub_batch.messages": "list<struct>",
    "rabbitmq_stream.messages.sub_batch.messages.data": "binary",
    "rabbitmq_stream.messages.sub_batch.messages.amqp": "json",
    "rabbitmq_stream.messages.sub_batch.problem": "string",
    "rabbitmq_stream.chunk.entries.amqp": "json",
    "rabbitmq_stream.chunk.entries.offset": "uint64",
    "rabbitmq_stream.chunk.entries.sub_batch.messages": "list<struct>",
    "rabbitmq_stream.chunk.entries.sub_batch.messages.offset": "uint64",
    "rabbitmq_stream.chunk.entries.sub_batch.messages.data": "binary",
    "rabbitmq_stream.chunk.entries.sub_batch.messages.amqp": "json",
    "rabbitmq_stream.chunk.entries.sub_batch.problem": "string",
}
PRAVEGA = {
    "pravega.segment": "string",
    "pravega.session_version": "int32",
    "pravega.block": "int64",
    "pravega.tail": "string",
    "pravega.append_length": "int64",
    "pravega.append": "binary",
    "pravega.framed": "bool",
    "pravega.event_count": "int64",
    "pravega.events": "list<struct>",
    "pravega.events.event_number": "int64",
    "pravega.events.offset": "int64",
    "pravega.events.data": "binary",
    "pravega.unfinished_event_offset": "int64",
    "pravega.unfinished_event_bytes": "int64",
    "pravega.acknowledged_appends": "int64",
    "pravega.begun_in": "int64",
    "pravega.whole": "json",
    "pravega.whole_length": "int64",
    "pravega.whole_data": "binary",
    "pravega.at_tail": "bool",
    "pravega.end_of_segment": "bool",
}
TANK = {
    "tank.targets": "string",
    "tank.topic": "string",
    "tank.partition": "uint16",
    "tank.messages": "int64",
    "tank.first_sequence_number": "uint64",
    "tank.last_sequence_number": "uint64",
    "tank.sequence_number": "uint64",
    "tank.topics.partitions.start": "string",
    "tank.topics.partitions.requested_sequence_number": "uint64",
    "tank.topics.partitions.requested_fetch_size": "uint32",
    "tank.topics.partitions.requested_start": "string",
    "tank.partitions.partition": "uint16",
    "tank.results.topic": "string",
    "tank.results.partition": "uint16",
    "tank.results.partitions": "list<uint16>",
    "tank.chunks.topic": "string",
    "tank.chunks.partition": "uint16",
    "tank.chunks.partial_bundle.present_bytes": "int64",
    "tank.chunks.partial_bundle.missing_bytes": "int64",
    **{
        f"tank.{bundle}.{name}": kind
        for bundle in ("topics.partitions.bundle", "chunks.bundles.bundle", "chunks.partial_bundle")
        for name, kind in {
            "codec": "string",
            "sparse": "bool",
            "uncompressed_length": "int64",
            "problem": "string",
            "messages.sequence_number": "uint64",
            "messages.below_requested": "bool",
            "messages.above_high_water_mark": "bool",
        }.items()
    },
}
NATS = {
    "nats.inside": "int64",
    "nats.account": "string",
    "nats.subscription": "string",
    "nats.copy_of": "int64",
    "nats.gateway_command": "string",
    "nats.namespace": "string",
    "nats.server": "string",
    "nats.purpose": "string",
    "nats_s2.crc_status": "string",
    "liftbridge.crc_status": "string",
    "liftbridge.messages_crc_status": "string",
    "liftbridge.entries.crc_status": "string",
    "liftbridge.stream": "string",
    "liftbridge.partition": "int32",
    "liftbridge.replica_id": "string",
    "liftbridge.copy_of": "int64",
    "raft.entries.raft_log": "json",
    "raft.entries.configuration": "json",
    "raft.further": "list<json>",
}


def _cursus() -> dict[str, str]:
    """Text bodies: records show what the pieces say by name, never the pieces."""
    from wiredecode.protocols.cursus import names
    from wiredecode.protocols.cursus.layers import TEXT_LAYERS
    from wiredecode.protocols.cursus.reader import KEPT

    types = {names.TEXT: "string", names.INTEGER: "int64", names.BOOLEAN: "bool"}
    found = {
        f"cursus.{kind.name}": "-"
        for layer in TEXT_LAYERS
        for kind in layer.fields_desc
        if layer.filter_name == "cursus" and kind.name not in (*KEPT, "data", "text")
    }
    found |= {f"cursus.{name}": types[kind] for name, kind in sorted(names.PARAMETERS.values())}
    for words, kind in ((names.REPLY_TEXTS, "string"), (names.REPLY_INTEGERS, "int64"), (names.REPLY_BOOLEANS, "bool")):
        found |= {f"cursus.{names.REPLY_NAMES.get(word, word)}": kind for word in sorted(words)}
    return found | CURSUS


CURSUS = {
    "cursus.partition": "int32",  # text in the older document's batches
    "cursus.seq_end": "int64",  # -1 where there is none
    "cursus.messages.transaction_marker": "string",
    "cursus.messages.transactional_id": "string",
    "cursus.message": "string",
    "cursus.payload": "json",
    "cursus.offsets": "list<struct>",
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
BUILT_IN: dict[str, Mapping[str, str]] = {"rabbitmq_stream": RABBITMQ, "pravega": PRAVEGA, "tank": TANK, "nats": NATS}


def hints(protocol: Protocol) -> Mapping[str, str]:
    """Types by full name; a generated field that nobody gives a type is JSON text."""
    known = _cursus() if protocol.name == "cursus" else BUILT_IN.get(protocol.name, {})
    return {**dict.fromkeys(protocol.generated_fields(), "json"), **known, **protocol.column_types}
