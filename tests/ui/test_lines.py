"""Only changed cells are sent to the terminal."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip

from tests.ui.support import CAPTURES, Driver, drive
from wiredecode.ui.lines import Lines, changed_columns
from wiredecode.view.screen import columns

BASIC = CAPTURES / "rabbitmq-stream/c43_basic.pcap"


def test_the_columns_in_which_lines_differ() -> None:
    bold = Style(bold=True)
    plain = Strip([Segment("frame 17 of 142")])
    assert changed_columns(plain, Strip([Segment("frame 18 of 142")])) == (7, 8)
    assert changed_columns(plain, Strip([Segment("frame "), Segment("17", bold), Segment(" of 142")])) == (6, 8)
    assert changed_columns(plain, Strip([Segment("frame 17"), Segment(" of 142")])) == (0, 0)
    wide = Strip([Segment("漢字漢字漢字漢 ")])
    assert changed_columns(plain, wide) == (0, 15), "columns are not letters there"


def test_a_step_draws_two_list_lines_and_the_changed_pane_lines() -> None:
    drawn: list[Region] = []

    async def test(ui: Driver) -> None:
        await ui.loaded()
        frames = ui.main.frames
        before = frames._set_dirty
        frames._set_dirty = lambda *regions: (drawn.extend(regions or [frames.region]), before(*regions))  # type: ignore[method-assign,func-returns-value]
        await ui.press("down")
        await ui.shown()
        assert {region.y for region in drawn} == {0, 1} and all(region.height == 1 for region in drawn)
        drawn.clear()
        ui.main.update()
        ui.main.frames.refresh()
        await ui.pilot.pause()
        assert not drawn, "nothing is new"

    drive(BASIC, test)


def test_lines_drawn_before_the_width_is_known_are_drawn_again() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()
        frames, right = ui.main.frames, ui.lines()
        frames._form = columns(80)
        assert frames.line(0).plain.rstrip() not in right[3]
        ui.main.update()
        await ui.pilot.pause()
        assert ui.lines() == right

    drive(BASIC, test)


def test_the_scroll_bar_shows_the_position_and_jumps() -> None:
    async def test(ui: Driver) -> None:
        await ui.loaded()

        def bar(pane: Lines) -> str:
            return "".join(pane._strip(y, pane.rich_style).text[-1] for y in range(pane.size.height))

        frames = ui.main.frames
        assert bar(frames).startswith("█│")
        await ui.press("G")
        await ui.pilot.pause()
        assert bar(frames).endswith("│█")
        await ui.pilot.click(frames, (frames.size.width - 1, 0))
        await ui.pilot.pause()
        assert frames.scroll_offset.y == 0
        await ui.pilot._post_mouse_events([events.MouseScrollDown], widget=frames, offset=(5, 5))
        await ui.pilot.pause()
        assert frames.scroll_offset.y == 3

    drive(BASIC, test)
