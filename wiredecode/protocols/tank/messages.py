"""The messages of Produce and of the answers to Consume, as rows."""

from __future__ import annotations

from typing import Any

from wiredecode.fields import compiler, printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, MOST_MILLISECONDS, PUBLISH, Messages, nanoseconds
from wiredecode.protocols.tank.conversation_bundles import (
    MASK64,
    Bundled,
    Contents,
    Numbered,
    sparse_ends,
    sparse_numbers,
)
from wiredecode.protocols.tank.layers_bundle import Bundle, message_count
from wiredecode.protocols.tank.names import CODEC_MASK, CODECS, PREVIOUS_PLUS_ONE, PRODUCE, PRODUCE_WITH_BASE, SNAPPY

Row = tuple[Any, ...]
"""The values of :data:`ROW` of a message."""
ROW = ("flags", "timestamp", "key", "body", "gap")


def add_messages(frame: Frame, contents: Contents, out: Messages) -> None:
    """Add the whole messages of a frame that was decoded with rows."""
    operation = PUBLISH if frame.code in (PRODUCE, PRODUCE_WITH_BASE) else DELIVER
    for numbered in contents.numbered:
        bundle = numbered.bundle
        codec = bundle["flags"] & CODEC_MASK
        rows = rows_of(bundle) if not codec else _inflated_rows(contents, numbered) if codec == SNAPPY else []
        if not codec and isinstance(bundle.get("messages"), list):
            bundle["messages"] = len(bundle["messages"])  # what the values of a frame hold elsewhere, too
        if not rows:
            continue
        shares = None
        if operation == PUBLISH and len(contents.numbered) > 1:  # a place of its own for each
            shares = [_place_of(frame, *numbered.path)] * len(rows)
        _, stamps, keys, bodies, *_ = zip(*rows, strict=False)
        out.add(
            *(frame, operation, bodies),
            topic=printable(numbered.topic),
            partition=numbered.partition,
            keys=None if keys.count(None) == len(keys) else keys,
            offsets=numbers(bundle, numbered.number, rows),
            times_ns=times(stamps),
            compression=CODECS[codec] if codec else None,
            shares=shares,
        )


def _place_of(frame: Frame, i: int, k: int) -> int:
    """Which of the partitions of a Produce this is: the answer has a result for each."""
    return k + sum(len(topic["partitions"]) for topic in frame.values["topics"][:i])


def read_rows(frame: Frame, contents: Contents) -> None:
    """Put the rows of messages in place of their number."""
    if frame.layer is None or not any(isinstance(each.bundle.get("messages"), int) for each in contents.numbered):
        return
    values = compiler.values(frame.layer, frame.buffer, frame.start, frame.stop)
    for numbered in contents.numbered:
        if "messages" in numbered.bundle:
            numbered.bundle["messages"] = _bundle_at(values, *numbered.path)["messages"]


def _bundle_at(values: Bundled, i: int, k: int) -> Bundled:
    if "chunks" not in values:
        found: Bundled = values["topics"][i]["partitions"][k]["bundle"]
        return found
    chunk: dict[str, Any] = values["chunks"][i]
    whole: list[dict[str, Bundled]] = chunk["bundles"]
    return whole[k]["bundle"] if k < len(whole) else dict(chunk["partial_bundle"])


def rows_of(bundle: Bundled) -> list[Row]:
    """The rows of a bundle that is not compressed."""
    return [tuple(map(message.get, ROW)) for message in bundle.get("messages", []) if "body" in message]


def _inflated_rows(contents: Contents, numbered: Numbered) -> list[Row]:
    plain = contents.inflated.get(numbered.path)
    return [] if plain is None else rows_of(compiler.values(Bundle, plain, 0, len(plain)))


def numbers(bundle: Bundled, number: int | None, rows: list[Row]) -> range | list[int] | None:
    """The sequence numbers of the messages; None: only the broker will give them."""
    if "first_sequence_number" in bundle:
        count = message_count(bundle)
        jumps = ((row[0] & PREVIOUS_PLUS_ONE != 0, row[4] or 0 if len(row) > 4 else 0) for row in rows)
        return list(sparse_numbers(jumps, count, *sparse_ends(bundle, count)))
    if number is None:
        return None
    found = range(number, number + len(rows))
    return found if found[-1] <= MASK64 else [each & MASK64 for each in found]


def times(stamps: tuple[int | None, ...]) -> list[int | None]:
    """Times of messages, of which some have that of the message before; the first of a bundle then has 0."""
    if None not in stamps and max(stamps) < MOST_MILLISECONDS:  # type: ignore[type-var,operator]
        return [stamp * 1_000_000 for stamp in stamps]  # type: ignore[operator]
    found: list[int | None] = []
    last: int | None = 0
    for stamp in stamps:
        if stamp is not None:
            last = nanoseconds(stamp)
        found.append(last)
    return found
