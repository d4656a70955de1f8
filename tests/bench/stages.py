"""Time by stage: the stages of an export run cumulatively in one process; each is the time that it adds.

    python -m tests.bench.stages FILE [--rounds 3]

prints one JSON object: seconds by stage. No profiler, which would change what it measures.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.frames.message import Messages
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import Limits
from wiredecode.net.network import Network

if TYPE_CHECKING:
    from wiredecode.frames.block import FrameBlock
    from wiredecode.frames.frame import Frame
    from wiredecode.protocols.base import Conversation

STAGES = ("index and read", "headers", "reassembly", "framing", "decode", "encode and write")


class FramesOnly(Dissector):
    """Identifies, splits and orders frames, but decodes none."""

    def _decode_block(self, block: FrameBlock, conversation: Conversation) -> bool:
        return True

    def _decode(self, frame: Frame, number: int, conversation: Conversation, readable: bool) -> None:
        frame.number = self._number = number


def read(path: str) -> None:
    deque(open_capture([path]), maxlen=0)


def headers(path: str) -> None:
    limits = Limits()
    reader = HeaderReader(limits, Counter(), Counter())
    for batch in open_capture([path]):
        if len(batch):
            reader.read(batch)


def reassemble(path: str) -> None:
    network = Network(Limits())
    for batch in open_capture([path]):
        network.feed(batch)
        network.pop_forgotten()
    network.finish()


def cut(path: str) -> None:
    deque(FramesOnly(Demand(link_responses=False, blocks=True)).frames_and_blocks(open_capture([path])), maxlen=0)


def decode(path: str) -> None:
    messages = Messages()
    dissector = Dissector(Demand(link_responses=False, blocks=True, messages=messages))
    for _ in dissector.frames_and_blocks(open_capture([path])):
        messages.parts.clear()
        messages.count = 0


def export(path: str) -> None:
    from wiredecode.cli import main

    with tempfile.TemporaryDirectory(prefix="wiredecode-bench-") as folder:
        out = str(Path(folder) / "messages.parquet")
        if main(["export", path, "--level", "messages", "-q", "-o", out]):
            raise RuntimeError("the export failed")


def seconds(stage: Callable[[str], None], path: str, rounds: int) -> float:
    """The fastest of some runs, since disturbances only add time."""
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        begin = time.perf_counter()
        stage(path)
        best = min(best, time.perf_counter() - begin)
    return best


def profile(path: str, rounds: int, *, exporting: bool) -> dict[str, float]:
    """Seconds that each stage adds."""
    steps = [read, headers, reassemble, cut, decode, *([export] if exporting else [])]
    # Before any timing: imports, decoders that are compiled at first use. The thresholds are those of the commands.
    gc.set_threshold(200_000, 20, 100)
    decode(path)
    spent: dict[str, float] = {}
    before = 0.0
    for name, step in zip(STAGES, steps, strict=False):
        total = seconds(step, path, rounds)
        spent[name], before = total - before, total
    return spent | {"all": before}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stages", description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-export", action="store_true", help="where this version cannot export")
    options = parser.parse_args()
    result: dict[str, Any] = profile(options.file, options.rounds, exporting=not options.no_export)
    print(json.dumps({name: round(value, 4) for name, value in result.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
