"""NATS through the kit, with Liftbridge in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from tests.conftest import CAPTURES
from tests.protocols import liftbridge_vectors, nats_vectors, truth_nats
from tests.protocols.test_liftbridge_vectors import layer_of, payload_of
from tests.protocols.test_nats_captures import FILES, WHOLE
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats.protocol import Nats
from wiredecode.testing import BlockTests

LIFTBRIDGE = [
    CAPTURES / "liftbridge" / name
    for name in ("30-lb-publish-ack.pcap", "31-lb-all-types.pcap", "34-lb-replication.pcap.zst")
]
CUT = [CAPTURES / "nats" / f"{name}.pcap" for name in ("03-pubsub", "06-headers", "12-grammar-variants")]


class TestNats(BlockTests):
    protocol = Nats
    vectors: ClassVar = [
        *((vector.layer, vector.raw) for vector in nats_vectors.VECTORS),
        *((layer_of(vector), payload_of(vector)) for vector in liftbridge_vectors.VECTORS if vector.layer),
    ]
    captures: ClassVar = [*WHOLE, *LIFTBRIDGE]
    damaged: ClassVar = [path for path in FILES if path not in WHOLE]
    cut: ClassVar = [*CUT, LIFTBRIDGE[1]]
    values: ClassVar = {
        "header_length": lambda chance: 8,
        "Extension": lambda chance: None,
        "UnknownFields": lambda chance: None,
        "UnknownKeys": lambda chance: None,
        "Line": lambda chance: chance.randbytes(5).hex().encode(),
    }
    unfound: ClassVar = {"60-limits.pcap": 12}  # only PING, on a port of no protocol
    leaves = True
    stepped: ClassVar = frozenset({"ReplicationResponse"})

    @classmethod
    def spoken(cls, frames: Iterable[Frame]) -> list[Frame]:
        """Without the operations inside compressed chunks and WebSocket frames."""
        return [frame for frame in frames if not truth_nats.is_inside(frame)]
