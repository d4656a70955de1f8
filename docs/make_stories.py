"""Make the pictures of two stories in docs/ui.md: ``python docs/make_stories.py``."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from wiredecode.ui.app import Inspector
from wiredecode.ui.model import CaptureModel

IMAGES = Path(__file__).parent / "images"
STORIES = "captures/stories/"
SIZE = (120, 34)
Pictures = dict[str, tuple[str, list[str]]]
PICTURES: Pictures = {
    "ui-credit-findings": ("credit-starvation.pcap", ["F"]),
    "ui-leader-timeline": ("leader-killed.pcap.zst", ["T"]),
}
"""Name of the picture: capture, and the keys that lead to it."""


async def until(pilot: Pilot[int], true: Callable[[], bool]) -> None:
    while not true():
        await pilot.pause(0.02)


async def picture(capture: str, keys: list[str]) -> str:
    """The screen after some keys, each of which is waited for."""
    app = Inspector(CaptureModel([STORIES + capture]))
    try:
        async with app.run_test(size=SIZE) as pilot:
            await until(pilot, lambda: app.model.finished)
            app.main.update()
            for key in keys:
                await pilot.press(key)
                await pilot.pause()
                if app.screen is app.main:
                    await until(pilot, lambda: getattr(app.main.frame, "number", 0) == app.main.frames.number)
                else:
                    listing = app.screen.lines  # type: ignore[attr-defined]
                    await until(pilot, lambda: bool(listing.count))  # noqa: B023
                await pilot.pause(0.3)
            return app.export_screenshot(title=f"wiredecode ui {STORIES}{capture}")
    finally:
        app.stop()


if __name__ == "__main__":
    for name, (capture, keys) in PICTURES.items():
        svg = re.sub(r"terminal-\d+", "terminal", asyncio.run(picture(capture, keys)))
        (IMAGES / f"{name}.svg").write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")
