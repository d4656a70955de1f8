"""Messages read as elements of arrays, those of many frames at once, are those that are read one by one."""

from __future__ import annotations

import pyarrow as pa

from tests.bulk.test_blocks import table
from tests.net.craft import batches
from tests.support import Part, craft, every
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.frames.message import DELIVER, FrameElements, Messages
from wiredecode.protocols.rabbitmq_stream.layers import Deliver, FilteredMessage, Publish, PublishedMessage, PublishV2
from wiredecode.protocols.rabbitmq_stream.layers_chunk import Chunk, ChunkEntry, SubBatch


def told(*layers: Publish | PublishV2 | Deliver) -> tuple[pa.Table, pa.Table, int]:
    """The messages of frames read both ways, and of how many frames they were elements."""
    together, alone = Messages(elements=True), Messages()
    for messages in (together, alone):
        packets = batches(craft([Part(1, 0, b"".join(map(bytes, layers)))], every(1460)))
        frames = [*Dissector(Demand(messages=messages)).frames(packets)]
        assert [frame.status for frame in frames] == ["ok"] * len(layers)
    elements = sum(isinstance(part, FrameElements) for part in together.parts)
    return table(together), table(alone), elements


PUBLISHING_ID, CHUNK_ID, TIMESTAMP = 0x0102030405060708, 0x1112131415161718, 0x0000018A0B0C0D0E


def publish(*bodies: bytes) -> Publish:
    messages = [PublishedMessage(publishing_id=PUBLISHING_ID + n, data=body) for n, body in enumerate(bodies)]
    return Publish(publisher_id=7, messages=messages)


def deliver(*entries: ChunkEntry) -> Deliver:
    chunk = Chunk(timestamp=TIMESTAMP, epoch=0x2122232425262728, chunk_id=CHUNK_ID, entries=list(entries))
    return Deliver(subscription_id=9, chunk=chunk)


def test_integers_that_differ_in_every_byte() -> None:
    bodies = [b"first", b"", b"x" * 0x0304]
    found, expected, elements = told(
        publish(*bodies), publish(*bodies), deliver(*(ChunkEntry(data=body) for body in bodies)), publish(b"last")
    )
    assert elements == 3, "the first frame is read before anybody asked for places"
    assert found.equals(expected)
    assert found["sequence"].to_pylist()[:3] == [PUBLISHING_ID, PUBLISHING_ID + 1, PUBLISHING_ID + 2]
    assert found["offset"].to_pylist()[6:9] == [CHUNK_ID, CHUNK_ID + 1, CHUNK_ID + 2]
    assert found["timestamp"].cast(pa.int64()).to_pylist()[6] == TIMESTAMP * 1_000_000
    assert found["operation"].to_pylist()[6] == DELIVER
    assert found["body"].to_pylist()[3:6] == bodies


def test_a_frame_with_a_sub_batch_is_read_one_by_one_in_its_place() -> None:
    packed = b"\0\0\0\x05inner\0\0\0\x00"
    batch = SubBatch(codec=0x80, record_count=2, uncompressed_length=len(packed), data=packed)
    mixed = Publish(publisher_id=7, messages=[PublishedMessage(publishing_id=PUBLISHING_ID, sub_batch=batch)])
    found, expected, elements = told(publish(b"a"), mixed, publish(b"b"), deliver(ChunkEntry(sub_batch=batch)))
    assert elements == 1, "frames with sub-batches are read whole"
    assert found.equals(expected)
    assert found["body"].to_pylist() == [b"a", b"inner", b"", b"b", b"inner", b""]


def test_publishes_with_filter_values() -> None:
    messages = [
        FilteredMessage(publishing_id=PUBLISHING_ID, filter_value="north", data=b"one"),
        FilteredMessage(publishing_id=PUBLISHING_ID + 1, filter_value=None, data=b"two"),
    ]
    found, expected, _ = told(publish(b"a"), PublishV2(publisher_id=7, messages=messages))
    assert found.equals(expected)
    assert found["body"].to_pylist() == [b"a", b"one", b"two"]
    assert found["sequence"].to_pylist()[1:] == [PUBLISHING_ID, PUBLISHING_ID + 1]
