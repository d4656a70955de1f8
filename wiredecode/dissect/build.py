"""Build the dissector of one pass over a capture: every command, the screen, tables and Python build theirs here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wiredecode.dissect.demand import Demand
from wiredecode.dissect.dissector import Dissector
from wiredecode.net import Limits, Network

if TYPE_CHECKING:
    from wiredecode.filter import Filter
    from wiredecode.net.types import Connection, Event

    ConnectionCallback = Callable[[Connection, str | None], None]


def build_dissector(
    demand: Demand,
    limits: Limits | None = None,
    *,
    filters: Sequence[Filter | None] = (),
    analyse: bool = False,
    network: Network | None = None,
    on_end: ConnectionCallback | None = None,
    on_over: ConnectionCallback | None = None,
    on_events: Callable[[list[Event]], None] | None = None,
) -> Dissector:
    """Return a dissector for ``demand``, which also provides the fields that ``demand.select`` and ``filters`` read.

    ``analyse``: with TCP analysis, which ``on_end`` and ``on_over`` (see :class:`Dissector`) do not need by themselves.
    ``network``: reassembles, in place of a new one with ``limits``.
    """
    analyse = analyse or any(each.needs_analysis for each in filters if each is not None)
    network = network or Network(limits or Limits(), analyse=analyse)
    demand = with_filters(demand, *filters)
    return Dissector(demand, network, on_end=on_end, on_over=on_over, on_events=on_events)


def with_filters(demand: Demand, *filters: Filter | None) -> Demand:
    """Return ``demand`` with what ``demand.select`` and other filters need to decide about a frame."""
    for each in (demand.select, *filters):
        if each is not None:
            demand = replace(
                demand,
                style=each.style(demand.style),
                link_responses=demand.link_responses or each.needs_responses,
                copies=demand.copies or each.needs_copies,
            )
    return demand
