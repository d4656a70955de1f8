"""Kinds and conditions of Pravega as columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.fields.columns.kinds import READERS, TextColumn, sized
from wiredecode.fields.columns.rows import Rows
from wiredecode.protocols.pravega import layers_kinds as kinds


class JavaTextColumn(TextColumn):
    """Modified UTF-8 is not UTF-8, but for ASCII: other texts are not plain."""

    @staticmethod
    def decoded(raw: pa.Array, rows: Rows) -> pa.Array:
        texts = TextColumn.decoded(raw, rows)
        rows.require(np.asarray(pc.string_is_ascii(texts), np.bool_))
        return texts


READERS[kinds.JavaText] = sized(JavaTextColumn)
