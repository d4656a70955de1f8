"""Properties of every frame, of any protocol: names in filters, keys of records, columns of tables.

They are declared in ``columns.toml``.
"""

from collections.abc import Iterator

from wiredecode.data import tables_of
from wiredecode.dataclasses import dataclass
from wiredecode.net.health import KINDS


@dataclass(frozen=True)
class FrameColumn:
    """A key of records and column of the table of frames."""

    name: str
    attribute: str
    kind: str
    """Type of the column, as declarations of fields spell it; empty: tables of frames have no such column."""
    comment: str
    """Its meaning in tables."""


@dataclass(frozen=True)
class FrameName:
    """A name in filters."""

    name: str
    type: str
    """As the types of declared fields are spelled."""
    meaning: str
    level: str
    """Since when: a level of filters."""
    column: FrameColumn | None = None
    attribute: str = ""
    """Attribute of :class:`Frame`, if it differs from that of the column."""
    comparable: bool = True
    """Whether the column has the value that filters compare."""


def _names() -> Iterator[FrameName]:
    for name, fields in tables_of(__package__, "columns.toml").items():
        if "column" in fields:
            own = fields["column"].pop("name", name.rpartition(".")[2])
            fields["column"] = FrameColumn(own, **{"attribute": own, "comment": fields["meaning"], **fields["column"]})
        yield FrameName(name, **fields)
        if name == "tcp.analysis.flags":
            for kind in KINDS:
                meaning = f"a packet of the frame is of the kind {kind.replace('_', ' ')}"
                yield FrameName(f"tcp.analysis.{kind}", fields["type"], meaning, fields["level"])


NAMES = tuple(_names())
"""In the order of the reference page."""

TUNNEL_COLUMNS = ("tunnel", "outer_src", "outer_dst")
"""Columns of frames in tunnels; records of other frames omit them."""
KEYS = (
    *("frame", "time", "time_ns", "connection", "src", "dst", "sender", "packets", "offset", "length"),
    *("protocol", "dialect", "type", "code", "status", "layers", "request", "response", "latency_ns", "findings"),
    "outcome",
)
"""Keys of records, in order; tables have :data:`TUNNEL_COLUMNS` after them."""
_BY_NAME = {each.column.name: each.column for each in NAMES if each.column is not None}
_BY_NAME["layers"] = FrameColumn("layers", "layers", "layers", "fields of the message, by layer")
COLUMNS = [_BY_NAME[key] for key in (*KEYS, *TUNNEL_COLUMNS)]
