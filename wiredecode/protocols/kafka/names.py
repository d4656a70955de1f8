"""Names of the numbers on the wire. Messages and errors are in ``layers.json``; types are those of ``names.toml``."""

from wiredecode.protocols.shared.data import data_of

NAMES = data_of("kafka", "names.toml")
TYPES = {name: frozenset(types) for name, types in NAMES["types"].items()}

PRODUCE, FETCH, METADATA, CONTROLLED_SHUTDOWN = 0, 1, 3, 7
SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36

UNSUPPORTED_VERSION = 35
LEAST_PRODUCE, NEW_PRODUCE = 3, 12
"""Brokers that offer Produce up to version 12 or more offer older ones than 3, too, but do not have them."""

METADATA_ID, METADATA_TOPIC = bytes(15) + b"\x01", "__cluster_metadata"
"""The topic of the controllers has a fixed id."""

CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
READERS = {1: "gzip", 2: "snappy-java", 3: "lz4-kafka", 4: "zstd"}
"""Codecs as the decompressors call them."""
TIMESTAMP_TYPES = {0: "create time", 1: "log append time"}

FIELDS = NAMES["fields"]
HIDDEN, FREE, HIDDEN_VALUES = (frozenset(FIELDS[name]) for name in ("hidden", "free", "hidden-values"))
TRANSACTION_STATES = dict(enumerate(NAMES["transaction-states"]))
PARTITIONS, FACTS = FIELDS["partitions"], FIELDS["facts"]
