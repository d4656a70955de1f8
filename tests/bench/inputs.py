"""The measured captures, made in another process so that this one stays small, and kept in a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.cases import CASES
from tests.bench.mixes import MIXES
from tests.bench.tools import PYTHON, ROOT, WIREDECODE

REAL = "real-"
"""Before the name of a mix of real captures."""
NAMES = [name for name, case in CASES.items() if not case.loss and case.protocols] + [REAL + name for name in MIXES]


@dataclass(frozen=True, slots=True)
class Input:
    """A capture and its counts."""

    name: str
    path: Path
    size: int
    packets: int
    frames: int
    messages: int
    """0 where the traffic is real, and not counted by who made it."""
    undecoded: int
    """Payload bytes in no frame."""
    doubtful: int
    """Frames that are not plainly ``ok``."""

    @property
    def megabytes(self) -> float:
        return self.size / 1e6


def about(name: str) -> str:
    return MIXES[name.removeprefix(REAL)].about if name.startswith(REAL) else CASES[name].about


def made(name: str, megabytes: float, folder: Path) -> dict[str, Any]:
    """Make the capture unless the folder holds it; its path, and its counts by who made it."""
    print(f"{name}: making {megabytes:g} MB", file=sys.stderr, flush=True)
    size = str(megabytes)
    if name.startswith(REAL):
        path = folder / f"{name}-{megabytes:g}.pcap"
        command = ["tests.bench.multiply", "--mix", name.removeprefix(REAL), "--size", size, "-o", str(path)]
    else:
        command = ["tests.bench.cases", name, "--size", size, "--folder", str(folder)]
    done = subprocess.run([PYTHON, "-m", *command], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    counts: dict[str, Any] = json.loads(done.stdout)
    return counts


def generate(name: str, megabytes: float, folder: Path) -> Input:
    """Make the capture unless the folder holds it, and count its frames; counts differ only if something broke."""
    account = made(name, megabytes, folder)
    path = Path(account["path"])
    frames, undecoded, doubtful = decoded(path)
    if account.get("frames", frames) != frames and not CASES[name].loss:
        print(f"{name}: {account['frames']} frames were made, {frames} were found", file=sys.stderr, flush=True)
        doubtful += abs(frames - account["frames"])
    counts = (account["bytes"], account["packets"], frames, account.get("messages", 0))
    return Input(name, path, *counts, undecoded, doubtful)


def decoded(path: Path) -> tuple[int, int, int]:
    """Frames, undecoded bytes and doubtful frames, from the totals of a run that is not timed; all 0 if it fails."""
    totals = path.with_suffix(".totals.json")
    command = [*WIREDECODE, "pcap", str(path), "--summary", "--quiet", "--summary-json", str(totals)]
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    if done.returncode:
        return 0, 0, 0
    found = json.loads(totals.read_bytes())
    totals.unlink()
    frames = doubtful = 0
    for protocol in found["frames"].values():
        for kind in protocol.values():
            frames += sum(kind.values())
            doubtful += sum(count for status, count in kind.items() if status != "ok")
    payload = found["payload"]
    return frames, payload["undecoded"] + payload["other_protocols"], doubtful
