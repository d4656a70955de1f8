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
CALM, TURN_SECONDS, MAX_SECONDS = 3, 0.001, 1.0
"""The screen is idle after CALM turns without work; a wait ends after MAX_SECONDS."""


class Driver:
    """Drives an inspector in a test."""

    holds_jobs = False
    """Whether the test holds background jobs; then the screen counts as idle before they end."""

    def __init__(self, app: Inspector, pilot: Pilot[Any]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def main(self) -> MainScreen:
        return self.app.main

    @property
    def number(self) -> int:
        return self.main.frames.number

    async def still(self, least: float = 0, most: float = MAX_SECONDS) -> None:
        """Wait until all keys are processed, the screen is drawn, and no background job reads.

        Textual's own wait is for an idle process: at least 20 ms, and a second on a busy machine.
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
        if not self.holds_jobs and any(not worker.is_finished for worker in self.app.workers):
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
        """Wait until a condition is true."""
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
        """The current screen."""
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
    """Run a test on a capture; release everything at the end."""

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
