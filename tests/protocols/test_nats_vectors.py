"""Every test vector of NATS: read by every reader, built to its bytes, and through the whole stack."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import in_one_test
from tests.net.craft import batches
from tests.protocols.nats_vectors import BY_NAME, S2_STREAM, VECTORS, Vector
from tests.support import STYLE, Part, Run, build, craft, dissect, every
from wiredecode.fields import compiler
from wiredecode.protocols.nats.layers import Ping, Pub
from wiredecode.protocols.nats.protocol import Nats

HIDDEN = ("line_end", "version_end", "headers_end", "end")
each_vector = in_one_test("vector", VECTORS, ids=[vector.name for vector in VECTORS])
SOUND = [vector for vector in VECTORS if vector.problem is None]
each_sound_vector = in_one_test("vector", SOUND, ids=[vector.name for vector in SOUND])


def shown(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in HIDDEN}


def test_the_table_is_complete() -> None:
    assert [vector.name for vector in VECTORS] == [f"N{number:02d}" for number in range(1, 37)]


@each_vector
def test_scapy_and_the_careful_decoder_read_the_values(vector: Vector) -> None:
    packet = vector.layer(vector.raw)
    surrounded = b"before" + vector.raw + b"after"
    decoded = compiler.careful(vector.layer, surrounded, 6, 6 + len(vector.raw))
    assert shown(packet.values()) == vector.values
    assert decoded.values == packet.values()
    assert decoded.ranges == packet.flat_ranges()
    for problem in (packet.problem, decoded.problem):
        assert (problem and problem.field) == vector.problem


@each_sound_vector
def test_building_dissected_vectors_gives_their_bytes(vector: Vector) -> None:
    assert bytes(vector.layer(vector.raw)) == vector.raw


def test_a_built_operation_begins_with_its_word() -> None:
    assert bytes(Ping()) == b"PING\r\n"
    assert bytes(Pub(subject="a.b", data=b"xyz")) == b"PUB a.b 3\r\nxyz\r\n"


def test_an_unfinished_line_needs_one_more_byte() -> None:
    problem = Ping(b"PING \t").problem
    assert problem is not None
    assert (problem.field, problem.needed, problem.had, problem.start) == ("line_end", 3, 2, 4)


@each_sound_vector
def test_the_record_shows_the_values(vector: Vector) -> None:
    try:
        record, stop = compiler.record(vector.layer, vector.raw, 0, len(vector.raw), STYLE)
    except compiler.FAILED:  # the fast decoder leaves unusual blanks to the careful one
        assert vector.name in ("N07", "N22")
        return
    packet = vector.layer(vector.raw)
    assert stop == len(vector.raw)
    assert record == vector.layer.present(packet.values(), STYLE)
    assert set(record) == set(vector.values)
    assert compiler.head(vector.layer, vector.raw, 0, len(vector.raw)) == packet.values()


UNUSUAL = {"N01", "N03", "N05", "N07", "N11", "N13", "N19", "N22", "N23", "N36"}
"""Not written as this package writes: other blanks, leading zeros, lower case."""


@each_sound_vector
def test_building_from_values_gives_the_canonical_form(vector: Vector) -> None:
    values = {name: value for name, value in vector.values.items() if name not in ("size", "header_size")}
    built = bytes(build(vector.layer, values))
    again = vector.layer(built)
    sizes = {name: again.values()[name] for name in ("size", "header_size") if name in vector.values}
    assert shown(again.values()) == vector.values | sizes
    if vector.name not in UNUSUAL:
        assert built == vector.raw


def test_sizes_are_filled_in() -> None:
    vector = BY_NAME["N15"]
    values = {name: value for name, value in vector.values.items() if name not in ("size", "header_size")}
    built = vector.layer(bytes(build(vector.layer, values)))
    assert (built.header_size, built.size) == (47, 51)


# Through the whole stack.


def run(vector: Vector, pieces: list[bytes]) -> Run:
    side = 0 if vector.sender == "client" else 1
    packets = craft([Part(1, side, piece) for piece in pieces], every(1460), 4222)
    return dissect(batches(packets), known=(Nats(),), decode_as=forced(vector.link))


def forced(link: str) -> dict[int, Any]:
    from wiredecode.protocols.registry import DecodeAs

    return {4222: DecodeAs(Nats(), link)}


FEEDINGS = {
    "whole": lambda raw: [raw],
    "byte_by_byte": lambda raw: [raw[at : at + 1] for at in range(len(raw))],
    "with_the_next_begun": lambda raw: [raw + raw[:5], raw[5:]],
    "twice_in_one_segment": lambda raw: [raw + raw],
}


@pytest.mark.parametrize("feeding", FEEDINGS)
@each_sound_vector
def test_through_the_whole_stack(vector: Vector, feeding: str) -> None:
    if vector.name == "N31":
        return  # needs the INFO of a dedicated route, see the surprises
    made = run(vector, FEEDINGS[feeding](vector.raw))
    count = 1 if feeding in ("whole", "byte_by_byte") else 2
    assert [frame.length for frame in made.frames] == [len(vector.raw)] * count
    for frame in made.frames:
        assert frame.layer is vector.layer
        assert shown(dict(frame.values)) == vector.values
        assert frame.status == "ok"
    assert made.totals.closes
    assert (made.totals.framed, made.totals.undecoded) == (count * len(vector.raw), 0)


def test_a_body_longer_than_its_size_field() -> None:
    vector = BY_NAME["N26"]
    made = run(vector, [vector.raw + b"cdef\r\nPING\r\n"])
    assert [(frame.type, frame.status) for frame in made.frames] == [
        ("PUB", "malformed"),
        (None, "malformed"),
        ("PING", "ok"),
    ]
    assert made.frames[0].findings[0].field == "end"
    assert made.totals.undecoded == 0


@pytest.mark.parametrize("size", [1, 7, 100])
def test_an_s2_stream_is_decompressed(size: int) -> None:
    info = b'INFO {"server_id":"N","version":"2.10.27","proto":1,"lnoc":true,"compression":"s2_fast"} \r\n'
    parts = [Part(1, 1, info), Part(1, 0, S2_STREAM)]
    made = dissect(batches(craft(parts, every(size), 6222)), known=(Nats(),))
    assert [frame.type for frame in made.frames] == ["INFO", "S2 chunk", "S2 chunk", "PING"]
    assert made.frames[3].layers == {"nats": {"operation": "PING", "inside": 3}}
    assert made.frames[2].generated["crc_status"] == "good"
    assert made.totals.undecoded == 0
