"""Fields of many protobuf messages at once, against Scapy's reader: wherever they are good, both find the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from wiredecode.fields.bulk import Source
from wiredecode.fields.numbers import write_varint
from wiredecode.fields.protobuf.columns import Members, members, varints
from wiredecode.protocols.liftbridge.layers import Ack, Header, Publish

FULL = {
    "offset": -0x0102030405060708,
    "key": b"\x00\xffkey",
    "value": b"\r\nvalue\x80" * 30,
    "timestamp": 0x1122334455667788,
    "stream": "orders",
    "partition": 0x01020304,
    "subject": "a.b",
    "reply_subject": "c.d",
    "headers": [Header(key="n", value=b"\xff"), Header(key="m"), Header(value=b"v" * 300)],
    "ack_inbox": "acks.1",
    "correlation_id": "id",
    "ack_policy": 1,
}


def tagged(layer: Any) -> bytes:
    """The message without the header of its envelope."""
    whole = bytes(layer)
    return whole[whole[5] :]


def read(messages: list[bytes], layer: Any = Publish) -> tuple[bytes, Members]:
    buffer = b"\xff" * 3 + b"\xff\x81".join(messages) + b"\x80"
    starts, at = [], 3
    for message in messages:
        starts.append(at)
        at += len(message) + 2
    first = np.array(starts)
    return buffer, members(Source(buffer), first, first + [len(message) for message in messages], layer)


def values_of(buffer: bytes, found: Members, row: int) -> dict[str, Any]:
    """What was found of one message, as Scapy's reader has it."""
    told: dict[str, Any] = {}
    for name, spans in found.spans.items():
        if spans.there[row]:
            told[name] = buffer[spans.starts[row] : spans.stops[row]]
    for name, numbers in found.numbers.items():
        if numbers.there[row]:
            told[name] = int(numbers.values[row])
    for name, elements in found.elements.items():
        rows = np.flatnonzero(elements.rows == row).tolist()
        if rows:
            told[name] = [buffer[elements.starts[each] : elements.stops[each]] for each in rows]
    return told


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, Header):
        return bytes(value)
    return value.encode() if isinstance(value, str) else value


def expected(layer: Any, message: bytes) -> dict[str, Any]:
    whole = layer(bytes(layer())[:8] + message)
    assert whole.problem is None and "unknown_fields" not in whole.fields
    kinds = whole.by_number.values()
    return {kind.name: plain(whole.fields[kind.name]) for kind in kinds if kind.name in whole.fields}


@pytest.mark.parametrize("left_out", [(), *((name,) for name in FULL), tuple(FULL)])
def test_every_field_is_found_whatever_others_are_there(left_out: tuple[str, ...]) -> None:
    some = {name: value for name, value in FULL.items() if name not in left_out}
    messages = [tagged(Publish(**FULL)), tagged(Publish(**some)), b"", tagged(Publish(value=b""))]
    buffer, found = read(messages)
    assert found.good.all()
    for row, message in enumerate(messages):
        assert values_of(buffer, found, row) == expected(Publish, message)


@pytest.mark.parametrize("number", [0x7F, 0x80, 0x3FFF, 0x4000, 0x01020304, 0x7FFFFFFF])
def test_numbers_of_every_width(number: int) -> None:
    buffer, found = read([tagged(Publish(partition=number)), tagged(Publish(offset=-number, value=b"x"))])
    assert found.good.all()
    assert values_of(buffer, found, 0)["partition"] == number
    assert values_of(buffer, found, 1)["offset"] == -number


BAD = {
    "cut tag": b"\x1a",
    "cut length": b"\x1a\x80",
    "longer than the message": b"\x1a\x05v",
    "length of 64 bits": b"\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    "eleven bytes": b"\x08" + b"\x80" * 10 + b"\x01",
    "descending": b"\x1a\x01v\x12\x01k",
    "twice": b"\x12\x01k\x12\x01k",
    "unknown number": b"\x6a\x01v",
    "another wire type": b"\x18\x01",
    "number zero": b"\x02\x01v",
    "partition of 32 bits": b"\x30\x80\x80\x80\x80\x08",
    "negative partition": b"\x30" + b"\xff" * 9 + b"\x01",
    "text that is not ASCII": b"\x2a\x02\xc3\xa4",
    "repeated ones apart": b"\x4a\x00\x52\x00\x4a\x00",
    "more headers than are looked at": b"\x4a\x00" * 257,
}


@pytest.mark.parametrize("name", BAD)
def test_messages_of_another_form_are_not_good_and_spoil_no_others(name: str) -> None:
    usual = tagged(Publish(**FULL))
    buffer, found = read([usual, BAD[name], usual])
    assert found.good.tolist() == [True, False, True]
    for row in (0, 2):
        assert values_of(buffer, found, row) == expected(Publish, usual)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_messages_are_read_as_scapy_reads_them_or_not_good(seed: int) -> None:
    chance = random.Random(seed)
    single = {name: value for name, value in FULL.items() if name != "headers"}  # what is inside is not looked at
    usual = [tagged(Publish(**single)), tagged(Ack(offset=0x0102030405060708, stream="s", ack_inbox="i", ack_error=0))]
    for layer, message in zip((Publish, Ack), usual, strict=True):
        messages = []
        for _ in range(200):
            mutated = bytearray(message)
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
            messages.append(bytes(mutated[: chance.choice((len(mutated), chance.randrange(len(mutated))))]))
        buffer, found = read(messages, layer)
        assert found.good.any() and not found.good.all()
        for row in np.flatnonzero(found.good).tolist():
            assert values_of(buffer, found, row) == expected(layer, messages[row])


@pytest.mark.parametrize("behind", [b"", b"\xff" * 9], ids=["at the end of the buffer", "with bytes behind"])
def test_varints_of_every_width(behind: bytes) -> None:
    numbers = [0x8877665544332211 >> shift for shift in range(0, 64, 7)] + [0x7F, 0x80, 0x3FFF, (1 << 63) - 1]
    texts = [write_varint(number) for number in numbers]
    source, stops = Source(b"".join(texts) + behind), np.cumsum([*map(len, texts)])
    starts = np.concatenate(([0], stops[:-1]))
    values, reached, whole = varints(source, starts, stops)
    assert whole.all()
    assert values.view(np.uint64).tolist() == numbers
    assert reached.tolist() == stops.tolist()
    assert not varints(source, starts, stops - 1)[2].any()
