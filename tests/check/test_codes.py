"""Every code is declared once, has a page, and a capture that shows it or a test that crafts it."""

from __future__ import annotations

from functools import cache

import pytest

from tests.check.support import CAPTURES, check
from tests.docs.test_reference import DOCS, script
from wiredecode.check.codes import codes
from wiredecode.protocols.shared.checking import SEVERITIES, Code

CODES = codes()
PAGES = dict(script("make_reference").finding_pages())
CRAFTED = {
    "check.internal",
    "rabbitmq_stream.unconfirmed",
    "rabbitmq_stream.heartbeat",
    *("pravega.setup-unanswered", "pravega.slow-read", "pravega.transaction-aborted", "pravega.transaction-open"),
    "pravega.conditional-refused",
    *("tank.redirect", "tank.no-leader", "tank.gap", "cursus.session-timeout", "cursus.not-leader"),
    "tcp.no-answer",
    "tcp.slow-response",
}
"""By tests of this folder."""
UNSEEN = {
    *(
        "rabbitmq_stream.offset-gap",
        "frame.checksum",
        "frame.security",
        "frame.limit",
    ),
}
"""No capture of the repository has them."""


def test_codes_are_declared_once() -> None:
    assert len({code.code for code in CODES}) == len(CODES)
    assert {code.severity for code in CODES} == set(SEVERITIES)


def test_every_code_says_how_it_was_seen() -> None:
    assert {code.code for code in CODES if not code.capture} == CRAFTED | UNSEEN


@cache
def shown(capture: str) -> set[str]:
    """The codes of all problems of a capture."""
    return {problem.code.code for problem in check(CAPTURES / capture)}


@pytest.mark.parametrize("code", [code for code in CODES if code.capture], ids=lambda code: code.code)
def test_the_capture_shows_the_code(code: Code) -> None:
    assert code.code in shown(code.capture)


def test_pages_are_current() -> None:
    assert {path: path.read_text() for path in (DOCS / "findings").iterdir()} == PAGES, "python docs/make_reference.py"
