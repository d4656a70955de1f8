"""``python -m tests.fuzz.many PROTOCOL... --executions N``: captures of many damaged conversations, without coverage.

Each execution is a conversation, of which one to three frames are damaged, moved, repeated, left out or built again
with other values. ``TOGETHER`` of them are the connections of one capture, which makes an execution some ten times
cheaper than one of ``tests.fuzz``. If a capture fails, each conversation is run separately. Exit code 1: findings.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import properties
from tests.fuzz.engine import SLOW_SECONDS, Watch, too_slow
from tests.fuzz.mutate import frames_of, other_field
from tests.fuzz.shapes import TalkInput
from tests.fuzz.targets import KITS, TARGETS, talks
from wiredecode.fields.layer import Layer
from wiredecode.testing import ProtocolTests
from wiredecode.testing.packets import batches
from wiredecode.testing.samples import MUTATIONS
from wiredecode.testing.segments import Part

TOGETHER = 64
"""Conversations in a capture."""
COMPARED = 8
"""One capture of this many is also decoded in other batches, and the frames of one conversation by every reader."""
MAX_FRAMES, MAX_BYTES = 12, 3000
"""Of a conversation."""
DAMAGED, MADE, MOVED = 0.6, 0.75, 0.92
"""Shares of changes, added up: damaged bytes, a made frame, frames elsewhere; the rest builds a frame again."""


@dataclass(frozen=True, slots=True)
class Said:
    """A frame of a seed."""

    side: int
    data: bytes
    layer: type[Layer] | None


class Mutations:
    """Conversations of a protocol, each with changes."""

    def __init__(self, kit: type[ProtocolTests], chance: random.Random) -> None:
        self.kit, self.chance = kit, chance
        self.seeds = [found for data in talks(kit) if (found := self._frames(TalkInput.read(data)))]
        self.made = [Said(n % 2, raw, layer) for n, layer in enumerate(kit.layers()) for raw in kit.made(layer)]

    def _frames(self, talk: TalkInput) -> list[Said]:
        return [Said(frame.side, frame.data, frame.layer) for frame in frames_of(self.kit, talk)][:MAX_FRAMES]

    def next(self) -> TalkInput:
        """A conversation; half of them travel in one segment per frame."""
        chance = self.chance
        frames = list(chance.choice(self.seeds))
        if chance.random() < 0.3:
            frames = frames[chance.randrange(len(frames)) :]
        for _ in range(chance.choice((1, 1, 2, 3))):
            self._change(frames, chance.randrange(len(frames) + 1))
        how = 0 if chance.random() < 0.5 else chance.randrange(64)
        parts, size = [], 0
        for said in frames:
            size += len(said.data)
            if said.data and size <= MAX_BYTES:
                parts.append(Part(1, said.side, said.data))
        return TalkInput(how, chance.randrange(256), parts)

    def _change(self, frames: list[Said], at: int) -> None:
        chance, how = self.chance, self.chance.random()
        if at == len(frames) or DAMAGED <= how < MADE:
            frames.insert(at, chance.choice(self.made))
        elif how < DAMAGED:
            said = frames[at]
            data = chance.choice(MUTATIONS)(said.data, chance) if len(said.data) > 1 else b""
            frames[at] = Said(said.side, data, said.layer)
        elif how < MOVED:
            frames[at : at + chance.randrange(2)] = chance.choices(frames, k=chance.randrange(3))
        elif (said := frames[at]).layer is not None:
            frames[at] = Said(said.side, other_field(self.kit, said.layer, said.data, chance), said.layer)


def packets_of(given: Sequence[TalkInput], port: int) -> list[bytes]:
    """One capture, with a connection for each."""
    for number, talk in enumerate(given, 1):
        for part in talk.parts:
            part.connection = number
    return [packet for talk in given for packet in talk.packets(port)]


def run_together(kit: type[ProtocolTests], given: Sequence[TalkInput], compared: int | None) -> None:
    """No exception, every byte accounted for, what was noticed lies in its frame; ``compared``: packets of a batch."""
    packets = packets_of(given, kit.port())
    result = kit.dissect(batches(packets))
    properties.failures(result)
    for frame in result.frames:
        properties.findings(frame)
    if compared is not None:
        properties.same_in_batches(
            lambda size: result if size is None else kit.dissect(batches(packets, size)), compared
        )
        for frame in result.frames[:: len(given)]:
            properties.decoded(kit, frame)


def search(name: str, executions: int, seed: int, watch: Watch) -> None:
    """Run ``executions`` conversations of a protocol."""
    kit, chance = KITS[name], random.Random(f"{seed} {name}")
    mutations = Mutations(kit, chance)
    for turn in range(-(-executions // TOGETHER)):
        given = [mutations.next() for _ in range(TOGETHER)]
        watch.executions += len(given)
        signal.setitimer(signal.ITIMER_PROF, SLOW_SECONDS)
        try:
            run_together(kit, given, None if turn % COMPARED else 1 + chance.randrange(100))
        except Exception as error:
            run_separately(watch, given, error)
        signal.setitimer(signal.ITIMER_PROF, 0)


def run_separately(watch: Watch, given: Sequence[TalkInput], error: Exception) -> None:
    """Run each conversation separately and save those that fail; if none fails, save all in one file."""
    before = len(watch.found)
    for talk in given:
        watch.run(talk.write())
    if len(watch.found) == before:
        watch.keep(b"".join(len(data).to_bytes(4) + data for data in (talk.write() for talk in given)), error)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.many", description=__doc__)
    parser.add_argument("protocols", nargs="*", metavar="PROTOCOL", help="default: all")
    parser.add_argument("--executions", type=int, default=100_000, help="of each protocol")
    parser.add_argument("--work", type=Path, default=Path(".cache/fuzz"), help="where findings go")
    parser.add_argument("--seed", type=int, default=time.time_ns(), help="of the mutations; default: the time")
    given = parser.parse_args()
    if unknown := set(given.protocols) - set(KITS):
        parser.error(f"no protocol is called {', '.join(sorted(unknown))}; there are {', '.join(KITS)}")
    signal.signal(signal.SIGPROF, too_slow)
    code = 0
    for name in given.protocols or KITS:
        watch, started = Watch(TARGETS[name], given.work / "found"), time.process_time()
        search(name, given.executions, given.seed, watch)
        seconds = time.process_time() - started
        rate = f"{watch.executions:>10,} executions in {seconds:>6,.0f} s, {watch.executions / seconds:>6,.0f}/s"
        print(f"{name:16} {rate}, found {len(watch.found)}", *watch.found, sep="\n    ", flush=True)
        code = code or int(bool(watch.found))
    return code


if __name__ == "__main__":
    sys.exit(main())
