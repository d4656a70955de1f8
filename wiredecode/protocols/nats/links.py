"""What tells the kind of a link: between servers each kind has its own grammar."""

from __future__ import annotations

from typing import Any

from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.options import LEAF_MARKS


def link_of_info(options: dict[str, Any]) -> str | None:
    """The kind of link that INFO tells, if it does."""
    if options.get("gateway"):
        return names.GATEWAY
    if options.get("leafnode_urls") or options.get("info_on_connect"):
        return names.LEAF
    if options.get("route_pool_size") or options.get("lnoc"):
        return names.ROUTE
    return names.CLIENT if options.get("client_id") else None


def link_of_operation(name: str) -> str:
    """The kind of link that an operation between servers tells, when nothing else was seen."""
    if name in ("A+", "A-"):
        return names.GATEWAY
    return names.LEAF if name in ("LS+", "LS-", "LMSG") else names.ROUTE


def link_of_connect(options: dict[str, Any]) -> str:
    """The kind of link that CONNECT tells: only clients say their language."""
    if "lang" in options:
        return names.CLIENT
    if options.get("gateway"):
        return names.GATEWAY
    if any(mark in options for mark in LEAF_MARKS):
        return names.LEAF
    return names.ROUTE if "lnoc" in options or "cluster" in options else names.CLIENT
