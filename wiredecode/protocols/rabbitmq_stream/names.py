"""Names of the numbers on the wire (RabbitMQ Stream protocol reference, deps/rabbitmq_stream/docs/PROTOCOL.adoc)."""

from __future__ import annotations

RESPONSE_BIT = 0x8000

COMMANDS = {
    1: "DeclarePublisher",
    2: "Publish",
    3: "PublishConfirm",
    4: "PublishError",
    5: "QueryPublisherSequence",
    6: "DeletePublisher",
    7: "Subscribe",
    8: "Deliver",
    9: "Credit",
    10: "StoreOffset",
    11: "QueryOffset",
    12: "Unsubscribe",
    13: "Create",
    14: "Delete",
    15: "Metadata",
    16: "MetadataUpdate",
    17: "PeerProperties",
    18: "SaslHandshake",
    19: "SaslAuthenticate",
    20: "Tune",
    21: "Open",
    22: "Close",
    23: "Heartbeat",
    24: "Route",
    25: "Partitions",
    26: "ConsumerUpdate",
    27: "ExchangeCommandVersions",
    28: "StreamStats",
    29: "CreateSuperStream",
    30: "DeleteSuperStream",
    31: "ResolveOffsetSpec",
}

KEYS = COMMANDS | {key | RESPONSE_BIT: name + "Response" for key, name in COMMANDS.items()}
"""Names of the Key field: the response bit makes it a response."""

CORRELATED = frozenset(COMMANDS) - {2, 3, 4, 8, 9, 10, 16, 20, 23}
"""Keys of the requests that carry a correlation id."""
RESPONSES = frozenset(key | RESPONSE_BIT for key in COMMANDS)

CLIENT_KEYS = frozenset({1, 2, 5, 6, 7, *range(10, 16), 17, 18, 19, 21, *range(27, 32), 0x801A})
SERVER_KEYS = frozenset({3, 4, 8, 16, 26}) | {key | RESPONSE_BIT for key in COMMANDS if key not in (20, 22, 26)}
"""Keys that only one side sends. Route and Partitions (24, 25) do not count: RabbitMQ 3.10 answers without the bit."""

RESPONSE_CODES = {
    1: "OK",
    2: "Stream does not exist",
    3: "Subscription ID already exists",
    4: "Subscription ID does not exist",
    5: "Stream already exists",
    6: "Stream not available",
    7: "SASL mechanism not supported",
    8: "Authentication failure",
    9: "SASL error",
    10: "SASL challenge",
    11: "SASL authentication failure loopback",
    12: "Virtual host access failure",
    13: "Unknown frame",
    14: "Frame too large",
    15: "Internal error",
    16: "Access refused",
    17: "Precondition failed",
    18: "Publisher does not exist",
    19: "No offset",
    20: "SASL cannot change mechanism",
    21: "SASL cannot change username",
}
OK, UNKNOWN_STREAM, SASL_CHALLENGE, SASL_LOOPBACK, ACCESS_REFUSED = 1, 2, 10, 11, 16

OFFSET_TYPES = {0: "none", 1: "first", 2: "last", 3: "next", 4: "offset", 5: "timestamp"}

CODECS = {0x80: "none", 0x90: "gzip", 0xA0: "snappy", 0xB0: "lz4", 0xC0: "zstd"}
"""First byte of a sub-batch: the top bit, three bits of codec, four reserved."""

CHUNK_TYPES = {0: "user", 1: "tracking delta", 2: "tracking snapshot"}

TRACKING_TYPES = {0: "sequence", 1: "offset", 2: "timestamp"}

MECHANISMS = frozenset(
    (
        *("", "PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS", "OAUTHBEARER", "XOAUTH2", "RABBIT-CR-DEMO", "CRAM-MD5"),
        *("SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    )
)
"""SASL mechanisms; empty: the name was not captured."""


def outcome(code: int) -> str:
    """A response code in words."""
    return RESPONSE_CODES.get(code, f"code {code}")
