"""RabbitMQ Stream through the kit, and the ranges and offsets of its frames."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import pytest

from tests.protocols.rabbitmq_vectors import VECTORS
from tests.support import RABBITMQ, capture, capture_files
from wiredecode.fields import compiler
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS
from wiredecode.protocols.rabbitmq_stream.layers_chunk import number_offsets
from wiredecode.protocols.rabbitmq_stream.protocol import RabbitMQStream
from wiredecode.testing import ProtocolTests

FILES = sorted(path for path in RABBITMQ.iterdir() if ".pcap" in path.name and path.suffix != ".json")
WHOLE = [path for path in FILES if path.name.startswith("c") and "tls" not in path.name]


class TestRabbitMQStream(ProtocolTests):
    protocol = RabbitMQStream
    vectors: ClassVar = [(vector.layer, vector.raw) for vector in VECTORS]
    captures: ClassVar = WHOLE
    damaged: ClassVar = [path for path in FILES if path not in WHOLE]
    cut: ClassVar = [RABBITMQ / f"c43_{name}.pcap" for name in ("basic", "superstream", "subentry", "filter", "sac")]
    steady: ClassVar = frozenset(
        {"size", "key", "version", "frame_max", "crc", "data_length", "num_records", "trailer_length", "reserved"}
        | {"record_count", "uncompressed_length"}
    )


@pytest.mark.slow
def test_segmentation_and_batch_size_do_not_matter() -> None:
    kit = TestRabbitMQStream()
    talk = partial(kit.spoken_in, RABBITMQ / "c43_multi.pcap")
    kit.test_segmentation_does_not_matter(talk)
    kit.test_batches_do_not_matter(talk)
    kit.test_other_integers_are_linked_alike(talk)


def test_default_size_fields_are_computed_when_building() -> None:
    for layer in LAYERS.values():
        raw = bytes(layer())
        assert int.from_bytes(raw[:4], "big") == len(raw) - 4


def walks(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from walks(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from walks(inner, f"{path}[{index}]")
    else:
        yield path, value


def test_every_value_has_a_range_and_every_range_holds_its_bytes() -> None:
    """Elements of arrays of numbers or strings are covered by the range of their array."""
    for layer, raw in TestRabbitMQStream.cases():
        decoded = compiler.careful(layer, raw, 0, len(raw))
        for path, value in walks(decoded.values):
            held = path if path in decoded.ranges else path.rpartition("[")[0]
            if decoded.problem is not None and held not in decoded.ranges:
                continue
            start, stop = decoded.ranges[held]
            assert 0 <= start <= stop <= len(raw)
            if isinstance(value, bytes | str):
                data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
                assert raw[start:stop].endswith(data) if held == path else data in raw[start:stop]


def test_chunk_offsets_increase_by_one_per_message() -> None:
    checked = 0
    for path in capture_files():
        for frame in capture(path).of("Deliver"):
            if frame.status != "ok" or frame.layers is None:
                continue
            chunk = frame.layers["rabbitmq_stream"]["chunk"]
            messages = [
                one for entry in chunk.get("entries", ()) for one in entry.get("sub_batch", {}).get("messages", [entry])
            ]
            offsets = [message["offset"] for message in messages]
            assert offsets == list(range(chunk["chunk_id"], chunk["chunk_id"] + len(offsets)))
            assert number_offsets(chunk) == chunk["num_records"]
            checked += len(offsets)
    assert checked > 500
