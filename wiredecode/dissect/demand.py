"""What is wanted of a capture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from wiredecode.dissect.lookahead import LOOKAHEAD_NS, KnownOutcome

if TYPE_CHECKING:
    from wiredecode.fields.layer import Style
    from wiredecode.filter import Filter
    from wiredecode.frames.message import Messages
    from wiredecode.protocols.base import Protocol
    from wiredecode.protocols.registry import DecodeAs


@dataclass(frozen=True)
class Demand:
    """What a :class:`~wiredecode.dissect.dissector.Dissector` is to make of a capture."""

    style: Style | None = None
    """How the JSON-ready record of every frame is made (``Frame.layers``); None: there are no records."""
    recorded: frozenset[str] | None = None
    """Protocols of whose frames records are made; None: of all."""
    link_responses: bool = True
    """Requests know their response. Output then lags by up to 1000 frames, see :mod:`wiredecode.dissect.lookahead`."""
    lookahead_ns: int = LOOKAHEAD_NS
    """How long, in capture time, requests wait for their response; live captures wait less."""
    copies: bool = True
    """Messages are told which one they are a copy of, also where only their contents tell."""
    answers: Mapping[int, KnownOutcome] | None = None
    """What :mod:`wiredecode.dissect.answers` found of requests that wait longer than that; None: it was not asked."""
    messages: Messages | None = None
    """Collects the published and delivered messages; whoever gave it empties it."""
    runs: bool = False
    """Only messages are wanted: long stretches of plain frames may come as runs, out of :meth:`Dissector.mixed`."""
    select: Filter | None = None
    """What will be shown, where there are no runs: no records are made of frames that it excludes."""
    alone: bool = False
    """What ``select`` leaves is shown by itself: frames of connections that it excludes are only numbered, where
    nothing that is shown is lost, and nobody asks for totals."""
    stable_ids: bool = False
    """Records call connections and frames by ids (:mod:`wiredecode.frames.ids`), and packets by their times."""
    decode_as: Mapping[int, DecodeAs] = field(default_factory=dict)
    """What the user said that ports speak."""
    decrypt: bool = True
    """Use the TLS secrets that captures bring."""
    protocols: tuple[Protocol, ...] | None = None
    """These protocols are tried; None: all that are known."""

    @cached_property
    def is_plain(self) -> bool:
        """Whether every frame is wanted in the same way, and nothing but frames: usual, so it is asked once."""
        return self.recorded is None and self.messages is None and not self.runs and self.select is None

    def __post_init__(self) -> None:
        if self.runs and self.select is not None:
            raise ValueError("runs come whole: nothing selects among their frames")
