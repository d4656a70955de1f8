"""Every test vector of TANK: decoded to its values and built again; readers agree, also on damaged bytes."""

from __future__ import annotations

import random
from typing import Any

from tests.conftest import in_one_test
from tests.protocols.tank_vectors import BY_NAME, VECTORS, Vector
from tests.support import at, build
from wiredecode.fields import compiler
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import Frame, merge_generated
from wiredecode.net.types import Connection
from wiredecode.protocols.base import Start
from wiredecode.protocols.tank.conversation import TankConversation
from wiredecode.protocols.tank.layers import REQUESTS, RESPONSES
from wiredecode.protocols.tank.protocol import Tank

STYLE = Style()
MUTATIONS = 24
EACH = in_one_test("vector", VECTORS, ids=lambda vector: f"{vector.name} {vector.what}")


def layer_of(vector: Vector) -> type[Layer]:
    return (REQUESTS if vector.sender == "client" else RESPONSES)[vector.data[0]]


def conversation() -> TankConversation:
    return TankConversation(Start(Connection(1, ("10.0.0.1:40000", "10.0.0.2:11011"), (40000, 11011), 0)), (11011,))


def frame_of(talk: TankConversation, data: bytes, side: int, number: int = 1) -> Frame:
    """A whole frame that came in packet ``number``."""
    size = len(data)
    return Frame(talk.connection, side, data, 0, size, 0, size, 0, [number], number, number, number, number=number)


def decoded(vector: Vector, style: Style | None = STYLE) -> Frame:
    """The vector as a frame, after the request it answers."""
    talk = conversation()
    if vector.after is not None:
        talk.decode(frame_of(talk, BY_NAME[vector.after].data, 0), style)
    frame = frame_of(talk, vector.data, int(vector.sender == "server"), 2)
    talk.decode(frame, style)
    merge_generated(frame, Tank().unshown)  # as the dissector does
    return frame


@EACH
def test_vectors_decode_to_their_records(vector: Vector) -> None:
    frame = decoded(vector)
    assert (frame.type, frame.status, frame.sender) == (vector.type, "ok", vector.sender)
    assert frame.layers is not None
    said = {path: at(frame.layers["tank"], path) for path in vector.expected}
    assert said == vector.expected
    assert not [finding for finding in frame.findings if finding.severity == "error"]
    assert (frame.request is not None) == (vector.after is not None)


@EACH
def test_values_do_not_depend_on_records(vector: Vector) -> None:
    with_records, without = decoded(vector), decoded(vector, None)
    assert without.layers is None
    assert (without.type, without.status, without.request) == (vector.type, "ok", with_records.request)
    assert without.generated == with_records.generated
    assert without.findings == with_records.findings


@EACH
def test_a_vector_is_built_from_its_values(vector: Vector) -> None:
    layer = layer_of(vector)
    values = compiler.careful(layer, vector.data, 0, len(vector.data)).values
    assert bytes(build(layer, values)) == vector.data


@EACH
def test_lengths_are_filled_in_when_building(vector: Vector) -> None:
    layer = layer_of(vector)
    values = compiler.careful(layer, vector.data, 0, len(vector.data)).values
    assert bytes(build(layer, without_lengths(values))) == vector.data


def without_lengths(value: Any) -> Any:
    left_out = {"payload_length", "header_length", "configuration_length"}
    if isinstance(value, list):
        return [without_lengths(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        name: without_lengths(inner)
        for name, inner in value.items()
        if name not in left_out and not (name == "bundle_length" and "bundle" in value)
    }


@EACH
def test_mutations_of_frames_never_raise(vector: Vector) -> None:
    chance = random.Random(f"frames of {vector.name}")
    for style in (STYLE, None):
        talk = conversation()
        side = int(vector.sender == "server")
        if vector.after is not None:
            talk.decode(frame_of(talk, BY_NAME[vector.after].data, 0), style)
        for number in range(MUTATIONS // 2):
            data = bytearray(vector.data)
            data[chance.randrange(len(data))] = chance.randrange(256)
            frame = frame_of(talk, bytes(data), side, number + 2)
            talk.decode(frame, style)
            assert frame.status in ("ok", "malformed")


def test_all_vectors_as_one_stream_are_framed_in_any_segmentation() -> None:
    stream = b"".join(vector.data for vector in VECTORS)
    whole = Tank().split(stream).ends
    assert [stream[a:b] for a, b in zip([0, *whole], whole, strict=False)] == [vector.data for vector in VECTORS]
    ends, start = [], 0
    for arrived in range(len(stream) + 1):
        split = Tank().split(stream[start:arrived])
        assert split.bad is None
        ends += [start + end for end in split.ends]
        start = ends[-1] if ends else 0
        if arrived - start >= 5:
            assert start + split.need == next(end for end in whole if end > start)
    assert ends == whole
