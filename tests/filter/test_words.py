"""Comparisons of filters: severities by order, existing names, elements of lists (issue 12, point 12)."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.filter.support import BASIC, numbers, records
from wiredecode.filter import FilterError, compile_filter
from wiredecode.frames.frame import Frame
from wiredecode.net.types import Connection

SEVERITIES = ("note", "warning", "error")
TOLD = [set(each) for count in range(4) for each in combinations(SEVERITIES, count)]


def frame(severities: set[str]) -> Frame:
    """A frame with findings of these severities."""
    made = Frame(Connection(1, ("10.0.0.1:1", "10.0.0.2:2"), (0, 0)), 0, b"", 0, 0, 0, 0, 0, [], 0, 0, 0)
    for severity in sorted(severities):
        made.find(severity, "protocol", "made-up", "for a test")
    return made


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ('>= "warning"', {"warning", "error"}),
        ("> note", {"warning", "error"}),
        ("<= warning", {"note", "warning"}),
        ("< error", {"note", "warning"}),
        ('== "warning"', {"warning"}),
        ("in {note, error}", {"note", "error"}),
        ("in {warning..error}", {"warning", "error"}),
    ],
)
def test_severities_are_compared_by_order(asked: str, fits: set[str]) -> None:
    chosen = compile_filter(f"finding.severity {asked}")
    assert [each for each in TOLD if chosen.matches(frame(each))] == [each for each in TOLD if each & fits]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('frame.type == "publish"', "frame.type is never 'publish'; did you mean 'Publish'?"),
        ("frame.type != publsh", "frame.type is never 'publsh'; did you mean 'Publish'?"),
        ("rabbitmq_stream.type == Delivr", "rabbitmq_stream.type is never 'Delivr'; did you mean 'Deliver'?"),
        ("frame.type in {Publish, deliver}", "frame.type is never 'deliver'; did you mean 'Deliver'?"),
        ('frame.type == "zq"', "frame.type is never 'zq'; frame.type matches \"...\" finds parts of names"),
        ("frame.status === okay", "frame.status is never 'okay'; did you mean 'ok'?"),
        ('frame.protocol == "rabbitmq"', "frame.protocol is never 'rabbitmq'; did you mean 'rabbitmq_stream'?"),
        ("frame.sender == Client", "frame.sender is never 'Client'; did you mean 'client'?"),
        ('finding.severity == "warn"', "finding.severity has no value 'warn'; did you mean 'warning'?"),
        ("finding.severity > 2", "finding.severity has no value '2'; it is one of note, warning, error"),
        ("frame.sender == broker", "frame.sender is never 'broker'; it is one of client, server"),
        ('finding.severity >= "ERROR"', "finding.severity has no value 'ERROR'; did you mean 'error'?"),
    ],
)
def test_a_name_that_does_not_exist_is_an_error_with_the_nearest_one(text: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter(text)
    assert caught.value.message == message


def test_parts_of_names_may_be_any_text() -> None:
    assert numbers('frame.type matches "^publ"') == numbers("frame.type in {Publish, PublishConfirm}") != []
    assert numbers('frame.type contains "zq"') == []


def test_a_list_compares_with_its_elements_and_with_its_length_by_count() -> None:
    ids = {
        row["frame"]: row["layers"]["rabbitmq_stream"]["publishing_ids"]
        for row in records(BASIC)
        if row["type"] == "PublishConfirm"
    }
    lengths = {len(each) for each in ids.values()}
    assert {4, 20} <= lengths
    for number in (4, 5, 20):
        having = [frame for frame, each in ids.items() if number in each]
        assert numbers(f"rabbitmq_stream.publishing_ids == {number}") == having
        assert numbers(f"count(rabbitmq_stream.publishing_ids) == {number}") == [
            frame for frame, each in ids.items() if len(each) == number
        ]
        assert numbers(f"rabbitmq_stream.publishing_ids >= {number}") == [
            frame for frame, each in ids.items() if max(each) >= number
        ]
