"""Pravega: refusals, writers, transactions and reads, by real captures and crafted ones."""

from __future__ import annotations

import pytest

from tests.check.support import CAPTURES, check, named, talk, worse
from tests.net.craft import batches
from tests.protocols.test_pravega_surprises import HELLO, SEGMENT, SET_UP, SETUP, W, block, block_end, event
from tests.support import Part, craft, every
from wiredecode.check import Problem
from wiredecode.protocols.pravega import layers
from wiredecode.protocols.pravega.layers_kinds import NO_VALUE

PORT = 12345
OPENING = ((0.1, 0, HELLO), (0.2, 1, HELLO))
KEEP = bytes(layers.KeepAlive())
TRANSACTION = f"{SEGMENT}#transaction.0102030405060708090a0b0c0d0e0f10"


def said(*messages: tuple[float, int, bytes]) -> list[Problem]:
    return talk(PORT, *OPENING, *messages)


def test_refusals_are_reported_by_kind() -> None:
    problems = check(CAPTURES / "pravega" / "errors.pcap")
    assert sorted(worse(problems)) == ["pravega.authentication"] * 2 + ["pravega.wrong-host"]
    (wrong,) = named(problems, "pravega.wrong-host")
    assert wrong.title == "err/wronghost/0.#epoch.0 is not on 127.0.0.1:12345"
    refused = [each.title for each in named(problems, "pravega.refused") if each.severity == "note"]
    assert "the request was refused: SegmentIsSealed: scope/stream/0.#epoch.0" in refused


def test_appends_after_a_seal_wait_for_nothing_even_if_their_writer_was_set_up_before_the_capture() -> None:
    assert worse(check(CAPTURES.parent / "tests/check/outages/pravega_sealed_late_start.pcap.zst")) == []


def test_a_reader_before_the_truncation_point_gets_the_first_offset() -> None:
    (problem,) = named(check(CAPTURES / "pravega" / "read_cuts.pcap"), "pravega.segment-truncated")
    assert problem.severity == "note"
    assert "at offset 0, which begins at 15" in problem.title


def truncated(request_id: int) -> bytes:
    return bytes(
        layers.SegmentIsTruncated(
            request_id=request_id, segment=SEGMENT, start_offset=0x01020304, server_stack_trace="", offset=0x10203
        )
    )


def test_a_reader_that_is_behind_again_and_again_is_a_warning() -> None:
    asked = [bytes(read(0x10203, number)) for number in (11, 12)]
    once = said((1.0, 0, asked[0]), (1.1, 1, truncated(11)))
    twice = said((1.0, 0, asked[0]), (1.1, 1, truncated(11)), (2.0, 0, asked[1]), (2.1, 1, truncated(12)))
    assert [each.severity for each in named(once, "pravega.segment-truncated")] == ["note"]
    assert [each.severity for each in named(twice, "pravega.segment-truncated")] == ["warning"]


@pytest.mark.parametrize(("answer", "expected"), [(KEEP, ["request.unanswered"]), (SET_UP, [])])
def test_a_writer_that_is_not_set_up(answer: bytes, expected: list[str]) -> None:
    assert worse(said((1.0, 0, SETUP), (1.5, 1, answer), (3.0, 0, KEEP), (3.1, 1, KEEP))) == expected


def test_a_refused_set_up_is_answered() -> None:
    refused = bytes(layers.NoSuchSegment(request_id=7, segment=SEGMENT, server_stack_trace="", offset=-1))
    assert worse(said((1.0, 0, SETUP), (1.5, 1, refused), (3.0, 0, KEEP), (3.1, 1, KEEP))) == []


# Reads.


def read(offset: int, number: int) -> bytes:
    return bytes(
        layers.ReadSegment(segment=SEGMENT, offset=offset, suggested_length=64, delegation_token="", request_id=number)
    )


def got(offset: int, data: bytes, number: int, *, at_tail: int) -> bytes:
    return bytes(
        layers.SegmentRead(
            segment=SEGMENT, offset=offset, at_tail=at_tail, end_of_segment=0, data=data, request_id=number
        )
    )


def grown(end: int) -> bytes:
    return bytes(
        layers.StreamSegmentInfo(
            request_id=99,
            segment_name=SEGMENT,
            exists=1,
            is_sealed=0,
            is_deleted=0,
            last_modified=0,
            write_offset=end,
            start_offset=0,
        )
    )


