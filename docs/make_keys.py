"""Write docs/reference/keys.md, the keys of wiredecode ui, and make its picture: ``python docs/make_keys.py``."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from wiredecode.ui import keys
from wiredecode.ui.app import Inspector
from wiredecode.ui.model import CaptureModel

PAGE = Path(__file__).parent / "reference" / "keys.md"
PICTURE = Path(__file__).parent / "images" / "ui.svg"
CAPTURE = "captures/rabbitmq-stream/c43_basic.pcap"


def page() -> str:
    """All keys, as a table per group."""
    lines = [
        "# Keys of the full screen",
        "",
        "<!-- Made by docs/make_keys.py. -->",
        "",
        "[About the full screen](../ui.md).",
    ]
    for shown, what in keys.text():
        lines += ["", f"| {shown} | |", "|---|---|"] if not what else [f"| `{shown}` | {what} |"]
    return "\n".join([*lines, ""])


async def picture() -> str:
    """The screen, with a publish under the cursor."""
    app = Inspector(CaptureModel([CAPTURE]))
    try:
        async with app.run_test(size=(120, 36)) as pilot:
            while not app.model.finished:
                await pilot.pause(0.02)
            app.main.update()
            app.main.go_to(54)
            while app.main.frame is None or app.main.frame.number != 54:
                await pilot.pause(0.02)
            await pilot.press("tab", *["down"] * 7)
            await pilot.pause()
            return app.export_screenshot(title="wiredecode ui")
    finally:
        app.stop()


if __name__ == "__main__":
    PAGE.write_text(page())
    svg = re.sub(r"terminal-\d+", "terminal", asyncio.run(picture()))
    PICTURE.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")
