"""Settings on the full screen: saved filters, columns, colour rules, the theme."""

from __future__ import annotations

import re
from math import dist
from pathlib import Path

import pytest
from rich.style import Style

from tests.ui.support import CAPTURES, Driver, drive
from wiredecode import read, settings
from wiredecode.settings import Settings
from wiredecode.ui import entry
from wiredecode.ui.framelist import ranges_of
from wiredecode.ui.screens import Listing
from wiredecode.view.theme import SIDE

HEADING = 2
"""The line above those of frames."""
BASIC = CAPTURES / "rabbitmq-stream/c43_basic.pcap"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "wiredecode" / "config.toml"


def test_filters_are_saved_named_and_completed() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("slash")
        await ui.write('@pub = frame.type == "Publish"')
        await ui.found()
        count = ui.main.frames.count
        assert 0 < count < 142 and settings.load().filters == {"pub": 'frame.type == "Publish"'}
        await ui.press("slash")
        ui.main.entry.value = "frame.number > 2 && @p"
        await ui.press("tab")
        assert ui.main.entry.value == "frame.number > 2 && @pub"
        await ui.press("enter")
        await ui.found()
        assert ui.main.frames.count == count
        await ui.press("slash")
        ui.main.entry.value = "@other"
        await ui.pilot.pause()
        assert "no filter is saved as @other" in ui.text()
        await ui.press("escape", "slash")
        await ui.write("@pub =")
        assert settings.load().filters == {}

    drive(BASIC, test)


