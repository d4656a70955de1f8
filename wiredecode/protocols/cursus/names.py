"""Words of the Cursus protocol: commands, parameters, reply fields, error codes (upstream, 2025-11 to 2026-08)."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAGIC = b"\xba\x7c"
"""First bytes of a batch."""

COMMANDS = _words(
    """
    AUTH CREATE DELETE LIST LIST_CLUSTER CLUSTER_STATUS ELECT_LEADER PUBLISH CONSUME STREAM HELP HEARTBEAT JOIN_GROUP
    LEAVE_GROUP COMMIT_OFFSET BATCH_COMMIT REGISTER_GROUP GROUP_STATUS FETCH_OFFSET LIST_GROUPS LIST_OFFSETS SYNC_GROUP
    DESCRIBE INIT_PRODUCER_ID BEGIN_TXN TXN_PUBLISH SEND_OFFSETS_TO_TXN END_TXN TXN_STATUS APPEND_STREAM READ_STREAM
    SAVE_SNAPSHOT READ_SNAPSHOT STREAM_VERSION REPLICATE_MESSAGE REPLICATE_SNAPSHOT LIST_SNAPSHOTS FETCH_SNAPSHOT
    CATCHUP_SNAPSHOTS FIND_COORDINATOR RAFT_APPLY METADATA INTERNAL_BATCH PROTOCOL_INFO NEGOTIATE
    EXIT SUBSCRIBE COMMIT SETGROUP PUBLISH_IDEMPOTENT
    """
)
"""Commands of today's broker, then those of documents and clients, then those of 2025-11."""

OTHER_TYPES = _words("OK ERROR STREAM_CONTROL Batch KeepAlive Envelope Compressed Json Text Unknown")
"""Types of frames that are no command, but for those of JSON."""
DISCOVERY = ("JOIN_CLUSTER", "LEAVE_CLUSTER", "HEARTBEAT_CLUSTER", "LIST_CLUSTER")
"""Commands of the discovery port, followed by JSON."""

EXACT = _words("HELP LIST LIST_GROUPS LIST_CLUSTER CLUSTER_STATUS PROTOCOL_INFO")
"""Commands that take nothing after their name: with arguments they are unknown to the broker."""

PAYLOAD_COMMANDS = _words("REPLICATE_MESSAGE REPLICATE_SNAPSHOT RAFT_APPLY")
"""Commands whose ``payload=`` takes the rest of the text, as JSON."""

OFFSET_COMMANDS = _words("BATCH_COMMIT SEND_OFFSETS_TO_TXN")
"""Commands that end with a list of partitions and offsets."""

REPLICATING = PAYLOAD_COMMANDS | _words("LIST_SNAPSHOTS FETCH_SNAPSHOT CATCHUP_SNAPSHOTS")
"""Commands between brokers; others with an ``internal_token`` are those of a client, forwarded."""

TEXT, INTEGER, BOOLEAN = "text", "integer", "boolean"

PARAMETERS: dict[str, tuple[str, str]] = {
    **{
        name: (name, TEXT)
        for name in _words(
            """
        topic principal auth_token internal_token token features cleanup_policy partitioner auth_policy read_acl
        write_acl group member isolation isolation_level broker key acks metadata event_type transactional_id txn
        transaction result action state type leader payload message transaction_state transaction_marker
        control_batch_type control_batch_key control_batch_value producer_id memberId consumerId
        """
        )
    },
    **{
        name: (name, INTEGER)
        for name in _words(
            """
        version partitions replication_factor retention_hours retention_bytes partition epoch offset generation batch
        wait_ms schema_version from_version control_batch_version control_batch_coordinator_epoch
        """
        )
    },
    **{
        name: (name, BOOLEAN)
        for name in _words(
            "require_features idempotent event_sourcing validate_only ownership_only internal_txn_publish"
        )
    },
    "producerId": ("producer_id", TEXT),
    "memberId": ("member", TEXT),
    "consumerId": ("consumer_id", TEXT),
    "autoOffsetReset": ("auto_offset_reset", TEXT),
    "seqNum": ("seq_num", INTEGER),
    "isIdempotent": ("is_idempotent", BOOLEAN),
}
"""Every parameter of a key=value command: the field it becomes, and its type."""

POSITIONAL: dict[str, tuple[str, ...]] = {
    "CREATE": ("topic", "partitions"),
    "DELETE": ("topic",),
    "LIST": (),
    "CONSUME": ("topic", "partition", "offset"),
    "SUBSCRIBE": ("topic", "group"),
    "JOIN_GROUP": ("topic", "group", "consumerId"),
    "LEAVE_GROUP": ("topic", "group", "consumerId"),
    "STREAM": ("topic", "partition", "offset"),
    "COMMIT": ("topic", "group", "partition", "offset"),
    "HEARTBEAT": ("topic", "group", "consumerId", "memberId", "generation"),
    "BATCH_COMMIT": ("topic", "group", "memberId", "generation", "offsets"),
    "SYNC_GROUP": ("topic", "group", "memberId", "generation"),
}
"""Order of the words in the older document's commands."""

