"""Names of the numbers on the wire. Messages and errors are in ``layers.json``; types are those of ``names.toml``."""

from wiredecode.protocols.shared.data import data_of

NAMES = data_of("kafka", "names.toml")
TYPES = {name: frozenset(types) for name, types in NAMES["types"].items()}

PRODUCE, FETCH, METADATA, CONTROLLED_SHUTDOWN = 0, 1, 3, 7
SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = LOGIN = 17, 18, 36

UNSUPPORTED_VERSION = 35
MIN_PRODUCE, NEW_PRODUCE = 3, 12
"""Brokers that offer Produce up to version 12 or more offer older ones than 3, too, but do not have them."""

METADATA_ID, METADATA_TOPIC = bytes(15) + b"\x01", "__cluster_metadata"
"""The topic of the controllers has a fixed id."""

CODECS, TIMESTAMP_TYPES, TRANSACTION_STATES = (
    dict(enumerate(NAMES[name])) for name in ("codecs", "timestamp-types", "transaction-states")
)
READERS = dict(enumerate(NAMES["decompressors"], 1))

FIELDS = NAMES["fields"]
HIDDEN, FREE, HIDDEN_VALUES, NAMING = (
    frozenset(FIELDS[name]) for name in ("hidden", "free", "hidden-values", "naming")
)
PARTITIONS, FACTS, BATCHES, MEMBERS = (FIELDS[name] for name in ("partitions", "facts", "batches", "members"))
MEMBER_DATA = NAMES["member-data"]
