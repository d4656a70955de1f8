"""Every code is declared once, has a page, a case that raises it, and one near it that does not."""

from __future__ import annotations

import pytest

from tests.check.cases import CRAFTED, NEAR, found
from tests.docs.test_reference import DOCS, script
from wiredecode.check.codes import codes
from wiredecode.protocols.shared.checking import SEVERITIES, Code

CODES = codes()
PAGES = dict(script("make_reference").finding_pages())


def test_codes_are_declared_once() -> None:
    assert len({code.code for code in CODES}) == len(CODES)
    assert {code.severity for code in CODES} == set(SEVERITIES)


def test_cases_are_of_codes() -> None:
    assert set(CRAFTED) | set(NEAR) <= {code.code for code in CODES}


@pytest.mark.parametrize("code", [code for code in CODES if code.code != "check.internal"], ids=lambda code: code.code)
def test_a_capture_or_a_crafted_case_raises_the_code(code: Code) -> None:
    assert bool(code.capture) != (code.code in CRAFTED), "a capture in the declaration, or a case in CRAFTED"
    assert code.code in found(code.capture or CRAFTED[code.code])


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.code)
def test_what_is_near_does_not_raise_the_code(code: Code) -> None:
    assert code.code in NEAR, "tests/check/cases.py: name what is near it and must not raise it"
    assert code.code not in found(NEAR[code.code])


def test_pages_are_current() -> None:
    assert {path: path.read_text() for path in (DOCS / "findings").iterdir()} == PAGES, "python docs/make_reference.py"
