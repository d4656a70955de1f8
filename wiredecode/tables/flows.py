"""Flows as an Arrow table (docs/tables.md, "Flows")."""

from collections.abc import Sequence

import pyarrow as pa

from wiredecode.flows.table import Row
from wiredecode.frames.escape import valid
from wiredecode.tables.schema import declared_schema

LARGEST = (1 << 63) - 1


def table(rows: Sequence[Row]) -> pa.Table:
    """``time``, and the keys of :meth:`Row.record`; a number that needs more than 63 bits becomes the largest one."""
    records = [{"time": row.began_ns, **row.record()} for row in rows]
    for record in records:
        record |= {name: LARGEST for name, value in record.items() if type(value) is int and value > LARGEST}
    return pa.Table.from_pylist(valid(records), schema=declared_schema("flows"))
