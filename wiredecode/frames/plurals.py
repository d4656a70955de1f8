"""Counts with their nouns, in English."""

from __future__ import annotations


def counted(number: int, noun: str, ending: str = "s") -> str:
    """``"1 frame"``, ``"2,000 frames"``; ``ending``: what the plural ends in."""
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def times(number: int) -> str:
    """``"once"``, ``"2,000 times"``."""
    return "once" if number == 1 else counted(number, "time")
