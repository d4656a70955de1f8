"""Sub-batches: several messages as one entry of Publish and Deliver, compressed together."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from wiredecode.budget import BUDGET
from wiredecode.fields import Binary, UInt8, UInt16, UInt32, compiler
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import Frame
from wiredecode.protocols.rabbitmq_stream.names import CODECS
from wiredecode.protocols.shared.amqp import record, secrets
from wiredecode.protocols.shared.compression import MESSAGE_BYTES, NOT_DECODED, OVER_BUDGET, Status, decompress_in_frame


class Opened(NamedTuple):
    """A sub-batch with its messages, and its error, if any."""

    announced: int
    """Messages that it says it holds."""
    codec: str | None
    bodies: list[bytes]
    problem: str | None


class _Reading(threading.local):
    """State of reading in this thread: the declared fields do not know of their frame."""

    frame: Frame | None = None
    open_sub_batch: Sequence[Opened] = ()


_reading = _Reading()


def forget_opened() -> None:
    """Sub-batches that are read from now on are of another frame."""
    _reading.frame, _reading.opened = None, ()


def opened_of(frame: Frame) -> Sequence[Opened]:
    """The sub-batches of a frame that were opened already, in their order."""
    return _reading.opened if _reading.frame is frame else ()


def unpack(code: int, count: int, size: int, data: bytes) -> Opened:
    """The messages of a sub-batch: decompressed within bounds, then ``count`` times uint32 length + bytes."""
    codec = CODECS.get(code)
    if codec is None:
        return Opened(count, None, [], f"codec {code:#04x} is not assigned: not decoded")
    inflated = decompress_in_frame(codec, data, size)
    bodies, problem = split_records(inflated.data, count)
    BUDGET.own.spend(len(bodies) * MESSAGE_BYTES)
    if inflated.status is not Status.OK:
        problem = f"{codec}: {inflated.message}"
    elif problem is None and len(inflated.data) != size:
        problem = f"{len(inflated.data)} bytes uncompressed, {size} announced"
    return Opened(count, codec, bodies, problem)


def open_sub_batch(values: Mapping[str, Any]) -> Opened:
    """The messages of a decoded :class:`SubBatch`."""
    return unpack(values["codec"], values["record_count"], values["uncompressed_length"], values["data"])


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
            return messages, f"record {len(messages)} is truncated"
        messages.append(data[start:position])
    if position < len(data):
        return messages, f"{len(data) - position} bytes after the last of {count} records"
    return messages, None


# In records.


def message(data: bytes, style: Style, entry: dict[str, Any]) -> dict[str, Any] | None:
    """The AMQP 1.0 sections of a message, if it has any: applications may send any bytes."""
    shown = data if style.secrets else secrets.blank_credentials(data)
    sections = record(shown, style.show)
    found = {} if sections is None else {"amqp": sections}
    return found if shown is data else {"data": style.show(shown), **found}


def secret_ranges(data: bytes) -> list[tuple[int, int]]:
    """Credentials in the messages of a sub-batch that is not compressed."""
    ranges, position = [], 0
    while position + 4 <= len(data):
        start = position + 4
        position = start + int.from_bytes(data[position:start], "big")
        ranges += [(start + first, start + last) for first, last in secrets.secret_ranges(data[start:position])]
    return ranges if position == len(data) else []


def records(data: bytes, style: Style, sub_batch: dict[str, Any]) -> dict[str, Any]:
    """The messages of a sub-batch, as further keys of its record."""
    sizes = sub_batch["record_count"], sub_batch["uncompressed_length"]
    opened = unpack(sub_batch["codec_code"], *sizes, data)
    if opened.codec is None:
        return {"problem": opened.problem}
    shown = [{"data": style.show(body)} for body in opened.bodies]
    for body, entry in zip(opened.bodies, shown, strict=True):
        entry.update(message(body, style, entry) or {})
    more = {} if opened.problem is None else {"problem": opened.problem}
    if not style.secrets and opened.codec == "none" and (ranges := secret_ranges(data)):
        more["data"] = style.show(secrets.without(data, ranges))
    return {"messages": shown} | more


class SubBatch(Layer):
    """Several messages as one entry, compressed together; the first byte is ``1ccc0000`` with codec ccc."""

    fields_desc = [
        UInt8("codec", "compression of the messages", names=CODECS, default=0x80),
        UInt16("record_count", "messages in the sub-batch"),
        UInt32("uncompressed_length", "size of the messages with their length prefixes", unit="bytes"),
        Binary("data", "the messages, compressed", inner=records, credentials=secret_ranges),
    ]


# As findings: the same whether there is a record or not.


class SubBatchFacts(NamedTuple):
    """Facts about a sub-batch, and its error."""

    entry: int
    """Index of the entry in the frame."""
    announced: int
    problem: str | None


def look_at(frame: Frame, name: str, values: Any, record: Mapping[str, Any] | None) -> list[SubBatchFacts]:
    """The sub-batches among the entries ``name`` of values, or of their record; those that were captured whole."""
    if record is not None:
        return _from_record(record.get(name) or ())
    marks = values.pop("marked", None)
    if marks is not None:
        return _from_marks(frame, marks) if marks else []
    entries = values.get(name)
    return _from_values(entries) if isinstance(entries, list) else []


def _from_record(entries: Iterable[Any]) -> list[SubBatchFacts]:
    batches = ((index, entry["sub_batch"]) for index, entry in enumerate(entries) if "sub_batch" in entry)
    return [
        SubBatchFacts(index, each.get("record_count", 0), each.get("problem"))
        for index, each in batches
        if "data" in each
    ]


def _from_values(entries: Iterable[Any]) -> list[SubBatchFacts]:
    """The sub-batches of values that the careful decoder read."""
    seen = []
    forget_opened()
    for index, entry in enumerate(entries):
        batch = entry.get("sub_batch", {}) if isinstance(entry, dict) else {}
        if "data" in batch:
            seen.append(SubBatchFacts(index, batch["record_count"], open_sub_batch(batch).problem))
    return seen


def _from_marks(frame: Frame, marks: Iterable[tuple[int, int]]) -> list[SubBatchFacts]:
    """By index and place in the buffer. They stay open, for later readers of their messages."""
    forget_opened()
    marked = list(marks)
    batches = (compiler.walk(SubBatch, frame.buffer, position, frame.stop)[0] for _, position in marked)
    _reading.frame, _reading.opened = frame, [open_sub_batch(values) for values in batches]
    return [
        SubBatchFacts(index, each.announced, each.problem)
        for (index, _), each in zip(marked, _reading.opened, strict=True)
    ]


def report(frame: Frame, seen: Iterable[SubBatchFacts]) -> None:
    """Report the sub-batches of a frame that could not be opened, or not wholly."""
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
