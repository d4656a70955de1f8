"""Fields by which messages are known again: numbers and checksums of texts, without times and credentials."""

import pytest

from wiredecode.protocols.shared.flows import COUNT, MessageSample, fields_of

TIME_NS = 1_795_952_490_278_282_000


def names(body: bytes, key: int | None = None, *headers: tuple[str, str]) -> dict[str, int]:
    sample = MessageSample(key, 0, empty=not body, time_ns=TIME_NS, body=body, headers=headers)
    return dict(fields_of(sample))


def test_members_of_an_object_and_of_the_objects_in_it_are_fields() -> None:
    found = names(b'{"id": 305419896, "order": {"no": "A-17", "lines": [{"sku": 1}, {"sku": 2}]}, "ok": true}')
    assert found["id"] == 305419896
    assert found[f"order.lines{COUNT}"] == 2
    assert set(found) == {"id", "order.no", f"order.lines{COUNT}"}


@pytest.mark.parametrize("unit", [10**9, 10**6, 10**3, 1])
def test_the_time_of_a_message_is_no_id(unit: int) -> None:
    assert names(b'{"at": %d, "id": 19088743}' % (TIME_NS // unit)) == {"id": 19088743}


def test_a_date_is_no_id() -> None:
    assert set(names(b'{"at": "2026-11-29T11:41:30.278Z", "no": "A-17"}')) == {"no"}


@pytest.mark.parametrize("name", [b"password", b"api_key", b"access-token"])
def test_credentials_are_not_kept(name: bytes) -> None:
    assert names(b'{"%s": 305419896, "id": 19088743}' % name, None, ("Authorization", "Basic c2VjcmV0")) == {
        "id": 19088743
    }


def test_words_of_a_text_are_fields_and_equal_words_have_equal_values() -> None:
    one, other = names(b"bk-00017;EUR;12"), names(b"done bk-00017")
    assert one["word 1"] == other["word 2"]
    assert one["word 3"] == 12


def test_only_long_words_of_bytes_that_are_no_text_are_fields() -> None:
    assert len(names(b"\xff\x00ab\x01" + b"4fa6c1d2-0b7e" + b"\x80")) == 1


def test_the_key_and_headers_are_fields() -> None:
    found = names(b"", 0x12345678, ("msg-id", "17"))
    assert found["header msg-id"] == 17
    assert "key" in found


@pytest.mark.parametrize("body", [b"{", b'{"a": }', b"{}", b"", b"\x00" * 64])
def test_damaged_and_empty_bodies_have_no_members(body: bytes) -> None:
    assert all(name.startswith("word") for name in names(body))
