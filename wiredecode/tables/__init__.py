"""Frames, packets and messages as Arrow tables (docs/tables.md).

Nothing here imports pyarrow; the modules beside do, so call :func:`require_pyarrow` before importing them.
"""

from __future__ import annotations

from importlib.util import find_spec


class MissingPyarrow(ImportError):
    """pyarrow is not installed; the message says what to do, in one line."""


def require_pyarrow() -> None:
    """Raise :class:`MissingPyarrow` where pyarrow cannot be imported."""
    if find_spec("pyarrow") is None:
        raise MissingPyarrow("tables need pyarrow, which is not installed: pip install 'wiredecode[arrow]'")
