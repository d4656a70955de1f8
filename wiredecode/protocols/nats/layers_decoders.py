"""The layer of each operation, by the kind of link and what both ends announced, and its decoder.

Decoders are faster than others, since their records are their values but for the payload.
"""

import copy
import re
from functools import cache
from typing import Any

from wiredecode.data import storable
from wiredecode.fields import compiler, plain, redact
from wiredecode.fields.credentials import is_secret_pair, without_secrets
from wiredecode.fields.layer import Layer, Style
from wiredecode.fields.textfields import Piece
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats import layers
from wiredecode.protocols.nats.layers import Headers
from wiredecode.protocols.nats.names import CLIENT, GATEWAY, GATEWAY_COMMANDS, LEAF, ROUTE
from wiredecode.protocols.reading import FrameDecoder


def by_name(*operations: type[Layer]) -> dict[str, type[Layer]]:
    """Layers by the name of their operation."""
    return {layer.fields_desc[0].word.decode(): layer for layer in operations}


ANYWHERE = by_name(
    layers.Info,
    layers.Connect,
    layers.Ping,
    layers.Pong,
    layers.Ok,
    layers.Err,
    layers.Pub,
    layers.HPub,
    layers.Sub,
    layers.Unsub,
    layers.Msg,
    layers.HMsg,
)
OF_ROUTES = by_name(
    layers.RouteSub,
    layers.RouteUnsub,
    layers.OriginSub,
    layers.OldOriginUnsub,
    layers.AccountSub,
    layers.AccountUnsub,
    layers.RouteMsg,
    layers.RouteHMsg,
    layers.OriginMsg,
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
    layers.DedicatedSub,
    layers.DedicatedUnsub,
    layers.DedicatedOriginSub,
    layers.DedicatedOldOriginUnsub,
    layers.DedicatedMsg,
    layers.DedicatedHMsg,
    layers.DedicatedOriginMsg,
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
        return ROUTE if GATEWAY_COMMANDS.get(options.get("gateway_cmd", 0)) == "gossip" else GATEWAY
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


PLAIN: dict[type[Layer], re.Pattern[bytes]] = {
    layers.Pub: re.compile(rb"PUB ([!-~]+) ()(?:([!-~]+) )?([0-9]{1,9})\r\n"),
    layers.Msg: re.compile(rb"MSG ([!-~]+) ([!-~]+)  ?(?:([!-~]+) )?([0-9]{1,9})\r\n"),
}
"""Lines as most clients and all servers write them: subject, sid, reply subject, size."""


class OperationDecoder(FrameDecoder):
    """A plan that makes the record of tokens, numbers and a payload from the values already read."""

    def __init__(self, layer: type[Layer], name: str | None) -> None:
        super().__init__(layer, name)
        kinds = [plain(kind) for kind in layer.fields_desc]
        self.simple = all(kind.secret or kind.name == "data" or isinstance(kind, Piece | Headers) for kind in kinds)
        """Whether the record shows the values unchanged, but for the payload and hidden or secret values."""
        self.hidden = [kind.name for kind in kinds if kind.hidden]
        self.secret = frozenset(kind.name for kind in kinds if kind.secret)
        self._plain = PLAIN.get(layer)

    def __reduce__(self) -> tuple[Any, ...]:
        return decoder_for, (self.layer, self.type)  # conversations have no others

    def read(self, frame: Frame, style: Style | None) -> None:
        if frame.is_partial or not (style is None or self.simple):
            super().read(frame, style)
            return
        buffer, start, stop = frame.buffer, frame.start, frame.stop
        line = None if self._plain is None else self._plain.match(buffer, start, stop)
        try:
            if line is None or (values := self._plain_values(line, buffer, stop)) is None:
                values, reached = self._walk(buffer, start, stop)
            else:
                reached = stop
            if style is not None and self.secret and not self.secret.isdisjoint(values):
                raise compiler.DecodeError
        except compiler.FAILED:
            super().read(frame, style)
            return
        frame.layer, frame.type, frame.values = self.layer, self.type, values
        if style is not None:
            self._show(frame, values, style)
        if reached < stop:
            self._report_surplus(frame, reached - start, stop - start)

    def _plain_values(self, line: re.Match[bytes], buffer: bytes, stop: int) -> dict[str, Any] | None:
        """The values of a plain operation; None if its size is not that of its body."""
        subject, sid, reply, size = line.groups()
        begin, count = line.end(), int(size)
        if begin + count != stop - 2 or buffer[stop - 2 : stop] != b"\r\n":
            return None
        values: dict[str, Any] = {"operation": self.type, "subject": subject.decode()}
        if sid:
            values["sid"] = sid.decode()
        if reply is not None:
            values["reply"] = reply.decode()
        values["size"] = count
        values["line_end"] = b"\r\n"
        values["data"] = buffer[begin : stop - 2]
        values["end"] = b"\r\n"
        return values

    def _show(self, frame: Frame, values: dict[str, Any], style: Style) -> None:
        record = dict(values)
        for name in self.hidden:
            record.pop(name, None)
        if "data" in record:
            record["data"] = style.show(record["data"])
        if "description" in record and not style.secrets:
            record["description"] = without_secrets(record["description"], redact)
        if "headers" in record:
            pairs = [(each["key"], each["value"]) for each in record["headers"]]
            hide = not style.secrets
            record["headers"] = [
                {"key": key, "value": redact(value) if hide and is_secret_pair(key, value) else value}
                for key, value in pairs
            ]
        frame.layers = {self.layer.filter_name: record}


@storable
@cache
def decoder_for(layer: type[Layer], name: str | None) -> FrameDecoder:
    return OperationDecoder(layer, name)


SECRET_FIELDS = ("data", "error")


@cache
def hides_data(layer: type[Layer] | None) -> bool:
    """Whether frames that were read as this operation have a payload that is a secret."""
    return layer is not None and any(kind.secret for kind in layer.fields_desc if kind.name == "data")


@storable
@cache
def secret_layer(layer: type[Layer]) -> type[Layer]:
    """The same operation with a payload, or a text of the server, that is a secret."""
    kinds = []
    for kind in layer.fields_desc:
        if kind.name in SECRET_FIELDS:
            kind = copy.copy(kind)
            kind.secret = True
        kinds.append(kind)
    return layer.declare(f"Secret{layer.__name__}", *kinds, doc=layer.__doc__, remade=(secret_layer, (layer,)))


@cache
def secret_decoder(decoder: FrameDecoder) -> FrameDecoder:
    return OperationDecoder(secret_layer(decoder.layer), decoder.type)