def test_recent_filters_are_offered_next_time_up_to_a_limit(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 4
    monkeypatch.setattr(entry, "MAX_KEPT", most)

    async def first(ui: Driver) -> None:
        await ui.loaded()
        for number in range(most + 2):
            await ui.press("slash")
            await ui.write(f"frame.number > {number}")

    async def second(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("slash")
        assert ui.lines()[2].startswith(f"recent  frame.number > {most + 1} │ frame.number > {most} │")
        await ui.press("up")
        assert ui.main.entry.value == f"frame.number > {most + 1}"

    drive(BASIC, first)
    assert settings.recent_filters() == [f"frame.number > {number}" for number in range(2, most + 2)]
    assert not home.exists(), "a state is no setting"
    drive(BASIC, second, settings=settings.load())


def test_columns_are_chosen_and_kept() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        await ui.press("K", "space")
        for _ in range(13):
            await ui.press("down")
        names = ui.app.screen.names  # type: ignore[attr-defined]
        at = ui.app.screen.lines.cursor  # type: ignore[attr-defined]
        await ui.press("space", "less_than_sign")
        assert ui.app.screen.chosen == [names[at], "number"]  # type: ignore[attr-defined]
        await ui.press("enter")
        await ui.pilot.pause()
        assert settings.load().columns == (names[at], "number")
        head = ui.lines()[HEADING].split()
        assert head == [names[at], "number"]
        await ui.press("K", "d", "enter")
        await ui.pilot.pause()
        assert settings.load().columns is None and "details" in ui.lines()[HEADING]

    drive(BASIC, test)


def test_columns_and_colour_rules_use_values_of_the_frames() -> None:
    rules = {"one": "bold yellow: frame.number == 54", "publishes": 'red: frame.type == "Publish"'}
    chosen = Settings(columns=("number", "rabbitmq_stream.publisher_id", "type", "clock", "delta", "src"), colors=rules)
    wanted = {frame.number: frame for frame in read(BASIC)}

    async def test(ui: Driver) -> None:
        await ui.loaded()
        frames = ui.main.frames
        for number in (54, 142, 31):
            ui.main.go_to(number)
            await ui.until(lambda: frames.painter is not None and frames.painter.look(ui.number) is not None)
            look = frames.painter.look(number)  # type: ignore[union-attr]
            assert look is not None
            record = wanted[number].record()["layers"]["rabbitmq_stream"]
            assert look.values["rabbitmq_stream.publisher_id"] == str(record.get("publisher_id", ""))
            expected = "bold yellow" if number == 54 else "red" if wanted[number].type == "Publish" else ""
            assert look.style == expected

    drive(BASIC, test, settings=chosen)


def test_invalid_rules_and_columns_are_reported_and_ignored() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        ui.main.update()
        assert "no column is called nowhere" in ui.text() or "the colour rule bad" in ui.text()
        assert ui.main.frames.count == 142

    drive(BASIC, test, settings=Settings(columns=("number", "nowhere"), colors={"bad": "blurple: frame"}))


def test_time_format_and_theme_are_kept() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        clock = re.search(r"\d\d:\d\d:\d\d\.\d{6} ", ui.lines()[HEADING + 1])
        assert clock is not None and clock.end() == ui.lines()[HEADING].index("time") + len("time ")
        assert "- Frame 1  2026-" in ui.text()
        await ui.press("t")
        assert " 0.000000 #1" in ui.lines()[HEADING + 1]
        assert ui.app.theme == "high-contrast"
        await ui.press("L")
        assert settings.load().theme == ui.app.theme == "ansi-dark"

    drive(BASIC, test, settings=Settings(theme="high-contrast", time="absolute"))


def test_adjacent_frames_are_read_together() -> None:
    assert ranges_of([]) == []
    assert ranges_of([3, 4, 9, 200, 201, 900]) == [(3, 9), (200, 201), (900, 900)]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        for key in (None, "c", "D", "T", "question_mark", "K"):
            if key is not None:
                await ui.press(key)
                listing = ui.app.screen.query_one(Listing)
                await ui.until(lambda listing=listing: listing.count)
                await ui.still()
            assert all(line.isascii() for line in ui.lines()), ui.text()
            if key is not None:
                await ui.press("escape")
        await ui.press("slash")
        assert all(line.isascii() for line in ui.lines()), ui.text()

    for size in ((80, 24), (170, 40)):
        drive(BASIC, test, settings=Settings(ascii=True), size=size)


def test_without_colours_no_colour_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def test(ui: Driver) -> None:
        await ui.loaded()
        used = {
            colour.name
            for strip in ui.app.screen._compositor.render_strips()
            for segment in strip.apply_filter(ui.app.get_line_filters()[-1], ui.app.screen.background_colors[1])
            if segment.style is not None
            for colour in (segment.style.color, segment.style.bgcolor)
            if colour is not None
        }
        assert used <= {"default"}, used

    drive(BASIC, test)


LINEAR = [value / 255 / 12.92 if value < 11 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in range(256)]
EYES = {
    "usual": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}
"""Perceived shares of red, green and blue light (Machado, Oliveira, Fernandes 2009)."""


def lab(color: tuple[int, int, int], eyes: str) -> tuple[float, float, float]:
    """Oklab of a colour for a kind of colour vision."""
    light = [LINEAR[value] for value in color]
    r, g, b = (max(0.0, sum(share * each for share, each in zip(row, light, strict=True))) for row in EYES[eyes])
    first = (0.4122 * r + 0.5363 * g + 0.0514 * b) ** (1 / 3)
    second = (0.2119 * r + 0.6807 * g + 0.1074 * b) ** (1 / 3)
    third = (0.0883 * r + 0.2817 * g + 0.6300 * b) ** (1 / 3)
    return (
        0.2105 * first + 0.7936 * second - 0.0041 * third,
        1.9780 * first - 2.4286 * second + 0.4506 * third,
        0.0259 * first + 0.7828 * second - 0.8087 * third,
    )


def test_errors_differ_in_colour_from_ordinary_traffic_in_all_themes() -> None:
    """As drawn, also for red- and green-blind eyes; the terminal's own colours are excluded."""

    async def test(ui: Driver) -> None:
        for name in ui.app.available_themes:
            if name.startswith("ansi"):
                continue
            ui.app.theme = name
            shown = {word: Style.parse(word).color for word in ("red", "yellow", "cyan", "magenta", "green")}
            drawn = {word: color.get_truecolor(ui.app.ansi_theme) for word, color in shown.items() if color}
            for other in ("yellow", "cyan", "magenta", "green"):
                for eyes in EYES:
                    apart = dist(lab(drawn["red"], eyes), lab(drawn[other], eyes))
                    least = 0.12 if other in (SIDE["server"], SIDE["client"]) else 0.08
                    assert apart > least, f"{name}, {eyes}: red and {other} are {apart:.3f} apart"

    drive(BASIC, test)