ASK = bytes(layers.GetStreamSegmentInfo(request_id=99, segment_name=SEGMENT, delegation_token=""))
DATA = event(b"0123456789")


# Transactions.


def transaction(*after: tuple[float, int, bytes]) -> list[Problem]:
    created = layers.CreateSegment(
        request_id=3, segment=TRANSACTION, target_rate=0, scale_type=0, delegation_token="", rollover_size_bytes=0
    )
    setup = layers.SetupAppend(request_id=7, writer_id=W, segment=TRANSACTION, delegation_token="")
    ready = layers.AppendSetup(request_id=7, segment=TRANSACTION, writer_id=W, last_event_number=NO_VALUE)
    stored = layers.DataAppended(
        writer_id=W, event_number=1, previous_event_number=NO_VALUE, request_id=7, current_segment_write_offset=18
    )
    return said(
        (0.3, 0, bytes(created)),
        (0.4, 1, bytes(layers.SegmentCreated(request_id=3, segment=TRANSACTION))),
        (1.0, 0, bytes(setup)),
        (1.1, 1, bytes(ready)),
        (1.2, 0, block(DATA) + block_end(len(DATA))),
        (1.3, 1, bytes(stored)),
        *after,
        (50.0, 0, KEEP),
        (50.1, 1, KEEP),
    )


def test_a_transaction_that_is_never_ended() -> None:
    (problem,) = [each for each in transaction() if each.severity == "warning"]
    assert problem.name == "pravega.transaction-open"
    assert problem.title.startswith("1 events of transaction 0102030405060708090a0b0c0d0e0f10 of scope/stream")


def test_a_transaction_that_is_merged_or_aborted() -> None:
    merge = layers.MergeSegments(request_id=4, target=SEGMENT, source=TRANSACTION, delegation_token="")
    merged = layers.SegmentsMerged(request_id=4, target=SEGMENT, source=TRANSACTION, new_target_write_offset=18)
    assert worse(transaction((2.0, 0, bytes(merge)), (2.1, 1, bytes(merged)))) == []
    delete = layers.DeleteSegment(request_id=4, segment=TRANSACTION, delegation_token="")
    deleted = layers.SegmentDeleted(request_id=4, segment=TRANSACTION)
    found = transaction((2.0, 0, bytes(delete)), (2.1, 1, bytes(deleted)))
    assert worse(found) == []
    assert named(found, "pravega.transaction-open") == []


def test_a_writer_id_that_two_clients_use_at_a_time() -> None:
    append = block(DATA) + block_end(len(DATA))
    first = ((0, HELLO), (1, HELLO), (0, SETUP), (1, SET_UP), (0, append))
    before = [Part(1, side, data) for side, data in first]
    second = [Part(2, side, data) for side, data in first]

    def found(*order: Part) -> list[Problem]:
        return named(check(batches(craft(order, every(1460), server_port=PORT))), "pravega.writer-shared")

    (problem,) = found(*before, *second, Part(1, 0, append))
    assert problem.title.endswith(
        "append to scope/stream/0.#epoch.0 as one writer, 00010203-0405-0607-0809-0a0b0c0d0e0f, at the same time"
    )
    assert found(*before, *second, Part(2, 0, append)) == []  # it came back


def test_a_conditional_append_that_came_too_late_is_a_remark() -> None:
    setup = ((0.5, 0, SETUP), (0.6, 1, SET_UP))
    refused = bytes(layers.ConditionalCheckFailed(writer_id=W, event_number=1, request_id=7))
    asked = layers.ConditionalAppend(
        writer_id=W, event_number=1, expected_offset=0x0102, event=layers.FramedEvent(data=b"late"), request_id=7
    )
    found = said(*setup, (1.0, 0, bytes(asked)), (1.1, 1, refused))
    assert worse(found) == []
    (problem,) = named(found, "pravega.refused")
    assert problem.title == "the request was refused: ConditionalCheckFailed"


def test_a_sealed_segment_has_another_likely_cause_than_a_missing_one() -> None:
    found = {each.title: each.likely for each in named(check(CAPTURES / "pravega" / "errors.pcap"), "pravega.refused")}
    sealed, missing = (next(what for what in found if name in what) for name in ("SegmentIsSealed", "NoSuchSegment"))
    assert (found[sealed], found[missing]) == (
        "the stream was scaled or sealed: clients continue with the segment's successors",
        "",
    )
