"""The full-screen program."""

import os
import sys
from collections.abc import Sequence
from threading import Thread
from typing import Any

from rich.terminal_theme import TerminalTheme
from textual.app import App
from textual.screen import Screen

from wiredecode.dissect.dissector import Demand
from wiredecode.filter import Filter
from wiredecode.settings import Settings
from wiredecode.ui.live import Live
from wiredecode.ui.main import ANSI, CONTRAST, THEMES, MainScreen
from wiredecode.ui.model import CaptureModel
from wiredecode.ui.packets import Growing

DARK = TerminalTheme(
    (26, 26, 26),
    (217, 217, 217),
    [
        *((26, 26, 26), (255, 75, 60), (120, 205, 90), (250, 215, 90)),
        *((110, 155, 255), (205, 165, 255), (80, 205, 235), (217, 217, 217)),
    ],
)
LIGHT = TerminalTheme(
    (247, 247, 247),
    (0, 0, 0),
    [
        *((0, 0, 0), (165, 0, 30), (30, 145, 90), (185, 125, 0)),
        *((50, 92, 192), (125, 80, 215), (0, 130, 180), (247, 247, 247)),
    ],
)
"""ANSI colours that all eyes can distinguish: in Textual's, red (errors) and magenta (the server) are one colour."""


class Inspector(App[int]):
    """Shows one capture. ``select``: the filter that it begins with."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "wiredecode"
    CSS_PATH = "app.tcss"

    def __init__(self, model: CaptureModel, select: Filter | None, live: Live | None, settings: Settings) -> None:
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)  # else NO_COLOR leaves shades of grey
        self.model, self.live, self.settings = model, live, settings
        utf8 = (getattr(sys.__stdout__, "encoding", None) or "").lower().replace("-", "") == "utf8"
        self.ascii = not utf8 if settings.ascii is None else settings.ascii
        """Whether nothing but ASCII is shown."""
        self.main = MainScreen(model, select, live, settings)
        self._reader = Thread(target=model.run, name="wiredecode reading", daemon=True)

    def on_mount(self) -> None:
        self.register_theme(CONTRAST)
        self.ansi_theme_dark, self.ansi_theme_light = DARK, LIGHT
        self.set_class(self.ascii, "ascii")
        wanted = ANSI if self.no_color else self.settings.theme
        self.theme = wanted if wanted in THEMES else THEMES[0]
        self._reader.start()

    def get_default_screen(self) -> Screen[Any]:
        return self.main

    async def run_action(self, action: Any, *arguments: Any, **named: Any) -> bool:
        """A key whose work fails says so in the status line."""
        try:
            return await super().run_action(action, *arguments, **named)
        except Exception as error:
            self.main.say(f"that failed: {type(error).__name__}: {error}")
            return True

    def stop(self) -> None:
        """End reading, and let go of the files."""
        self.model.stop()
        if self.live is not None:
            self.live.close()
        if self._reader.ident is not None:
            self._reader.join()
        self.model.close()


def run(
    files: Sequence[str] | Growing,
    select: Filter | None,
    *,
    live: Live | None = None,
    settings: Settings,
    reading: Demand,
) -> int:
    """Show captures until the user leaves; the exit code. ``live``: what makes the files grow, which ends then."""
    app = Inspector(CaptureModel(files, reading), select, live, settings)
    try:
        app.run()
    finally:
        app.stop()
    return app.return_code or 0
