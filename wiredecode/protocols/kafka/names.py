"""Names of the numbers on the wire. Messages and errors are in ``layers.txt``."""

from __future__ import annotations

PRODUCE, FETCH, METADATA, CONTROLLED_SHUTDOWN = 0, 1, 3, 7
SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36

UNSUPPORTED_VERSION = 35
LEAST_PRODUCE, NEW_PRODUCE = 3, 12
"""Brokers that offer Produce up to version 12 or more offer older ones than 3, too, but do not have them."""

METADATA_ID, METADATA_TOPIC = bytes(15) + b"\x01", "__cluster_metadata"
"""The topic of the controllers has a fixed id."""

CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
READERS = {1: "gzip", 2: "snappy-java", 3: "lz4", 4: "zstd"}
"""Codecs as the decompressors call them."""
TIMESTAMP_TYPES = {0: "create time", 1: "log append time"}
LOG_APPEND_TIME = 1

HIDDEN = frozenset({"auth_bytes", "hmac", "salt", "salted_password", "request_data", "response_data"})
"""Fields with passwords and tokens, or with requests that may hold them."""
FREE = frozenset({"value", "error_message", "metadata", "committed_metadata"})
"""Texts in which credentials are hidden."""
HIDDEN_VALUES = frozenset({"AlterConfigsRequest", "IncrementalAlterConfigsRequest"})
"""Messages whose ``value`` may be a password: that of a configuration."""

PARTITIONS = ("partition_index", "partition", "index")
"""Fields with the number of a partition."""
FACTS = (
    *("api_version", "error", "topics_named", "mechanism", "transactional_id", "acks", "group_id", "member_id"),
    *("generation_id", "coordinator_key", "key", "host", "port", "cluster_id", "producer_id"),
)
"""Fields that a line shows, the first ones that a message has."""
