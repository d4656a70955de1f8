"""Damaged files that wiredecode keeps: treated as missing, or reported in one line; results never change."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wiredecode import settings
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.settings import SettingsError
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.increments import BucketState, OtherState
from wiredecode.ui.model import States
from wiredecode.ui.packets import Position

BASIC = Path(__file__).parents[2] / "captures/rabbitmq-stream/c43_basic.pcap"
Kept = tuple[Path, Callable[[], Any]]
"""A file, and a function that reads it."""


def config(folder: Path) -> Kept:
    settings.write("filters.slow", "latency > 5ms")
    return settings.path(), settings.load


def state(folder: Path) -> Kept:
    path, demand = folder / "state", TableDemand("frames")
    path.write_bytes(BucketState(demand, "s", 1).dumps())
    return path, lambda: BucketState.loads(demand, "s", 1, path.read_bytes()).packets


def full_screen(folder: Path) -> Kept:
    states, dissector = States(folder), Dissector(Demand())
    states._every = 0.0
    states.offer(dissector, 0, Position(0, 0))

    def frames() -> list[str]:
        back = states.before(1)
        again = back[0] if back else Dissector(Demand())
        again.resume(Demand())
        return [frame.type for frame in again.frames(open_capture([BASIC]))]

    return folder / "state-0", frames


KEPT: dict[str, tuple[Callable[[Path], Kept], tuple[type[Exception], ...]]] = {
    "config": (config, (SettingsError,)),
    "state": (state, (OtherState, OSError)),
    "full screen": (full_screen, ()),
}
"""A maker of each file, and the errors that are reported in one line; none: the file is made again."""


def noise(data: bytes) -> bytes:
    return random.Random(len(data)).randbytes(len(data))


def flipped(data: bytes) -> bytes:
    """Flip a bit in the middle."""
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


BYTES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "zeroed": lambda data: bytes(len(data)),
    "half zeroed": lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
    "random": noise,
    "a bit": flipped,
    "nested": lambda data: b"a = " + b"[" * 100_000,
    "of a newer version": lambda data: b'{"version": 99, "format": "later"}\n' + data,
    "of another program": lambda data: b'{"run": "../..", "number": 1, "moves": [], "drops": ["/etc"], "stream": "x"}',
}


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path) -> None:
    """It is in another place."""
    moved = path.with_name("elsewhere")
    path.rename(moved)
    path.symlink_to(moved)


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


PLACES = {each.__name__: each for each in (directory, link, dangling, loop)}


DAMAGED = [(name, how) for name in KEPT for how in (*BYTES, *PLACES) if (name, how) != ("config", "a bit")]
"""Each file damaged in each way. Any text may be in the file of settings, so a bit of it cannot be wrong."""


@pytest.mark.parametrize(("name", "how"), DAMAGED)
def test_a_damaged_kept_file(name: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    make, errors = KEPT[name]
    path, read = make(tmp_path)
    whole = read()
    if how in PLACES:
        PLACES[how](path)
    else:
        path.write_bytes(BYTES[how](path.read_bytes()))
    try:
        found = read()
    except errors as raised:
        assert "\n" not in str(raised)
    else:
        assert found in (whole, None, settings.Settings())
