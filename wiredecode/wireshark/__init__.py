"""A dissector for Wireshark, written from the declarations: the same messages and names of fields there."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING

from wiredecode.fields import credentials
from wiredecode.fields.lua import Code, Script, Writer, fields_of, quoted, spelled
from wiredecode.protocols.registry import carried_by, protocols
from wiredecode.protocols.shared.framing import LengthPrefix, Number
from wiredecode.protocols.shared.proxy import ProxyV1, ProxyV2

if TYPE_CHECKING:
    from wiredecode.protocols.base import Protocol

RUNTIME = ("runtime.lua", "formats.lua", "stream.lua")
"""Files written by hand, in this order."""
OF_WIRESHARK = frozenset({"tls", "http", "websocket"})
"""Layers whose names are those of Wireshark's own protocols."""
HEAD = """\
-- wiredecode {version}: RabbitMQ Stream, NATS with Liftbridge, TANK, Cursus and Pravega for Wireshark 4.0 or newer.
-- Made by `wiredecode wireshark` from the declarations of the protocols; changes here are lost. Licence: GPL-2.0-only.

if rex_pcre2 == nil then
  report_failure("wiredecode needs Wireshark 4.0 or newer")
  return
end
"""


def script(version: str) -> str:
    """The whole dissector, as one Lua script."""
    return "\n".join([HEAD.format(version=version), *_parts()])


def _parts() -> Iterator[str]:
    yield f"local SECRET_NAME_PATTERN = {quoted(credentials.NAME.pattern)}"
    yield f"local SECRET_VALUE_PATTERN = {quoted(credentials.VALUE.pattern)}"
    yield from ((files(__package__) / name).read_text() for name in RUNTIME)
    for protocol in protocols():
        script = protocol.wireshark()
        if script is not None:
            yield "\n".join(["do", *_protocol(protocol, script), "register(P)", "end"])


def _protocol(protocol: Protocol, script: Script) -> Iterator[str]:
    writer = Writer(script.kinds, script.types)
    members = {
        "name": protocol.name,
        "title": protocol.title,
        "ports": ",".join(map(str, protocol.ports)),
        "proxy": [writer.layer(ProxyV1), writer.layer(ProxyV2)],
        **script.tables(writer),
    }
    if protocol.framing is not None:
        members["framing"] = framing(protocol.framing)
    carried = [layer for one in carried_by(protocol.name) for layer in one.layers()]
    for layer in [*protocol.layers(), *carried]:
        if layer.filter_name not in OF_WIRESHARK:
            writer.declare(layer, layer.filter_name)
    for name, ftype in script.added.items():
        writer.name(name, ftype)
    yield f"-- {protocol.title}"
    yield "local N, X, L, P = {}, {}, {}, {}"
    yield from writer.lines
    yield from (f"P.{name} = {spelled(value)}" for name, value in members.items())
    yield "P.fields = {\n  " + ",\n  ".join(fields_of(writer)) + "\n}"
    yield script.source


def framing(prefix: LengthPrefix) -> Code:
    """Lua declaration of a protocol's length of frames."""
    held = ", ".join(_number(number) for number in prefix.held)
    length = _number(prefix.length)
    return Code(f"{{length={length}, after={prefix.after}, header={prefix.header}, held={{{held}}}}}")


def _number(number: Number) -> str:
    more = (", le=true" if number.little else "") + (", signed=true" if number.signed else "")
    return f"{{at={number.at}, width={number.width}, least={number.least}, most={number.most}{more}}}"
