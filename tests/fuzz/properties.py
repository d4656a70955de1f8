"""Properties of the results for any bytes. Each check raises AssertionError, or the exception of wiredecode."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import orjson

from wiredecode.fields import compiler
from wiredecode.fields.layer import Layer
from wiredecode.frames.escape import HARMFUL
from wiredecode.frames.frame import GROUP, Frame
from wiredecode.frames.record import dumps, record
from wiredecode.testing import ProtocolTests, readers_agree
from wiredecode.testing.dissection import Result, identity, meaning
from wiredecode.view.notebook import frame_text
from wiredecode.view.screen import ScreenLines
from wiredecode.view.summary import SummaryLines

RAW = re.compile(f"[\x00-\x08\x0b-\x1f{HARMFUL}]")
"""Characters that are never in what is shown."""
DECODED_SIZE = 4096
"""Frames up to this size are read by every reader."""


class Broken(AssertionError):
    """A property does not hold; the message begins with its name."""


def holds(condition: object, what: str) -> None:
    if not condition:
        raise Broken(what)


def failures(result: Result) -> None:
    """Assert that no decoder crashed and that every byte is accounted for."""
    holds(not result.totals.failures, f"internal: {list(result.totals.failures)}")
    totals = result.totals
    holds(totals.closes, f"accounts: {totals}")


def findings(frame: Frame) -> None:
    """Assert that findings lie within the frame."""
    for finding in frame.findings:
        holds(finding.group != GROUP, f"internal: {finding.message}")
        if finding.range is not None:
            start, stop = finding.range
            inside = 0 <= start <= stop <= frame.length
            holds(inside, f"range: {finding.code} {start}:{stop} of {frame.length} in {frame.type} {frame.data.hex()}")
    holds(0 <= frame.missing <= frame.length, f"missing: {frame.missing} of {frame.length}")
    holds(len(frame.data) <= frame.length, f"length: {len(frame.data)} of {frame.length}")


def readers(kit: type[ProtocolTests], layer: type[Layer], raw: bytes) -> None:
    """Assert that Scapy's reader and the compiled ones agree, and that ranges lie within the bytes."""
    if len(raw) > DECODED_SIZE:
        return
    readers_agree(layer, raw, leaves=kit.leaves, steps=layer.__name__ in kit.stepped, damaged=True)
    for start, stop in compiler.careful(layer, raw, 0, len(raw)).ranges.values():
        holds(0 <= start <= stop <= len(raw), f"range: {layer.__name__} {start}:{stop} of {raw.hex()}")


def decoded(kit: type[ProtocolTests], frame: Frame) -> None:
    """Assert that all readers agree about a frame and its inner frames."""
    findings(frame)
    if frame.layer is not None and not frame.missing:
        readers(kit, frame.layer, frame.data)
    for inner in frame.inner:
        readers(kit, inner.layer, inner.data)


def harmless(text: str, where: str) -> None:
    """Assert that no character would control a terminal."""
    found = RAW.search(text)
    holds(found is None, f"raw {found and found[0]!r} in {where}: {text[:200]!r}")


def shown(frame: Frame) -> None:
    """Assert that a frame is complete and harmless as a line, a tree and JSON."""
    lines = SummaryLines(), ScreenLines(width=lambda: 120)
    for view in lines:
        harmless(view.line(frame).rstrip("\n"), "a line")
    harmless(frame_text(frame, 100, full=True, hexdump=True), "a tree")
    line = dumps(record(frame, ranges=True))
    harmless(line.decode().rstrip("\n"), "JSON")
    read = orjson.loads(line)
    holds(read["frame"] == frame.id, "JSON: another frame")
    ranges(read, frame)
    repeated(line)


def ranges(read: dict[str, Any], frame: Frame) -> None:
    """Assert that the ranges of ``--ranges`` lie within the frame."""
    for path, (start, stop) in read["ranges"].items():
        holds(0 <= start <= stop <= frame.length, f"range: {path} {start}:{stop} of {frame.length}")


def repeated(line: bytes) -> None:
    """Assert that no JSON object repeats a key."""

    def pairs(found: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in found]
        holds(len(set(names)) == len(names), f"JSON: a key twice in {names}")

    json.loads(line, object_pairs_hook=pairs)


def same_in_batches(dissect: Callable[[int | None], Result], size: int) -> Result:
    """Assert that batches of ``size`` packets give the same; return the result."""
    whole, other = dissect(None), dissect(size)
    for one, two in zip(map(identity, whole.frames), map(identity, other.frames), strict=False):
        holds(one == two, f"batches, {two[7] or two[8]}: of {size} {two}, not {one}")
    holds(len(whole.frames) == len(other.frames), f"batches: other frames in those of {size}")
    holds(whole.totals == other.totals, f"batches: other totals in those of {size}")
    return whole


def same_without_records(result: Result, bare: Result) -> None:
    """Assert that frames read without records are equal in all other respects."""

    def said(frame: Frame) -> dict[str, Any]:
        return {name: value for name, value in meaning(frame).items() if name != "layers"}

    failures(bare)
    for one, two in zip(map(said, bare.frames), map(said, result.frames), strict=False):
        holds(one == two, f"records, {two['type'] or two['status']}: {one}, not {two}")
    holds(len(bare.frames) == len(result.frames), "records: other frames")
