"""Tables of values as text."""

from __future__ import annotations

import io

import pyarrow as pa
from rich.console import Console

from wiredecode.view.grid import grid, plain


def test_plain_lines_equal_those_of_rich() -> None:
    table = pa.table(
        {
            "name": ["a", "wide 東京", "line\nfeed\t\x1b[31m", None, "", "e\u0301"],
            "count": [1, 2, 300_000, None, 5, 6],
            "nested\n": [[1], None, [], [2], [3], [4]],
        }
    )
    found = grid(table.schema, zip(*(column.to_pylist() for column in table.columns), strict=True))
    file = io.StringIO()
    Console(file=file, width=10_000, no_color=True, legacy_windows=False).print(found)
    assert "".join(f"{line}\n" for line in plain(found)) == file.getvalue()
