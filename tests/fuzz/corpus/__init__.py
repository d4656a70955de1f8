"""Inputs that cover much of the code: one file per target, one input per line, as base64.

``python -m tests.fuzz.corpus WORK TARGET...`` makes them from the pool of ``python -m tests.fuzz --work WORK``.
"""

from __future__ import annotations

import base64
from pathlib import Path

FOLDER = Path(__file__).parent


def inputs(name: str) -> list[bytes]:
    """The kept inputs of a target."""
    return [base64.b64decode(line) for line in (FOLDER / f"{name}.txt").read_text().split()]


def keep(name: str, found: list[bytes]) -> None:
    """Write them, the shortest first."""
    lines = sorted({base64.b64encode(data).decode() for data in found}, key=lambda line: (len(line), line))
    (FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
