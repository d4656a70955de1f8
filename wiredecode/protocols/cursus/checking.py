"""Which requests of Cursus clients wait for data."""

from __future__ import annotations

from wiredecode.protocols.shared.checking import Checks

CHECKS = Checks(waits=frozenset({"STREAM", "CONSUME"}))
