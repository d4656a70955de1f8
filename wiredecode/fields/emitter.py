"""Writes the Python of decoders: the fields of a layer in their order, runs of fixed size as one ``struct`` call.

The kinds call the methods of :class:`Emitter` from their ``emit``. ``compiler.py`` says which decoders there are.
"""

import itertools
import struct
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any

from wiredecode.budget import BUDGET, FRAME_BYTES, PLAIN_BYTES, STRUCTURE_BYTES
from wiredecode.dataclasses import dataclass, field
from wiredecode.fields.composition import Array, Optional, Struct, plain
from wiredecode.fields.credentials import is_secret_pair, without_secrets
from wiredecode.fields.kind import DecodeError, Kind
from wiredecode.fields.layer import Layer, Style
from wiredecode.fields.numbers import Float64, Integer, Number, UInt24
from wiredecode.fields.sized import Binary, Sized
from wiredecode.fields.sized import redact as hide
from wiredecode.fields.tokens import BLANKS


@dataclass
class Scope:
    """One structure while its code is generated: the dict that holds it and the facts known about its fields."""

    layer: type[Layer]
    target: str
    created: bool = False
    pending: list[tuple[str, str]] = field(default_factory=list)
    beside: list[tuple[str, str]] = field(default_factory=list)
    """As ``pending``, of the values beside a record."""
    variables: dict[str, str] = field(default_factory=dict)
    presences: dict[str, str] = field(default_factory=dict)
    reaches: dict[str, str] = field(default_factory=dict)
    """By the name of a length: the variable that holds the end of the bytes that it counts (``left_of``)."""

    @cached_property
    def measured(self) -> set[str]:
        """Lengths that conditions use in ``left_of``."""
        return {name for kind in self.layer.fields_desc if isinstance(kind, Optional) for name in kind.when.measured}


