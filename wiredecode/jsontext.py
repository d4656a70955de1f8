"""From a layer's ``fields_desc`` straight to JSON text: what the record decoder and a JSON encoder do, in one step.

:func:`decoder` generates, as :mod:`wiredecode.compiler` does, a function ``(b, p, e) -> (values, text, reached)``:
the values that the ``head`` decoder gives, and the JSON text ``{"layer":{record}}`` without the two closing braces, so
that generated fields can follow. It raises what the other fast decoders raise, and also where the text of a field
cannot be made: then the ``record`` decoder says it. Both give the same bytes, which a test holds them to.

Not every layer has one (:func:`possible`): tails, and bytes whose content has no text (``inner_text``), are left to
the ``record`` decoder.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import orjson

from wiredecode.compiler import Emitter, Scope
from wiredecode.fields import (
    Absent,
    Array,
    Binary,
    Boolean,
    Flags,
    Kind,
    Moment,
    Number,
    Optional,
    Rest,
    Struct,
    Text,
    Uuid,
    plain,
    redacted,
)
from wiredecode.layer import Layer, Style

MAX_KNOWN = 4096
"""Texts remembered of each sort; then all are forgotten and learnt anew."""
MAX_KNOWN_LENGTH = 128
"""Longer strings are not remembered."""

Values = dict[str, Any]
Decoder = Callable[[bytes, int, int], tuple[Values, str, int]]


def dumped(value: Any) -> str:
    """The JSON text of any value."""
    return orjson.dumps(value).decode()


class Quoted(dict[str, str]):
    """Strings as JSON texts: most of what a protocol says is said again."""

    def __missing__(self, value: str) -> str:
        text = dumped(value)
        if len(value) <= MAX_KNOWN_LENGTH:
            if len(self) >= MAX_KNOWN:
                self.clear()
            self[value] = text
        return text


quoted = Quoted()


class Coded(dict[int, str]):
    """Numbers as the texts that a kind shows for them, with the code of an enumeration as a second key."""

    def __init__(self, kind: Number, code: str | None) -> None:
        super().__init__()
        self.kind, self.code = kind, code

    def __missing__(self, value: int) -> str:
        text = dumped(self.kind.present(value, bytes.hex))
        if self.code is not None:
            text = f'{text},"{self.code}":{value}'
        if len(self) >= MAX_KNOWN:
            self.clear()
        self[value] = text
        return text


def generated(fields: Mapping[str, Any]) -> str:
    """Further keys for the end of a text."""
    return f",{orjson.dumps(fields).decode()[1:-1]}" if fields else ""


@cache
def decoder(layer: type[Layer], style: Style) -> Decoder | None:
    """The generated function, made on first use; None where there cannot be one."""
    if not possible(layer):
        return None
    emitter = TextEmitter(layer, "text", style)
    code = compile(emitter.text(), f"<text decoder of {layer.__name__}>", "exec")
    exec(code, emitter.namespace)
    return emitter.namespace["decode"]  # type: ignore[no-any-return]


def source(layer: type[Layer], style: Style | None = None) -> str:
    """The Python text of a decoder."""
    return TextEmitter(layer, "text", style or Style()).text()


@cache
def possible(layer: type[Layer]) -> bool:
    """Whether the text of a layer can be made. A frame with an optional structure that has none is given up alone."""
    return len(layer.in_order) == len(layer.fields_desc) and all(map(_possible, layer.fields_desc))


def _possible(kind: Kind) -> bool:
    if isinstance(kind, Optional) and isinstance(kind.kind, Struct):
        return True
    inner = plain(kind)
    if isinstance(inner, Array):
        inner = inner.element
    if isinstance(inner, Struct):
        return possible(inner.layer)
    if isinstance(inner, Binary) and inner.inner is not None and not inner.secret:
        return inner.inner_text is not None
    return type(inner) in (Text, Binary, Rest, Uuid) or isinstance(inner, Number)


class TextEmitter(Emitter):
    """Generates the text decoder of a layer. A structure ``d`` is a text, its values (if kept) are the dict ``vd``."""

    def __init__(self, layer: type[Layer], mode: str, style: Style) -> None:
        super().__init__(layer, mode, style)
        self.hex = style.show is bytes.hex
        self.secrets = style.secrets
        self.keeping = True
        """Values are kept up to the first bulk array."""
        self.counts: dict[Kind, str] = {}
        self.kept: dict[str, list[tuple[str, str]]] = {}
        """By structure: the values that its dict does not hold yet."""
        self.refused: dict[str, set[str]] = {}
        """By structure: optional fields whose presence makes the decoder give up."""
        self.last: dict[str, str] = {}
        """By structure: what follows its fields."""
        self.loose: set[str] = set()
        """Structures whose first field may be absent: each item brings its comma."""
        self.lists: set[str] = set()
        """Arrays that are one text already."""
        self.opening = {"d0": f'{{{{"{layer.filter_name}":{{{{'}
        """By structure: what its text begins with, as part of an f-string."""
        self.namespace.update(dumped=dumped, quoted=quoted, NULL="null", hide=redacted)

    def text(self) -> str:
        if not self.lines:
            self.scope(self.layer, "d0", "x0")
        return "\n".join(["def decode(b, p, e):", *self.lines, "    return vd0, d0, p", ""])

    # Values.

    def _field(self, kind: Kind) -> None:
        keep = self.keeping
        value = kind.emit(self)
        scope = self.scopes[-1]
        scope.variables[kind.name] = value
        if keep:
            kept = self.counts.get(kind) or (f"v{value}" if isinstance(kind, Array | Struct) else value)
            self.kept.setdefault(scope.target, []).append((kind.name, kept))
        if not kind.hidden:
            self.store(kind, value)

    def _optional(self, kind: Optional) -> None:
        scope = self.scopes[-1]
        refused = self.refused.setdefault(scope.target, set())
        if isinstance(kind.when, Absent) and kind.when.field in refused:
            self._field(kind.kind)
        elif isinstance(kind.kind, Struct) and not possible(kind.kind.layer):
            self.flush()
            self.line(f"if {kind.when.emit(self)}: raise Cut")
            refused.add(kind.name)
        else:
            super()._optional(kind)

    def _keep(self, scope: Scope) -> None:
        """Put the values met so far into the dict of their structure."""
        kept, target = self.kept.pop(scope.target, []), f"v{scope.target}"
        if not scope.created:
            if kept or self.keeping or scope.target == "d0":
                self.line(f"{target} = {{{', '.join(f'{name!r}: {value}' for name, value in kept)}}}")
            return
        for name, value in kept:
            self.line(f"{target}[{name!r}] = {value}")

    # Texts.

    def store(self, kind: Kind, value: str) -> None:
        self.scopes[-1].pending.append((kind.name, self.shown(kind, value)))
        if isinstance(kind, Binary) and kind.inner_text is not None and not (kind.secret and not self.secrets):
            inner = self.variable("i")
            call = f"{self.constant(kind.inner_text)}({value}, show, {value}_text)"
            self.line(f"{inner} = '' if {value} is None else {call}" if kind.null is not None else f"{inner} = {call}")
            self.scopes[-1].pending.append(("", f"{{{inner}}}"))

    def shown(self, kind: Kind, value: str, code: bool = True) -> str:
        """The part of an f-string that makes the JSON text of a value."""
        if kind.secret and not self.secrets:
            self.flush()
            return f"{{NULL if {value} is None else dumped(hide({value}))}}"
        if isinstance(kind, Array):
            return f"{{{value}}}" if value in self.lists else f'[{{",".join({value})}}]'
        if isinstance(kind, Struct):
            return f"{{{value}}}"
        if isinstance(kind, Binary):
            return self._bytes(kind, value)
        if isinstance(kind, Text):
            return (
                f"{{NULL if {value} is None else quoted[{value}]}}" if kind.null is not None else f"{{quoted[{value}]}}"
            )
        if isinstance(kind, Number) and (kind.names or isinstance(kind, Flags | Boolean)):
            table = Coded(kind, kind.code_name if code else None)
            return f"{{{self.constant(table)}[{value}]}}"
        if isinstance(kind, Moment | Uuid):
            return f"{{dumped({kind.shown(self, value)})}}"
        return f"{{{value}}}"

    def _bytes(self, kind: Binary, value: str) -> str:
        """Bytes: most of the output, so the usual hex needs no escaping and no further copy."""
        shown = f"{value}.hex()" if self.hex else f"dumped(show({value}))"
        if kind.inner_text is not None:
            self.flush()
            self.line(f"{value}_text = {f'None if {value} is None else {shown}' if kind.null is not None else shown}")
            shown = f"{value}_text"
        if kind.null is None:
            return f'"{{{shown}}}"' if self.hex else f"{{{shown}}}"
        self.flush()
        made = self.variable("t")
        text = _f(f'"{{{shown}}}"') if self.hex else shown
        self.line(f"{made} = NULL if {value} is None else {text}")
        return f"{{{made}}}"

    def flush_dict(self, final: bool = False) -> None:
        scope = self.scopes[-1]
        if scope.pending or self.kept.get(scope.target):
            self.flush()
        self._keep(scope)
        target = scope.target
        items = [f'"{key}":{shown}' if key else shown for key, shown in scope.pending]
        scope.pending = []
        if final and target in self.last:
            items.append(self.last.pop(target))
        if not scope.created:
            scope.created = True
            if items:
                closing = "}}" if final and target != "d0" else ""
                self.line(f"{target} = {_f(self.opening.get(target, '{{') + _joined(items) + closing)}")
                return
            self.loose.add(target)
            self.line(f"{target} = ''")
        elif items and target not in self.loose and final and target != "d0":
            self.line(f"{target} = {_f(f'{{{target}}},' + _joined(items) + '}}')}")
            return
        elif items:
            self.line(f"{target} = {_f(f'{{{target}}},' + _joined(items))}")
        if final:
            opening = self.opening.get(target, "{{")
            opened = f"f'{opening}' + {target}[1:]" if target in self.loose else target
            closed = opened if target == "d0" else f"{opened} + '}}'"
            if closed != target:
                self.line(f"{target} = {closed}")

    # Arrays.

    def array(self, kind: Array) -> str:
        before, self.keeping = self.keeping, self.keeping and not kind.bulk
        elements = super().array(kind)
        self.keeping = before and not kind.bulk
        return elements

    def count(self, kind: Array) -> str:
        count = super().count(kind)
        if kind.bulk:
            self.counts[kind] = count
        return count

    def begin_list(self, kind: Array, elements: str) -> None:
        self.line(f"{elements} = []")
        if self.keeping:
            self.line(f"v{elements} = []")

    def _fixed_array(self, kind: Array, count: str) -> str:
        element = kind.element
        assert isinstance(element, Number)
        self.line(f"q = p + {count} * {element.width}")
        self.require("q", kind.name, count)
        elements, unpack = self.variable("l"), self.constant(struct.unpack_from)
        self.line(f"v{elements} = [*{unpack}(f'{element.order}{{{count}}}{element.fixed}', b, p)]")
        shown = self.shown(element, "i", code=False)
        if shown == "{i}":
            self.line(f"{elements} = dumped(v{elements})")
            self.lists.add(elements)
        else:
            self.line(f"{elements} = [{_f(shown)} for i in v{elements}]")
        self.line("p = q")
        return elements

    def element(self, kind: Array, elements: str, index: str) -> None:
        element = kind.element
        if isinstance(element, Struct):
            target = self.variable("d")
            if kind.numbered is not None:
                name, first = kind.numbered
                self.last[target] = f'"{name}":{{{self.scopes[-1].variables[first]} + {index}}}'
            self.scope(element.layer, target, "")
            self.line(f"{elements}.append({target})")
            kept = f"v{target}"
        else:
            kept = element.emit(self)
            self.flush()
            self.line(f"{elements}.append({_f(self.shown(element, kept, code=False))})")
        if self.keeping:
            self.line(f"v{elements}.append({kept})")


def _f(text: str) -> str:
    return f"f'{text}'"


def _joined(items: list[str]) -> str:
    """Items with commas between them; what bytes carry brings its own."""
    text = items[0]
    for item in items[1:]:
        text += item if item.startswith("{i_") else f",{item}"
    return text
