"""The man page and the page of commands are current."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.docs.test_reference import script
from wiredecode.cli.app import command_line

MAN = script("make_man")


@pytest.mark.parametrize("name", ["page", "reference"])
def test_the_page_is_current(name: str) -> None:
    found = getattr(MAN, name.upper()).read_text()
    if f"typer {version('typer')}." not in found[:200]:
        pytest.skip("made with another version of typer, whose help texts differ")
    assert found == getattr(MAN, name)(), "run: python docs/make_man.py"


def test_man_page_has_every_command_option_and_section() -> None:
    page, commands = MAN.page().replace("\\-", "-"), MAN.reference()
    for title in ("NAME", "SYNOPSIS", "OPTIONS", "COMMANDS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"):
        assert f".SH {title}\n" in page
    for name, command in command_line().commands.items():
        _, _, rest = page.partition(f".SS wiredecode {name} ")
        section = rest.partition("\n.S")[0]
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                assert f"\\fB{', '.join(parameter.opts)}" in section, (name, parameter.opts)
                assert f"`{', '.join(parameter.opts)}" in commands, (name, parameter.opts)
    assert "NO_COLOR" in page
    assert not [line for line in page.splitlines() if line.startswith("'")]
