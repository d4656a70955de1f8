"""Running the screen without a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any
from unittest.mock import patch

from textual.pilot import Pilot

from wiredecode.filter import compile_filter
from wiredecode.settings import Settings
from wiredecode.ui.app import Inspector
from wiredecode.ui.live import Live
from wiredecode.ui.main import MainScreen
from wiredecode.ui.model import CaptureModel
from wiredecode.ui.packets import Growing

CAPTURES = Path(__file__).parents[2] / "captures"
PATIENCE = 20.0
"""Seconds until a test gives up waiting."""
CALM, TURN_SECONDS, MOST_SECONDS = 3, 0.001, 1.0
"""The screen stands still when nothing is to be done in so many turns; it is not waited for longer than that."""


class Driver:
    """An inspector, and what a test asks of it."""

    holds_jobs = False
    """Whether the test keeps background jobs from ending: then the screen stands still without their end."""

    def __init__(self, app: Inspector, pilot: Pilot[Any]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def main(self) -> MainScreen:
        return self.app.main

    @property
    def number(self) -> int:
        return self.main.frames.number

    async def still(self, least: float = 0, most: float = MOST_SECONDS) -> None:
        """Wait until all that was sent is worked off, drawn, and nothing is read behind the screen.

        Textual waits until the process needs no processor, 20 ms at least and a second wherever others keep it busy.
        """
        began, calm = monotonic(), 0
        while calm < CALM and monotonic() < began + most:
            await asyncio.sleep(TURN_SECONDS)
            calm = 0 if self._busy() else calm + 1
        await asyncio.sleep(max(0.0, began + least - monotonic()))

    def _busy(self) -> bool:
        screen, main = self.app.screen, self.main
        if not (main.model.live or self.holds_jobs) and any(job._thread.is_alive() for job in main._jobs):
            return True
        if any(each.message_queue_size or each._next_callbacks for each in (self.app, *screen.walk_children())):
            return True
        if screen.message_queue_size or screen._next_callbacks:
            return True
        if screen._callbacks or screen._dirty_widgets or screen._layout_required or screen._repaint_required:
            screen._on_timer_update()  # draw now, not with the next tick
            return True
        if main.model.live:
            return False
        shown = not main.frames.count or (main.frame is not None and main.frame.number == self.number)
        return not (main.model.finished and shown)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def write(self, text: str) -> None:
        """Type a text, then Enter."""
        self.main.entry.value = text
        await self.press("enter")

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until something is true."""
        left = PATIENCE
        while not true():
            await self.pilot.pause(0.02)
            left -= 0.02
            assert left > 0, f"it never became true:\n{self.text()}"

    async def loaded(self) -> None:
        """Wait for the capture, and for the frame under the cursor."""
        await self.until(lambda: self.main.model.finished and self.main.frames.count == self.main.model.rows.count)
        await self.shown()

    async def shown(self) -> None:
        """Wait until tree and bytes show the frame under the cursor."""
        await self.until(lambda: self.main.frame is not None and self.main.frame.number == self.number)
        await self.pilot.pause()

    async def found(self) -> None:
        """Wait for a filter."""
        job = self.main.filtering
        await self.until(lambda: job is not None and job.finished)
        self.main.update()
        await self.pilot.pause()

    def lines(self) -> list[str]:
        """The screen as it stands."""
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    def text(self) -> str:
        return "\n".join(self.lines())


def drive(
    path: Path | str | Growing,
    test: Callable[[Driver], Awaitable[None]],
    size: tuple[int, int] = (100, 30),
    select: str = "",
    live: Live | None = None,
    settings: Settings | None = None,
) -> None:
    """Run a test on a capture; everything is let go of at the end."""

    async def run() -> None:
        made = CaptureModel(path if isinstance(path, Growing) else [str(path)])
        app = Inspector(made, compile_filter(select) if select else None, live, settings or Settings())
        try:
            async with app.run_test(size=size) as pilot:
                ui = Driver(app, pilot)
                with patch("textual.app.wait_for_idle", ui.still), patch("textual.pilot.wait_for_idle", ui.still):
                    await test(ui)
        finally:
            app.stop()

    asyncio.run(run())
