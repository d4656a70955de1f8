"""Declarations as Lua tables, for Wireshark: the third reader of ``fields_desc``.

Every field becomes a table: its name, the function of ``wireshark/runtime.lua`` that reads it, and the parameters of
that function. Conditions become Lua functions; ``ftype`` follows from the kind. A protocol writes its own kinds
(:class:`Script`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wiredecode import fields
from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import jsonfields as json
from wiredecode.fields import protobuf as pb
from wiredecode.fields import textfields
from wiredecode.fields.layer import Layer
from wiredecode.fields.numbers import INTEGERS
from wiredecode.fields.presence import SIGNS
from wiredecode.fields.protobuf.kinds import Scalar
from wiredecode.fields.protobuf.messages import UnknownFields
from wiredecode.fields.sized import mask

MAX_DEPTH = 12
"""Nesting of structures for which Wireshark gets fields."""
SCALES = {"timestamp[ms, UTC]": 1_000, "timestamp[ns, UTC]": 1_000_000_000, "timestamp[s, UTC]": 1}

LuaReader = tuple[str, dict[str, Any]]
"""The name of the function that reads a kind (a member of ``R``), and further members of its table; Lua code is a
:class:`LuaCode`."""


class LuaCode(str):
    """Text that is Lua code."""

    __slots__ = ()


KindWriter = Callable[["LuaWriter", Any], LuaReader]


@dataclass(frozen=True)
class Script:
    """Additions of a protocol to its declarations for Wireshark."""

    source: str
    """Hand-written Lua: which layer a message has, and the meaning of its ids."""
    tables: Callable[[LuaWriter], Mapping[str, Any]] = lambda writer: {}
    """Members of the table ``P`` that the source finds: layers by code, names."""
    kinds: Mapping[type[fields.Kind], KindWriter] = field(default_factory=dict)
    """Writers of the protocol's own kinds."""
    types: Mapping[type[fields.Kind], str] = field(default_factory=dict)
    """Types in Wireshark of its own kinds, where they differ from those of their bases."""
    added: Mapping[str, str] = field(default_factory=dict)
    """Fields that no layer declares and that Lua can work out, with their types in Wireshark."""


@dataclass(frozen=True)
class WiresharkField:
    name: str
    ftype: str
    title: str
    doc: str
    values: str
    """The Lua table of the names of values, or nil."""


def lua_string(text: str | bytes) -> str:
    """A Lua string of one line, in ASCII."""
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    shown = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03d}" for byte in raw)
    return f'"{shown}"'


def lua_literal(value: Any) -> str:
    """A Python value as Lua: mappings, sequences and sets become tables; a set's members are keys."""
    match value:
        case LuaCode():
            return value
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str() | bytes():
            return lua_string(value)
        case Mapping():
            pairs = sorted(value.items(), key=lambda pair: (isinstance(pair[0], str), pair[0]))
            return "{" + ", ".join(f"[{lua_literal(key)}]={lua_literal(inner)}" for key, inner in pairs) + "}"
        case set() | frozenset():
            return lua_literal(dict.fromkeys(value, True))
        case _:
            return "{" + ", ".join(map(lua_literal, value)) + "}"


def pcre(pattern: bytes) -> bytes:  # whose \Z also matches before a last line end
    return pattern.replace(rb"\Z", rb"\z")


