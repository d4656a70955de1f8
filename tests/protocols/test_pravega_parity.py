"""Pravega through the kit, with messages of older releases and of the proposal."""

from __future__ import annotations

from typing import ClassVar

from tests.protocols.test_pravega_captures import FILES, FOLDER, WHOLE
from tests.protocols.test_pravega_vectors import MESSAGES, TABLE, layer_of
from wiredecode.protocols.pravega.evidence import CURRENT, alternatives
from wiredecode.protocols.pravega.layers import HEADER
from wiredecode.protocols.pravega.layers_older import proposal
from wiredecode.protocols.pravega.names import PROPOSALS
from wiredecode.protocols.pravega.protocol import Pravega
from wiredecode.testing import Case, ProtocolTests


def cases() -> list[Case]:
    """Every message, also as the other releases and proposals would read it."""
    found: list[Case] = []
    for vector in MESSAGES:
        raw = bytes.fromhex(vector["hex"])
        code = HEADER.unpack_from(raw)[0]
        found += (
            (layer, raw) for layer in {layer_of(raw): None, CURRENT[code]: None, **dict.fromkeys(alternatives(code))}
        )
    for step in TABLE["proposal"]:
        raw = bytes.fromhex(step["hex"])
        layers = (proposal(dialect).get(HEADER.unpack_from(raw)[0]) for dialect in PROPOSALS)
        found += ((layer, raw) for layer in layers if layer is not None)
    return found


class TestPravega(ProtocolTests):
    protocol = Pravega
    vectors: ClassVar = cases()
    captures: ClassVar = WHOLE
    damaged: ClassVar = [path for path in FILES if path not in WHOLE]
    cut: ClassVar = [FOLDER / f"{stem}.pcap" for stem in ("append_basic", "seed_dialect", "tables", "read_cuts")]
    steady: ClassVar = frozenset(
        {"message_length", "block_length", "length_before_end", "size_of_whole_events", "connection_offset", "offset"}
        | {"high_version", "low_version", "last_event_number", "previous_event_number"}
    )
