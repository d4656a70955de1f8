"""The toy passes the kit, as a protocol of another package would."""

from __future__ import annotations

from typing import ClassVar

from tests.toy.kv import KV, Error, Get, Value
from wiredecode.testing import Part, ProtocolTests

ASKED = bytes(Get(size=9, request_id=7, key="lamp")) + bytes(Get(size=9, request_id=8, key="door"))
TOLD = bytes(Error(size=4, request_id=8)) + bytes(Value(size=7, request_id=7, value=b"on"))


class TestKV(ProtocolTests):
    protocol = KV
    vectors: ClassVar = [(Error, TOLD[:6]), (Value, TOLD[6:])]
    dialogues: ClassVar = {"asked and answered": [Part(1, 0, ASKED), Part(1, 1, TOLD)]}
    steady: ClassVar = frozenset({"size"})
    with_columns = (3, 3)
