"""Make the pictures of README and docs from real runs: ``python docs/make_picture.py``.

rich records the output of commands as SVG, and headless Chromium, if installed, shows a report as PNG. Each picture is
made for light and for dark pages.
"""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, SVG_EXPORT_THEME
from rich.text import Text

HERE = Path(__file__).parent
IMAGES = HERE / "images"
CAPTURES = HERE.parent / "captures"
BASIC, STARVED = CAPTURES / "rabbitmq-stream/c43_basic.pcap", CAPTURES / "stories/credit-starvation.pcap"
COLUMNS = 100
THEMES = {"light": DEFAULT_TERMINAL_THEME, "dark": SVG_EXPORT_THEME}
PICTURES = {
    "summary": (BASIC, ("pcap", "--summary", "-q", "-Y", "frame.number >= 26"), 0, 16),
    "tree": (BASIC, ("pcap", "-q", "-Y", "frame.number == 31"), 0, 16),
    "follow": (BASIC, ("follow", "-q", "-n", "2"), 21, 38),
    "check": (STARVED, ("check",), 0, 20),
}
"""Capture, command and options, and which of its lines are shown."""
REPORT = 1000, 1350
"""Columns and rows of the picture of a report."""
SETTLED = 2
"""Seconds until a screen in a browser has its tree."""


def printed(capture: Path, words: tuple[str, ...]) -> list[str]:
    """The coloured lines that a command prints about a capture on a terminal of COLUMNS columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "wiredecode", words[0], capture.name, *words[1:]]
    environment = {"PYTHONPATH": str(HERE.parent), "TERM": "xterm-256color"}
    parts = []
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=capture.parent
    ) as process:
        os.close(theirs)
        with suppress(OSError):  # the other end is closed
            while part := os.read(ours, 65536):
                parts.append(part)
    os.close(ours)
    if process.returncode:
        raise SystemExit(f"{words} ended with {process.returncode}")
    return b"".join(parts).decode().replace("\r\n", "\n").split("\n")


def terminal(name: str) -> None:
    """A picture of the output of a command."""
    capture, words, first, last = PICTURES[name]
    lines = printed(capture, words)[first:last]
    shown = " ".join(f"'{word}'" if " " in word else word for word in (words[0], capture.name, *words[1:]))
    for theme, colors in THEMES.items():
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard")
        console.print(Text(f"$ wiredecode {shown}", style="bold"))
        for line in lines:
            console.print(Text.from_ansi(line), no_wrap=True, overflow="ellipsis", crop=True)
        # A fixed id keeps the file the same from run to run; without web fonts it loads nothing from elsewhere.
        svg = console.export_svg(title="wiredecode", unique_id=f"wiredecode-{name}", theme=colors)
        (IMAGES / f"{name}-{theme}.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))


def full_screen() -> None:
    """A picture of ``ui --web``, in the middle of a filter."""
    sys.path.insert(0, str(HERE.parent))
    from tests.ui.browser import chromium, opened

    async def taken(control: str, url: str) -> bytes:
        async with opened(control, url) as page:
            await page.shown("665")
            await page.type("/")
            await page.shown("Tab completes")
            await page.type("tcp.stream == 5\r")
            await page.shown("match")
            await asyncio.sleep(SETTLED)
            return await page.picture()

    command = [sys.executable, "-m", "wiredecode", "ui", "--web", STARVED.name]
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium(Path(folder)) as control,
        subprocess.Popen(
            command,
            cwd=STARVED.parent,
            env={**os.environ, "XDG_STATE_HOME": folder},
            stderr=subprocess.PIPE,
            text=True,
        ) as server,
    ):
        assert server.stderr is not None
        url = server.stderr.readline().removeprefix("wiredecode: ").split()[0]
        try:
            (IMAGES / "ui-web.png").write_bytes(asyncio.run(taken(control, url)))
        finally:
            server.send_signal(signal.SIGINT)


def report(chromium: str) -> None:
    """Pictures of a report."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        made = [
            sys.executable,
            "-m",
            "wiredecode",
            "report",
            "-q",
            str(STARVED.relative_to(HERE.parent)),
            "-o",
            str(page),
        ]
        subprocess.run(made, check=True, cwd=HERE.parent)
        for scheme, theme in enumerate(("dark", "light")):
            command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
            command += [f"--blink-settings=preferredColorScheme={scheme}", f"--window-size={REPORT[0]},{REPORT[1]}"]
            target = IMAGES / f"report-{theme}.png"
            subprocess.run([*command, f"--screenshot={target}", page.as_uri()], check=True, capture_output=True)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    for name in PICTURES:
        terminal(name)
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is not installed: the pictures of report and ui --web stay as they are")
    else:
        report(chromium)
        full_screen()


if __name__ == "__main__":
    main()
