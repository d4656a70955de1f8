"""Products that a dissection makes of a capture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wiredecode.dissect.ledger import WAIT_NS, KnownOutcome

if TYPE_CHECKING:
    from wiredecode.fields.layer import Style
    from wiredecode.filter import Filter
    from wiredecode.frames.message import Messages
    from wiredecode.protocols.base import Protocol
    from wiredecode.protocols.registry import DecodeAs


@dataclass(frozen=True)
class Demand:
    """Products that a :class:`~wiredecode.dissect.dissector.Dissector` makes of a capture."""

    style: Style | None = None
    """Style of the JSON-ready record of every frame (``Frame.layers``); None: there are no records."""
    recorded: frozenset[str] | None = None
    """Protocols of whose frames records are made; None: of all."""
    link_responses: bool = True
    """Requests know their response. Output then lags by up to 1000 frames, see :mod:`wiredecode.dissect.ledger`."""
    wait_ns: int = WAIT_NS
    """Time, in capture time, that requests wait for their response; live captures wait less."""
    copies: bool = True
    """Messages get the frame that they are a copy of, also if only their contents show it."""
    answers: Mapping[int, KnownOutcome] | None = None
    """Outcomes that an earlier pass found for requests that wait longer than that, or None without such a pass."""
    late: dict[int, KnownOutcome] | None = None
    """Collects the same, for a later pass."""
    messages: Messages | None = None
    """Collects the published and delivered messages; the caller empties it."""
    blocks: bool = False
    """Only messages are wanted: long stretches of plain frames may come as blocks, out of :meth:`Dissector.mixed`."""
    select: Filter | None = None
    """Frames that will be shown, if there are no blocks: no records are made of frames that it excludes."""
    alone: bool = False
    """Frames of ``select`` are shown alone: frames of connections that it excludes are only numbered, if
    this does not change the output, and totals are not wanted."""
    stable_ids: bool = False
    """Records call connections and frames by ids (:mod:`wiredecode.frames.frame`), and packets by their times."""
    decode_as: Mapping[int, DecodeAs] = field(default_factory=dict)
    """Protocols of ports, chosen by the user."""
    decrypt: bool = True
    """Use the TLS secrets that captures bring."""
    protocols: tuple[Protocol, ...] | None = None
    """These protocols are tried; None: all that are known."""
    analyse: bool = False
    """Connections get their TCP analysis (``Connection.health``)."""

    def __post_init__(self) -> None:
        if self.blocks and self.select is not None:
            raise ValueError("blocks come whole: nothing selects among their frames")

    def for_filters(self, *filters: Filter | None) -> Demand:
        """Return this demand with what ``select`` and other filters need to decide about a frame."""
        made = self
        for each in (self.select, *filters):
            if each is not None:
                made = replace(
                    made,
                    style=each.style(made.style),
                    link_responses=made.link_responses or each.needs_responses,
                    copies=made.copies or each.needs_copies,
                    analyse=made.analyse or each.needs_analysis,
                )
        return made


DEFAULT = Demand()
