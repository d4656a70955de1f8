"""Names of the numbers on the wire (phaistos-networks/TANK: tank_protocol.md, tank_encoding.md and the source)."""

from __future__ import annotations

PRODUCE, CONSUME, PING, REGISTER_REPLICA, PRODUCE_WITH_BASE = 1, 2, 3, 4, 5
DISCOVER_PARTITIONS, CREATE_TOPIC, RELOAD_CONFIGURATION, CONSUME_AS_PEER = 6, 7, 8, 9
STATUS, DISCOVER_TOPICS, DISCOVER_TOPOLOGY = 10, 11, 12

MESSAGES = {
    PRODUCE: "Produce",
    CONSUME: "Consume",
    PING: "Ping",
    REGISTER_REPLICA: "RegisterReplica",
    PRODUCE_WITH_BASE: "ProduceWithBaseSequenceNumber",
    DISCOVER_PARTITIONS: "DiscoverPartitions",
    CREATE_TOPIC: "CreateTopic",
    RELOAD_CONFIGURATION: "ReloadPartitionConfiguration",
    CONSUME_AS_PEER: "ConsumeAsPeer",
    STATUS: "Status",
    DISCOVER_TOPICS: "DiscoverTopics",
    DISCOVER_TOPOLOGY: "DiscoverTopology",
}
"""Request and response have the same id; the answer to id 5 has id 1."""

END_OF_LOG = 2**64 - 1
"""As a sequence number: in Consume "from the end", in the records of DiscoverPartitions "left out, see the reason"."""
STARTS = {0: "first available message", END_OF_LOG: "end: new messages only"}
"""Meanings of the reserved sequence numbers of Consume."""
STAND_ALONE = 0xFFFF
"""As the number of nodes of a topology."""

BOUNDARY, SYSTEM_ERROR, REDIRECT, NO_LEADER, SPARSE_FIRST, UNKNOWN = 0x01, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF
READ_ONLY = 0xFE
"""Of Produce; the same number as SPARSE_FIRST of Consume."""

PRODUCE_RESULTS = {
    0x00: "OK",
    0x01: "unknown partition",
    0x02: "system error",
    0x03: "acknowledgements timed out",
    0x04: "insufficient replicas",
    0x0A: "sequence number not above the last",
    REDIRECT: "another node leads",
    NO_LEADER: "no leader",
    READ_ONLY: "broker is read-only",
    UNKNOWN: "unknown topic",
}
WHOLE_TOPIC = frozenset({READ_ONLY, UNKNOWN})
"""Results of Produce that apply to all partitions of their topic."""

CONSUME_RESULTS = {
    0x00: "OK",
    BOUNDARY: "boundary check failed",
    SYSTEM_ERROR: "system error",
    REDIRECT: "another node serves",
    NO_LEADER: "no leader",
    SPARSE_FIRST: "OK, first bundle is sparse",
    UNKNOWN: "unknown partition",
}
WITHOUT_DATA = (SYSTEM_ERROR, REDIRECT, NO_LEADER, UNKNOWN)
"""Results of Consume that end the record of their partition."""

DISCOVER_REASONS = {SYSTEM_ERROR: "system error", REDIRECT: "another node leads", NO_LEADER: "no leader"}

CREATE_RESULTS = {
    0: "OK",
    1: "already exists",
    2: "system error",
    4: "invalid configuration",
    5: "broker is read-only",
    10: "invalid request",
    11: "not supported",
}

RELOAD_RESULTS = {
    0: "OK",
    1: "unknown topic",
    2: "no configuration file, or I/O error",
    3: "configuration not accepted",
    10: "unknown partition",
    11: "unknown topic",
    12: "broker is in cluster mode",
}

CONSUME_OPTIONS = {0x01: "prefer_local_replica"}
NODE_FLAGS = {0x01: "endpoint", 0x02: "available", 0x04: "blocked"}

SNAPPY = 1
CODECS = {0: "none", SNAPPY: "snappy"}
CODEC_MASK, COUNT_MASK, COUNT_SHIFT, SPARSE, EXTRA = 0x03, 0x3C, 2, 0x40, 0x80
"""Bits of the flags of a bundle."""

HAS_KEY, SAME_TIMESTAMP, PREVIOUS_PLUS_ONE = 1, 2, 4
MESSAGE_FLAGS = {HAS_KEY: "key", SAME_TIMESTAMP: "same_timestamp", PREVIOUS_PLUS_ONE: "previous_plus_one"}
PRODUCER_INFO = 1
EXTRA_FLAGS = {PRODUCER_INFO: "producer_info"}