class Emitter:
    """Writes the Python of one decoder: what kinds call from their ``emit``.

    In the code that they write ``b`` is the buffer, ``p`` the position, ``e`` the end; ``q`` is free for use.
    """

    ended: bool = False
    """Set by an array at which a walk stops: nothing more is generated."""
    stepping: bool = False
    """Inside a bulk array that is only stepped over: positions move, values are not made."""

    loops: int = 0
    """Arrays around what is being generated: a walk cannot stop inside them."""

    def __init__(self, layer: type[Layer], mode: str, style: Style | None) -> None:
        self.layer, self.mode, self.style = layer, mode, style
        self.walks = mode in ("head", "walk")
        """Whether the number of elements represents a bulk array; ``head`` ends at the first one."""
        self.beside = "v0" if mode == "both" else ""
        """The dict of the values, if they are read with the record."""
        self.scopes: list[Scope] = []
        """The structures being read."""
        self.namespace: dict[str, Any] = {"DecodeError": DecodeError, "error": struct.error, "itertools": itertools}
        if style is not None:
            self.namespace["show"] = style.show
        self.lines: list[str] = []
        self.indent = 1
        self.counter = 0
        self.mark = ""  # the code that notes that an element is marked
        self.fixed_fields: list[tuple[Kind, str]] = []
        """Fixed fields to read with the next ``unpack``, and their variables."""

    def text(self) -> str:
        if not self.lines:
            self.scope(self.layer, "d0")
        results = f"{self.beside}, d0, p" if self.beside else "d0, p"
        end = [f"    return {results}", "  except (error, IndexError): raise DecodeError from None", ""]
        return "\n".join(["def decode(b, p, e):", "  try:", *self.lines, *end])

    def line(self, code: str) -> None:
        self.lines.append("    " * self.indent + code)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Add a line that opens a block; what is added inside is indented."""
        self.line(opening)
        self.indent += 1
        count = len(self.lines)
        yield
        if len(self.lines) == count:
            self.line("pass")
        self.indent -= 1

    def variable(self, name: str) -> str:
        self.counter += 1
        return f"{name}_{self.counter}"

    def constant(self, value: Any) -> str:
        """The name by which the code knows a value."""
        for name, existing in self.namespace.items():
            if existing is value:
                return name
        name = f"c{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def reference(self, name: str) -> str:
        """The variable of an earlier field of the layer."""
        self.flush()
        return self.scopes[-1].variables[name]

    def presence(self, name: str) -> str | None:
        """The variable that is true if an earlier optional field is present; None: it always is."""
        return self.scopes[-1].presences.get(name)

    def reach(self, name: str) -> str:
        """The variable that holds the end of the bytes that an earlier length counts."""
        return self.scopes[-1].reaches[name]

    def require(self, stop: str) -> None:
        """Check that the bytes up to ``stop`` are in the frame."""
        self.line(f"if {stop} > e: raise DecodeError")

    @contextmanager
    def limit_to(self, stop: str) -> Iterator[None]:
        """Read no further than ``stop``."""
        self.flush()
        whole = self.variable("z")
        self.line(f"{whole}, e = e, {stop}")
        yield
        self.flush()
        self.line(f"e = {whole}")

    def step(self, size: str) -> None:
        """Skip bytes whose value is not needed."""
        self.line(f"p += {size}")
        self.require("p")

    def blanks(self) -> str:
        """The bytes that separate tokens on a line of text."""
        return repr(getattr(self.scopes[-1].layer, "blanks", BLANKS))

    # Consecutive fixed fields: one unpack.

    def fixed(self, kind: Kind) -> str:
        """Read a field of fixed size, together with those beside it; return its variable."""
        value = self.variable(kind.name)
        order = _order(kind)
        if order and any(_order(other) not in (order, "") for other, _ in self.fixed_fields):
            self.flush()
        self.fixed_fields.append((kind, value))
        return value

    def number(self, kind: Integer, *, checked: bool = True) -> str:
        """Read an integer that other code needs immediately, such as a length; ``checked``: as of :meth:`flush`."""
        value = kind.emit(self)
        self.flush(checked=checked)
        return value

    def flush(self, *, checked: bool = True) -> None:
        """Read the pending fixed fields. Not ``checked``: the caller then checks where later bytes end."""
        fields, self.fixed_fields = self.fixed_fields, []
        if not fields:
            return
        order = next((_order(kind) for kind, _ in fields if _order(kind)), ">")
        layout = struct.Struct(order + "".join(kind.fixed or "" for kind, _ in fields))
        if checked:
            self.line(f"q = p + {layout.size}")
            self.require("q")
        if layout.format == f"{order}B":
            self.line(f"{fields[0][1]} = b[p]")
        else:
            self.line(f"{', '.join(value for _, value in fields)}, = {self.constant(layout.unpack_from)}(b, p)")
        for kind, value in fields:
            if isinstance(kind, UInt24):
                order_name = "little" if kind.little else "big"
                self.line(f"{value} = int.from_bytes({value}, {order_name!r})")
        self.line("p = q" if checked else f"p += {layout.size}")

    def call(self, kind: Kind) -> str:
        """Read a value with the kind's own ``read``, which must not need the layer."""
        self.flush()
        value = self.variable(kind.name)
        self.line(f"{value}, p = {self.constant(kind.read)}(b, p, e, None)")
        return value

    # Structures and arrays.

    def structure(self, layer: type[Layer]) -> str:
        """Read a structure; return the dict that holds it."""
        target = self.variable("d")
        self.scope(layer, target)
        return target

    def scope(self, layer: type[Layer], target: str, created: bool = False) -> dict[str, str]:
        """Read the fields of a structure into a dict; return the variables that hold them."""
        self.scopes.append(Scope(layer, target, created))
        kinds = layer.in_order
        for kind in kinds:
            if isinstance(kind, Optional):
                self._optional(kind)
            else:
                self._field(kind)
            if self.ended:
                break
        self.flush()
        self.flush_dict()
        if len(kinds) < len(layer.fields_desc):
            layer.emit_tagged(self)
        return self.scopes.pop().variables

    def _field(self, kind: Kind) -> None:
        scope = self.scopes[-1]
        value = kind.emit(self)
        scope.variables[kind.name] = value
        if kind.name in scope.measured:
            self.flush()
            reach = scope.reaches[kind.name] = self.variable("reach")
            self.line(f"{reach} = p + {value}")
        if not self.stepping:
            self.store(kind, value)

    def _optional(self, kind: Optional) -> None:
        self.flush()
        self.flush_dict()
        scope = self.scopes[-1]
        there = scope.presences[kind.name] = self.variable("has_" + kind.name)
        self.line(f"{there} = {kind.when.code(self)}")
        with self.block(f"if {there}:"):
            if self.mark and kind.name == scope.layer.marked_by:
                self.line(self.mark)
            self._field(kind.kind)
            self.flush()
            self.flush_dict()

    def store(self, kind: Kind, value: str) -> None:
        """Keep a value for the dict of the structure."""
        pending = self.scopes[-1].pending
        if self.style is None:
            pending.append((kind.name, value))
            return
        if self.beside:
            self.scopes[-1].beside.append((kind.name, value))
        if kind.hidden:
            return
        if kind.secret and not self.style.secrets:
            pending.append((kind.name, f"None if {value} is None else {self.constant(hide)}({value})"))
            return
        shown = value
        if kind.free and not self.style.secrets:
            shown = f"{self.constant(without_secrets)}({value}, {self.constant(hide)})"
            if not isinstance(kind, Sized) or kind.null is not None:
                shown = f"(None if {value} is None else {shown})"
        shown = kind.spell_present(self, shown)
        if kind.named_by and not self.style.secrets:
            name = self.scopes[-1].variables.get(kind.named_by, f"{self.scopes[-1].target}.get({kind.named_by!r})")
            shown = f"{self.constant(hide)}({value}) if {self.constant(is_secret_pair)}({name}, {value}) else {shown}"
        pending.append((kind.name, shown))
        if isinstance(kind, Number) and kind.code_name:
            pending.append((kind.code_name, value))
        if isinstance(kind, Binary) and kind.inner is not None:
            self._inner(kind, value)

    def _inner(self, kind: Binary, value: str) -> None:
        """Contents of a bytes field, if its decoder knows them."""
        self.flush_dict()
        target = self.scopes[-1].target
        call = f"{self.constant(kind.inner)}({value}, {self.constant(self.style)}, {target})"
        present = f"{value} is not None and " if kind.null is not None else ""
        with self.block(f"if {present}(i := {call}) is not None:"):
            self.line(f"{target}.update(i)")

    def flush_dict(self) -> None:
        """Put the pending values into the dict of the structure."""
        scope = self.scopes[-1]
        if self.stepping:
            return
        if scope.pending or scope.beside:
            self.flush()
        dicts = [(scope.target, scope.pending), (self.beside, scope.beside)]
        for target, pending in dicts if self.beside else dicts[:1]:
            if not scope.created:
                items = ", ".join(f"{key!r}: {value}" for key, value in pending)
                self.line(f"{target} = {{{items}}}")
                continue
            for key, value in pending:
                self.line(f"{target}[{key!r}] = {value}")
        scope.created, scope.pending, scope.beside = True, [], []

    def array(self, kind: Array) -> str:
        """Read the elements; return the list, or the count of a bulk array that is not read."""
        count = ""
        if isinstance(kind.count, str):
            count = self.reference(kind.count)
        elif kind.count is not None:
            count = self.number(kind.count)
        self.flush()
        if kind.null is None:
            return self._elements(kind, count)
        result = self.variable(kind.name)
        with self.block(f"if {count} == {kind.null}:"):
            self.line(f"{result} = None")
        with self.block("else:"):
            self.line(f"{result} = {self._elements(kind, count)}")
        return result

    def _elements(self, kind: Array, count: str) -> str:
        if kind.bulk and self.mode == "head" and not self.loops:
            self.ended = True
            return count
        if count and self._is_signed(kind):
            self.line(f"if {count} < 0: raise DecodeError")
        if count and self._is_unpacked(kind):
            return self._fixed_array(kind, count)
        with self.limit_to(f"min(e, p + {self.reference(kind.size)})") if kind.size else nullcontext():
            return self._loop(kind, count)

    def _loop(self, kind: Array, count: str) -> str:
        """Read the elements one by one; return the list, or the count if they are stepped over."""
        stepping_before, self.stepping = self.stepping, self.stepping or (kind.bulk and self.walks)
        elements, index = self.variable("l"), self.variable("n")
        if self.stepping and isinstance(kind.element, Struct) and kind.element.layer.numbered_by:
            self.line("numbers, following = [], None")
            self.scopes[-1].pending.append(("numbers", "numbers"))
        marked = self.stepping and isinstance(kind.element, Struct) and kind.element.layer.marked_by
        self.mark = f"marked.append(({index}, p))" if marked else ""
        if self.mark:
            self.line("marked = []")
            self.scopes[-1].pending.append(("marked", "marked"))
        if not self.stepping:
            self.line(f"{elements} = []")
        cost = STRUCTURE_BYTES if isinstance(kind.element, Struct) else PLAIN_BYTES
        take = f"{self.constant(BUDGET)}.own.take"
        if count and not self.stepping:
            self.line(f"if {count} and not {take}({count} * {cost}): raise DecodeError")
        every = "itertools.count()" if self.stepping else f"range({FRAME_BYTES // cost + 1})"
        loop = f"for {index} in {f'range({count})' if count else every}:"
        with self.block(loop):
            if not count:
                self.line("if p >= e: break")
            self.loops += 1
            self.element(kind, elements, index)
            self.loops -= 1
        if not (count or self.stepping):
            self.line(f"if not {take}(len({elements}) * {cost}): raise DecodeError")
        result = count if self.stepping else elements
        self.stepping = stepping_before
        return result

    def _is_signed(self, kind: Array) -> bool:
        """Whether the count, in front or an earlier field, can be negative."""
        counter: Any = kind.count
        if isinstance(counter, str):
            counter = next(plain(each) for each in self.scopes[-1].layer.fields_desc if each.name == counter)
        return bool(getattr(counter, "signed", False))

    def _is_unpacked(self, kind: Array) -> bool:
        """Whether one ``unpack`` reads all elements."""
        element = kind.element
        plain_number = isinstance(element, Number) and len(element.fixed or "") == 1 and not element.names
        return plain_number and not (kind.size or self.stepping)

    def _fixed_array(self, kind: Array, count: str) -> str:
        element = kind.element
        assert isinstance(element, Number)
        self.line(f"q = p + {count} * {element.width}")
        self.require("q")
        items = f"{self.constant(struct.unpack_from)}(f'{element.order}{{{count}}}{element.fixed}', b, p)"
        if kind.bulk and self.walks:
            elements = count
            self.line(f"numbers = {items}")
            self.scopes[-1].pending.append(("numbers", "numbers"))
        else:
            elements = self.variable("l")
            shown = element.spell_present(self, "i") if self.mode == "record" else "i"
            take = f"{self.constant(BUDGET)}.own.take"
            self.line(f"if {count} and not {take}({count} * {PLAIN_BYTES}): raise DecodeError")
            self.line(f"{elements} = [{shown} for i in {items}]" if shown != "i" else f"{elements} = [*{items}]")
        self.line("p = q")
        return elements

    def element(self, kind: Array, elements: str, index: str) -> None:
        """Read one element of an array into a list."""
        element = kind.element
        if not isinstance(element, Struct):
            value = element.emit(self)
            self.flush()
            if not self.stepping:
                shown = element.spell_present(self, value) if self.mode == "record" else value
                self.line(f"{elements}.append({shown})")
            return
        target = self.variable("d")
        variables = self.scope(element.layer, target)
        if self.stepping and element.layer.numbered_by:
            number = variables[element.layer.numbered_by]
            self.line(f"if {number} != following: numbers.append(({index}, {number}))")
            self.line(f"following = {number} + 1")
        if not self.stepping:
            self.line(f"{elements}.append({target})")


def _order(kind: Kind) -> str:
    if isinstance(kind, Number):
        return kind.order if kind.width > 1 else ""
    return kind.order if isinstance(kind, Float64) else ""
