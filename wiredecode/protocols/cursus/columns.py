"""Kinds and conditions of Cursus as columns."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.fields.columns.kinds import READERS, NumberColumn, TextColumn, sized
from wiredecode.fields.columns.presence import CALLS, peeked
from wiredecode.fields.columns.rows import Bools, Rows
from wiredecode.protocols.cursus import layers_batch as batch
from wiredecode.protocols.cursus import layers_kinds as kinds

DECIMAL = rf"^(?:{kinds.DECIMAL.pattern})".replace(r"\Z", r"\z")
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


READERS |= {kinds.Sequence: SequenceColumn, kinds.DecimalText: sized(DecimalTextColumn)}


def payload_holds_token(rows: Rows) -> Bools:
    _, sizes = peeked(">u4", rows)
    stops = np.minimum(rows.e, rows.p + 4 + sizes) - len(kinds.TOKEN)
    matches = re.finditer(re.escape(kinds.TOKEN), rows.source.buffer)
    tokens = np.array([match.start() for match in matches], np.int64)
    first = np.searchsorted(tokens, rows.p)
    found: Bools = np.append(tokens, np.iinfo(np.int64).max)[first] <= stops
    return found


CALLS[batch.payload_holds_token] = payload_holds_token
