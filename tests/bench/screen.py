"""Cost of ``wiredecode ui`` in a terminal: ``python -m tests.bench.screen CAPTURE [--filter FILTER]``.

The program runs on a pseudo terminal of 120 columns and 40 lines; its output is read and counted. Times are seconds
by the clock, CPU seconds are those of the process, memory is its peak (VmHWM), which counts the mapped rows, too.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import pyte

COLUMNS, LINES = 120, 40
CONTROLS = re.compile(rb"\x1b\[[<>=?][0-9;]*[a-zA-Z$]+|\x1bP[^\x1b]*\x1b\\\\")
"""Sequences unknown to pyte: queries of the terminal, and keyboard modes."""
QUIET = 1.0
"""Seconds without output that mean: nothing more comes."""
KEYS = 20


class Terminal:
    """A program on a pseudo terminal."""

    def __init__(self, words: list[str]) -> None:
        self.sent = 0
        """Bytes that the program has sent."""
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # cached, as after installation
            os.execvp(words[0], words)
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))

    def read(self, wait: float) -> bool:
        """Read available output; return False if none came within ``wait`` seconds."""
        if not select.select([self._file], [], [], wait)[0]:
            return False
        data = os.read(self._file, 1 << 16)
        self.sent += len(data)
        self._stream.feed(CONTROLS.sub(b"", data))
        return True

    @property
    def text(self) -> str:
        """The current screen."""
        return "\n".join(self._screen.display)

    def until(self, pattern: str, patience: float = 900) -> float:
        """Wait until the screen matches a pattern; return the seconds."""
        began, wanted = time.monotonic(), re.compile(pattern)
        while not wanted.search(self.text):
            self.read(0.05)
            if time.monotonic() - began > patience:
                raise TimeoutError(f"{pattern!r} never came:\n{self.text}")
        return time.monotonic() - began

    def quiet(self) -> None:
        while self.read(QUIET):
            pass

    def press(self, keys: str) -> None:
        os.write(self._file, keys.encode())

    @property
    def cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, name: str = "VmHWM") -> int:
        """Megabytes."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) // 1000

    def close(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


def measured(path: str, text: str | None) -> dict[str, float | int | str]:
    """All figures of one capture."""
    began = time.monotonic()
    terminal = Terminal([sys.executable, "-m", "wiredecode", "ui", path])
    found: dict[str, float | int | str] = {"capture": Path(path).name}
    try:
        terminal.until("stream offset")
        found["first_s"], found["first_cpu_s"] = time.monotonic() - began, terminal.cpu
        terminal.until(r"(?m)frame 1 of [\d,]+ *$")
        frames = int("".join(re.findall(r"frame 1 of ([\d,]+)", terminal.text)).replace(",", ""))
        found["whole_s"], found["whole_cpu_s"] = time.monotonic() - began, terminal.cpu
        found["frames"] = frames
        for name, key, number in (("end_s", "G", frames), ("back_s", "g", 1)):
            terminal.press(key)
            found[name] = terminal.until(rf"- Frame {number} ")
            terminal.quiet()
        found["per_key"] = _per_key(terminal)
        if text is not None:
            found |= _filtered(terminal, text)
        found["memory_mb"], found["anonymous_mb"] = terminal.memory(), terminal.memory("RssAnon")
    finally:
        terminal.close()
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in found.items()}


def _per_key(terminal: Terminal) -> int:
    """Bytes sent for one step down, tree and bytes of the new frame included."""
    before = terminal.sent
    for _ in range(KEYS):
        terminal.press("j")
        while terminal.read(0.4):
            pass
    return (terminal.sent - before) // KEYS


def _filtered(terminal: Terminal, text: str) -> dict[str, float]:
    terminal.press("/")
    terminal.quiet()
    terminal.press(text)
    terminal.quiet()
    began = terminal.cpu
    terminal.press("\r")
    first = terminal.until(r"[1-9][\d,]* fit")
    whole = first + terminal.until(r"[1-9][\d,]* fit │")
    return {"filter_first_s": first, "filter_s": whole, "filter_cpu_s": terminal.cpu - began}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.screen", description=__doc__)
    parser.add_argument("captures", nargs="+", metavar="CAPTURE")
    parser.add_argument("--filter", metavar="FILTER", help="how long this takes, too")
    options = parser.parse_args()
    for path in options.captures:
        print(json.dumps(measured(path, options.filter)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
