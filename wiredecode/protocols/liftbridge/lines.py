"""What summaries tell of runs with published messages and their acks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from wiredecode.fields.kernel import view
from wiredecode.fields.protobuf import Bytes, String
from wiredecode.fields.protobuf.wire import write_varint
from wiredecode.frames.run import Link
from wiredecode.protocols.liftbridge import names
from wiredecode.protocols.liftbridge.conversation import NO_FACTS
from wiredecode.protocols.liftbridge.kernels import FIELDS, Int64Rows, checksums, find_fields
from wiredecode.protocols.liftbridge.layers import Ack, Envelope, Publish
from wiredecode.protocols.liftbridge.links import Sent, make_hop

if TYPE_CHECKING:
    from wiredecode.frames.run import Int64s, Run
    from wiredecode.protocols.liftbridge.conversation import Memory

FOUND, LINKS = "found", "links"
"""Parts of runs."""
MESSAGE_INBOX, MESSAGE_CORRELATION = 10, 11
ACK_INBOX, ACK_CORRELATION = 5, 6
"""Numbers of fields."""
make_sent = partial(tuple.__new__, Sent)


def link(
    state: Memory, run: Run, rows: Int64s, bodies: Int64s, subjects: list[str], asks: list[bool], acks: list[bool]
) -> None:
    """Put the frames ``rows`` of a run, all messages and acks, in line to be tied to others.

    ``bodies``: where the envelope of each starts; ``asks``: it is a message that wants an ack, ``acks``: it is an ack.
    The run gets their fields, and links that will be filled in.
    """
    buffer, stops = run.buffer, run.stops[rows] - 2
    found, sums = np.empty((len(rows), 2 * FIELDS), np.int64), np.empty(len(rows), np.int64)
    find_fields(view(buffer), bodies, stops, found)
    checksums(view(buffer), bodies, stops, sums)
    fields, links = np.empty((len(run), 2 * FIELDS), np.int64), np.empty(len(run), object)
    fields[rows] = found
    told = [Link() for _ in subjects]
    links[rows] = told
    run.parts |= {FOUND: fields, LINKS: links}
    shared = run.connection.number, run.side, names.PUBLISH, NO_FACTS
    hops = map(make_hop, zip(run.ids[rows].tolist(), run.time_ns[rows].tolist(), *map(repeat, shared), strict=False))
    copy_keys = zip(subjects, (stops - bodies).tolist(), sums.tolist(), strict=True)
    of_client = repeat(run.sender == "client")
    columns = (asks, keys(buffer, found, subjects, asks, acks), copy_keys, hops, of_client, told)
    sent = [*map(make_sent, zip(*columns, strict=False))]
    state.waiting.add(run.numbers[rows].tolist(), sent)


def keys(
    buffer: bytes, found: Int64Rows, subjects: list[str], asks: list[bool], acks: list[bool]
) -> Iterator[bytes | None]:
    """As :func:`ack_key` makes them; None of messages that want no ack."""
    low, high = found[:, 2 * MESSAGE_INBOX], found[:, 2 * MESSAGE_INBOX + 1]
    high = np.maximum(high, found[:, 2 * MESSAGE_CORRELATION + 1])  # they follow one another
    inbox, correlation = found[:, 2 * ACK_INBOX :], found[:, 2 * ACK_CORRELATION :]
    spans = (low, high, inbox[:, 0], inbox[:, 1], correlation[:, 0], correlation[:, 1])
    rows = zip(asks, acks, subjects, *(column.tolist() for column in spans), strict=True)
    for ask, ack, subject, start, stop, inbox_start, inbox_stop, id_start, id_stop in rows:
        if ask:
            yield buffer[start:stop]
        elif ack:
            raw = buffer[inbox_start:inbox_stop] if inbox_stop > inbox_start else subject.encode()
            size = id_stop - id_start
            yield raw + tagged(size) + buffer[id_start:id_stop] if id_stop >= 0 < size else raw
        else:
            yield None


@cache
def tagged(size: int) -> bytes:
    """What stands before a correlation id of that size in a message."""
    return bytes([MESSAGE_CORRELATION << 3 | 2]) + write_varint(size)


def facts(run: Run, rows: Int64s, *, ack: bool) -> Iterator[tuple[Int64s, type[Envelope], dict[str, list[Any]]]]:
    """Frames that have the same fields, of ``rows``, which are all acks or all messages; their layer and its facts."""
    layer: type[Envelope] = Ack if ack else Publish
    kinds = {kind.name: kind for kind in layer.by_number.values() if kind.name in layer.facts}
    found = run.parts[FOUND][rows]
    present = [found[:, 2 * kind.number + 1] >= 0 for kind in kinds.values()]
    patterns = sum(flags.astype(np.int64) << place for place, flags in enumerate(present))
    for pattern in np.unique(patterns).tolist():
        same = patterns == pattern
        columns = {
            name: values(run.buffer, kind, found[same, 2 * kind.number], found[same, 2 * kind.number + 1])
            for place, (name, kind) in enumerate(kinds.items())
            if pattern >> place & 1
        }
        yield rows[same], layer, columns


def values(buffer: bytes, kind: Any, starts: Int64s, stops: Int64s) -> list[Any]:
    spans = zip(starts.tolist(), stops.tolist(), strict=True)
    if isinstance(kind, String):
        return [buffer[start:stop].decode("ascii") for start, stop in spans]
    return [buffer[start:stop] for start, stop in spans] if isinstance(kind, Bytes) else starts.tolist()
