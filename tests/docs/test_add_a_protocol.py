"""Names that docs/add-a-protocol.md imports exist, and its kinds and rules work."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from tests.docs.test_reference import DOCS
from wiredecode.fields import UInt16
from wiredecode.layer import Layer
from wiredecode.testing import readers_agree

PAGE = (DOCS / "add-a-protocol.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PUBLIC = {
    "wiredecode.fields": "Array Binary Bit Bits CountOf Kind LengthOf Optional PresenceOf Rest Struct Text UInt8 "
    "UInt16 When take",
    "wiredecode.frames.message": "DELIVER PUBLISH",
    "wiredecode.layer": "Added Layer Range Style",
    "wiredecode.protocols.base": "Conversation Found Generated LengthPrefix Number Protocol Rejected Split "
    "Undecided Verdict",
    "wiredecode.protocols.reading": "FrameDecoder",
    "wiredecode.protocols.shared.codes": "CAUSE ACTION EFFECT Code Codes",
    "wiredecode.protocols.shared.problems": "Checks Publishing Rule",
    "wiredecode.protocols.shared.pairing": "Outstanding Pipelined Request link",
    "wiredecode.testing": "Part ProtocolTests batches build craft dissect every readers_agree samples",
}


def test_every_import_of_the_page_works() -> None:
    found = [line for block in BLOCKS for line in re.findall(r"^from wiredecode.*$", block, re.MULTILINE)]
    assert len(found) >= 5
    for line in found:
        exec(line, {})


def test_imports_of_other_packages_keep_their_place() -> None:
    for place, names in PUBLIC.items():
        module = import_module(place)
        for name in names.split():
            assert hasattr(module, name), f"{place}.{name}"
            assert name in PAGE or place == "wiredecode.protocols.base" or name in ("Range", "Style"), name


def block(start: str) -> str:
    return next(each for each in BLOCKS if each.startswith(start))


def test_the_kind_of_the_page_is_read_by_all_readers() -> None:
    names: dict[str, Any] = {}
    exec("from wiredecode.fields import Kind, take\n" + block("class Tens(Kind)"), names)

    class Load(Layer):
        filter_name = "load"
        fields_desc = [UInt16("number"), names["Tens"]("load")]  # noqa: RUF012

    frames = [bytes.fromhex(text) for text in ("1325c8", "37490a", "5b6d00", "13")]
    assert [readers_agree(Load, raw) for raw in frames] == [True, True, True, False]
    assert Load(number=0x1325, load=100).build() == bytes.fromhex("13250a")
