"""Tagged fields, structures that may be null, and messages in many versions."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from wiredecode.fields import Array, CompactLength, Int16, Int32, NullableStruct, Struct, Text, UInt8, compiler
from wiredecode.fields.layer import Layer
from wiredecode.fields.tagged import TaggedFields, UnknownTag, UnknownTags, Versions, with_tag
from wiredecode.testing import readers_agree


class Node(TaggedFields):
    fields_desc: ClassVar[Any] = [Int16("node_id"), with_tag(0, Text("rack", length=CompactLength)), UnknownTags()]


class Answer(TaggedFields):
    filter_name = "answer"
    fields_desc: ClassVar[Any] = [
        UInt8("kind"),
        NullableStruct("cursor", Node),
        Array("parts", Int16("parts"), count=UInt8),
        with_tag(2, Int32("epoch")),
        with_tag(5, Struct("leader", Node)),
        UnknownTags(),
    ]


def test_tagged_fields_are_read_by_every_reader_and_built_in_order() -> None:
    unknown = [UnknownTag(tag=3, data=b"ab"), UnknownTag(tag=900, data=b"")]
    answer = Answer(
        kind=1, cursor=Node(node_id=9), parts=[6], leader=Node(node_id=7, rack="a"), epoch=-1, unknown_tags=unknown
    )
    raw = bytes(answer)
    assert raw == bytes.fromhex(
        "01 01 0009 00 01 0006  04  02 04 ffffffff  03 02 6162  05 07 0007 01 00 02 02 61  8407 00"
    )
    assert readers_agree(Answer, raw)
    values = compiler.values(Answer, raw, 0, len(raw))
    assert values["leader"] == {"node_id": 7, "rack": "a"}
    assert values["unknown_tags"] == [{"tag": 3, "data": b"ab"}, {"tag": 900, "data": b""}]


def test_a_structure_may_be_null_and_tags_may_be_missing() -> None:
    raw = bytes(Answer(kind=1, cursor=None))
    assert raw == b"\1\xff\0\0"
    assert readers_agree(Answer, raw)
    assert compiler.values(Answer, raw, 0, 4) == {"kind": 1, "cursor": None, "parts": []}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("01 ff 00 02 0204ffffffff 0204ffffffff", "tag 2 after tag 2"),
        ("01 ff 00 01 0205ffffffff00", "1 bytes after the field of tag 2"),
        ("01 05 00", "a presence of 5"),
        ("01 ff 00 01 0204ffff", ""),
    ],
)
def test_invalid_tagged_fields_are_malformed(raw: str, reason: str) -> None:
    data = bytes.fromhex(raw)
    assert not readers_agree(Answer, data)
    problem = Answer(data).problem
    assert problem is not None and problem.reason == reason


def test_versions_of_equal_layout_share_a_layer() -> None:
    made: list[int] = []

    def make(layout: Any, version: int) -> type[Layer]:
        made.append(version)
        return type(f"MessageV{version}", (Layer,), {"fields_desc": [Int32(name) for name in layout]})

    versions = Versions("Message", 1, 4, lambda version: ("a",) if version < 3 else ("a", "b"), make)
    assert made == []
    assert versions.layer(4) is versions.layer(3) is not versions.layer(2)
    assert versions.layer(3).__name__ == "MessageV3"
    assert (2 in versions, 5 in versions) == (True, False)
    assert [layer.__name__ for layer in versions.layers()] == ["MessageV1", "MessageV3"]
    assert made == [3, 1]
    with pytest.raises(KeyError):
        versions.layer(5)
