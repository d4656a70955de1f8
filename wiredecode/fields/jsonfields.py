"""JSON objects as field kinds: a structure whose members come in any order, each declared once (RFC 8259).

A :class:`JsonObject` declares the members it knows as :class:`Member`; others are kept in ``other`` and shown beside
them. Names are matched as the Go decoders of the brokers match them, in any case. Building gives the same text again:
an object remembers the text between its values and how they were spelled.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from wiredecode.fields.credentials import is_secret_name, is_secret_value, without_secrets
from wiredecode.fields.kind import Kind, Malformed, Truncated
from wiredecode.fields.layer import Range, Style, TaggedLayer
from wiredecode.fields.sized import printable, redact, text
from wiredecode.fields.tokens import line_stop

MAX_DEPTH = 64
"""Nesting of arrays and objects that is followed."""
MAX_MEMBERS = 1024
"""Members of one declared object."""
JSON_INTEGERS = range(-(1 << 63), 1 << 64)
"""Integers that records can hold as a number; larger ones are shown as text."""

SPACE = re.compile(rb"[ \t\r\n]*")
STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
OPEN, CLOSE = b"[{", b"]}"


def value_stop(data: bytes, position: int, end: int) -> int:
    """Where the JSON value at ``position`` ends; raises ``ValueError``."""
    depth = 0
    while True:
        byte = data[position : position + 1] if position < end else b""
        if byte == b'"':
            match = STRING.match(data, position, end)
            if match is None:
                raise ValueError("a string without end")
            position = match.end()
        elif byte and byte in OPEN:
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"nested more than {MAX_DEPTH} deep")
            position += 1
            continue
        elif byte and byte in CLOSE:
            depth, position = depth - 1, position + 1
        elif not byte:
            raise ValueError("a value without end")
        elif not depth:
            match = SCALAR.match(data, position, end)
            if match is None:
                raise ValueError("no value")
            return match.end()
        else:
            position += 1
        if depth <= 0:
            return position


SCALAR = re.compile(rb"[^][{}\",: \t\r\n]++")


def parse(raw: bytes) -> Any:
    """The value of a JSON text; raises ``ValueError``. Text that is not UTF-8 survives as in :func:`fields.text`."""
    try:
        return json.loads(text(raw), strict=False, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def dump(value: Any) -> bytes:
    """The compact JSON text of a value."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogateescape")


