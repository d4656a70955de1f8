"""Frames as trees, lines, fields and records: options and output of ``pcap``, ``sniff`` and ``follow``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from wiredecode.cli import options
from wiredecode.cli.groups import group
from wiredecode.cli.output import complain, wants_color

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wiredecode.cli.session import Session
    from wiredecode.fields.layer import Style
    from wiredecode.frames.frame import Frame
    from wiredecode.view.colors import ColorRules
    from wiredecode.view.fieldlines import FieldLines
    from wiredecode.view.theme import TreeOptions
    from wiredecode.view.times import Times

Rendered = TypeVar("Rendered")


class Shape(Enum):
    """How frames are written."""

    TREES = 1
    LINES = 2
    FIELDS = 3
    RECORDS = 4
    ARRAY = 5
    PDML = 6


@group
class FrameOptions:
    """What frames are shown as: trees, lines, fields or records."""

    summary: Annotated[bool, typer.Option("--summary", help="One line per frame.")] = False
    json: options.Json = False
    form: Annotated[
        Literal["text", "tabs", "fields", "json", "ek", "pdml"] | None,
        typer.Option(
            "-T",
            help="As tshark: lines, lines with tabs, the fields of -e, a JSON array of records, one per line, XML.",
        ),
    ] = None
    field: Annotated[
        list[str] | None,
        typer.Option(
            "-e",
            metavar="NAME",
            autocompletion=options.complete_filter,
            help="With -T fields: a field, by its filter name. Repeatable.",
        ),
    ] = None
    field_form: Annotated[
        list[str] | None,
        typer.Option(
            "-E",
            metavar="NAME=VALUE",
            help="With -T fields: header=y, separator=/t|/s|X, quote=d|s|n, occurrence=f|l|a, aggregator=X.",
        ),
    ] = None
    hexdump: Annotated[bool, typer.Option("-x", "--hex", help="Trees with a hex dump.")] = False
    full: Annotated[bool, typer.Option("-V", "--full", help="Trees with all bytes and all elements of arrays.")] = False
    time: options.Time = None
    utc: options.Utc = False
    bytes_: options.Bytes = "hex"
    ranges: options.Ranges = False
    show_secrets: options.ShowSecrets = False
    color: options.Color = "auto"

    def check(self) -> None:
        """Refuse options that exclude each other."""
        if self.summary and self.json:
            raise options.UsageError("--summary and --json exclude each other")
        if self.form is not None and (self.summary or self.json):
            raise options.UsageError(f"-T {self.form} and {'--json' if self.json else '--summary'} exclude each other")
        plain = (self.shape is Shape.LINES and self.summary) or self.shape not in (Shape.LINES, Shape.TREES)
        form = f"-T {self.form}" if self.form else "--json" if self.json else "--summary"
        for name, given in (("--hex", self.hexdump), ("--full", self.full)):
            if given and plain:
                raise options.UsageError(f"{name} goes with trees, not with {form}")
        if self.ranges and self.shape not in (Shape.TREES, Shape.RECORDS, Shape.ARRAY):
            raise options.UsageError(f"--ranges goes with --json or trees, not with {form}")
        if (self.field or self.field_form) and self.form != "fields":
            raise options.UsageError("-e and -E go with -T fields")
        if self.form == "fields" and not self.field:
            raise options.UsageError("-T fields needs the fields: -e NAME, as in -e frame.time -e frame.type")
        _ = self.times, self.lines

    @cached_property
    def shape(self) -> Shape:
        """What is written."""
        if self.form is None or self.form == "text":
            lines = self.summary or (self.form is not None and not self.full and not self.hexdump)
            return Shape.RECORDS if self.json else Shape.LINES if lines else Shape.TREES
        shapes = {"ek": Shape.RECORDS, "json": Shape.ARRAY, "pdml": Shape.PDML}
        return shapes.get(self.form, Shape.FIELDS)

    @property
    def is_records(self) -> bool:
        """Whether JSON is written."""
        return self.shape in (Shape.RECORDS, Shape.ARRAY)

    @property
    def style(self) -> Style | None:
        """How frames are dissected; None: with no records."""
        from wiredecode.fields.layer import Style

        if self.lines is not None:
            return self.lines.style
        if self.shape is Shape.LINES:
            return None
        json = self.is_records or self.shape is Shape.PDML
        return Style(show_bytes(json, self.bytes_), self.show_secrets, text=self.is_records)

    @cached_property
    def lines(self) -> FieldLines | None:
        """What writes fields, where they are asked for."""
        if self.shape is not Shape.FIELDS:
            return None
        from wiredecode.frames.record import BYTES
        from wiredecode.view.fieldlines import TABS, FieldLines, Form, UnknownField

        names = self.field or TABS
        try:
            form = Form.of(self.field_form or ())
            return FieldLines(names, form, show=BYTES[self.bytes_], secrets=self.show_secrets)
        except UnknownField as error:
            raise options.UsageError(str(error)) from None

    @cached_property
    def times(self) -> Times:
        return options.times(self.time, utc=self.utc, records=self.shape not in (Shape.TREES, Shape.LINES))

    @cached_property
    def rules(self) -> ColorRules | None:
        """The user's colour rules, where lines or trees have colours."""
        if self.shape not in (Shape.LINES, Shape.TREES) or not wants_color(self.color, sys.stdout):
            return None
        settings = options.settings()
        if not settings.colors:
            return None
        from wiredecode.view.colors import ColorRules

        rules = ColorRules(settings)
        if rules.problem:
            complain(rules.problem)
        return rules

    @property
    def wanted(self) -> dict[str, Any]:
        """Arguments for :meth:`Session.of`."""
        lines = self.lines
        colors = None if self.rules is None else self.rules.select
        if lines is None:
            linked, copies, analyse = self.style is not None, self.shape is not Shape.LINES, False
        else:
            linked, copies, analyse = lines.needs_responses, lines.needs_copies, lines.needs_analysis
        return {
            "style": self.style,
            "link_responses": linked,
            "copies": copies,
            "analyse": analyse,
            "colors": colors,
        }

    @property
    def tree_options(self) -> TreeOptions:
        from wiredecode.view.theme import TreeOptions

        return TreeOptions(self.bytes_, self.full, self.show_secrets, self.hexdump, self.times)


