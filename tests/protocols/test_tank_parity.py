"""TANK through the kit."""

from __future__ import annotations

from typing import ClassVar

from tests.protocols.tank_vectors import VECTORS
from tests.protocols.test_tank_captures import DERIVED, ORIGINALS, SMALL
from tests.protocols.test_tank_vectors import layer_of
from wiredecode.protocols.tank.protocol import Tank
from wiredecode.testing import ProtocolTests


class TestTank(ProtocolTests):
    protocol = Tank
    vectors: ClassVar = [(layer_of(vector), vector.data) for vector in VECTORS]
    captures: ClassVar = ORIGINALS
    damaged: ClassVar = DERIVED
    cut: ClassVar = SMALL[::2]
    steady: ClassVar = frozenset({"payload_length", "chunk_length", "node_count"})
