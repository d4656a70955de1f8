"""Writes the Python of decoders: the fields of a layer in their order, runs of fixed size as one ``struct`` call.

The kinds call the methods of :class:`Emitter` from their ``emit``. ``compiler.py`` says which decoders there are.
"""

from __future__ import annotations

import copy
import itertools
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wiredecode.fields.composition import Array, Optional, Struct
from wiredecode.fields.contracts import Emitter as Emitter
from wiredecode.fields.contracts import Sink as Sink
from wiredecode.fields.contracts import Truncated, TruncatedField
from wiredecode.fields.kind import Kind
from wiredecode.fields.layer import Layer, Style
from wiredecode.fields.numbers import Number, UInt24
from wiredecode.fields.scope import Scope
from wiredecode.fields.sized import Binary, Sized
from wiredecode.fields.sized import redacted as hide
from wiredecode.fields.textlines import token_line
from wiredecode.fields.tokens import BLANKS, next_token, tokens_left

Run = list[tuple[Kind, str]]
"""Fixed fields that were not read yet, and their variables."""


class Writer:
    """Generates one decoder of one layer: the :class:`Emitter` of its kinds."""

    def __init__(self, layer: type[Layer], mode: str, style: Style | None) -> None:
        self.layer, self.mode, self.style = layer, mode, style
        self.careful = mode == "careful"
        self.sink = Sink(mode) if mode in (*Sink,) else None
        self.ended = False
        self.stepping = False
        self.mark = ""  # the code that notes that an element is marked
        self.namespace: dict[str, Any] = {
            "TruncatedField": TruncatedField,
            "Truncated": Truncated,
            "error": struct.error,
            "itertools": itertools,
        }
        self.lines: list[str] = []
        self.indent = 1
        self.scopes: list[Scope] = []
        self.run: Run = []
        self.counter = 0
        if style is not None:
            self.namespace["show"] = style.show

    def text(self) -> str:
        if not self.lines:
            self.line("o = p") if self.careful else None
            self.scope(self.layer, "d0", "x0", created=self.careful)
        if self.careful:
            start = ["def decode(b, p, e, d0, r):", "    x0 = ''"]
            return "\n".join([*start, *self.lines, "    return p", ""])
        end = ["    return d0, p", "  except error: raise TruncatedField from None", ""]
        return "\n".join(["def decode(b, p, e):", "  try:", *self.lines, *end])

    # Small things the kinds use.

    def line(self, code: str) -> None:
        self.lines.append("    " * self.indent + code)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
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
        for name, known in self.namespace.items():
            if known is value:
                return name
        name = f"c{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def reference(self, name: str) -> str:
        """The variable of an earlier field of the layer."""
        self.flush()
        return self.scopes[-1].variables[name]

    def presence(self, name: str) -> str | None:
        """The variable that tells whether an earlier optional field is there; None: it always is."""
        return self.scopes[-1].presences.get(name)

    def reach(self, name: str) -> str:
        """The variable of where the bytes end that an earlier length counts."""
        return self.scopes[-1].reaches[name]

    def tokens(self) -> str:
        """The number of tokens left on a line of text."""
        line = token_line(self)
        if line is None:
            return f"{self.constant(tokens_left)}(b, p, e, {self._blanks()})"
        return f"({line.left(self)})"

    def token(self) -> str:
        """The next of them."""
        line = token_line(self)
        if line is None:
            return f"{self.constant(next_token)}(b, p, e, {self._blanks()})"
        index = line.variable(self)
        return f"({line.tokens}[{index}] if {index} < {line.count} else b'')"

    def _blanks(self) -> str:
        return repr(getattr(self.scopes[-1].layer, "blanks", BLANKS))

    def require(self, stop: str, name: str, needed: str) -> None:
        """Check that the bytes up to ``stop`` are in the frame."""
        if self.careful:
            with self.block(f"if {stop} > e:"):
                self.line(f"raise Truncated({self.path(name)}, {needed}, e - p, p - o)")
        else:
            self.line(f"if {stop} > e: raise TruncatedField")

    def picked(self, name: str) -> bool:
        """Whether the value of a field is wanted although its structure is only stepped over."""
        layer = self.scopes[-1].layer
        return name == layer.numbered_by or (self.sink is Sink.ROWS and name in layer.row)

    def path(self, name: str) -> str:
        return f"{self.scopes[-1].prefix} + {name!r}"

    # Runs of fixed fields: one unpack for all of them.

    def fixed(self, kind: Kind) -> str:
        value = self.variable(kind.name)
        order = _order(kind)
        if order and any(_order(other) not in (order, "") for other, _ in self.run):
            self.flush()
        self.run.append((kind, value))
        if self.careful:
            self.flush()
        return value

    def number(self, kind: Number) -> str:
        """Read a number that other code needs at once, such as a length."""
        value = self.fixed(kind)
        self.flush(keep=value)
        return value

    def length(self, kind: Number) -> tuple[str, int] | None:
        """Read the length of what comes next, and what is before it, without a check; None: that cannot be done.

        Return its variable, and the bytes read, over which the caller steps: when it checks the bytes that the length
        counts, it checks these, too, for a length is never negative. It may lie after the end of the frame: then that
        check fails; after that of the buffer ``error`` is raised.
        """
        if self.careful or kind.signed or len(kind.fixed or "") != 1 or not (self.run or kind.width > 1):
            return None
        value = self.fixed(kind)
        if len(self.run) == 1 and kind.width == 1:  # its byte order parted it from what is before it
            self.flush(keep=value)
            return value, 0
        return value, self._unpack(self._take_run(), value)

    def _take_run(self) -> Run:
        run, self.run = self.run, []
        return run

    def flush(self, keep: str = "") -> None:
        """Read the run of fixed fields; ``keep`` is a variable that is needed, whatever else."""
        run = self._take_run()
        if not run:
            return
        size = sum(struct.calcsize(f">{kind.fixed}") for kind, _ in run)
        if not self.careful and not any(self._is_read(kind, value, keep) for kind, value in run):
            self.step(str(size))
            return
        self.line(f"q = p + {size}")
        self.require("q", run[-1][0].name, str(size))
        self._unpack(run, keep)
        self.line("p = q")

    def step(self, size: str) -> None:
        """Step over bytes that nothing looks at."""
        self.line(f"p += {size}")
        self.line("if p > e: raise TruncatedField")

    def _is_read(self, kind: Kind, value: str, keep: str) -> bool:
        return not self.stepping or value == keep or kind.name in self.scopes[-1].needed or self.picked(kind.name)

    def _unpack(self, run: Run, keep: str) -> int:
        """Generate the reading of a run of fixed fields at ``p``; return how many bytes it takes."""
        order = next((_order(kind) for kind, _ in run if _order(kind)), ">")
        codes, values = [], []
        for kind, value in run:
            code = kind.fixed or ""
            if self._is_read(kind, value, keep):
                codes.append(code)
                values.append(value)
            else:
                codes.append(f"{struct.calcsize('>' + code)}x")
        layout = struct.Struct(order + "".join(codes))
        if codes == ["B"]:
            self.line(f"{values[0]} = b[p]")
        else:
            self.line(f"{', '.join(values)}, = {self.constant(layout.unpack_from)}(b, p)")
        for kind, value in run:
            if isinstance(kind, UInt24) and value in values:
                order_name = "little" if kind.little else "big"
                self.line(f"{value} = int.from_bytes({value}, {order_name!r})")
        return layout.size

    def call(self, kind: Kind) -> str:
        """Read a value with the kind's own ``read``, which must not need the layer."""
        self.flush()
        value = self.variable(kind.name)
        self.guarded(kind, f"{value}, p = {self.constant(kind.read)}(b, p, e, None)")
        return value

    def guarded(self, kind: Kind, code: str) -> None:
        """A line that may raise :class:`Truncated`, with positions in the buffer: careful tells those in the frame."""
        if not self.careful:
            self.line(code)
            return
        with self.block("try:"):
            self.line(code)
        with self.block("except Truncated as s:"):
            self.line("s.start -= o")
            self.line(f"raise s.inside({self.path(kind.name)}, s.partial) from None")

    # Structures and arrays.

    def structure(self, layer: type[Layer], name: str) -> str:
        target, prefix = self.variable("d"), self.variable("x")
        if self.careful:
            self.line(f"{target} = {{}}")
            self.line(f"{self.scopes[-1].target}[{name!r}] = {target}")
            self.line(f"{prefix} = {self.path(name + '.')}")
        self.scope(layer, target, prefix, created=self.careful)
        return target

    def scope(self, layer: type[Layer], target: str, prefix: str, created: bool = False) -> dict[str, str]:
        """Generate the reading of a structure; return the variables that hold its fields."""
        self.scopes.append(Scope(layer, target, prefix, created))
        kinds = layer.in_order
        either = self._alternatives(kinds) if self.stepping else None
        for kind in kinds[:-2] if either else kinds:
            if isinstance(kind, Optional):
                self._optional(kind)
            else:
                self._field(kind)
            if self.ended:
                break
        if either:
            self._either(*either)
        self.flush()
        self.flush_dict(final=True)
        if len(kinds) < len(layer.fields_desc):
            layer.emit_tagged(self)
        return self.scopes.pop().variables

    def _field(self, kind: Kind) -> None:
        scope = self.scopes[-1]
        start = self.variable("s")
        if self.careful:
            self.line(f"{start} = p")
        value = kind.emit(self)
        scope.variables[kind.name] = value
        if kind.name in scope.measured:
            self.flush()
            reach = scope.reaches[kind.name] = self.variable("reach")
            self.line(f"{reach} = p + {value}")
        if not self.stepping:
            self.store(kind, value)
        if self.careful:
            self.flush_dict()
            back = f" - {kind.back}" if kind.back else ""
            self.line(f"r[{self.path(kind.name)}] = ({start}{back} - o, p - o)")

    def _optional(self, kind: Optional) -> None:
        self.flush()
        self.flush_dict()
        scope = self.scopes[-1]
        before = len(self.lines)
        condition = kind.when.code(self)
        if kind.name in scope.asked:
            there = scope.presences[kind.name] = self.variable("has_" + kind.name)
            self.line(f"{there} = {condition}")
            condition = there
        with self.block(f"if {condition}:"):
            self._note_mark(kind)
            self._field(kind.kind)
            self.flush()
            self.flush_dict()
        if self.stepping and self.picked(kind.name):
            self.lines.insert(before, "    " * self.indent + f"{scope.variables[kind.name]} = None")

    def _note_mark(self, kind: Kind) -> None:
        if self.mark and kind.name == self.scopes[-1].layer.marked_by:
            self.line(self.mark)

    def _alternatives(self, kinds: Sequence[Kind]) -> tuple[Optional, Optional, int, int] | None:
        """The last two fields, where one is there if the next byte says so and else the other; mask and value."""
        match kinds[-2:]:
            case [Optional() as one, Optional() as other] if other.when.absent == one.name and one.when.next_byte:
                if not (self.picked(one.name) or self.picked(other.name)):
                    return one, other, *one.when.next_byte
        return None

    def _either(self, one: Optional, other: Optional, mask: int, value: int) -> None:
        """Step over one of two that the next byte chooses; the fixed fields before are read with the second one.

        Where that byte is the first one of a length, the length is read first: that is faster.
        """
        run, self.run = self.run, [*self.run]
        kind = other.kind
        plain = isinstance(kind, Sized) and isinstance(kind.length, Number) and kind.length.order == ">"
        found = kind.read_length(self) if plain and isinstance(kind, Sized) else None
        if found is not None and isinstance(kind, Sized) and isinstance(kind.length, Number):
            bits = 8 * (kind.length.width - 1)
            condition = masked(found[0], mask << bits, value << bits)
        else:
            before = sum(struct.calcsize(f">{kind.fixed}") for kind, _ in run)
            place = f"p + {before}" if before else "p"
            condition = f"{place} < e and {masked(f'b[{place}]', mask, value)}"
        self.run = run
        with self.block(f"if {condition}:"):
            self.flush()
            self._note_mark(one)
            self._field(one.kind)
            self.flush()
        with self.block("else:"):
            if found is not None and isinstance(kind, Sized):
                kind.emit_value(self, self.variable(kind.name), *found)
            else:
                self.run = run
                self._field(kind)
                self.flush()

    def store(self, kind: Kind, value: str) -> None:
        pending = self.scopes[-1].pending
        if self.mode != "record" or self.style is None:
            pending.append((kind.name, value))
            return
        if kind.hidden:
            return
        if kind.secret and not self.style.secrets:
            pending.append((kind.name, f"None if {value} is None else {self.constant(hide)}({value})"))
            return
        pending.append((kind.name, kind.shown(self, value)))
        if isinstance(kind, Number) and kind.code_name:
            pending.append((kind.code_name, value))
        if isinstance(kind, Binary) and kind.inner is not None:
            self._inner(kind, value)

    def _inner(self, kind: Binary, value: str) -> None:
        """What a bytes field carries, where its decoder knows it."""
        self.flush_dict()
        target = self.scopes[-1].target
        call = f"{self.constant(kind.inner)}({value}, show, {target})"
        present = f"{value} is not None and " if kind.null is not None else ""
        with self.block(f"if {present}(i := {call}) is not None:"):
            self.line(f"{target}.update(i)")

    def flush_dict(self, final: bool = False) -> None:
        scope = self.scopes[-1]
        if self.stepping:
            return
        if scope.pending:
            self.flush()
        if not scope.created:
            items = ", ".join(f"{key!r}: {value}" for key, value in scope.pending)
            self.line(f"{scope.target} = {{{items}}}")
            scope.created = True
        else:
            for key, value in scope.pending:
                self.line(f"{scope.target}[{key!r}] = {value}")
        scope.pending = []

    def array(self, kind: Array) -> str:
        """Generate the loop over the elements; return the list, or the count of a bulk array that is not read."""
        count = ""
        if isinstance(kind.count, str):
            count = self.reference(kind.count)
        elif kind.count is not None:
            count = self.number(kind.count)
        self.flush()
        if kind.bulk and self.sink is Sink.STOP:
            self.ended = True
            return count
        if count and self._at_once(kind):
            return self._fixed_array(kind, count)
        limited = f"{self.variable('z')}" if kind.size else ""
        if kind.size:
            self.line(f"{limited}, e = e, min(e, p + {self.reference(kind.size)})")
        stepping_before, self.stepping = self.stepping, self.stepping or (kind.bulk and self.sink is not None)
        elements, index = self.variable("l"), self.variable("n")
        listed = not self.stepping or self._has_rows(kind)
        if self.stepping and isinstance(kind.element, Struct) and kind.element.layer.numbered_by:
            self.line("numbers, following = [], None")
            self.scopes[-1].pending.append(("numbers", "numbers"))
        self.mark = note_mark(kind, index) if self.stepping else ""
        if self.mark:
            self.line("marked = []")
            self.scopes[-1].pending.append(("marked", "marked"))
        if listed:
            self.line(f"{elements} = []")
            if self.careful:
                self.line(f"{self.scopes[-1].target}[{kind.name!r}] = {elements}")
        loop = f"for {index} in range({count}):" if count else f"for {index} in itertools.count():"
        with self.block(loop):
            if not count:
                self.line("if p >= e: break")
            self.element(kind, elements, index)
        if kind.size:
            self.line(f"e = {limited}")
        self.stepping = stepping_before
        return elements if listed else count

    def _has_rows(self, kind: Array) -> bool:
        """Whether rows of the elements are collected while they are stepped over."""
        element = kind.element
        return self.sink is Sink.ROWS and isinstance(element, Struct) and (kind.bulk or bool(element.layer.row))

    def _at_once(self, kind: Array) -> bool:
        """Whether all elements can be read in one unpack."""
        element = kind.element
        plain_number = isinstance(element, Number) and len(element.fixed or "") == 1 and not element.names
        return plain_number and not (self.careful or kind.size or self.stepping)

    def _fixed_array(self, kind: Array, count: str) -> str:
        element = kind.element
        assert isinstance(element, Number)
        self.line(f"q = p + {count} * {element.width}")
        self.require("q", kind.name, count)
        elements = count
        if kind.bulk and self.sink is not None:
            self.line(
                f"numbers = {self.constant(struct.unpack_from)}(f'{element.order}{{{count}}}{element.fixed}', b, p)"
            )
            self.scopes[-1].pending.append(("numbers", "numbers"))
        if not (kind.bulk and self.sink is not None):
            elements = self.variable("l")
            unpack = self.constant(struct.unpack_from)
            shown = element.shown(self, "i") if self.mode == "record" else "i"
            items = f"{unpack}(f'{element.order}{{{count}}}{element.fixed}', b, p)"
            self.line(f"{elements} = [{shown} for i in {items}]" if shown != "i" else f"{elements} = [*{items}]")
        self.line("p = q")
        return elements

    def element(self, kind: Array, elements: str, index: str) -> None:
        element = kind.element
        if not isinstance(element, Struct):
            self._scalar_element(element, elements, index)
            return
        target, prefix = self.variable("d"), self.variable("x")
        if self.stepping and self._has_rows(kind) and not element.layer.row:
            self.line(f"{elements}.append(p)")
        if self.careful:
            self.line(f"{target} = {{}}")
            self.line(f"{elements}.append({target})")
            where = f'{self.scopes[-1].prefix} + f"{kind.name}[{{{index}}}]"'
            self.line(f"{prefix}e, s_{prefix} = {where}, p")
            self.line(f"{prefix} = {prefix}e + '.'")
        variables = self.scope(element.layer, target, prefix, created=self.careful)
        if self.stepping and element.layer.numbered_by:
            for code in note_number(index, variables[element.layer.numbered_by]):
                self.line(code)
        if self.careful:
            self.line(f"r[{prefix}e] = (s_{prefix} - o, p - o)")
        elif not self.stepping:
            self.line(f"{elements}.append({target})")
        elif self._has_rows(kind) and element.layer.row:
            self.line(f"{elements}.append(({', '.join(variables[name] for name in element.layer.row)},))")

    def _scalar_element(self, element: Kind, elements: str, index: str) -> None:
        prefix = self.variable("x")
        if self.careful:
            self.line(f'{prefix} = {self.scopes[-1].prefix} + f"{element.name}[{{{index}}}]"')
            self.scopes.append(Scope(self.scopes[-1].layer, "", prefix))
            element = unnamed(element)
        value = element.emit(self)
        self.flush()
        if self.careful:
            self.scopes.pop()
        if not self.stepping:
            shown = element.shown(self, value) if self.mode == "record" else value
            self.line(f"{elements}.append({shown})")


def _order(kind: Kind) -> str:
    """The byte order a fixed field asks for; single bytes and byte strings do not care."""
    if isinstance(kind, Number) and kind.width > 1:
        return kind.order
    return ""


def masked(value: str, mask: int, wanted: int) -> str:
    """Whether a value has these bits under a mask."""
    if wanted == mask and mask.bit_count() == 1:
        return f"{value} & {mask}"
    return f"{value} & {mask} == {wanted}"


def note_number(index: str, number: str) -> tuple[str, str]:
    """Code that notes the number of an element, where it is not one more than that of the element before."""
    return f"if {number} != following: numbers.append(({index}, {number}))", f"following = {number} + 1"


def note_mark(kind: Array, index: str) -> str:
    """Code that notes that an element of an array is marked, and where; "": its elements have no mark."""
    marked = isinstance(kind.element, Struct) and kind.element.layer.marked_by
    return f"marked.append(({index}, p))" if marked else ""


def unnamed(element: Kind) -> Kind:
    """A copy without a name of its own: the path of an element ends with its index."""
    element = copy.copy(element)
    element.name = ""
    if isinstance(element, Sized) and isinstance(element.length, Number):
        element.length = copy.copy(element.length)
        element.length.name = ""
    return element
