"""The kinds of links, and the layer of each operation: it depends on the link and on what both ends announced."""

from __future__ import annotations

from typing import Any

from wiredecode.fields.layer import Layer
from wiredecode.protocols.nats import layers
from wiredecode.protocols.nats.names import CLIENT, GATEWAY, LEAF, ROUTE


def by_name(*operations: type[Layer]) -> dict[str, type[Layer]]:
    """Layers by the name of their operation."""
    return {layer.fields_desc[0].word.decode(): layer for layer in operations}


ANYWHERE = by_name(
    *(layers.Info, layers.Connect, layers.Ping, layers.Pong, layers.Ok, layers.Err),
    *(layers.Pub, layers.HPub, layers.Sub, layers.Unsub, layers.Msg, layers.HMsg),
)
OF_ROUTES = by_name(
    *(layers.RouteSub, layers.RouteUnsub, layers.OriginSub, layers.OldOriginUnsub),
    *(layers.AccountSub, layers.AccountUnsub, layers.RouteMsg, layers.RouteHMsg, layers.OriginMsg),
)
OF_LEAFS = by_name(layers.LeafSub, layers.LeafUnsub, layers.DedicatedHMsg, layers.LeafMsg)

GRAMMARS: dict[str, dict[str, type[Layer]]] = {
    CLIENT: {**OF_ROUTES, **ANYWHERE},
    ROUTE: {**ANYWHERE, **OF_ROUTES},
    GATEWAY: {**ANYWHERE, **OF_ROUTES},
    LEAF: {**ANYWHERE, **OF_ROUTES, **OF_LEAFS},
}
"""Layers by kind of link, then by operation."""

DEDICATED = by_name(
    *(layers.DedicatedSub, layers.DedicatedUnsub, layers.DedicatedOriginSub, layers.DedicatedOldOriginUnsub),
    *(layers.DedicatedMsg, layers.DedicatedHMsg, layers.DedicatedOriginMsg),
)
"""Differences on the route of one account."""

WITH_ORIGIN: dict[bool, type[Layer]] = {False: layers.OriginUnsub, True: layers.DedicatedOriginUnsub}
"""``LS-`` where both ends announced ``lnocu``, by whether the route is of one account."""

LAYERS: tuple[type[Layer], ...] = (
    *dict.fromkeys(layer for table in (*GRAMMARS.values(), DEDICATED) for layer in table.values()),
    *WITH_ORIGIN.values(),
    layers.Unknown,
)


def link_of_info(options: dict[str, Any]) -> str | None:
    """The kind of link shown by INFO, if any."""
    if options.get("gateway"):
        return GATEWAY
    if options.get("leafnode_urls") or options.get("info_on_connect"):
        return LEAF
    if options.get("route_pool_size") or options.get("lnoc"):
        return ROUTE
    return CLIENT if options.get("client_id") else None


def link_of_operation(name: str) -> str:
    """The kind of link shown by an operation between servers, if nothing else was seen."""
    if name in ("A+", "A-"):
        return GATEWAY
    return LEAF if name in ("LS+", "LS-", "LMSG") else ROUTE


LEAF_MARKS = ("server_id", "is_hub", "compress_mode")
"""Members that only leafs have in CONNECT."""


def link_of_connect(options: dict[str, Any]) -> str:
    """The kind of link shown by CONNECT: only clients name their language."""
    if "lang" in options:
        return CLIENT
    if options.get("gateway"):
        return GATEWAY
    if any(mark in options for mark in LEAF_MARKS):
        return LEAF
    return ROUTE if "lnoc" in options or "cluster" in options else CLIENT
