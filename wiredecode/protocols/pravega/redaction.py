"""Rules of Pravega for ``wiredecode anonymize``."""

from wiredecode.protocols.shared import proxy
from wiredecode.protocols.shared.redaction import declared

DISGUISES = {**proxy.DISGUISES, **declared("pravega")}
