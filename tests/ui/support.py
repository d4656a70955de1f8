"""Running the screen without a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from wiredecode.filter import compile_filter
from wiredecode.settings import Settings
from wiredecode.ui.app import Inspector
from wiredecode.ui.live import Live
from wiredecode.ui.main import MainScreen
from wiredecode.ui.packets import Growing
from wiredecode.ui.reading import Reading

CAPTURES = Path(__file__).parents[2] / "captures"
PATIENCE = 20.0
"""Seconds until a test gives up waiting."""


class Driver:
    """An inspector, and what a test asks of it."""

    def __init__(self, app: Inspector, pilot: Pilot[Any]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def main(self) -> MainScreen:
        return self.app.main

    @property
    def number(self) -> int:
        return self.main.frames.number

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
        await self.until(lambda: self.main.reading.finished and self.main.frames.count == self.main.reading.rows.count)
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
        made = Reading(path if isinstance(path, Growing) else [str(path)])
        app = Inspector(made, compile_filter(select) if select else None, live, settings or Settings())
        try:
            async with app.run_test(size=size) as pilot:
                await test(Driver(app, pilot))
        finally:
            app.stop()

    asyncio.run(run())
