"""Dissector for streaming-broker protocols: ``wiredecode.read(path)`` (docs/python.md), and a command line.

Importing this module imports nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wiredecode.api import Dissection as Dissection
    from wiredecode.api import read as read

__all__ = ["Dissection", "read"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from wiredecode import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
