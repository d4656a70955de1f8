"""Damages captures in many ways, reads them in many ways, and counts invented, wrong and missed frames.

    python -m tests.sweep FOLDER_OR_CAPTURE... [--turns N] [--packets N] [--kind NAME...]

*Damage*: a variant of a capture is compared with the whole capture, frame by frame (``tests.damage``). *Readings*: the
same packets in batches of other sizes, pickled, one connection at a time, in buckets, as tables (``tests.readings``).
*Truth*: captures with a truth file (``tests.truth``), where the folder names their protocol.

The table has a row per kind. Frames: those of the whole capture of which every packet was kept. Invented: frames that
were never sent. Wrong: values, types, links or copies that differ from the whole capture, or differences between two
readings. Missed: frames that were not found.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests import damage, readings
from tests.truth import check_of, compare, pairs
from wiredecode.capture import PacketBatch
from wiredecode.frames.frame import OK
from wiredecode.net.buckets import Bucket, Buckets
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import Limits
from wiredecode.protocols.registry import session_ports
from wiredecode.tables.reader import MESSAGES, TableReader

Kept = list[int]
"""The places of the packets of a variant, in its order."""


@dataclass
class Count:
    """One row of the table."""

    variants: int = 0
    frames: int = 0
    missed: int = 0
    invented: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def row(self, kind: str) -> str:
        counts = self.variants, self.frames, len(self.invented), len(self.wrong), self.missed
        return f"{kind:<20}" + "".join(f"{count:>12,}" for count in counts)


def started(packets: PacketBatch, chance: random.Random) -> Kept:
    return [*range(chance.randrange(1, len(packets)), len(packets))]


def lost(share: float) -> Callable[[PacketBatch, random.Random], Kept]:
    """At least one packet is lost."""

    def kept(packets: PacketBatch, chance: random.Random) -> Kept:
        gone = chance.randrange(len(packets))
        return [at for at in range(len(packets)) if at != gone and chance.random() >= share]

    return kept


def duplicated(packets: PacketBatch, chance: random.Random) -> Kept:
    return [at for at in range(len(packets)) for _ in range(1 + (chance.random() < 0.05))]


def one_side(packets: PacketBatch, chance: random.Random) -> Kept:
    """The packets of one direction of every connection: from the lower or from the higher port."""
    segments = HeaderReader(Limits(), Counter(), Counter()).read(packets)
    up = (segments.ports >> 16 & 0xFFFF) < (segments.ports & 0xFFFF)
    kept: Kept = segments.row[up if chance.random() < 0.5 else ~up].tolist()
    return kept


DAMAGE: dict[str, Callable[[PacketBatch, random.Random], Kept]] = {
    "start anywhere": started,
    "0.1 % lost": lost(0.001),
    "1 % lost": lost(0.01),
    "5 % lost": lost(0.05),
    "swapped": damage.moved,
    "duplicated": duplicated,
    "one side": one_side,
}
TRUNCATED = {"snaplen 96": 96, "snaplen 200": 200}
BEGIN_LATE = ("start anywhere", "one side")
"""Damage after which only places and types of frames are compared."""


def damaged(kind: str, path: Path, packets: PacketBatch, whole: damage.Dissected, turns: int, count: Count) -> None:
    """Compare variants of a capture with the whole one."""
    for turn in range(1 if kind in TRUNCATED else turns):
        if kind in TRUNCATED:
            variant = damage.cut_packets(packets, TRUNCATED[kind])
            kept = {*(np.flatnonzero(packets.captured <= TRUNCATED[kind]) + 1).tolist()}
        else:
            places = DAMAGE[kind](packets, random.Random(f"{turn} {kind} {path.name}"))
            variant, kept = damage.in_time(damage.chosen(packets, places)), {at + 1 for at in places}
        if not kept:
            continue
        found = damage.dissect(variant)
        values = kind not in BEGIN_LATE
        wrong = damage.compare(whole, found, learned=kind in TRUNCATED, values=values).wrong
        if values:
            wrong += [*damage.wrong_links(whole, found), *damage.wrong_copies(whole, found)]
        for line in wrong:
            (count.invented if damage.INVENTED in line else count.wrong).append(f"{path.name} {kind} {turn}: {line}")
        count.variants += 1
        for place, frame in whole.frames.items():
            if frame.status == OK and not frame.inner_index and kept.issuperset(frame.packets):
                count.frames += 1
                count.missed += place not in found.frames or found.frames[place].status != OK


def batches(packets: PacketBatch) -> Iterator[str]:
    return (f"{way}: {text}" for way, text in readings.differences(packets, strangers=False))


def one_connection(packets: PacketBatch) -> Iterator[str]:
    return (f"{way}: {text}" for way, text in readings.differences(packets, ()))


def messages(packets: PacketBatch, buckets: int = 1, *, blocks: bool = False) -> list[str]:
    """The rows of the table of messages, in a fixed order."""
    dealt = Buckets(buckets, session_ports({}))
    rows: list[str] = []
    for number in range(buckets):
        reader = TableReader([packets], MESSAGES, blocks=blocks, stable_ids=True, bucket=Bucket(dealt, number))
        for batch in reader:
            rows += map(str, batch.to_pylist())
    return sorted(rows)


def buckets(packets: PacketBatch) -> Iterator[str]:
    expected = messages(packets)
    for count in (2, 7):
        yield from unlike(f"{count} buckets", expected, messages(packets, count))


def tables(packets: PacketBatch) -> Iterator[str]:
    yield from unlike("in bulk", messages(packets), messages(packets, blocks=True))


def unlike(way: str, expected: list[str], found: list[str]) -> Iterator[str]:
    """The first row that only one of both has."""
    missing, more = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    if missing or more:
        yield f"{way}: {missing.total()} rows missing, {more.total()} more: {[*missing][:1]} {[*more][:1]}"


READINGS: dict[str, Callable[[PacketBatch], Iterator[str]]] = {
    "batches, pickled": batches,
    "one connection": one_connection,
    "buckets": buckets,
    "tables in bulk": tables,
}
TRUTH = "truth"


def against_truth(folder: Path, count: Count) -> None:
    """The captures of a folder that have a truth file and a check."""
    with suppress(LookupError):
        check = check_of(folder.resolve().name)
        for path, truth in pairs(folder):
            count.variants += 1
            count.wrong += [f"{path.name} {TRUTH}: {line}" for line in compare(path, truth, check)]


def sweep(path: Path, options: argparse.Namespace, counts: dict[str, Count]) -> None:
    """All chosen kinds, on one capture."""
    packets = readings.packets_of(path)
    packets = packets.part(0, min(len(packets), options.packets))
    if len(packets) < 2:
        return
    packets = damage.in_time(packets)  # as the variants are
    whole = damage.dissect(packets)
    for kind, count in counts.items():
        if kind in DAMAGE or kind in TRUNCATED:
            damaged(kind, path, packets, whole, options.turns, count)
        elif kind in READINGS:
            count.variants += 1
            count.frames += len(whole.frames)
            count.wrong += [f"{path.name} {kind}: {line}" for line in READINGS[kind](packets)]


def main(arguments: list[str]) -> int:
    kinds = [*DAMAGE, *TRUNCATED, *READINGS, TRUTH]
    parser = argparse.ArgumentParser(prog="python -m tests.sweep", description=__doc__.partition("\n")[0])
    parser.add_argument("places", nargs="+", type=Path, metavar="FOLDER_OR_CAPTURE")
    parser.add_argument("--turns", type=int, default=3, help="variants of each kind and capture (default 3)")
    parser.add_argument("--packets", type=int, default=5000, help="packets of each capture (default 5000)")
    parser.add_argument(
        "--kind", nargs="+", default=kinds, choices=kinds, metavar="KIND", help=", ".join(kinds).replace("%", "%%")
    )
    options = parser.parse_args(arguments)
    counts = {kind: Count() for kind in options.kind}
    for path in damage.captures(options.places):
        begun = time.monotonic()
        sweep(path, options, counts)
        print(f"{path.name}: {time.monotonic() - begun:.1f} s", file=sys.stderr)
    if TRUTH in counts:
        for place in options.places:
            for folder in sorted({place, *(each for each in place.rglob("*") if each.is_dir())}):
                against_truth(folder, counts[TRUTH])
    for count in counts.values():
        print("\n".join([*count.invented, *count.wrong]), end="\n" if count.invented or count.wrong else "")
    print(f"{'kind':<20}{'variants':>12}{'frames':>12}{'invented':>12}{'wrong':>12}{'missed':>12}")
    for kind, count in counts.items():
        print(count.row(kind))
    return int(any(count.invented or count.wrong for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
