"""Every code is declared once, has a page, a case that raises it, and one near it that does not."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.check.cases import CRAFTED, NEAR, found, near
from tests.conftest import in_one_test, is_long
from tests.docs.test_reference import DOCS, script
from wiredecode.check.codes import GROUPS, codes
from wiredecode.data import tables_of
from wiredecode.protocols.shared.codes import SEVERITIES, Code, Codes

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "wiredecode"
CODES = codes()


def test_codes_are_declared_once() -> None:
    assert len({code.code for code in CODES}) == len(CODES)
    assert {code.severity for code in CODES} == set(SEVERITIES)


def test_rules_use_all_codes_and_no_others() -> None:
    for folder in (PACKAGE / "check", *(path.parent for path in PACKAGE.glob("protocols/*/problems.toml"))):
        text = "".join(path.read_text() for path in folder.rglob("*.py"))
        for names in folder.glob("names.toml"):  # rules that are data
            text += "".join(f'"{name}"' for name in tomllib.loads(names.read_text()).get("refusals", ()))
        known = set(tomllib.loads((folder / "problems.toml").read_text()))
        assert set(re.findall(r'CODES\["([a-z.-]+)"', text)) <= known
        assert {name for name in known if f'"{name}"' not in text} <= {f"frame.{group}" for group in GROUPS}


def test_texts_are_read_when_they_are_needed() -> None:
    script = "from wiredecode.check.codes import CODES, offers; list(offers()); print('_texts' in vars(CODES))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "False\n"


def test_cases_are_of_codes() -> None:
    assert set(CRAFTED) | set(NEAR) <= {code.code for code in CODES}


SHOWN = [
    pytest.param(code, id=code.code, marks=[pytest.mark.slow] if is_long(code.capture) else [])
    for code in CODES
    if code.capture
]


@pytest.mark.parametrize("code", SHOWN)
def test_the_capture_shows_the_code(code: Code) -> None:
    assert code.code in found(code.capture)


@in_one_test("code", [code for code in CODES if not code.capture], ids=lambda code: code.code)
def test_a_crafted_case_raises_the_code(code: Code) -> None:
    if code.code in CRAFTED:
        assert code.code in found(CRAFTED[code.code])
    else:
        name = code.code.partition(".")[2]
        texts = [path.read_text() for path in HERE.glob("test_*.py") if path.name != "test_codes.py"]
        assert any(name in text for text in texts), "no capture, no case, and no test names it"


@in_one_test("code", CODES, ids=lambda code: code.code)
def test_a_near_case_does_not_raise_the_code(code: Code) -> None:
    assert code.code not in found(near(code.code))


def test_pages_are_current() -> None:
    pages = dict(script("make_reference").finding_pages())
    assert {path: path.read_text() for path in (DOCS / "reference" / "findings").iterdir()} == pages, (
        "python docs/make_reference.py"
    )


@pytest.mark.parametrize("package", ["wiredecode.check", "wiredecode.protocols.nats", "wiredecode.protocols.amqp091"])
def test_tables_that_are_read_one_by_one_are_those_of_the_file(package: str) -> None:
    whole = tables_of(package, "problems.toml")
    found = {code.code: code for code in Codes(package, "")}
    assert [*found] == [*whole]
    assert {name: dict(code.likely) for name, code in found.items()} == {
        name: table.get("likely", {}) for name, table in whole.items()
    }
