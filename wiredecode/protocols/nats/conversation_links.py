"""What tells the kind of a link: between servers each kind has its own grammar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wiredecode.fields.layer import Style
from wiredecode.frames.frame import OK, Frame
from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.layers_decoders import decoder_for
from wiredecode.protocols.nats.layers_grammars import DEDICATED, GRAMMARS
from wiredecode.protocols.nats.layers_options import LEAF_MARKS

if TYPE_CHECKING:
    from wiredecode.protocols.nats.conversation import NatsConversation
    from wiredecode.protocols.reading import FrameDecoder


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


def reread(talk: NatsConversation, frame: Frame, decoder: FrameDecoder, style: Style | None) -> FrameDecoder:
    """What does not fit the link may fit another, or a route of one account: the INFO that says so is not there."""
    name = decoder.type or ""
    for layer, account in ((GRAMMARS[names.ROUTE].get(name), None), (DEDICATED[name], "")):
        if layer is not None and layer is not decoder.layer:
            frame.status, frame.findings = OK, ()
            other = decoder_for(layer, name)
            other.read(frame, style)
            if frame.status == OK:
                talk.is_link(names.ROUTE)
                talk.account, frame.dialect = account, talk.link
                talk.decoders.clear()
                return other
    frame.status, frame.findings = OK, ()
    decoder.read(frame, style)
    return decoder
