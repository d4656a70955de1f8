"""Dissector for streaming-broker protocols: ``wiredecode.read(path)``, ``check(path)`` and others (docs/python.md).

Importing this module imports nothing else.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wiredecode.api import DamagedCapture, Dissection, check, flows, follow, read, stats, trace
    from wiredecode.capture import CaptureError
    from wiredecode.check.live import watch

PLACES = {
    **dict.fromkeys(
        ("DamagedCapture", "Dissection", "check", "flows", "follow", "read", "stats", "trace"), "wiredecode.api"
    ),
    "CaptureError": "wiredecode.capture",
    "watch": "wiredecode.check.live",
}
__all__ = [
    "CaptureError",
    "DamagedCapture",
    "Dissection",
    "check",
    "flows",
    "follow",
    "read",
    "stats",
    "trace",
    "watch",
]


class Package(ModuleType):
    """``wiredecode.check`` is the function, also once the package of the same name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in PLACES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = Package


def __getattr__(name: str) -> Any:
    if name in PLACES:
        from importlib import import_module

        return getattr(import_module(PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