class LuaWriter:
    """Collects the tables of one protocol: names of values, regular expressions, layers; each occurs once."""

    def __init__(self, kinds: Mapping[type[fields.Kind], KindWriter], types: Mapping[type[fields.Kind], str]) -> None:
        self.kinds: dict[type[fields.Kind], KindWriter] = {**GENERIC, **kinds}
        self.types = {**TYPES, **types}
        self.lines: list[str] = []
        self.names: dict[str, str] = {}
        self.patterns: dict[bytes, str] = {}
        self.layers: dict[type[Layer], str] = {}
        self.fields: dict[str, WiresharkField] = {}

    # Names of values, patterns.

    def values(self, names: Mapping[int, str] | None) -> LuaCode:
        """The Lua table of the names of numbers."""
        if not names:
            return LuaCode("nil")
        text = lua_literal(names)
        if text not in self.names:
            self.names[text] = f"N[{len(self.names) + 1}]"
            self.lines.append(f"{self.names[text]} = {text}")
        return LuaCode(self.names[text])

    def pattern(self, pattern: bytes) -> LuaCode:
        """The Lua object of a regular expression for bytes."""
        if pattern not in self.patterns:
            self.patterns[pattern] = f"X[{len(self.patterns) + 1}]"
            self.lines.append(f"{self.patterns[pattern]} = regex({lua_string(pcre(pattern))})")
        return LuaCode(self.patterns[pattern])

    # Layers.

    def layer(self, layer: type[Layer]) -> LuaCode:
        """The Lua table of a layer, written when it is first asked for."""
        if layer not in self.layers:
            self.layers[layer] = name = f"L[{len(self.layers) + 1}]"
            self.lines.append(f"{name} = {{name={lua_string(layer.__name__)}}}")
            self._write(name, layer)
        return LuaCode(self.layers[layer])

    def _write(self, name: str, layer: type[Layer]) -> None:
        in_order = [self.entry(kind) for kind in layer.in_order]
        self.lines.append(f"-- {layer.__name__}\n{name}.fields = {{\n  " + ",\n  ".join(in_order) + "\n}")
        more: dict[str, Any] = {"prefix": layer.filter_name or None, "facts": list(layer.facts) or None}
        if issubclass(layer, textfields.TextLayer):
            more["blanks"] = layer.blanks
        if issubclass(layer, pb.Message):
            more["tail"] = LuaCode("protobuf_tail")
            more["tagged"] = {number: self.code_of(kind) for number, kind in layer.by_number.items()}
            more["order"] = sorted(layer.by_number)
        elif issubclass(layer, json.JsonObject):
            more["tail"] = LuaCode("json_tail")
            more["members"] = {member: self.code_of(kind) for member, kind in layer.by_name.items()}
        for key, value in more.items():
            if value is not None:
                self.lines.append(f"{name}.{key} = {lua_literal(value)}")

    def code_of(self, kind: fields.Kind) -> LuaCode:
        return LuaCode(self.entry(kind))

    def entry(self, declared: fields.Kind) -> str:
        """The table of one field."""
        kind = fields.plain(declared)
        read, more = self.reader(kind)
        members = {"secret": kind.secret or None, "hidden": kind.hidden or None, **more}
        if isinstance(kind, fields.Number) and kind.names and not isinstance(kind, fields.Flags):
            members["names"] = self.values(kind.names)
        if isinstance(declared, fields.Optional):
            members["when"] = LuaCode(f"function(c, v, at) return {LuaPrinter(self).truth(declared.when.root)} end")
        options = "".join(f", {key}={lua_literal(value)}" for key, value in members.items() if value is not None)
        return f"{{{lua_string(kind.name)}, {lua_string(read)}{options}}}"

    def reader(self, kind: fields.Kind) -> LuaReader:
        for base in type(kind).__mro__:
            if base in self.kinds:
                return self.kinds[base](self, kind)
        raise TypeError(f"{kind.name}: {type(kind).__name__} has no reader in Lua")

    # Fields of Wireshark.

    def declare(self, layer: type[Layer], prefix: str, depth: int = MAX_DEPTH) -> None:
        """Remember the fields of a layer at ``prefix``."""
        for declared in layer.fields_desc:
            kind = fields.plain(declared)
            if kind.hidden or isinstance(kind, json.Others):
                continue
            name = f"{prefix}.{kind.name}"
            inner = kind.element if isinstance(kind, fields.Array) else kind
            names = inner.names if isinstance(inner, fields.Number) and not isinstance(inner, fields.Flags) else None
            self.name(name, self.ftype(inner), kind.doc, names)
            if isinstance(inner, fields.Struct) and depth:
                self.declare(inner.layer, name, depth - 1)

    def name(self, name: str, ftype: str, doc: str = "", names: Mapping[int, str] | None = None) -> None:
        """Remember a field; if its types differ between messages, the one for values of both."""
        values = self.values(names)
        existing = self.fields.get(name)
        if existing is not None:
            ftype, doc = common_type(existing.ftype, ftype), existing.doc or doc
            values = LuaCode(existing.values if existing.values != "nil" else values)
        if values != "nil" and ftype.lstrip("u").startswith("int") is False:
            values = LuaCode("nil")
        self.fields[name] = WiresharkField(name, ftype, name.rpartition(".")[2], doc, values)

    def ftype(self, kind: fields.Kind) -> str:
        if kind.secret:
            return "string"
        return next((self.types[base] for base in type(kind).__mro__ if base in self.types), None) or type_by_column(
            kind
        )


