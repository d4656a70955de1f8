"""Rules of Pravega for ``wiredecode anonymize``."""

from wiredecode.protocols.shared.redaction import declared

DISGUISES = declared("pravega")
