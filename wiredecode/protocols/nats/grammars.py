"""Which layer an operation has: that depends on the kind of link, and on what both ends announced."""

from __future__ import annotations

from wiredecode.fields.layer import Layer
from wiredecode.protocols.nats.layers import (
    AccountSub,
    AccountUnsub,
    Connect,
    DedicatedHMsg,
    DedicatedMsg,
    DedicatedOldOriginUnsub,
    DedicatedOriginMsg,
    DedicatedOriginSub,
    DedicatedOriginUnsub,
    DedicatedSub,
    DedicatedUnsub,
    Err,
    HMsg,
    HPub,
    Info,
    LeafMsg,
    LeafSub,
    LeafUnsub,
    Msg,
    Ok,
    OldOriginUnsub,
    OriginMsg,
    OriginSub,
    OriginUnsub,
    Ping,
    Pong,
    Pub,
    RouteHMsg,
    RouteMsg,
    RouteSub,
    RouteUnsub,
    Sub,
    Unknown,
    Unsub,
)
from wiredecode.protocols.nats.names import CLIENT, GATEWAY, LEAF, ROUTE

ANYWHERE: dict[str, type[Layer]] = {
    "INFO": Info,
    "CONNECT": Connect,
    "PING": Ping,
    "PONG": Pong,
    "+OK": Ok,
    "-ERR": Err,
    "PUB": Pub,
    "HPUB": HPub,
    "SUB": Sub,
    "UNSUB": Unsub,
    "MSG": Msg,
    "HMSG": HMsg,
}
OF_ROUTES: dict[str, type[Layer]] = {
    "RS+": RouteSub,
    "RS-": RouteUnsub,
    "LS+": OriginSub,
    "LS-": OldOriginUnsub,
    "A+": AccountSub,
    "A-": AccountUnsub,
    "RMSG": RouteMsg,
    "HMSG": RouteHMsg,
    "LMSG": OriginMsg,
}
OF_LEAFS: dict[str, type[Layer]] = {"LS+": LeafSub, "LS-": LeafUnsub, "HMSG": DedicatedHMsg, "LMSG": LeafMsg}

GRAMMARS: dict[str, dict[str, type[Layer]]] = {
    CLIENT: {**OF_ROUTES, **ANYWHERE},
    ROUTE: {**ANYWHERE, **OF_ROUTES},
    GATEWAY: {**ANYWHERE, **OF_ROUTES},
    LEAF: {**ANYWHERE, **OF_ROUTES, **OF_LEAFS},
}
"""Layers by kind of link, then by operation."""

DEDICATED: dict[str, type[Layer]] = {
    "RS+": DedicatedSub,
    "RS-": DedicatedUnsub,
    "LS+": DedicatedOriginSub,
    "LS-": DedicatedOldOriginUnsub,
    "RMSG": DedicatedMsg,
    "HMSG": DedicatedHMsg,
    "LMSG": DedicatedOriginMsg,
}
"""What is different on the route of one account."""

WITH_ORIGIN: dict[bool, type[Layer]] = {False: OriginUnsub, True: DedicatedOriginUnsub}
"""``LS-`` where both ends announced ``lnocu``, by whether the route is of one account."""

LAYERS: tuple[type[Layer], ...] = tuple(
    dict.fromkeys(
        [
            *(layer for grammar in GRAMMARS.values() for layer in grammar.values()),
            *DEDICATED.values(),
            *WITH_ORIGIN.values(),
            Unknown,
        ]
    )
)
