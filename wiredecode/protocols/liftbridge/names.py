"""Names of the numbers on the wire (liftbridge: server/protocol; liftbridge-api: api.proto; hashicorp/raft)."""

from __future__ import annotations

MAGIC = b"\xb9\x0e\x43\xb4"

MESSAGE_TYPES = {
    0: "Publish",
    1: "Ack",
    2: "ReplicationRequest",
    3: "ReplicationResponse",
    4: "RaftJoinRequest",
    5: "RaftJoinResponse",
    6: "LeaderEpochOffsetRequest",
    7: "LeaderEpochOffsetResponse",
    8: "PropagatedRequest",
    9: "PropagatedResponse",
    10: "ServerInfoRequest",
    11: "ServerInfoResponse",
    12: "PartitionStatusRequest",
    13: "PartitionStatusResponse",
    14: "PartitionNotification",
}
PUBLISH, ACK, REPLICATION_RESPONSE = 0, 1, 3
PARTITION_STATUS_REQUEST = 12
REQUESTS = {2: 3, 4: 5, 6: 7, 8: 9, 10: 11, 12: 13}
"""The type of the response to each request."""

FLAGS = {0x01: "crc"}

OPS = {
    0: "CREATE_STREAM",
    1: "SHRINK_ISR",
    2: "REPORT_LEADER",
    3: "CHANGE_LEADER",
    4: "EXPAND_ISR",
    5: "DELETE_STREAM",
    6: "PAUSE_STREAM",
    7: "RESUME_STREAM",
    8: "PUBLISH_ACTIVITY",
    9: "SET_STREAM_READONLY",
    10: "CREATE_CONSUMER_GROUP",
    11: "JOIN_CONSUMER_GROUP",
    12: "LEAVE_CONSUMER_GROUP",
    13: "REPORT_CONSUMER_GROUP_COORDINATOR",
    14: "CHANGE_CONSUMER_GROUP_COORDINATOR",
}

ACK_POLICIES = {0: "LEADER", 1: "ALL", 2: "NONE"}
NO_ACK = 2

ACK_ERRORS = {0: "OK", 1: "UNKNOWN", 2: "INCORRECT_OFFSET", 3: "TOO_LARGE", 4: "ENCRYPTION"}

ACTIVITY_OPS = {
    0: "CREATE_STREAM",
    1: "DELETE_STREAM",
    2: "PAUSE_STREAM",
    3: "RESUME_STREAM",
    4: "SET_STREAM_READONLY",
    5: "JOIN_CONSUMER_GROUP",
    6: "LEAVE_CONSUMER_GROUP",
}

GRPC_CODES = {
    0: "OK",
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARGUMENT",
    4: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND",
    6: "ALREADY_EXISTS",
    7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED",
    9: "FAILED_PRECONDITION",
    10: "ABORTED",
    11: "OUT_OF_RANGE",
    12: "UNIMPLEMENTED",
    13: "INTERNAL",
    14: "UNAVAILABLE",
    15: "DATA_LOSS",
    16: "UNAUTHENTICATED",
}
"""Status codes of gRPC, which a PropagatedResponse carries in its error."""

RPC_TYPES = {0: "AppendEntries", 1: "RequestVote", 2: "InstallSnapshot", 3: "TimeoutNow", 4: "RequestPreVote"}
"""First byte of a Raft RPC (hashicorp/raft: net_transport.go)."""

LOG_TYPES = {
    0: "LogCommand",
    1: "LogNoop",
    2: "LogAddPeerDeprecated",
    3: "LogRemovePeerDeprecated",
    4: "LogBarrier",
    5: "LogConfiguration",
}
"""Type of a Raft log entry (hashicorp/raft: log.go)."""
LOG_COMMAND, LOG_CONFIGURATION = 0, 5

SUFFRAGES = {0: "Voter", 1: "Nonvoter", 2: "Staging"}

DEFAULT_NAMESPACE = "liftbridge-default"
RAFT_MARK = ".raft.metadata."
"""Between the namespace and the purpose, in subjects of the metadata group."""