def type_by_column(kind: fields.Kind) -> str:
    column = kind.column.removeprefix("list<").removesuffix(">")
    if isinstance(kind, json.Member) and column == "struct":
        return "string"
    if column.startswith("timestamp"):
        return "absolute_time"
    return {"bool": "bool", "string": "string", "struct": "none", "double": "double"}.get(column) or (
        column if column.lstrip("u").startswith("int") else "bytes"
    )


def common_type(one: str, other: str) -> str:
    """A type for values of both."""
    if one == other:
        return one
    widths = [int(each.lstrip("u").removeprefix("int")) if "int" in each else 0 for each in (one, other)]
    if all(widths):
        signed = not (one.startswith("u") and other.startswith("u"))
        mixed = one.startswith("u") != other.startswith("u")
        width = next(each for each in (8, 16, 32, 64) if each >= min(64, max(widths) * (2 if mixed else 1)))
        return f"{'int' if signed else 'uint'}{width}"
    return "string"


WORDS = {"left": "(c.stop - c.pos)", "tokens": "tokens_left(c)", "token": "next_token(c)"}
"""Words of a condition in Lua."""


class LuaPrinter:
    """Prints a condition as Lua: ``c`` is the cursor, ``v`` the earlier values, ``at`` where each of these ended."""

    def __init__(self, writer: LuaWriter) -> None:
        self.writer = writer

    def truth(self, node: ast.expr) -> str:
        match node:
            case ast.BoolOp(op=operator, values=parts):
                word = " and " if isinstance(operator, ast.And) else " or "
                return f"({word.join(map(self.truth, parts))})"
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return f"(not {self.truth(part)})"
            case ast.Call(func=ast.Name(id="has")):
                return self.value(node)
            case ast.Compare(left=first, ops=operators, comparators=others):
                pairs = zip([first, *others], operators, others, strict=False)
                return "(" + " and ".join(self.compare(*pair) for pair in pairs) + ")"
        return f"truth({self.value(node)})"

    def compare(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        sign = SIGNS[type(operator)]
        if isinstance(right, ast.Tuple):
            word = "not_among" if sign == "not in" else "among"
            return f"{word}({self.value(left)}, {{{', '.join(map(self.value, right.elts))}}})"
        return f'compare({self.value(left)}, "{"~=" if sign == "!=" else sign}", {self.value(right)})'

    def value(self, node: ast.expr) -> str:
        match node:
            case ast.BinOp(left=left, op=operator, right=right):
                return f'sum({self.value(left)}, "{SIGNS[type(operator)]}", {self.value(right)})'
            case ast.UnaryOp(op=ast.USub(), operand=part):
                return f'sum(0, "-", {self.value(part)})'
            case ast.Constant(value=constant):
                return lua_literal(constant)
            case ast.Name(id=name):
                return WORDS.get(name, f"v.{name}")
            case ast.Call(func=ast.Name(id="has"), args=[ast.Name(id=field)]):
                return f"(v.{field} ~= nil)"
            case ast.Call(func=ast.Name(id="left_of"), args=[ast.Name(id=field)]):
                return f'left_of(c, v, at, "{field}")'
            case ast.Call(func=ast.Name(id="peek"), args=[ast.Constant(value=int(width))]):
                return f"peek(c, {width})"
            case ast.Call(func=ast.Name(id="matches"), args=[ast.Constant(value=bytes(pattern))]):
                return f"matches(c, {self.writer.pattern(pattern)})"
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return f"CALL.{name}({', '.join(['c', 'v', *map(self.value, arguments)])})"
        return self.truth(node)


# Readers of the kinds of this package.


def integer(kind: Any) -> dict[str, Any]:
    """Parameters of an integer, by itself or as a length or count."""
    if isinstance(kind, fields.Number):
        return {"w": kind.width, "le": kind.little or None, "signed": kind.signed or None}
    wrap = 1 << 32 if isinstance(kind, fields.Varint32) else None
    return {
        "most": kind.max_bytes,
        "wrap": wrap,
        "zigzag": isinstance(kind, fields.ZigZag) or None,
        "less": isinstance(kind, fields.CompactLength) or None,
    }


def number(writer: LuaWriter, kind: Any) -> LuaReader:
    more = integer(kind)
    if kind.column in SCALES:
        more["per"] = SCALES[kind.column]
    if isinstance(kind, fields.Flags):
        more["flags"] = writer.values(kind.names)
    return "uint", more


def sized(writer: LuaWriter, kind: Any) -> LuaReader:
    length = kind.length
    more: dict[str, Any] = {"text": isinstance(kind, fields.Text) or None}
    if isinstance(length, INTEGERS):
        more |= integer(length)
    else:
        more["of" if isinstance(length, str) else "fixed"] = length
    if kind.null is not None:
        more["null"] = kind.null
    if isinstance(kind, fields.Binary) and kind.inner not in (None, mask):
        more["inner"] = kind.inner.__name__
    return "sized", more


def array(writer: LuaWriter, kind: Any) -> LuaReader:
    more: dict[str, Any] = {"element": writer.code_of(kind.element)}
    if isinstance(kind.count, INTEGERS):
        more |= integer(kind.count)
    elif kind.count is not None:
        more["of"] = kind.count
    if kind.null is not None:
        more["null"] = kind.null
    if kind.size:
        more["size"] = kind.size
    return "array", more


def bits(writer: LuaWriter, kind: Any) -> LuaReader:
    return "bits", {"w": kind.whole.width, "back": kind.back, "shift": kind.shift, "bits": kind.count}


def protobuf_scalar(writer: LuaWriter, kind: Any) -> LuaReader:
    more: dict[str, Any] = {"zero": kind.default is not None or None, "as": writer.ftype(kind)}
    if kind.column in SCALES:
        more["per"] = SCALES[kind.column]
        more["as"] = "int64"
    return "pb_number", more


def protobuf_sized(writer: LuaWriter, kind: Any) -> LuaReader:
    text = isinstance(kind, fields.Text)
    return "pb_sized", {"text": text or None, "zero": kind.default is not None or None}


def repeated(writer: LuaWriter, kind: Any) -> LuaReader:
    return "pb_repeated", {"element": writer.code_of(kind.element), "packed": kind.packed or None}


GENERIC: dict[type[fields.Kind], KindWriter] = {
    fields.Number: number,
    fields.Bits: bits,
    fields.Varint: lambda writer, kind: ("varint", integer(kind)),
    fields.Float64: lambda writer, kind: ("float", {}),
    fields.Uuid: lambda writer, kind: ("uuid", {}),
    fields.Sized: sized,
    fields.Rest: lambda writer, kind: ("rest", {}),
    fields.Struct: lambda writer, kind: ("structure", {"layer": writer.layer(kind.layer)}),
    fields.Array: array,
    Scalar: protobuf_scalar,
    pb.String: protobuf_sized,
    pb.Bytes: protobuf_sized,
    pb.Embedded: lambda writer, kind: ("pb_message", {"layer": writer.layer(kind.layer)}),
    pb.Repeated: repeated,
    UnknownFields: lambda writer, kind: ("rest", {}),
    textfields.Word: lambda writer, kind: ("word", {"word": kind.word}),
    textfields.Token: lambda writer, kind: ("token", {}),
    textfields.Decimal: lambda writer, kind: ("decimal", {"digits": kind.digits}),
    textfields.Tokens: lambda writer, kind: ("tokens", {"leave": kind.leave}),
    textfields.LineText: lambda writer, kind: ("line_text", {"quote": kind.quote or None}),
    textfields.Until: lambda writer, kind: ("until_mark", {"mark": kind.after, "skip": bool(kind.skip) or None}),
    textfields.LineEnd: lambda writer, kind: ("line_end", {}),
    textfields.Mark: lambda writer, kind: ("constant", {"mark": kind.mark}),
    json.Member: lambda writer, kind: ("json_member", {"as": kind.json_type}),
}
TYPES: dict[type[fields.Kind], str] = {
    fields.Boolean: "bool",
    fields.Flags: "uint8",
    fields.Uuid: "guid",
    fields.Struct: "none",
    fields.Timestamp: "absolute_time",
    fields.TimestampNs: "absolute_time",
    textfields.Tokens: "string",
}


def fields_of(writer: LuaWriter) -> Iterator[str]:
    """The fields of Wireshark as Lua tables, in the order in which they were declared."""
    for named in writer.fields.values():
        name, title, ftype, doc = map(lua_string, (named.name, named.title, named.ftype, named.doc))
        yield f"{{{name}, {title}, {ftype}, {named.values}, {doc}}}"
