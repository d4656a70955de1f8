"""Rules of Kafka for ``wiredecode anonymize``."""

from __future__ import annotations

from wiredecode.protocols.kafka import NAME
from wiredecode.protocols.shared.redaction import Rules, words

KEPT = frozenset(
    {
        "mechanism",
        "mechanisms",
        "protocol_type",
        "group_state",
        "state",
        "client_software_name",
        "client_software_version",
    }
)

DISGUISES = {
    NAME: Rules(
        kept=KEPT,
        hosts=frozenset({"host", "client_host"}),
        words=words("consumer connect sasl plain scram sha range roundrobin sticky cooperative uniform"),
    ),
}
