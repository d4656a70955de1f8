"""TANK through the kit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from tests.protocols.tank_vectors import VECTORS
from tests.protocols.test_tank_captures import DERIVED, ORIGINALS, SMALL
from tests.protocols.test_tank_vectors import layer_of
from wiredecode.fields.layer import Layer
from wiredecode.protocols.tank import Tank
from wiredecode.testing import ProtocolTests


class TestTank(ProtocolTests):
    protocol = Tank
    vectors: ClassVar = [(layer_of(vector), vector.data) for vector in VECTORS]
    captures: ClassVar = ORIGINALS
    damaged: ClassVar = DERIVED
    cut: ClassVar = SMALL[::2]
    steady: ClassVar = frozenset({"payload_length", "chunk_length", "node_count"})
    with_columns = (23, 24)

    @classmethod
    def surprising(cls, layer: type[Layer], raw: bytes, record: Mapping[str, Any]) -> bool:
        """Bundles whose messages are not one after another, and bytes in odd places."""
        words = "first_sequence_number", "partial_bundle", "extra", "stray"
        return any(f'"{word}"' in json.dumps(record) for word in words)