POSITIONAL_2025 = POSITIONAL | {
    "SETGROUP": ("group",),
    "PUBLISH": ("topic", "message"),
    "PUBLISH_IDEMPOTENT": ("topic", "producerId", "seqNum", "epoch", "message"),
    "CONSUME": ("topic", "partition", "offset", "group", "autoOffsetReset"),
    "JOIN_GROUP": ("group", "consumerId"),
    "LEAVE_GROUP": ("group", "consumerId"),
    "HEARTBEAT": ("group", "consumerId"),
    "COMMIT_OFFSET": ("topic", "partition", "offset"),
    "FETCH_OFFSET": ("topic", "partition", "group"),
    "REGISTER_GROUP": ("topic", "group"),
    "GROUP_STATUS": ("group",),
}
"""The same in the broker of 2025-11, which wanted them in an envelope with a topic; a message takes the rest."""

REPLY_INTEGERS = _words(
    """
    partitions retention_hours retention_bytes count generation partition offset version batched leo hwm epoch messages
    staged_messages staged_offsets min_version max_version default_version protocol_version leader_epoch port requested
    earliest latest current
    """
)
"""Fields of OK, ERROR and STREAM_CONTROL replies that are numbers, where they look like numbers."""
REPLY_BOOLEANS = _words("deleted registered resumed left validated authenticated changed retryable")
REPLY_TEXTS = _words(
    """
    topic cleanup_policy partitioner auth_policy read_acl write_acl topics groups group member assignments snapshot
    snapshots brokers cluster offsets leaders epochs coordinator_id coordinator_type host previous_leader leader
    transactional_id producerId state principal protocol features error_classes enabled unsupported commands type reason
    class command operation permission expected actual code
    """
)
REPLY_NAMES = {
    "producerId": "producer_id",
    "class": "error_class",
    "command": "echoed_command",
    "type": "control_type",
    "commands": "command_list",
    "messages": "message_count",
}
"""Reply fields whose name in a record is another one."""

PARAMETER_KEYS = {key: name for key, (name, _) in PARAMETERS.items()}
REPLY_KEYS = {key: REPLY_NAMES.get(key, key) for key in (*REPLY_INTEGERS, *REPLY_BOOLEANS, *REPLY_TEXTS)}
TAIL_KEYS = {"message": "message", "secret_message": "message", "json_text": "payload", "secret_json": "payload"}
"""Keys of records, by the names on the wire; those of the tail by its fields."""

STREAM_CLOSE_REASONS = _words("stopped replaced removed timeout error offset_out_of_range")
KNOWN_ACKS = frozenset(["", "0", "1", "-1", "all"])

MARKER_PREFIX = "txn-marker:"
"""Producer of a transaction marker, an ordinary message on the wire."""

ROUTING, AVAILABILITY = "routing", "availability"

_CLASSES = {
    ROUTING: "NOT_COORDINATOR NOT_LEADER NOT_PARTITION_LEADER",
    AVAILABILITY: """
        cluster_metadata_unavailable cluster_not_available coordinator_not_available fsm_not_available
        leader_election_result_unavailable leader_not_found no_raft_leader offset_manager_not_available
        request_cancelled router_not_available transaction_abort_marker_failed transaction_commit_failed
        transaction_manager_not_available transaction_sync_failed
        """,
    "fencing": "GEN_MISMATCH NOT_OWNER STALE_LEADER_EPOCH member_not_found producer_fenced stale_producer_epoch",
    "conflict": """
        OFFSET_OUT_OF_RANGE leader_election_rejected offset_regression producer_reinitialization_required
        snapshot_version_exceeds_stream topic_not_assigned_to_group transaction_aborted transaction_already_committed
        transaction_marker_partition_not_touched transaction_not_abortable transaction_not_committing
        transaction_record_not_staged version_conflict
        """,
    "authorization": """
        NOT_AUTHORIZED_FOR_OPERATION NOT_AUTHORIZED_FOR_PARTITION NOT_AUTHORIZED_FOR_TOPIC authentication_failed
        authentication_required internal_auth_not_configured internal_batch_requires_token_wrapper
        internal_command_unauthorized internal_topic_write_forbidden internal_txn_publish_forbidden
        transaction_metadata_forbidden
        """,
    "not_found": """
        group_not_found partition_metadata_not_found partition_not_found topic_not_found transaction_not_found
        """,
    "validation": """
        UNSUPPORTED_FEATURE UNSUPPORTED_PROTOCOL_VERSION batch_decode_failed decode_failed distribution_not_enabled
        distribution_required duplicate_partition empty_command empty_messages empty_required_params
        event_sourcing_not_enabled no_valid_offsets unknown_command unmarshal_failed unsupported_topic_policy
        malformed_input
        """,
    "internal": "topic_create_missing empty_command_response partition_lookup_failed",
}
ERROR_CLASSES = {code: name for name, codes in _CLASSES.items() for code in codes.split()}
"""Codes whose class does not follow from how they are spelled."""


NOT_LET_IN = _words("authentication_failed authentication_required invalid_auth")
"""Errors about who somebody is, not about what they may do."""


def error_class(code: str) -> str:
    """The class of an error code, as the broker derives it."""
    known = ERROR_CLASSES.get(code)
    if known is not None:
        return known
    if code.startswith(("not_authorized", "authorization_")):
        return "authorization"
    if code.endswith(("_not_found", "_missing")):
        return "not_found"
    if code.startswith(("missing_", "invalid_", "empty_", "malformed_", "decode_", "unmarshal_")):
        return "validation"
    return "internal"


def retryable(error: str) -> bool:
    """Whether a client may try again after an error of this class."""
    return error in (ROUTING, AVAILABILITY)
