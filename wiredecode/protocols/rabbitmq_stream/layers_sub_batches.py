"""Sub-batches: several messages as one entry of Publish and Deliver, compressed together."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from wiredecode.frames.frame import Frame
from wiredecode.protocols.rabbitmq_stream.names import CODECS
from wiredecode.protocols.shared import amqp
from wiredecode.protocols.shared.compression import NOT_DECODED, OVER_BUDGET, Budget, Status

HEADER = struct.Struct(">BHII")
"""Codec, messages, their size, and the compressed size."""


class Opened(NamedTuple):
    """A sub-batch with its messages, and what is wrong with it, if anything."""

    announced: int
    """Messages that it says it holds."""
    codec: str | None
    bodies: list[bytes]
    problem: str | None


class _Reading(threading.local):
    """What is read in this thread: the declared fields do not know of their frame."""

    budget = Budget()
    frame: Frame | None = None
    opened: Mapping[int, Opened] = {}


_reading = _Reading()


def new_budget() -> Budget:
    """Sub-batches that are read from now on are of another frame."""
    _reading.budget, _reading.frame, _reading.opened = Budget(), None, {}
    return _reading.budget


def opened_of(frame: Frame) -> Mapping[int, Opened]:
    """The sub-batches of a frame that were opened already, by where they start in it."""
    return _reading.opened if _reading.frame is frame else {}


def unpack(code: int, count: int, size: int, data: bytes, budget: Budget) -> Opened:
    """The messages of a sub-batch: decompressed within bounds, then ``count`` times uint32 length + bytes."""
    codec = CODECS.get(code)
    if codec is None:
        return Opened(count, None, [], f"codec {code:#04x} is not assigned: not decoded")
    inflated = budget.decompress(codec, data, size)
    bodies, problem = split_records(inflated.data, count)
    budget.count(len(bodies))
    if inflated.status is not Status.OK:
        problem = f"{codec}: {inflated.message}"
    elif problem is None and len(inflated.data) != size:
        problem = f"{len(inflated.data)} bytes uncompressed, {size} announced"
    return Opened(count, codec, bodies, problem)


def read(data: bytes, position: int, budget: Budget) -> Opened:
    """The sub-batch at a place; :class:`struct.error` where it was cut."""
    code, count, size, compressed = HEADER.unpack_from(data, position)
    start = position + HEADER.size
    if start + compressed > len(data):
        raise struct.error
    return unpack(code, count, size, data[start : start + compressed], budget)


def split_records(data: bytes, count: int) -> tuple[list[bytes], str | None]:
    """Cut the uncompressed sub-batch into its messages; the second value says what is wrong, if anything."""
    messages: list[bytes] = []
    position = 0
    while len(messages) < count:
        start = position + 4
        if start > len(data):
            return messages, f"{count} records announced, {len(messages)} found"
        position = start + int.from_bytes(data[position:start], "big")
        if position > len(data):
            return messages, f"record {len(messages)} is cut"
        messages.append(data[start:position])
    if position < len(data):
        return messages, f"{len(data) - position} bytes after the last of {count} records"
    return messages, None


# In records.


def message(data: bytes, show: Callable[[bytes], str], entry: dict[str, Any]) -> dict[str, Any] | None:
    """The AMQP 1.0 sections of a message, where it is one: applications may send any bytes."""
    sections = amqp.record(data, show)
    return None if sections is None else {"amqp": sections}


def records(data: bytes, show: Callable[[bytes], str], sub_batch: dict[str, Any]) -> dict[str, Any]:
    """What a sub-batch holds, as further keys of its record."""
    sizes = sub_batch["record_count"], sub_batch["uncompressed_length"]
    opened = unpack(sub_batch["codec_code"], *sizes, data, _reading.budget)
    if opened.codec is None:
        return {"problem": opened.problem}
    shown = []
    for body in opened.bodies:
        entry: dict[str, Any] = {"data": show(body)}
        entry.update(message(body, show, entry) or {})
        shown.append(entry)
    return {"messages": shown} | ({} if opened.problem is None else {"problem": opened.problem})


# As findings: the same whether there is a record or not.


class Seen(NamedTuple):
    """What a sub-batch says, and what is wrong with it."""

    entry: int
    """Which of the entries of the frame it is."""
    announced: int
    problem: str | None


def look_at(frame: Frame, name: str, values: Any, record: Mapping[str, Any] | None) -> list[Seen]:
    """The sub-batches among the entries ``name`` of values, or of their record; those that were captured whole."""
    if record is not None:
        return _recorded(record.get(name) or ())
    marks = values.pop("marked", None)
    if marks is not None:
        return _marked(frame, marks) if marks else []
    entries = values.get(name)
    return _listed(entries) if isinstance(entries, list) else []


def _recorded(entries: Iterable[Any]) -> list[Seen]:
    found = ((index, entry["sub_batch"]) for index, entry in enumerate(entries) if "sub_batch" in entry)
    return [Seen(index, each.get("record_count", 0), each.get("problem")) for index, each in found if "data" in each]


def _listed(entries: Iterable[Any]) -> list[Seen]:
    """Of values that were read with care."""
    seen, budget = [], new_budget()
    for index, entry in enumerate(entries):
        found = entry.get("sub_batch", {}) if isinstance(entry, dict) else {}
        if "data" in found:
            sizes = found["record_count"], found["uncompressed_length"]
            seen.append(Seen(index, sizes[0], unpack(found["codec"], *sizes, found["data"], budget).problem))
    return seen


def _marked(frame: Frame, marks: Iterable[tuple[int, int]]) -> list[Seen]:
    """By index and place in the buffer. They stay open, for whoever wants their messages."""
    budget, opened = new_budget(), {}
    seen = []
    for index, place in marks:
        found = opened[place - frame.start] = read(frame.buffer, place, budget)
        seen.append(Seen(index, found.announced, found.problem))
    _reading.frame, _reading.opened = frame, opened
    return seen


def report(frame: Frame, seen: Iterable[Seen]) -> None:
    """Tell which of the sub-batches of a frame could not be opened, or not wholly."""
    over = 0
    for entry, _, problem in seen:
        if problem is not None and OVER_BUDGET in problem:
            over += 1
        elif problem is not None and NOT_DECODED in problem:
            frame.find("warning", "undecoded", "codec-missing", f"sub-batch {entry}: {problem}", "sub_batch")
        elif problem is not None:
            frame.find("warning", "malformed", "sub-batch", f"sub-batch {entry}: {problem}", "sub_batch")
    if over:
        text = f"{over} sub-batches were not opened, or not wholly: {OVER_BUDGET}"
        frame.find("warning", "limit", "decompressed-size", text, "sub_batch")
