"""The AMQP 1.0 sections of messages, and the offsets of delivered ones, as columns."""

from __future__ import annotations

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.fields import Binary
from wiredecode.fields.columns.kinds import CARRIED, TEXT_TYPE, Look, SizedColumn
from wiredecode.fields.columns.reader import COMPLETE
from wiredecode.fields.columns.rows import Bools, Rows, hexadecimal, lengths
from wiredecode.protocols.rabbitmq_stream import layers_sub_batches as sub_batches
from wiredecode.protocols.rabbitmq_stream.layers import Deliver, DeliverV2
from wiredecode.protocols.shared import amqp

DATA_SECTION = b"\x00\x53\x75\xa0"
MOST = 256  # a data section of less has its size in the next byte


class AmqpColumn(SizedColumn):
    """The message, and its sections as JSON; null where it is no AMQP message."""

    hides_secrets = False

    def __init__(self, kind: Binary, look: Look) -> None:
        super().__init__(kind, look)
        self.names = (kind.name, "amqp")

    def shown(self, raw: pa.Array, rows: Rows) -> list[pa.Array]:
        begins = np.asarray(pc.starts_with(raw, b"\x00")) if len(raw) else np.zeros(0, np.bool_)
        data = super().shown(raw, rows)
        if not begins.any():
            return [*data, pa.nulls(len(raw), TEXT_TYPE)]
        simple = self.only_data(raw)
        if self.look.style.show == bytes.hex and simple.all():
            content = hexadecimal(pc.binary_slice(raw, len(DATA_SECTION) + 1, MOST))
            return [*data, pc.binary_join_element_wise('{"data":["', content, '"]}', "")]
        return [*data, pa.array([self.sections(value) for value in raw.to_pylist()], TEXT_TYPE)]

    def only_data(self, raw: pa.Array) -> Bools:
        """Which messages are one data section: all that many clients send."""
        sizes, data = lengths(raw), raw.buffers()[2]
        starts = np.cumsum(sizes) - sizes
        octets = np.frombuffer(data, np.uint8)
        announced = octets[np.minimum(starts + len(DATA_SECTION), len(octets) - 1)]
        begins = np.asarray(pc.starts_with(raw, DATA_SECTION))
        found: Bools = begins & (sizes > len(DATA_SECTION)) & (announced == sizes - len(DATA_SECTION) - 1)
        return found

    def sections(self, value: bytes) -> str | None:
        found = amqp.record(value, self.look.style.show)
        return None if found is None else orjson.dumps(found).decode()


CARRIED[sub_batches.message] = AmqpColumn


def with_offsets(chunk: pa.StructArray) -> pa.StructArray:
    """Give every message of a chunk its offset, where all entries are simple."""
    entries, first = chunk.field("entries"), np.asarray(chunk.field("chunk_id"), np.uint64)
    counts = np.asarray(pc.fill_null(pc.list_value_length(entries), 0), np.int64)
    before = np.cumsum(counts) - counts
    offsets = np.repeat(first - before.astype(np.uint64), counts) + np.arange(int(counts.sum()), dtype=np.uint64)
    items = pc.list_flatten(entries)
    names = [each.name for each in items.type]
    whole = pa.StructArray.from_arrays([*items.flatten(), pa.array(offsets)], [*names, "offset"])
    places = pa.array(np.concatenate((before, [int(counts.sum())])).astype(np.int32))
    lists = pa.ListArray.from_arrays(places, whole, mask=entries.is_null())
    members = dict(zip([each.name for each in chunk.type], chunk.flatten(), strict=True))
    return pa.StructArray.from_arrays([*{**members, "entries": lists}.values()], [*members])


def complete(fields: dict[str, pa.Array]) -> None:
    fields["chunk"] = with_offsets(fields["chunk"])


COMPLETE |= {Deliver: complete, DeliverV2: complete}
