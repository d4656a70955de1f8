"""Every key in the help does what the help says: one scenario per key."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.ui.support import CAPTURES, Driver, drive
from wiredecode.filter import compile_filter
from wiredecode.ui import keys

BASIC = CAPTURES / "rabbitmq-stream/c43_basic.pcap"
PUBLISH = 31
"""A frame of the capture."""

Check = Callable[[Driver], Awaitable[None]]
CHECKS: dict[str, tuple[int, Check]] = {}
"""By key: the frame under the cursor before it is pressed, and a check afterwards."""


def key(name: str, frame: int = PUBLISH) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        CHECKS[name] = frame, check
        return check

    return add


def leads_to(name: str, before: int, after: int) -> None:
    async def check(ui: Driver) -> None:
        await ui.until(lambda: ui.number == after)

    CHECKS[name] = before, check


def asks(name: str, prompt: str) -> None:
    async def check(ui: Driver) -> None:
        assert ui.main.entry.has_focus and prompt in ui.text()

    CHECKS[name] = PUBLISH, check


def shows(name: str, title: str) -> None:
    async def check(ui: Driver) -> None:
        assert ui.app.screen is not ui.main
        await ui.until(lambda: title in ui.text())

    CHECKS[name] = PUBLISH, check


for _name in ("full_stop", "ctrl+down"):
    leads_to(_name, 30, 31)
for _name in ("comma", "ctrl+up"):
    leads_to(_name, 30, 29)
leads_to("r", 1, 2)
leads_to("right_square_bracket", 1, 2)
leads_to("left_square_bracket", 2, 1)
leads_to("right_curly_bracket", 12, 29)
leads_to("left_curly_bracket", 139, 137)
for _name, _prompt in (
    ("colon", "frame, or a time"),
    ("slash", "Tab completes"),
    ("f", "Tab completes"),
    ("s", "search for text"),
    ("X", "search in bytes"),
    ("W", "save as"),
):
    asks(_name, _prompt)
for _name, _title in (
    ("c", "client → server"),
    ("F", "Findings"),
    ("S", "Statistics"),
    ("T", "Timeline"),
    ("p", "Flows"),
    ("w", "Follow"),
    ("M", "published: "),
    ("D", "Sequence"),
    ("question_mark", "In every pane"),
    ("K", "Columns"),
):
    shows(_name, _title)


@key("tab")
async def _(ui: Driver) -> None:
    assert ui.main.fields.has_focus


@key("shift+tab")
async def _(ui: Driver) -> None:
    assert ui.main.octets.has_focus


@key("exclamation_mark", 1)
async def _(ui: Driver) -> None:
    rows = ui.main.model.rows
    assert rows[ui.number].severity or "no further finding" in ui.text()


@key("o")
async def _(ui: Driver) -> None:
    assert "no copies are known in this protocol" in ui.text()


@key("m")
async def _(ui: Driver) -> None:
    assert ui.main.frames.marks == {PUBLISH}


@key("apostrophe")
async def _(ui: Driver) -> None:
    assert "nothing is marked" in ui.text()


@key("b")
async def _(ui: Driver) -> None:
    assert ui.number == 1, "where the jump of the test began"


@key("t")
async def _(ui: Driver) -> None:
    assert ui.main.frames.since(ui.main.model.rows[PUBLISH]) == 0


@key("a")
async def _(ui: Driver) -> None:
    assert ui.main.select is not None and ui.main.select.text == "rabbitmq_stream"


@key("A")
async def _(ui: Driver) -> None:
    assert ui.main.select is not None and ui.main.select.text == "rabbitmq_stream"


@key("x")
async def _(ui: Driver) -> None:
    assert ui.main.select is not None and ui.main.select.text == "!(rabbitmq_stream)"


@key("escape")
@key("ctrl+c")
async def _(ui: Driver) -> None:
    assert ui.app.screen is ui.main and "nothing to stop" in ui.text()


@key("n")
async def _(ui: Driver) -> None:
    assert "nothing to search for" in ui.text()


@key("N")
async def _(ui: Driver) -> None:
    assert "nothing to search for" in ui.text()


@key("y")
async def _(ui: Driver) -> None:
    assert ui.app.clipboard.startswith("rabbitmq_stream Publish\n  size: ") and "publishing_id: " in ui.app.clipboard


@key("v")
async def _(ui: Driver) -> None:
    assert ui.app.clipboard == "Publish (2)"


@key("Y")
async def _(ui: Driver) -> None:
    assert "there is no filter" in ui.text()


@key("R")
async def _(ui: Driver) -> None:
    assert ui.app.clipboard.startswith('{"frame":31,')


@key("C")
async def _(ui: Driver) -> None:
    assert ui.app.clipboard.startswith("wiredecode pcap ")


@key("P")
async def _(ui: Driver) -> None:
    assert "no live capture" in ui.text()


@key("L")
async def _(ui: Driver) -> None:
    assert ui.app.theme == "textual-light"


@key("Z")
async def _(ui: Driver) -> None:
    assert "Z again shows" in ui.text() and not ui.main.model.secrets


@key("q")
async def _(ui: Driver) -> None:
    assert ui.app.return_code == 0


def test_every_key_has_a_check() -> None:
    listed = {name for each in keys.KEYS for name in each.keys.split(",")}
    assert listed == set(CHECKS)


@pytest.mark.slow
def test_each_key_does_what_the_help_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    pressed: list[str] = []

    async def test(ui: Driver) -> None:
        await ui.loaded()
        for name, (before, check) in CHECKS.items():  # the last one quits
            pressed.append(name)
            await begin_anew(ui)
            ui.main.go_to(before)
            await ui.shown()
            if name in ("a", "A", "x", "y"):  # of the protocol, in the tree
                ui.main.fields.move_to(2)
            if name == "v":
                ui.main.fields.move_to(4)
            await ui.press(name)
            await check(ui)

    with contextlib.suppress(SystemExit):
        drive(BASIC, test, size=(120, 40))
    assert pressed == [*CHECKS] and pressed[-1] == "q"


async def begin_anew(ui: Driver) -> None:
    """Restore the initial state on the first frame."""
    while ui.app.screen is not ui.main or ui.main.entry.has_focus:
        await ui.press("escape")
    main = ui.main
    main.no_filter()
    main.frames.go_to(1)
    main.frames.marks.clear()
    main.frames.zero, main.message, main._asked_secrets = 0, "", False
    main._jumps.clear()
    main.frames.focus()
    await ui.shown()


def test_and_key_extends_the_current_filter() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        ui.main.filter_by(compile_filter("frame.number > 9"))
        await ui.found()
        await ui.shown()
        ui.main.fields.move_to(2)
        await ui.press("A")
        assert ui.main.select is not None and ui.main.select.text == "(frame.number > 9) && rabbitmq_stream"

    drive(BASIC, test)
