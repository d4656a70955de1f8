"""Decodes a capture in several ways that must give the same: in batches, pickled in between, by single connections.

``python -m tests.sweep --kind ...`` does so with any captures. Connections that share state are decoded together.
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tests.damage import read
from wiredecode.capture import CaptureError, PacketBatch
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.net.buckets import pairs
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import Limits
from wiredecode.tables.messages import CONFIRM_COLUMNS
from wiredecode.tables.reader import TableReader

DEMAND = Demand(style=Style(), stable_ids=True)
NUMBERED = Demand(style=Style())
SIZES = (1, 3, 64)

Frames = dict[int, list[tuple[Any, ...]]]
"""By connection its frames in order."""


def said(frame: Frame) -> tuple[Any, ...]:
    """Everything of a frame that depends only on its connection."""
    findings = [finding.record() for finding in frame.findings]
    where = frame.id, frame.side, frame.offset, frame.length, frame.missing, frame.inner_index, frame.packets
    links = frame.request, frame.response, frame.latency_ns, frame.outcome, frame.expects_response
    kind = frame.protocol, frame.dialect, frame.type, frame.code, frame.status, frame.is_partial, frame.sender
    return *where, frame.time_ns, frame.first_ns, *kind, *links, repr(frame.layers), findings


def frames_of(batches: Iterable[PacketBatch], demand: Demand = DEMAND, pickled: int = 0) -> Frames:
    """The frames by connection; every ``pickled`` batches the dissector is pickled."""
    dissector, found = Dissector(demand), defaultdict(list)

    def take(frames: Iterator[Frame]) -> None:
        for frame in frames:
            found[frame.connection.id].append(said(frame))

    for number, batch in enumerate(batches, 1):
        take(dissector.feed(batch))
        if pickled and number % pickled == 0:
            dissector = pickle.loads(pickle.dumps(dissector))
            dissector.resume(demand)
    take(dissector.finish())
    return dict(found)


Outcomes = dict[tuple[Any, ...], tuple[Any, ...]]
"""Outcomes of requests and published messages, by connection and place."""


def outcomes_of(packets: PacketBatch, last_ns: int) -> Outcomes:
    """Outcomes of requests, in frames; ``last_ns``: time of the last packet of the whole capture."""
    dissector = Dissector(Demand())
    dissector.totals.last_ns = last_ns
    frames = [*dissector.frames([packets])]
    keys = {each.number: (each.connection.endpoints, each.side, each.offset, each.inner_index) for each in frames}
    return {
        keys[frame.number]: (keys.get(frame.response or 0), frame.outcome, frame.latency_ns, len(frame.answers))
        for frame in frames
    }


def messages_of(packets: PacketBatch, last_ns: int, *, blocks: bool) -> Outcomes:
    """Outcomes of messages, in tables."""
    columns = ["connection", "time", "src", "dst", "type", "index", "topic", "body", *CONFIRM_COLUMNS]
    reader = TableReader([packets], "messages", columns=columns, blocks=blocks, stable_ids=False)
    reader.totals.last_ns = last_ns
    count: Counter[tuple[Any, ...]] = Counter()
    found: Outcomes = {}
    for batch in reader:
        for row in batch.to_pylist():
            key = tuple(row[name] for name in columns[1:8])
            count[key] += 1
            found[*key, count[key]] = tuple(row[name] for name in CONFIRM_COLUMNS if name != "confirm_frame")
    return found


def outcome_differences(whole: PacketBatch) -> Iterator[str]:
    """Outcomes that differ between connections decoded separately, in buckets, together, in bulk and one by one."""
    last_ns = int(whole.time_ns.max())
    expected, rows = outcomes_of(whole, last_ns), messages_of(whole, last_ns, blocks=False)
    found: Outcomes = {}
    known = sessions(whole)
    for packets in connections(whole, known):
        found |= outcomes_of(packets, last_ns)
    yield from outcome_difference("alone", expected, found)
    yield from outcome_difference("in bulk", rows, messages_of(whole, last_ns, blocks=True))
    for count in (2, 7):
        frames, messages = Outcomes(), Outcomes()
        for packets in connections(whole, known, count):
            frames |= outcomes_of(packets, last_ns)
            messages |= messages_of(packets, last_ns, blocks=True)
        yield from outcome_difference(f"{count} buckets", expected, frames)
        yield from outcome_difference(f"{count} buckets, messages", rows, messages)


def outcome_difference(way: str, expected: Outcomes, found: Outcomes) -> Iterator[str]:
    """The first difference, for people."""
    for key in [*expected, *(found.keys() - expected.keys())]:
        if expected.get(key) != found.get(key):
            yield f"{way}: {key!s:.300}: {expected.get(key)} | {found.get(key)}"
            return


def in_batches(whole: PacketBatch, size: int) -> Iterator[PacketBatch]:
    """The packets in batches of ``size``."""
    for at in range(0, len(whole), size):
        yield whole.part(at, at + size)


def sessions(whole: PacketBatch) -> set[int]:
    """Ports of connections that share state."""
    dissector = Dissector(NUMBERED)
    with suppress(CaptureError):
        for _ in dissector.frames([whole]):
            pass
    return {port for _, port in dissector.accounts.sessions}


def connections(whole: PacketBatch, known: set[int], buckets: int = 0) -> Iterator[PacketBatch]:
    """The packets of each connection, or of connections that share state; packets without TCP go to all.

    ``known``: as :func:`sessions` gives it. ``buckets``: connections are dealt out to this many, in place of one for
    each.
    """
    segments = HeaderReader(Limits(), Counter(), Counter()).read(whole)
    owner = pairs(segments).astype(object)
    ports = segments.ports
    for port in known:
        owner[((ports >> 16 & 0xFFFF) == port) | ((ports & 0xFFFF) == port)] = -1
    others = np.setdiff1d(np.arange(len(whole)), segments.row)
    if buckets:
        owner = owner % buckets
    for key in sorted(set(owner.tolist())):
        yield whole.select(np.sort(np.concatenate([segments.row[owner == key], others])))


def single_connections(whole: PacketBatch, known: set[int], size: int) -> Frames:
    """Every connection decoded separately."""
    found: Frames = {}
    for packets in connections(whole, known):
        found |= frames_of(in_batches(packets, size))
    return found


def difference(expected: Frames, found: Frames) -> str | None:
    """The first difference, for people."""
    for connection in expected.keys() | found.keys():
        first, second = expected.get(connection, []), found.get(connection, [])
        for place, (one, other) in enumerate(zip(first, second, strict=False)):
            if one != other:
                column = next(at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
                return (
                    f"{place} ({one[13]}, {other[13]}), column {column}: {one[column]!s:.500} | {other[column]!s:.500}"
                )
        if len(first) != len(second):
            return f"{len(first)} and {len(second)} frames"
    return None


def differences(
    whole: PacketBatch, sizes: Iterable[int] = SIZES, *, strangers: bool = True
) -> Iterator[tuple[str, str]]:
    """Differences between the ways of reading; ``strangers``: also with and without other connections."""
    count = max(len(whole), 1)
    expected, numbered = frames_of([whole]), frames_of([whole], NUMBERED)
    ways = [(f"batches of {size}", frames_of(in_batches(whole, size), NUMBERED), numbered) for size in sizes]
    ways.append(("pickled", frames_of(in_batches(whole, 16), NUMBERED, 2), numbered))
    if strangers:
        known = sessions(whole)
        ways.append(("alone", single_connections(whole, known, count), expected))
        ways.append(("alone in batches of 3", single_connections(whole, known, 3), expected))
    for name, found, wanted in ways:
        if (outcome_difference := difference(wanted, found)) is not None:
            yield name, outcome_difference


def packets_of(path: Path) -> PacketBatch:
    """All packets of a capture."""
    return read(path)
