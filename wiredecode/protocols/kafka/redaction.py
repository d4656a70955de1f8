"""Rules of Kafka for ``wiredecode anonymize``."""

from wiredecode.protocols.shared.redaction import declared

DISGUISES = declared("kafka")
