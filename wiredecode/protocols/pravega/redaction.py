"""Rules of Pravega for ``wiredecode anonymize``."""

from wiredecode.protocols.shared.redaction import read_rules

DISGUISES = read_rules("pravega")
