"""Names of the numbers on the wire (phaistos-networks/TANK: tank_protocol.md, tank_encoding.md and the source)."""

from wiredecode.protocols.shared.data import data_of, number_keys

PRODUCE, CONSUME, PING, REGISTER_REPLICA, PRODUCE_WITH_BASE = 1, 2, 3, 4, 5
DISCOVER_PARTITIONS, CREATE_TOPIC, RELOAD_CONFIGURATION, CONSUME_AS_PEER = 6, 7, 8, 9
STATUS, DISCOVER_TOPICS, DISCOVER_TOPOLOGY = 10, 11, 12

NAMES = data_of("tank", "names.toml")
MESSAGES = number_keys(NAMES["messages"])
"""Request and response have the same id; the answer to id 5 has id 1."""

END_OF_LOG = 2**64 - 1
"""As a sequence number: in Consume "from the end", in the records of DiscoverPartitions "left out, see the reason"."""
STARTS = {0: "first available message", END_OF_LOG: "end: new messages only"}
"""Meanings of the reserved sequence numbers of Consume."""
STAND_ALONE = 0xFFFF
"""As the number of nodes of a topology."""

BOUNDARY, SYSTEM_ERROR, REDIRECT, NO_LEADER, SPARSE_FIRST, UNKNOWN = 0x01, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF
READ_ONLY = 0xFE
"""Result of Produce; the same number as SPARSE_FIRST of Consume."""

PRODUCE_RESULTS = number_keys(NAMES["produce-results"])
WHOLE_TOPIC = frozenset({READ_ONLY, UNKNOWN})
"""Results of Produce that apply to all partitions of their topic."""

CONSUME_RESULTS = number_keys(NAMES["consume-results"])
WITHOUT_DATA = (SYSTEM_ERROR, REDIRECT, NO_LEADER, UNKNOWN)
"""Results of Consume that end the record of their partition."""

DISCOVER_REASONS = {SYSTEM_ERROR: "system error", REDIRECT: "another node leads", NO_LEADER: "no leader"}

CREATE_RESULTS = number_keys(NAMES["create-results"])

RELOAD_RESULTS = number_keys(NAMES["reload-results"])

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
