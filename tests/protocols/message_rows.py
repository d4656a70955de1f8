"""Message rows for comparing: those that conversations hand out, and the parts of which tests make expected ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from tests.net.craft import batches
from tests.support import Part, Run, craft, dialogue, dissect, every
from wiredecode.capture import PacketBatch
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import FrameMessages, Messages
from wiredecode.protocols.base import Protocol
from wiredecode.protocols.registry import DecodeAs

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Row(NamedTuple):
    """One message."""

    frame: int
    operation: str
    topic: str | None
    partition: int | None
    key: bytes | None
    offset: int | None
    sequence: int | None
    time_ns: int | None
    compression: str | None
    body: bytes | None


Expect = Callable[[Frame], Iterable[Row]]
"""Returns the message rows that the record of a frame implies."""


def rows(source: Iterable[PacketBatch], known: Protocol) -> list[Row]:
    """The message rows of a capture, as conversations yield them."""
    out = Messages()
    dissector = Dissector(Demand(messages=out, link_responses=False, protocols=(known,), decode_as=by_ports(known)))
    for _ in dissector.frames(source):
        pass
    found = [row for part in out.parts for row in of_part(part)]
    assert out.count == len(found)
    return found


def by_ports(protocol: Protocol) -> dict[int, DecodeAs]:
    """Force the protocol on its ports, so that damaged connections are decoded, too."""
    return dict.fromkeys(protocol.ports, DecodeAs(protocol, None))


def of_part(part: object) -> Iterator[Row]:
    assert isinstance(part, FrameMessages)
    for index, body in enumerate(part.bodies):
        columns: tuple[Any, ...] = part.keys, part.offsets, part.sequences, part.times_ns
        key, offset, sequence, time_ns = [None if column is None else column[index] for column in columns]
        place = part.frame.number, part.operation, part.topic, part.partition
        yield Row(*place, key, offset, sequence, time_ns, part.compression, body)


def expected(source: Iterable[PacketBatch], known: Protocol, expect: Expect) -> list[Row]:
    """The message rows of a capture, derived from the records of its frames."""
    run = dissect(source, link_responses=False, known=(known,), decode_as=by_ports(known))
    return [row for frame in run.frames for row in expect(frame)]


def nanoseconds(shown: str | int) -> int | None:
    """A time as records show it."""
    if isinstance(shown, str):
        since = datetime.fromisoformat(shown) - EPOCH
        shown = since // timedelta(milliseconds=1)
    return shown * 1_000_000 if shown * 1_000_000 < 1 << 63 else None


def mutated(run: Run, seed: int, times: int, port: int) -> list[bytes]:
    """Packets of a conversation of whole frames, with some bytes after the length fields changed."""
    chance = random.Random(seed)
    parts: list[Part] = dialogue(run)
    for _ in range(times):
        at = chance.randrange(len(parts))
        data = bytearray(parts[at].data)
        if len(data) > 12:
            data[chance.randrange(8, len(data))] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
        parts[at] = replace(parts[at], data=bytes(data))
    return craft(parts, every(1460), server_port=port)


def agree(packets: list[bytes], known: Callable[[], Protocol], expect: Expect, snaplen: int | None = None) -> int:
    """Assert that message rows equal those of records; return their number."""
    found = rows(batches(packets, snaplen=snaplen), known())
    assert found == expected(batches(packets, snaplen=snaplen), known(), expect)
    return len(found)


def column(found: Iterable[Row], name: str) -> list[Any]:
    """The values of a column of message rows."""
    return [getattr(row, name) for row in found]
