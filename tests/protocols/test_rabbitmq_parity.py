"""One truth: Scapy, careful, walk, head and record decoders agree on vectors, captures and mutations of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.protocols.rabbitmq_vectors import VECTORS
from tests.support import RABBITMQ, STYLE, capture, capture_files
from wiredecode.fields import Array, Struct, compiler, plain
from wiredecode.fields.layer import Layer
from wiredecode.protocols.rabbitmq_stream.chunk import number_offsets
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS, Unknown

Case = tuple[type[Layer], bytes]


def counted(layer: type[Layer], values: dict[str, Any]) -> dict[str, Any]:
    """Careful values as ``walk`` gives them: of a bulk array only the number of its elements."""
    made: dict[str, Any] = {}
    for kind in map(plain, layer.fields_desc):
        if kind.name not in values:
            continue
        value = values[kind.name]
        if isinstance(kind, Array) and kind.bulk:
            value = len(value)
        elif isinstance(kind, Struct):
            value = counted(kind.layer, value)
        made[kind.name] = value
    return made


def agrees(layer: type[Layer], raw: bytes) -> bool:
    """Hold all readers against each other; tell whether the frame was well-formed."""
    packet = layer(raw)
    decoded = compiler.careful(layer, b"~" + raw + b"~", 1, 1 + len(raw))
    assert decoded.values == packet.values()
    assert decoded.ranges == dict(packet.flat_ranges())
    shown = layer.present(decoded.values, STYLE)
    assert shown == layer.present(packet, STYLE)
    if decoded.problem is not None:
        assert packet.problem is not None
        assert packet.problem.args == decoded.problem.args
        for mode in ("walk", "record"):
            with pytest.raises(compiler.FAILED):
                compiler.decoder(layer, mode, STYLE if mode == "record" else None)(raw, 0, len(raw))
        return False
    assert packet.problem is None
    assert packet.stop == decoded.stop
    fast(layer, raw, decoded, shown)
    return True


def fast(layer: type[Layer], raw: bytes, decoded: compiler.Decoded, shown: dict[str, Any]) -> None:
    """The fast readers on a well-formed frame; text that is not UTF-8 they leave to the careful one."""
    expected = counted(layer, decoded.values)
    try:
        record, stop = compiler.record(layer, raw, 0, len(raw), STYLE)
    except UnicodeDecodeError:
        return
    assert (record, stop) == (shown, decoded.stop)
    assert list(record) == list(shown), "the same order"
    values, stop = compiler.walk(layer, raw, 0, len(raw))
    assert (values, stop) == (expected, decoded.stop)
    head = compiler.head(layer, raw, 0, len(raw))
    for name, value in head.items():
        part = {key: expected[name][key] for key in value} if isinstance(value, dict) else expected[name]
        assert value == part


@cache
def captured(path: Path) -> list[Case]:
    """Every whole frame of a capture."""
    return [(frame.layer or Unknown, frame.data) for frame in capture(path).whole]


def sample() -> list[Case]:
    """The vectors, and of the captured frames the smaller ones, one of each length and type."""
    kinds: dict[tuple[type[Layer], int], Case] = {}
    for path in sorted(RABBITMQ.glob("c43_*.pcap")):
        for layer, raw in captured(path):
            if len(raw) < 800:
                kinds.setdefault((layer, len(raw) // 7), (layer, raw))
    return [(vector.layer, vector.raw) for vector in VECTORS] + list(kinds.values())


def bit_flips(raw: bytes, chance: random.Random) -> bytes:
    out = bytearray(raw)
    for _ in range(chance.choice([1, 1, 3])):
        out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
    return bytes(out)


def truncation(raw: bytes, chance: random.Random) -> bytes:
    return raw[: chance.randrange(1, len(raw))]


def tampered_length(raw: bytes, chance: random.Random) -> bytes:
    """Some two or four bytes become a length that is near to the truth, or far from it."""
    width: int = chance.choice([2, 4])
    place = chance.randrange(4, max(5, len(raw) - width))
    left = len(raw) - place - width
    value: int = chance.choice(
        [0, 1, max(0, left), max(0, left + 1), max(0, left - 1), 256**width - 1, 256**width // 2]
    )
    return raw[:place] + value.to_bytes(width, "big", signed=False) + raw[place + width :]


def insertion(raw: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(4, len(raw) + 1)
    return raw[:place] + chance.randbytes(chance.randint(1, 5)) + raw[place:]


MUTATIONS = [bit_flips, truncation, tampered_length, insertion]


@pytest.mark.parametrize("vector", VECTORS, ids=[vector.name for vector in VECTORS])
def test_on_a_vector(vector: Any) -> None:
    assert agrees(vector.layer, vector.raw) == (vector.problem is None)


def test_on_every_prefix_of_every_vector() -> None:
    for vector in VECTORS[::2]:
        for length in range(1, len(vector.raw), 3):
            agrees(vector.layer, vector.raw[:length])


@pytest.mark.parametrize(
    "path", [path for path in capture_files() if path.name.startswith("c43")], ids=lambda p: p.name
)
def test_on_every_frame_of_a_capture_and_round_trip(path: Path) -> None:
    seen: dict[tuple[type[Layer], int], int] = {}
    for layer, raw in captured(path):
        kind = layer, len(raw)
        seen[kind] = seen.get(kind, 0) + 1
        packet = layer(raw)
        surplus = len(raw) - packet.stop
        assert packet.problem is None
        assert bytes(packet)[: packet.stop] == raw[: packet.stop]
        assert surplus == 0 or raw[4:6] == b"\x80\x1a"
        if seen[kind] <= 2:  # frames alike in type and length run the same code
            assert agrees(layer, raw)


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_on_mutations(mutate: Any) -> None:
    chance = random.Random(mutate.__name__)
    cases, broken = sample(), 0
    assert len(cases) > 200
    for layer, raw in cases:
        for _ in range(3):
            broken += not agrees(layer, mutate(raw, chance))
    assert 10 < broken < 3 * len(cases)


def test_any_bytes_as_any_layer() -> None:
    chance = random.Random(5)
    layers: list[type[Layer]] = [*LAYERS.values(), Unknown]
    for layer in layers:
        for size in (1, 7, 8, 20, 60, 200):
            agrees(layer, chance.randbytes(size))
            agrees(layer, bytes(size))


def test_layers_with_every_field_left_at_its_default_build_and_read_back() -> None:
    for layer in LAYERS.values():
        raw = bytes(layer())
        assert int.from_bytes(raw[:4], "big") == len(raw) - 4
        assert agrees(layer, raw)


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
    for layer, raw in sample():
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


def test_offsets_of_a_chunk_go_up_by_one_for_every_message() -> None:
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
