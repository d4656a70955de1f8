"""Words of the Cursus protocol: commands, parameters, reply fields, error codes (upstream, 2025-11 to 2026-08)."""

from wiredecode.protocols.shared.data import data_of, words

MAGIC = b"\xba\x7c"
"""First bytes of a batch."""

NAMES = data_of("cursus", "names.toml")
WORDS = {name: frozenset(texts) for name, texts in NAMES["words"].items()}
REPLIES = {command: frozenset(types) for command, types in NAMES["replies"].items()}
COMMANDS = WORDS["commands"]
"""Commands of today's broker, then those of documents and clients, then those of 2025-11."""

OTHER_TYPES = words("OK ERROR STREAM_CONTROL Batch KeepAlive Envelope Compressed Json Text Unknown")
"""Types of frames that are no command, but for those of JSON."""
DISCOVERY = ("JOIN_CLUSTER", "LEAVE_CLUSTER", "HEARTBEAT_CLUSTER", "LIST_CLUSTER")
"""Commands of the discovery port, followed by JSON."""

EXACT = words("HELP LIST LIST_GROUPS LIST_CLUSTER CLUSTER_STATUS PROTOCOL_INFO")
"""Commands that take nothing after their name: with arguments they are unknown to the broker."""

PAYLOAD_COMMANDS = words("REPLICATE_MESSAGE REPLICATE_SNAPSHOT RAFT_APPLY")
"""Commands whose ``payload=`` takes the rest of the text, as JSON."""

OFFSET_COMMANDS = words("BATCH_COMMIT SEND_OFFSETS_TO_TXN")
"""Commands that end with a list of partitions and offsets."""

REPLICATING = PAYLOAD_COMMANDS | words("LIST_SNAPSHOTS FETCH_SNAPSHOT CATCHUP_SNAPSHOTS")
"""Commands between brokers; others with an ``internal_token`` are those of a client, forwarded."""

TEXT, INTEGER, BOOLEAN = "text", "integer", "boolean"

PARAMETERS: dict[str, tuple[str, str]] = {
    **{name: (name, kind) for kind, names in NAMES["parameters"].items() for name in names},
    **{name: (field, kind) for name, (field, kind) in NAMES["renamed-parameters"].items()},
}
"""Every parameter of a key=value command: the field it becomes, and its type."""

POSITIONAL: dict[str, tuple[str, ...]] = {name: tuple(keys) for name, keys in NAMES["positional"].items()}
"""Order of the words in the older document's commands."""

POSITIONAL_2025 = POSITIONAL | {name: tuple(keys) for name, keys in NAMES["positional-2025"].items()}
"""Positional arguments in the broker of 2025-11, in an envelope with a topic; the message is the rest."""

REPLY_INTEGERS = WORDS["reply-integers"]
"""Fields of OK, ERROR and STREAM_CONTROL replies that are numbers, where they look like numbers."""
REPLY_BOOLEANS = WORDS["reply-booleans"]
REPLY_TEXTS = WORDS["reply-texts"]
REPLY_NAMES: dict[str, str] = NAMES["reply-names"]
"""Reply fields whose name in a record is another one."""

PARAMETER_KEYS = {key: name for key, (name, _) in PARAMETERS.items()}
REPLY_KEYS = {key: REPLY_NAMES.get(key, key) for key in (*REPLY_INTEGERS, *REPLY_BOOLEANS, *REPLY_TEXTS)}
TAIL_KEYS = {"message": "message", "secret_message": "message", "json_text": "payload", "secret_json": "payload"}
"""Keys of records, by the names on the wire; those of the tail by its fields."""

STREAM_CLOSE_REASONS = words("stopped replaced removed timeout error offset_out_of_range")
KNOWN_ACKS = frozenset(["", "0", "1", "-1", "all"])

MARKER_PREFIX = "txn-marker:"
"""Producer of a transaction marker, an ordinary message on the wire."""

ROUTING, AVAILABILITY = "routing", "availability"

ERROR_CLASSES = {code: name for name, codes in NAMES["error-classes"].items() for code in codes}
"""Codes whose class does not follow from how they are spelled."""

LIMIT_REACHED = "maximum connections"
"""Beginning of the reason."""
NOT_LET_IN = words("authentication_failed authentication_required invalid_auth")
"""Errors about who somebody is, not about what they may do."""
ELSEWHERE = words("NOT_LEADER NOT_PARTITION_LEADER NOT_COORDINATOR")
"""Errors of brokers that another one leads or coordinates."""


def error_class(code: str) -> str:
    """The class of an error code, as the broker derives it."""
    declared = ERROR_CLASSES.get(code)
    if declared is not None:
        return declared
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
