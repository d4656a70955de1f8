"""Dissector for streaming-broker protocols: ``wiredecode.read(path)`` and ``watch(interface)`` (docs/python.md).

Importing this module imports nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wiredecode.api import Dissection as Dissection
    from wiredecode.api import read as read
    from wiredecode.check.live import watch as watch

PLACES = {"Dissection": "wiredecode.api", "read": "wiredecode.api", "watch": "wiredecode.check.live"}
__all__ = ["Dissection", "read", "watch"]


def __getattr__(name: str) -> Any:
    if name in PLACES:
        from importlib import import_module

        return getattr(import_module(PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
