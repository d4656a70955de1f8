"""Modules that docs/architecture.md names exist, and pages that comments name."""

from __future__ import annotations

import re

from tests.docs.test_reference import DOCS

PAGE = (DOCS / "architecture.md").read_text()
PACKAGE = DOCS.parent / "wiredecode"


def test_modules_on_the_page_exist() -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py|\.toml)?|[a-z_]+\.py)`", PAGE)
    assert len(named) >= 50
    files = {path.name for path in PACKAGE.rglob("*.py")}
    missing = [
        each
        for each in named
        if not (PACKAGE / each).exists() and not (DOCS.parent / each).exists() and each not in files
    ]
    assert missing == []


def test_every_package_is_on_the_page() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {name for name in packages if f"`{name}/`" not in PAGE} == set()


def test_pages_and_sections_in_comments_exist() -> None:
    found = 0
    for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.toml"), *DOCS.glob("docker/*/*")]:
        for page, section in re.findall(r'docs/([a-z_/-]+\.md)(?:,\s*"([^"]+)")?', path.read_text()):
            found += 1
            text = (DOCS / page).read_text()
            assert not section or re.search(rf"^#+ {re.escape(section)}$", text, re.MULTILINE | re.IGNORECASE), path
    assert found >= 40
