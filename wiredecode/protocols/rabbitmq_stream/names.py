"""Names of the numbers on the wire (RabbitMQ Stream protocol reference, deps/rabbitmq_stream/docs/PROTOCOL.adoc)."""

from wiredecode.protocols.shared.data import data_of, number_keys

RESPONSE_BIT = 0x8000

NAMES = data_of("rabbitmq_stream", "names.toml")
COMMANDS = number_keys(NAMES["commands"])

KEYS = COMMANDS | {key | RESPONSE_BIT: name + "Response" for key, name in COMMANDS.items()}
"""Names of the Key field: the response bit makes it a response."""

CORRELATED = frozenset(COMMANDS) - {2, 3, 4, 8, 9, 10, 16, 20, 23}
"""Keys of the requests that carry a correlation id."""
RESPONSES = frozenset(key | RESPONSE_BIT for key in COMMANDS)

CLIENT_KEYS = frozenset({1, 2, 5, 6, 7, *range(10, 16), 17, 18, 19, 21, *range(27, 32), 0x801A})
SERVER_KEYS = frozenset({3, 4, 8, 16, 26}) | {key | RESPONSE_BIT for key in COMMANDS if key not in (20, 22, 26)}
"""Keys that only one side sends. Route and Partitions (24, 25) do not count: RabbitMQ 3.10 answers without the bit."""

RESPONSE_CODES = number_keys(NAMES["response-codes"])
OK, UNKNOWN_STREAM, SASL_CHALLENGE = 1, 2, 10

OFFSET_TYPES = {0: "none", 1: "first", 2: "last", 3: "next", 4: "offset", 5: "timestamp"}

CODECS = {0x80: "none", 0x90: "gzip", 0xA0: "snappy", 0xB0: "lz4", 0xC0: "zstd"}
"""First byte of a sub-batch: the top bit, three bits of codec, four reserved."""

CHUNK_TYPES = {0: "user", 1: "tracking delta", 2: "tracking snapshot"}

TRACKING_TYPES = {0: "sequence", 1: "offset", 2: "timestamp"}

MECHANISMS = frozenset(("", *NAMES["sasl"]["mechanisms"]))
"""SASL mechanisms; empty: the name was not captured."""


def outcome(code: int) -> str:
    """A response code in words."""
    return RESPONSE_CODES.get(code, f"code {code}")