def shower(session: Session, frames: FrameOptions) -> Callable[[Iterable[Frame]], None]:
    """Return a function that shows the frames of a session as the options say."""
    color, times = wants_color(frames.color, sys.stdout), frames.times
    if frames.lines is not None:
        return _fields(session, frames.lines)
    if frames.is_records:
        lines = record_lines if frames.shape is Shape.RECORDS else _array
        return lines(session, frames.ranges, frames.bytes_)
    if frames.shape is Shape.PDML:
        return _pdml(session, frames)
    lined = frames.shape is Shape.LINES
    return _lines(session, color, times, frames.rules) if lined else _trees(session, frames, color)


def show_bytes(json: bool, choice: str) -> Callable[[bytes], str]:
    """Records hold bytes as they are to be written; trees shorten them later."""
    if json:
        from wiredecode.frames.record import BYTES

        return BYTES[choice]
    from wiredecode.view.values import Raw

    return Raw


def _lines(session: Session, color: bool, times: Times, rules: ColorRules | None) -> Callable[[Iterable[Frame]], None]:
    write = session.output.text
    line: Callable[[Frame, int], str]
    header = ""
    if sys.stdout.isatty():
        from wiredecode.view.screen import ScreenLines

        screen = ScreenLines(color=color, times=times)
        header, line = screen.header(), screen.line
    else:
        from wiredecode.view.summary import SummaryLines

        line = SummaryLines(color=color, times=times).line
    if rules is not None:
        line = _in_colors(line, rules)

    def show(frames: Iterable[Frame]) -> None:
        head = header
        safely = session.guarded(lambda frame: line(frame, session.first_ns))
        for frame in frames:
            if head:
                write(head)
                head = ""
            write(safely(frame))

    return show


def _in_colors(line: Callable[[Frame, int], str], rules: ColorRules) -> Callable[[Frame, int], str]:
    from wiredecode.view.colors import in_style

    return lambda frame, first_ns: in_style(line(frame, first_ns), rules.style(frame, first_ns))


def record_lines(session: Session, ranges: bool, bytes_: str) -> Callable[[Iterable[Frame]], None]:
    """Write NDJSON, one record per frame; ``bytes_`` is how bytes are shown."""
    return _each(session.output.write, _record_line(session, ranges, bytes_))


def _record_line(session: Session, ranges: bool, bytes_: str) -> Callable[[Frame], bytes]:
    from wiredecode.frames.record import BYTES, RecordLines

    return session.guarded(RecordLines(ranges=ranges, show=BYTES[bytes_]).line)


def _each(
    write: Callable[[Rendered], object],
    make: Callable[[Frame], Rendered],
    head: Rendered | None = None,
    foot: Rendered | None = None,
) -> Callable[[Iterable[Frame]], None]:
    """What writes something of every frame; ``foot`` comes behind it, whatever ends it."""

    def show(frames: Iterable[Frame]) -> None:
        if head is not None:
            write(head)
        try:
            for frame in frames:
                write(make(frame))
        finally:
            if foot is not None:
                write(foot)

    return show


def _array(session: Session, ranges: bool, bytes_: str) -> Callable[[Iterable[Frame]], None]:
    """Write one JSON array of all records."""
    from wiredecode.export.json_array import JsonArray

    line = _record_line(session, ranges, bytes_)

    def show(frames: Iterable[Frame]) -> None:
        array = JsonArray(session.output.write)
        try:
            for frame in frames:
                array.add(line(frame).rstrip(b"\n"))
        finally:
            array.close()

    return show


def _pdml(session: Session, options: FrameOptions) -> Callable[[Iterable[Frame]], None]:
    """Write one XML document, whole whatever ends it."""
    from wiredecode.extras import version_number
    from wiredecode.frames.record import BYTES
    from wiredecode.view.pdml import FOOT, HEAD, Pdml

    line = session.guarded(Pdml(BYTES[options.bytes_], secrets=options.show_secrets).packet)
    return _each(session.output.text, line, HEAD.format(version=version_number()), FOOT)


def _fields(session: Session, lines: FieldLines) -> Callable[[Iterable[Frame]], None]:
    def line(frame: Frame) -> str:
        lines.clock.first_ns = session.first_ns
        return lines.line(frame)

    return _each(session.output.text, session.guarded(line), lines.header())


def _trees(session: Session, options: FrameOptions, color: bool) -> Callable[[Iterable[Frame]], None]:
    from wiredecode.view.console import tree_console
    from wiredecode.view.tree import frame_tree

    console = tree_console(session.output, color=color, terminal=sys.stdout.isatty())
    tree_options, rules = options.tree_options, options.rules

    def tree(frame: Frame) -> RenderableType:
        style = "" if rules is None else rules.style(frame, session.first_ns)
        return frame_tree(frame, session.first_ns, tree_options, style)

    return _each(console.print, session.guarded(tree))
