"""Rules of Pravega for ``wiredecode anonymize``."""

from __future__ import annotations

from wiredecode.protocols.shared import proxy
from wiredecode.protocols.shared.redaction import Rules

WORDS = frozenset({"epoch", "transaction", "system", "tables", "E", "O", "abort", "commit"})
"""Parts of segment names that Pravega puts there."""

DISGUISES = {
    **proxy.DISGUISES,
    "pravega": Rules(
        hosts=frozenset({"correct_host"}),
        kept=frozenset({"zeros"}),
        words=WORDS,
    ),
}
