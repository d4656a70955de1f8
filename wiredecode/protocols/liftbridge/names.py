"""Names of the numbers on the wire (liftbridge: server/protocol; liftbridge-api: api.proto; hashicorp/raft)."""

from __future__ import annotations

from wiredecode.protocols.shared.data import data_of, numbered

MAGIC = b"\xb9\x0e\x43\xb4"

NAMES = data_of("liftbridge", "names.toml")
MESSAGE_TYPES = numbered(NAMES["message-types"])
PUBLISH, ACK, REPLICATION_RESPONSE = 0, 1, 3
PARTITION_STATUS_REQUEST = 12
REQUESTS = {2: 3, 4: 5, 6: 7, 8: 9, 10: 11, 12: 13}
"""The type of the response to each request."""

FLAGS = {0x01: "crc"}

OPS = numbered(NAMES["operations"])

ACK_POLICIES = {0: "LEADER", 1: "ALL", 2: "NONE"}
NO_ACK = 2

ACK_ERRORS = {0: "OK", 1: "UNKNOWN", 2: "INCORRECT_OFFSET", 3: "TOO_LARGE", 4: "ENCRYPTION"}

ACTIVITY_OPS = numbered(NAMES["activity-operations"])

GRPC_CODES = numbered(NAMES["grpc-codes"])
"""Status codes of gRPC, which a PropagatedResponse carries in its error."""

RPC_TYPES = {0: "AppendEntries", 1: "RequestVote", 2: "InstallSnapshot", 3: "TimeoutNow", 4: "RequestPreVote"}
"""First byte of a Raft RPC (hashicorp/raft: net_transport.go)."""

LOG_TYPES = numbered(NAMES["log-types"])
"""Type of a Raft log entry (hashicorp/raft: log.go)."""
LOG_COMMAND, LOG_CONFIGURATION = 0, 5

SUFFRAGES = {0: "Voter", 1: "Nonvoter", 2: "Staging"}

DEFAULT_NAMESPACE = "liftbridge-default"
RAFT_MARK = ".raft.metadata."
"""Between the namespace and the purpose, in subjects of the metadata group."""
