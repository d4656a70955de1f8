"""Names of the numbers on the wire (liftbridge: server/protocol; liftbridge-api: api.proto; hashicorp/raft)."""

from collections.abc import Iterable, Mapping
from typing import Any

from wiredecode.fields import printable
from wiredecode.protocols.shared.data import data_of, number_keys

MAGIC = b"\xb9\x0e\x43\xb4"

NAMES = data_of("liftbridge", "names.toml")
MESSAGE_TYPES = number_keys(NAMES["message-types"])
PUBLISH, ACK, REPLICATION_RESPONSE, RAFT_JOIN_RESPONSE = 0, 1, 3, 5
PROPAGATED_REQUEST, PROPAGATED_RESPONSE, PARTITION_STATUS_REQUEST = 8, 9, 12
REQUESTS = {2: 3, 4: 5, 6: 7, 8: 9, 10: 11, 12: 13}
"""The type of the response to each request."""

FLAGS = {0x01: "crc"}

OPS = number_keys(NAMES["operations"])

ACK_POLICIES = {0: "LEADER", 1: "ALL", 2: "NONE"}
NO_ACK = 2

ACK_ERRORS = {0: "OK", 1: "UNKNOWN", 2: "INCORRECT_OFFSET", 3: "TOO_LARGE", 4: "ENCRYPTION"}

ACTIVITY_OPS = number_keys(NAMES["activity-operations"])

GRPC_CODES = number_keys(NAMES["grpc-codes"])
"""Status codes of gRPC, which a PropagatedResponse carries in its error."""

RPC_TYPES = {0: "AppendEntries", 1: "RequestVote", 2: "InstallSnapshot", 3: "TimeoutNow", 4: "RequestPreVote"}
"""First byte of a Raft RPC (hashicorp/raft: net_transport.go)."""

LOG_TYPES = number_keys(NAMES["log-types"])
"""Type of a Raft log entry (hashicorp/raft: log.go)."""
LOG_COMMAND, LOG_CONFIGURATION = 0, 5

SUFFRAGES = {0: "Voter", 1: "Nonvoter", 2: "Staging"}

DEFAULT_NAMESPACE = "liftbridge-default"
RAFT_MARK = ".raft.metadata."
"""Between the namespace and the purpose, in subjects of the metadata group."""

WHO = ("leader", "replica", "replica_to_add", "replica_to_remove", "group_id", "consumer_id")
"""Fields of operations that name servers and members."""
MAX_SPELLED = 4
"""Entries of one message that lines show."""


def describe_operation(values: Mapping[str, Any]) -> str:
    """``"REPORT_LEADER orders[1], leader lb-c, replica lb-b"``."""
    code = values.get("op", 0)
    op = OPS.get(code, f"operation {code}") if isinstance(code, int) else printable(str(code))
    for name, operation in values.items():
        if not name.endswith("_op") or not isinstance(operation, Mapping):
            continue
        stream: Any = operation.get("stream", operation.get("name", ""))
        if isinstance(stream, Mapping):
            stream = stream.get("stream_name", stream.get("name", ""))
        named = "isr" in name or "leader" in name
        partition = f"[{operation.get('partition', 0)}]" if named else ""
        facts = {name: operation[name] for name in WHO if isinstance(operation.get(name), str)}
        texts = [f"{name.replace('_', ' ')} {printable(value)}" for name, value in facts.items()]
        return ", ".join([f"{op} {printable(str(stream))}{partition}".rstrip(), *texts])
    return op


def entries_text(entries: Iterable[Any]) -> str:
    """Operations of entries of the log: ``"CREATE_STREAM orders; LogNoop"``; empty: there are none."""
    readable = [each for each in entries if isinstance(each, Mapping)]
    texts = [entry_text(each) for each in readable[:MAX_SPELLED]]
    return "; ".join([*texts, f"{len(readable) - MAX_SPELLED} more"] if len(readable) > MAX_SPELLED else texts)


def entry_text(entry: Mapping[str, Any]) -> str:
    command, kind = entry.get("raft_log"), entry.get("log_type", "")
    if isinstance(command, Mapping):
        return describe_operation(command)
    return LOG_TYPES.get(kind, f"type {kind}") if isinstance(kind, int) else printable(str(kind))
