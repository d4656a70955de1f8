"""Maps in fields: byte ranges of entries, damage, secrets."""

from __future__ import annotations

import pytest

from wiredecode.fields.layer import Style
from wiredecode.protocols.amqp091.layers import ContentHeader
from wiredecode.protocols.shared.amqp.tables import FieldTable

TABLE = FieldTable("headers", "a table")
INNER = b"\x01bI\0\0\0\x05"
RAW = b"".join(
    (
        b"\x01aF" + len(INNER).to_bytes(4) + INNER,
        b"\x04listA\0\0\0\x07t\x01I\0\0\0\x02",
        b"\x03x.yS\0\0\0\x02hi",
        b"\x01at\x00",
        b"\x08passwordF\0\0\0\x07" + INNER,
    )
)


def test_ranges_of_entries_are_their_names_and_values() -> None:
    found = {path: RAW[first:stop] for path, (first, stop) in TABLE.spans(RAW).items()}
    assert list(found) == ["a", "a.b", "list", "list[0]", "list[1]", "x.y", "a#3", "password"]
    assert found["a.b"] == INNER
    assert found["list[1]"] == b"I\0\0\0\x02"
    assert b"".join(found[name] for name in ("a", "list", "x.y", "a#3", "password")) == RAW


def test_ranges_begin_where_the_map_begins() -> None:
    assert TABLE.spans(RAW, 100)["a"] == (100, 100 + TABLE.spans(RAW)["a"][1])


def test_values_are_typed_and_credentials_hidden() -> None:
    shown = TABLE.read_map(RAW, Style())
    assert shown == {"a": {"b": 5}, "list": [True, 2], "x.y": "hi", "a#3": False, "password": "<redacted 7 bytes>"}
    assert TABLE.read_map(RAW, Style(secrets=True)) == {**shown, "password": {"b": 5}}
    assert [RAW[first:stop] for first, stop in TABLE.secrets(RAW)] == [INNER]


def test_scapy_shows_the_values_without_credentials() -> None:
    shown = ContentHeader(headers=RAW).show(dump=True)
    assert "headers   = {'a': {'b': 5}, 'list': [True, 2], 'x.y': 'hi'," in shown
    assert "'password': '<redacted 7 bytes>'}" in shown


@pytest.mark.parametrize("stop", [1, 2, 3, 9, 20, len(RAW) - 1])
def test_a_damaged_map_is_hidden_as_a_whole_and_says_why(stop: int) -> None:
    raw = RAW[:stop]
    assert TABLE.problem(raw)
    assert TABLE.read_map(raw, Style()) is None
    assert TABLE.spans(raw) == {}
    assert TABLE.credentials is not None
    assert TABLE.credentials(raw) == [(0, stop)]
