"""Who shows a frame to people. Views stand above frames: the presenter is named here, and loaded when it is asked."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from wiredecode.frames.frame import Frame

PRESENTER = "wiredecode.view.notebook"
"""The module; another one with the functions of :class:`Presenter` may take its place."""


class Presenter(Protocol):
    """What a frame needs to be shown at a prompt or in a notebook."""

    def frame_line(self, frame: Frame) -> str:
        """Number, addresses, type and key facts, on one line."""

    def frame_fields(self, frame: Frame) -> dict[str, Any]:
        """The fields by layer, bytes as bytes."""

    def frame_record(self, frame: Frame, form: str, *, ranges: bool = False) -> dict[str, Any]:
        """The record of docs/records.md, bytes in that form."""

    def frame_text(self, frame: Frame, width: int, *, full: bool = False, hexdump: bool = False) -> str:
        """The tree as text."""

    def frame_html(self, frame: Frame) -> str:
        """The tree as HTML."""


def presenter() -> Presenter:
    """The presenter."""
    return cast("Presenter", import_module(PRESENTER))
