"""Kinds and conditions that only one protocol has, as columns. Importing this module adds them to the tables.

Those of TANK are in :mod:`wiredecode.tables.columns_tank`, lines of text in :mod:`wiredecode.tables.columns_text`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.fields import Binary
from wiredecode.protocols.cursus import batch as cursus
from wiredecode.protocols.cursus import kinds as cursus_kinds
from wiredecode.protocols.pravega import kinds as pravega
from wiredecode.protocols.rabbitmq_stream import chunk as rabbitmq
from wiredecode.protocols.shared import amqp
from wiredecode.tables import columns_tank as columns_tank
from wiredecode.tables import columns_text as columns_text
from wiredecode.tables.columns_kinds import (
    CARRIED,
    READERS,
    TEXT_TYPE,
    Look,
    NumberColumn,
    SizedColumn,
    TextColumn,
    sized,
)
from wiredecode.tables.columns_presence import CALLS, peeked
from wiredecode.tables.columns_rows import Bools, Rows, hexadecimal, lengths

# RabbitMQ Stream: the AMQP 1.0 sections of a message.

DATA_SECTION = b"\x00\x53\x75\xa0"
MOST = 256
"""A data section of less than 256 bytes; its size is in the next byte."""


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


CARRIED[rabbitmq.message] = AmqpColumn


# Cursus.

DECIMAL = rf"^(?:{cursus_kinds.DECIMAL.pattern})".replace(r"\Z", r"\z")
"""As Arrow's regular expressions spell it."""


class SequenceColumn(NumberColumn):
    """All ones are shown as -1; what is too large for a signed column is not plain."""

    def shown(self, values: npt.NDArray[Any], rows: Rows) -> list[pa.Array]:
        signed = values.view(np.int64)
        rows.require(signed >= -1)
        return [pa.array(signed)]


class DecimalTextColumn(TextColumn):
    """Texts that are numbers, as such; others are not plain."""

    hides_secrets = False

    def shown(self, raw: pa.Array, rows: Rows) -> list[pa.Array]:
        texts = self.decoded(raw, rows)
        decimal = np.asarray(pc.match_substring_regex(texts, DECIMAL), np.bool_)
        rows.require(decimal)
        return [pc.if_else(pa.array(decimal), texts, "0").cast(pa.int64())]


READERS |= {cursus_kinds.Sequence: SequenceColumn, cursus_kinds.DecimalText: sized(DecimalTextColumn)}


def payload_tells(rows: Rows) -> Bools:
    _, sizes = peeked(">u4", rows)
    stops = np.minimum(rows.e, rows.p + 4 + sizes) - len(cursus_kinds.TOKEN)
    matches = re.finditer(re.escape(cursus_kinds.TOKEN), rows.source.buffer)
    tokens = np.array([match.start() for match in matches], np.int64)
    first = np.searchsorted(tokens, rows.p)
    found: Bools = np.append(tokens, np.iinfo(np.int64).max)[first] <= stops
    return found


CALLS[cursus.payload_tells] = payload_tells


# Pravega.


class JavaTextColumn(TextColumn):
    """Modified UTF-8 is not UTF-8, but for ASCII: other texts are not plain."""

    @staticmethod
    def decoded(raw: pa.Array, rows: Rows) -> pa.Array:
        texts = TextColumn.decoded(raw, rows)
        rows.require(np.asarray(pc.string_is_ascii(texts), np.bool_))
        return texts


READERS[pravega.JavaText] = sized(JavaTextColumn)
