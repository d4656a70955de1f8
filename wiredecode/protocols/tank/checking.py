"""Which requests of TANK clients wait for data."""

from __future__ import annotations

from wiredecode.protocols.shared.checking import Checks
from wiredecode.protocols.tank.changes import CHANGES

CHECKS = Checks(changes=CHANGES, waits=frozenset({"Consume"}))
