"""Which layer an operation has: that depends on the kind of link, and on what both ends announced."""

from __future__ import annotations

from wiredecode.fields.layer import Layer
from wiredecode.protocols.nats import layers
from wiredecode.protocols.nats.names import CLIENT, GATEWAY, LEAF, ROUTE

ANYWHERE: dict[str, type[Layer]] = {
    "INFO": layers.Info,
    "CONNECT": layers.Connect,
    "PING": layers.Ping,
    "PONG": layers.Pong,
    "+OK": layers.Ok,
    "-ERR": layers.Err,
    "PUB": layers.Pub,
    "HPUB": layers.HPub,
    "SUB": layers.Sub,
    "UNSUB": layers.Unsub,
    "MSG": layers.Msg,
    "HMSG": layers.HMsg,
}
OF_ROUTES: dict[str, type[Layer]] = {
    "RS+": layers.RouteSub,
    "RS-": layers.RouteUnsub,
    "LS+": layers.OriginSub,
    "LS-": layers.OldOriginUnsub,
    "A+": layers.AccountSub,
    "A-": layers.AccountUnsub,
    "RMSG": layers.RouteMsg,
    "HMSG": layers.RouteHMsg,
    "LMSG": layers.OriginMsg,
}
OF_LEAFS: dict[str, type[Layer]] = {
    "LS+": layers.LeafSub,
    "LS-": layers.LeafUnsub,
    "HMSG": layers.DedicatedHMsg,
    "LMSG": layers.LeafMsg,
}

GRAMMARS: dict[str, dict[str, type[Layer]]] = {
    CLIENT: {**OF_ROUTES, **ANYWHERE},
    ROUTE: {**ANYWHERE, **OF_ROUTES},
    GATEWAY: {**ANYWHERE, **OF_ROUTES},
    LEAF: {**ANYWHERE, **OF_ROUTES, **OF_LEAFS},
}
"""Layers by kind of link, then by operation."""

DEDICATED: dict[str, type[Layer]] = {
    "RS+": layers.DedicatedSub,
    "RS-": layers.DedicatedUnsub,
    "LS+": layers.DedicatedOriginSub,
    "LS-": layers.DedicatedOldOriginUnsub,
    "RMSG": layers.DedicatedMsg,
    "HMSG": layers.DedicatedHMsg,
    "LMSG": layers.DedicatedOriginMsg,
}
"""What is different on the route of one account."""

WITH_ORIGIN: dict[bool, type[Layer]] = {False: layers.OriginUnsub, True: layers.DedicatedOriginUnsub}
"""``LS-`` where both ends announced ``lnocu``, by whether the route is of one account."""

LAYERS: tuple[type[Layer], ...] = tuple(
    dict.fromkeys(
        [
            *(layer for grammar in GRAMMARS.values() for layer in grammar.values()),
            *DEDICATED.values(),
            *WITH_ORIGIN.values(),
            layers.Unknown,
        ]
    )
)
