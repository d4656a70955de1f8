"""Publish, PublishConfirm and Deliver of simple messages, many at a time."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wiredecode.fields.kernel import Scratch, kernel, view
from wiredecode.fields.layer import Layer
from wiredecode.frames.message import DELIVER, PUBLISH, Coded, Column, Slices, from_milliseconds
from wiredecode.frames.run import Bulk, Cut, Run, RunLayer, UInt8s
from wiredecode.protocols.rabbitmq_stream.layers import Deliver, DeliverV2, Publish, PublishConfirm

if TYPE_CHECKING:
    from wiredecode.frames.message import Messages
    from wiredecode.protocols.rabbitmq_stream.bindings import Bindings
    from wiredecode.protocols.rabbitmq_stream.conversation import RabbitMQConversation

Int64s = npt.NDArray[np.int64]

PUBLISH_KIND, CONFIRM_KIND, DELIVER_KIND, DELIVER_V2_KIND = 1, 2, 3, 4
SCRATCH = Scratch()
SMALLEST_FRAME = 8
"""Size, key and version."""


@kernel
def cut_frames(b: UInt8s, starts: Int64s, kinds: UInt8s, counts: Int64s) -> int:
    """Cut whole frames off ``b`` until one is cut or cannot be a frame; return how many there are.

    ``starts[i]``, ``kinds[i]``, ``counts[i]``: first byte, kind (0: read it one by one) and messages of frame i;
    ``starts`` also gets the end of the last one.
    """
    n, p, end = 0, 0, len(b)
    starts[0] = 0
    while p + 8 <= end and n < len(kinds):
        size = b[p] << 24 | b[p + 1] << 16 | b[p + 2] << 8 | b[p + 3]
        stop = p + 4 + size
        if size < 4 or stop > end:
            break
        key = b[p + 4] << 8 | b[p + 5]
        version = b[p + 6] << 8 | b[p + 7]
        kind, count = 0, 0
        if key == 2 and version == 1 and size >= 9:
            count = b[p + 9] << 24 | b[p + 10] << 16 | b[p + 11] << 8 | b[p + 12]
            q, left = p + 13, count
            while left > 0 and q + 12 <= stop and b[q + 8] < 0x80:
                q += 12 + (b[q + 8] << 24 | b[q + 9] << 16 | b[q + 10] << 8 | b[q + 11])
                left -= 1
            kind = 1 if left == 0 and q == stop else 0
        elif key == 3 and version == 1 and size >= 9:
            ids = b[p + 9] << 24 | b[p + 10] << 16 | b[p + 11] << 8 | b[p + 12]
            kind = 2 if p + 13 + 8 * ids == stop else 0
        elif key == 8 and (version == 1 or version == 2) and size >= 5 + 48 + 8 * (version - 1):
            c = p + 9 + 8 * (version - 1)
            count = b[c + 2] << 8 | b[c + 3]
            records = b[c + 4] << 24 | b[c + 5] << 16 | b[c + 6] << 8 | b[c + 7]
            length = b[c + 36] << 24 | b[c + 37] << 16 | b[c + 38] << 8 | b[c + 39]
            trailer = b[c + 40] | b[c + 41] | b[c + 42] | b[c + 43]
            q, left = c + 48, count
            if b[c] == 0x50 and b[c + 1] == 0 and records == count and trailer == 0 and q + length == stop:
                while left > 0 and q + 4 <= stop and b[q] < 0x80:
                    q += 4 + (b[q] << 24 | b[q + 1] << 16 | b[q + 2] << 8 | b[q + 3])
                    left -= 1
                kind = 2 + version if left == 0 and q == stop else 0
        starts[n] = p
        kinds[n] = kind
        counts[n] = count
        n += 1
        p = stop
    starts[n] = p
    return n


@kernel
def locate(
    b: UInt8s,
    starts: Int64s,
    kinds: UInt8s,
    counts: Int64s,
    rows: Int64s,
    index: Int64s,
    high: Int64s,
    low: Int64s,
    at: Int64s,
    to: Int64s,
) -> int:
    """Find the messages of frames that :func:`cut_frames` found plain; return how many there are.

    Of message i: ``rows[i]`` its frame, ``index[i]`` its place in it, ``high[i]`` and ``low[i]`` the halves of its
    publishing id, or of the offset of its chunk, ``at[i]`` and ``to[i]`` the range of its body.
    """
    n = 0
    for frame in range(len(starts)):
        kind, p = kinds[frame], starts[frame]
        upper, lower = 0, 0
        q = p + 13
        if kind > 2:
            q = p + 9 + 8 * (kind - 3) + 48
            upper = b[q - 24] << 24 | b[q - 23] << 16 | b[q - 22] << 8 | b[q - 21]
            lower = b[q - 20] << 24 | b[q - 19] << 16 | b[q - 18] << 8 | b[q - 17]
        for place in range(counts[frame]):
            if kind == 1:
                upper = b[q] << 24 | b[q + 1] << 16 | b[q + 2] << 8 | b[q + 3]
                lower = b[q + 4] << 24 | b[q + 5] << 16 | b[q + 6] << 8 | b[q + 7]
                q += 8
            rows[n] = frame
            index[n] = place
            high[n] = upper
            low[n] = lower
            at[n] = q + 4
            q += 4 + (b[q] << 24 | b[q + 1] << 16 | b[q + 2] << 8 | b[q + 3])
            to[n] = q
            n += 1
    return n


class RabbitMQBulk(Bulk):
    """Publish (1), PublishConfirm (2), Deliver (3: version 1, 4: version 2)."""

    with_layers = (PUBLISH_KIND, CONFIRM_KIND, DELIVER_KIND, DELIVER_V2_KIND)
    types = ("", "Publish", "PublishConfirm", "Deliver", "Deliver")
    codes = (None, 0x0002, 0x0003, 0x0008, 0x0008)

    def cut(self, data: bytes) -> Cut:
        most = len(data) // SMALLEST_FRAME
        starts, kinds = SCRATCH.array("starts", most + 1, np.int64), SCRATCH.array("kinds", most, np.uint8)
        counts = SCRATCH.array("counts", most, np.int64)
        n = cut_frames(view(data), starts, kinds, counts)
        return Cut(starts[: n + 1].copy(), kinds[:n].copy(), {"count": counts[:n].copy()})

    def take(self, conversation: RabbitMQConversation, run: Run, out: Messages | None) -> bool:
        return take(conversation, run, out)

    def layers(self, conversation: RabbitMQConversation, run: Run) -> list[RunLayer]:
        told = []
        ids = np.frombuffer(run.buffer, np.uint8)[run.starts + 8]
        for kind, (layer, bindings) in READ_AS.items():
            rows = np.flatnonzero(run.kinds == kind)
            if len(rows):
                table = getattr(conversation, bindings).table
                numbers, codes = np.unique(ids[rows], return_inverse=True)
                checked = {"crc_status": "good"} if kind >= DELIVER_KIND else {}
                generated = [{**table[number].generated, **checked} for number in numbers.tolist()]
                told.append(RunLayer(layer, rows, codes, generated))
        return told


def take(conversation: RabbitMQConversation, run: Run, out: Messages | None) -> bool:
    """See :meth:`Bulk.take`. What begins a stream may be a PROXY header: it is left to the row decoder."""
    if conversation.client is None or not run.base + int(run.starts[0]):
        return False
    published = run.kinds == PUBLISH_KIND
    from_client = run.side == conversation.client
    if bool(published.any()) != from_client or bool(published.all()) != from_client:
        return False
    if from_client and conversation.size_remark(int((run.stops - run.starts).max()) - 4):
        return False
    delivered = run.kinds >= DELIVER_KIND
    ids = np.frombuffer(run.buffer, np.uint8)[run.starts + 8]
    publishers = streams_of(conversation.publishers, ids[~delivered])
    subscriptions = streams_of(conversation.subscriptions, ids[delivered])
    if publishers is None or subscriptions is None or not chunks_are_sound(run, delivered):
        return False
    if out is not None:
        add_messages(run, ids, publishers if from_client else subscriptions, out)
    return True


def streams_of(bindings: Bindings, ids: UInt8s) -> dict[int, str] | None:
    """The streams that ids stand for; None when one is not declared, or no longer."""
    found = {}
    for number in np.flatnonzero(np.bincount(ids)).tolist():
        binding = bindings.table.get(number)
        if binding is None or binding.ended:
            return None
        found[number] = binding.generated["stream"]
    return found


def chunks_are_sound(run: Run, delivered: npt.NDArray[np.bool_]) -> bool:
    """Whether the CRC-32 of every chunk is right."""
    whole = memoryview(run.buffer)
    for chunk, stop in zip(chunks_of(run)[delivered].tolist(), run.stops[delivered].tolist(), strict=True):
        if zlib.crc32(whole[chunk + 48 : stop]) != int.from_bytes(whole[chunk + 32 : chunk + 36], "big"):
            return False
    return True


def chunks_of(run: Run) -> Int64s:
    """Where the chunk of each Deliver starts."""
    return run.starts + 9 + 8 * (run.kinds.astype(np.int64) - DELIVER_KIND)


def add_messages(run: Run, ids: UInt8s, streams: dict[int, str], out: Messages) -> None:
    """The messages of a run of Publish, or of Deliver and PublishConfirm, as columns."""
    counts = np.where(run.kinds == CONFIRM_KIND, 0, run.parts["count"])
    total = int(counts.sum())
    if not total:
        return
    rows, index, high, low, at, to = (np.empty(total, np.int64) for _ in range(6))
    locate(view(run.buffer), run.starts, run.kinds, counts, rows, index, high, low, at, to)
    numbers = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
    codes = np.zeros(256, np.int32)
    codes[list(streams)] = np.arange(len(streams))
    topic, body = Coded(codes[ids][rows], list(streams.values())), Slices(run.buffer, at, to)
    if run.kinds[0] == PUBLISH_KIND:
        out.add_run(run, rows, index=index, operation=PUBLISH, topic=topic, sequence=numbers, body=body)
        return
    chunks, data = chunks_of(run)[rows], np.frombuffer(run.buffer, np.uint8)
    written = np.zeros(total, np.int64)
    for byte in range(8, 16):
        written = written << 8 | data[chunks + byte]
    offsets = numbers + index.astype(np.uint64)
    columns: dict[str, Column] = {"offset": offsets, "timestamp": from_milliseconds(written)}
    out.add_run(run, rows, index=index, operation=DELIVER, topic=topic, body=body, **columns)


READ_AS: dict[int, tuple[type[Layer], str]] = {
    PUBLISH_KIND: (Publish, "publishers"),
    CONFIRM_KIND: (PublishConfirm, "publishers"),
    DELIVER_KIND: (Deliver, "subscriptions"),
    DELIVER_V2_KIND: (DeliverV2, "subscriptions"),
}
"""Layer of each kind, and what knows the streams of its ids."""
