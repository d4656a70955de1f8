"""Make the picture of the README from real runs: ``python docs/make_picture.py``.

What three commands print about a capture of the repository, shortened, recorded by rich as SVG.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
CAPTURE = HERE.parent / "captures" / "rabbitmq-stream" / "c43_basic.pcap"
PICTURE = HERE / "images" / "screen.svg"
COLUMNS = 120
COMMANDS = (
    (("pcap", "--summary", "-q", "-Y", "frame.number >= 29"), 0, 9),
    (("follow", "-n", "2"), 24, 36),
    (("pcap", "-q", "-Y", "frame.number == 32"), 0, 14),
)
"""Command and options, and which of its lines are shown."""


def printed(words: tuple[str, ...]) -> list[str]:
    """The lines, with colours, that a command prints about the capture on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "wiredecode", words[0], CAPTURE, *words[1:]]
    environment = {"PYTHONPATH": str(HERE.parent), "TERM": "xterm-256color"}
    parts = []
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        with suppress(OSError):  # the other end is closed
            while part := os.read(ours, 65536):
                parts.append(part)
    os.close(ours)
    if process.returncode:
        raise SystemExit(f"{words} ended with {process.returncode}")
    return b"".join(parts).decode().replace("\r\n", "\n").split("\n")


def main() -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for words, first, last in COMMANDS:
        shown = " ".join(f"'{word}'" if " " in word else word for word in (*words[:1], CAPTURE.name, *words[1:]))
        console.print(Text(f"$ wiredecode {shown}", style="bold"))
        for line in printed(words)[first:last]:
            console.print(Text.from_ansi(line), no_wrap=True, overflow="ellipsis", crop=True)
        console.print()
    # A fixed id keeps the file the same from run to run; without web fonts it loads nothing from elsewhere.
    svg = console.export_svg(title="wiredecode", unique_id="wiredecode")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))


if __name__ == "__main__":
    main()
