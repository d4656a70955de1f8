"""Why a live capture cannot begin."""

from __future__ import annotations


class LiveError(Exception):
    """A live capture cannot begin. ``str()`` is one clear line; ``advice`` are further ones: what to do about it."""

    def __init__(self, what: str, *advice: str) -> None:
        super().__init__(what)
        self.advice = advice
