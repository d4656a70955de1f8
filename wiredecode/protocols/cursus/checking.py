"""Which requests of Cursus clients wait for data."""

from __future__ import annotations

from wiredecode.protocols.cursus.changes import CHANGES
from wiredecode.protocols.shared.checking import Checks

CHECKS = Checks(changes=CHANGES, waits=frozenset({"STREAM", "CONSUME"}))
