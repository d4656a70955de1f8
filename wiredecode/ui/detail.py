"""The panes of one frame: its tree and its bytes; what the cursor of one is on is marked in the other."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import takewhile
from operator import itemgetter
from typing import ClassVar, cast

from rich.text import Text
from rich.tree import Tree
from textual.binding import BindingType
from textual.message import Message

from wiredecode.dataclasses import dataclass
from wiredecode.fields.layer import Range
from wiredecode.frames.frame import Frame
from wiredecode.ui import keys
from wiredecode.ui.lines import Lines
from wiredecode.view.hexdump import ROW, Dump
from wiredecode.view.theme import TreeOptions
from wiredecode.view.tree import frame_tree
from wiredecode.view.values import Line, whole_text

CELL = 8
"""Column of a row of bytes where the first one begins."""


@dataclass(slots=True)
class Branch:
    """One line of a tree."""

    line: Line
    depth: int
    path: str
    """Names from the layer down to the field, as filters have them; empty: it is no field."""
    parent: bool

    @property
    def value(self) -> str:
        """The whole value of the field; without a field the line."""
        return self.line.plain if self.line.value is ... else whole_text(self.line.value)


def branches(tree: Tree, depth: int = 0, path: str = "") -> Iterator[Branch]:
    """The lines of a tree that :func:`frame_tree` made."""
    yield Branch(cast("Line", tree.label), depth, path, bool(tree.children))
    for child in tree.children:
        name = cast("Line", child.label).name
        yield from branches(child, depth + 1, f"{path}.{name}" if path and name else name or path)


class TreePane(Lines):
    """The tree of a frame; Space folds."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("tree")]

    def __init__(self) -> None:
        super().__init__(id="tree")
        self.every: list[Branch] = []
        """All branches, also folded ones."""
        self.shown: list[Branch] = []
        self._folded: set[str] = set()
        """Paths of what stays folded in other frames, too."""

    def show(self, frame: Frame, options: TreeOptions) -> None:
        """Show another frame; the cursor stays on the field of the same name."""
        here = self.branch
        tree = frame_tree(frame, options)
        self.every = list(branches(tree)) if isinstance(tree, Tree) else []
        self._lay_out(here.path if here is not None else "")

    def _lay_out(self, path: str) -> None:
        self.shown, hidden = [], None
        for branch in self.every:
            if hidden is not None and branch.depth > hidden:
                continue
            hidden = branch.depth if branch.parent and self._key(branch) in self._folded else None
            self.shown.append(branch)
        self.widest = max((2 * each.depth + each.line.cell_len + 2 for each in self.shown), default=0)
        at = next((at for at, each in enumerate(self.shown) if path and each.path == path), 0)
        self.recount(len(self.shown), at)

    @staticmethod
    def _key(branch: Branch) -> str:
        return f"{branch.depth} {branch.path}"

    @property
    def branch(self) -> Branch | None:
        """The branch under the cursor."""
        return self.shown[self.cursor] if self.cursor < len(self.shown) else None

    def below(self, branch: Branch) -> str:
        """A line and those below it, folded or not."""
        begin = next(at for at, each in enumerate(self.every) if each is branch)
        inside = takewhile(lambda each: each.depth > branch.depth, self.every[begin + 1 :])
        return "\n".join("  " * (each.depth - branch.depth) + each.line.plain for each in (branch, *inside))

    def line(self, at: int) -> Text:
        branch = self.shown[at]
        sign = " " if not branch.parent else "+" if self._key(branch) in self._folded else "-"
        return Text().append("  " * branch.depth + f"{sign} ", "dim").append_text(branch.line)

    def action_fold(self) -> None:
        """Fold what is below the cursor, or unfold it."""
        branch = self.branch
        if branch is not None and branch.parent:
            at = self.cursor
            self._folded ^= {self._key(branch)}
            self._lay_out("")
            self.move_to(at)

    def find(self, byte: int) -> None:
        """Put the cursor on the smallest field that holds a byte."""
        spans = [(at, each.line.span) for at, each in enumerate(self.shown) if each.line.span is not None]
        holding = [(span[1] - span[0], -at) for at, span in spans if span[0] <= byte < span[1]]
        if holding:
            self.move_to(-min(holding)[1])


class BytePane(Lines):
    """The bytes of a frame; the cursor is on one byte."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("bytes")]

    BAR = False

    @dataclass
    class Stepped(Message):
        """The cursor is on another byte."""

        byte: int

    def __init__(self) -> None:
        super().__init__(id="bytes")
        self._frame: Frame | None = None
        self._dump: Dump | None = None
        self.marked: Range | None = None
        self.byte = 0

    def show(self, frame: Frame, *, secrets: bool) -> None:
        layer = frame.layer(frame.data) if frame.layer is not None else None
        self._frame, self._dump = frame, Dump(frame, layer, reveal=secrets, packets=True)
        self.widest, self.byte = CELL + 3 * ROW + 2 + ROW, 0
        self.recount(-(-len(self._dump.data) // ROW), 0)

    def position_text(self) -> str:
        """The byte under the cursor, and the packet that carries it."""
        if self._frame is None:
            return ""
        pieces = self._frame.pieces or [(0, packet) for packet in self._frame.packets]
        at = bisect_right(pieces, self.byte, key=itemgetter(0)) - 1
        which = f" ({at + 1} of {len(pieces)})" if len(pieces) > 1 else ""
        return f"byte {self.byte:,}" + (f" of packet {pieces[at][1]:,}{which}" if at >= 0 else "")

    def mark(self, span: Range | None) -> None:
        """Mark the bytes of a field, and show the first one."""
        self.marked = span
        if span is not None and self._dump is not None and not self.has_focus:
            self.byte = min(span[0], max(0, len(self._dump.data) - 1))
            self.move_to(self.byte // ROW)
        self.refresh()

    def line(self, at: int) -> Text:
        assert self._dump is not None
        begin, size = at * ROW, len(self._dump.data)
        text = self._dump.row(begin, size)
        for byte in range(begin, min(begin + ROW, size)):
            marked = self.marked is not None and self.marked[0] <= byte < self.marked[1]
            style = "underline bold" if byte == self.byte and self.has_focus else "reverse" if marked else ""
            if style:
                column = CELL + 3 * (byte - begin)
                text.stylize(style, column, column + 2)
                column = CELL + 3 * ROW + 1 + byte - begin
                text.stylize(style, column, column + 1)
        return text

    def action_step(self, step: int) -> None:
        self.go(self.byte + step)

    def action_move(self, step: int) -> None:
        self.go(self.byte + ROW * step)

    def action_page(self, step: int) -> None:
        self.go(self.byte + ROW * step * max(1, self.scrollable_content_region.height - 1))

    def action_edge(self, step: int) -> None:
        self.go(ROW * self.count if step > 0 else 0)

    def go(self, byte: int) -> None:
        """Put the cursor on a byte, or the nearest that is there."""
        if self._dump is not None and self._dump.data:
            self.byte = max(0, min(byte, len(self._dump.data) - 1))
            self.move_to(self.byte // ROW)
            self.post_message(self.Stepped(self.byte))
            self.refresh()