def present_json(value: Any, secrets: bool) -> Any:
    """A parsed value as records can hold it; unless ``secrets`` without what looks like a credential."""
    if isinstance(value, str):
        return printable(value if secrets else without_secrets(value, replace_secret))
    if isinstance(value, dict):
        hide = not secrets
        return {
            printable(name): replace_secret(inner) if hide and is_named(value, name) else present_json(inner, secrets)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [present_json(inner, secrets) for inner in value]
    if isinstance(value, int) and value not in JSON_INTEGERS:
        return str(value)
    return value


def is_named(members: Mapping[str, Any], name: str) -> bool:
    """Whether a member is a credential by its name, or by a name beside it: ``{"name": "password", "value": ...}``."""
    beside = members.get("name") or members.get("key") if name == "value" else None
    return is_secret_name(name) or (isinstance(beside, str) and is_secret_name(beside))


def is_secret(value: Any) -> bool:
    """Whether a parsed value is, or holds, what looks like a credential."""
    if isinstance(value, str):
        return is_secret_value(value)
    if isinstance(value, dict):
        hides = (may_be_secret(inner) and is_named(value, name) for name, inner in value.items())
        return any(hides) or any(map(is_secret, value.values()))
    return isinstance(value, list) and any(map(is_secret, value))


def may_be_secret(value: Any) -> bool:
    """An empty value, or a truth value, hides nothing."""
    return value is not None and not isinstance(value, bool) and value not in ("", [], {})


def replace_secret(value: Any) -> Any:
    """Replacement of a secret value."""
    return redact(value if isinstance(value, str) else dump(value)) if may_be_secret(value) else value


class Member(Kind):
    """A member of a JSON object; ``kind`` is its type: string, bool, int64, list, struct."""

    tagged = True

    def __init__(self, name: str, kind: str = "string", doc: str = "", **kw: Any) -> None:
        super().__init__(name, doc, **kw)
        self.json_type = kind
        self.column = kind  # type: ignore[misc]

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        return present_json(value, True)

    def readable(self, value: Any) -> str:
        return dump(value).decode("utf-8", "backslashreplace")


class Others(Member):
    """The members that are not declared, as one mapping; records show them beside the declared ones."""


def members(*declared: Member) -> list[Any]:
    """The ``fields_desc`` of a JSON object."""
    return [*declared, Others("other", "struct", "members that are not known")]


def rename_fields(cls: "type[JsonObject]") -> "type[JsonObject]":
    """Class decorator: fields ``pass_`` and ``name_`` become ``pass`` and ``name``, which Scapy cannot declare."""
    for kind in cls.fields_desc:
        kind.name = kind.name.removesuffix("_")
    cls.by_name = {kind.name: kind for kind in cls.fields_desc if not isinstance(kind, Others)}
    return cls


class JsonObject(TaggedLayer):
    """Base of JSON objects with declared members.

    ``layout`` is how the object was written: for each value the text before it, its member and its text.
    """

    __slots__ = ("layout", "tail")
    by_name: ClassVar[dict[str, Member]] = {}
    hides_others: ClassVar[bool] = False
    """The object carries credentials: undeclared members count as credentials."""

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        cls.by_name = {kind.name: kind for kind in cls.fields_desc if not isinstance(kind, Others)}

    def begin(self) -> None:
        self.layout: list[tuple[bytes, str, bytes]] = []
        self.tail = b""
        super().begin()

    @classmethod
    def minimum(cls) -> int:
        return 2

    # Reading.

    def read_tagged(self, data: bytes, position: int, end: int) -> int:
        stop = line_stop(data, position, end)
        try:
            return self._object(data, position, stop)
        except Truncated as problem:
            self.problem = problem
            return position

    def _object(self, data: bytes, start: int, end: int) -> int:
        position = self._expect(data, start, end, b"{", "a JSON object")
        after = self._space(data, position, end)
        if data[after : after + 1] == b"}" and after < end:
            self.tail = data[start : after + 1]
            return after + 1
        gap = start
        for _ in range(MAX_MEMBERS):
            position = self._member(data, gap, position, end)
            gap = position
            after = self._space(data, position, end)
            if data[after : after + 1] == b"}" and after < end:
                self.tail = data[position : after + 1]
                return after + 1
            position = self._expect(data, position, end, b",", "a comma or the end of the object")
        raise Malformed("other", f"more than {MAX_MEMBERS} members", position)

    def _member(self, data: bytes, gap: int, position: int, end: int) -> int:
        """Read ``"name": value``; return the position after it. ``gap`` is where what was read before ends."""
        start = self._space(data, position, end)
        match = STRING.match(data, start, end)
        if match is None:
            raise Malformed("other", "not JSON: no name of a member", start)
        at = self._space(data, self._expect(data, match.end(), end, b":", "a colon"), end)
        try:
            name = parse(match[0])
            stop = value_stop(data, at, end)
            value = parse(data[at:stop])
        except ValueError as error:
            # The message of the json module could quote what it read.
            reason = str(error) if not isinstance(error, json.JSONDecodeError) else error.msg
            raise Malformed("other", f"not JSON: {reason}", at) from None
        self._keep(name, value, data[gap:at], data[at:stop], at)
        return stop

    def _keep(self, name: str, value: Any, gap: bytes, raw: bytes, at: int) -> None:
        kind = self.by_name.get(name) or self.by_name.get(name.lower())
        holder, key = (self.fields.setdefault("other", {}), name) if kind is None else (self.fields, kind.name)
        path = key if kind is not None else f"other.{name}"
        if key in holder:  # the last one counts
            self.layout = [(before, "" if old_path == path else old_path, old) for before, old_path, old in self.layout]
        holder[key] = value
        self.layout.append((gap, path, raw))
        if kind is not None:
            quoted = int(isinstance(value, str))
            self.ranges[path] = (at + quoted, at + len(raw) - quoted)

    def _space(self, data: bytes, position: int, end: int) -> int:
        match = SPACE.match(data, position, end)
        return match.end() if match is not None else position

    def _expect(self, data: bytes, position: int, end: int, mark: bytes, meaning: str) -> int:
        position = self._space(data, position, end)
        if data[position : position + 1] != mark or position >= end:
            raise Malformed("other", f"not JSON: {meaning} expected", position)
        return position + 1

    # Building.

    def build_tagged(self) -> bytes:
        values: dict[str, tuple[str, Any]] = {}
        for name, value in self.fields.items():
            if name == "other":
                values.update({f"other.{inner}": (inner, content) for inner, content in value.items()})
            else:
                values[name] = name, value
        written = {path for _, path, _ in self.layout if path}
        if (not self.layout and not self.tail) or not written <= set(values):
            order = [*self.by_name, *(path for path in values if path not in self.by_name)]
            return b" " + dump(dict(values[path] for path in order if path in values))
        out = []
        for gap, path, raw in self.layout:
            same = not path or dump(parse(raw)) == dump(values[path][1])
            out += [gap, raw if same else dump(values[path][1])]
        added = [value for path, value in values.items() if path not in written]
        more = b",".join(dump(name) + b":" + dump(value) for name, value in added)
        if more and not self.layout:
            return b"{" + more + b"}"
        return b"".join(out) + (b"," + more if more else b"") + self.tail

    # Showing.

    @classmethod
    def holds_secrets(cls) -> bool:
        return True

    @classmethod
    def carries_secrets(cls, values: Mapping[str, Any]) -> bool:
        for name, value in values.items():
            if name == "other":
                secret = any(map(may_be_secret, value.values())) if cls.hides_others else is_secret(value)
            else:
                secret = may_be_secret(value) if cls.is_hidden(cls.by_name[name], value) else is_secret(value)
            if secret:
                return True
        return False

    def secret_ranges(self) -> Iterator[Range]:
        """Ranges of the values that records hide or, replaced by a later one of the same name, do not show."""
        position = self.start
        for gap, path, raw in self.layout:
            position += len(gap)
            if not path or self._is_secret(path):
                quoted = int(raw.startswith(b'"'))
                yield position + quoted, position + len(raw) - quoted
            position += len(raw)

    def _is_secret(self, path: str) -> bool:
        name = path.removeprefix("other.")
        other = self.fields.get("other", {})
        value = {name: other[name]} if path != name and name in other else self.fields.get(path)
        declared = self.by_name.get(path)
        if declared is None and self.hides_others:
            return True
        return (declared is not None and self.is_hidden(declared, value)) or present_json(value, False) != present_json(
            value, True
        )

    @classmethod
    def is_hidden(cls, member: Member, value: Any) -> bool:
        """Whether the value of a declared member is a secret: by declaration, or as a text where none is expected."""
        return member.secret or (cls.hides_others and isinstance(value, str) and member.json_type != "string")

    @classmethod
    def present(cls, values: Mapping[str, Any], style: Style) -> dict[str, Any]:
        """The members in the order of the wire, those that are not declared after them."""
        record: dict[str, Any] = {}
        for name, content in values.items():
            if name == "other":
                continue
            secret = not style.secrets and cls.is_hidden(cls.by_name[name], content)
            record[name] = replace_secret(content) if secret else present_json(content, style.secrets)
        other = values.get("other", {})
        if cls.hides_others and not style.secrets:
            return {**{printable(name): replace_secret(content) for name, content in other.items()}, **record}
        return {**present_json(other, style.secrets), **record}
