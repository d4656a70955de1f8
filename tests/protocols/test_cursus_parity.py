"""Cursus through the kit."""

from __future__ import annotations

from typing import ClassVar

from tests.protocols.test_cursus_captures import CUT, DAMAGED, FILES, WHOLE
from tests.protocols.test_cursus_vectors import VECTORS, layers_of, read
from wiredecode.protocols.cursus.protocol import Cursus
from wiredecode.testing import Case, ProtocolTests


def cases() -> list[Case]:
    """The layers of all vectors, those inside included."""
    return [case for vector in VECTORS for case in layers_of(read(bytes.fromhex(vector["hex"]), vector["sender"]))]


class TestCursus(ProtocolTests):
    protocol = Cursus
    vectors: ClassVar = cases()
    captures: ClassVar = WHOLE
    damaged: ClassVar = [path for path in FILES if path.stem in DAMAGED]
    cut: ClassVar = CUT
    steady: ClassVar = frozenset({"length", "magic"})
