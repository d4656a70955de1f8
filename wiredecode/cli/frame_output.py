"""Frames as trees, lines, fields and records: options and output of ``pcap``, ``sniff`` and ``follow``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.output import complain, wants_color

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wiredecode.cli.session import CaptureSession
    from wiredecode.dissect.dissector import Demand
    from wiredecode.fields.layer import Style
    from wiredecode.filter import Filter
    from wiredecode.frames.frame import Frame
    from wiredecode.view.colors import ColorRules
    from wiredecode.view.fieldlines import FieldLines
    from wiredecode.view.screen import ScreenLines
    from wiredecode.view.summary import SummaryLines
    from wiredecode.view.theme import TreeOptions
    from wiredecode.view.times import Times

FrameWriter = Callable[["Iterable[Frame]"], None]
"""Writes all frames of a session."""
TREES, LINES, FIELDS, RECORDS, ARRAY, PDML = "trees", "lines", "fields", "records", "array", "pdml"
"""Forms of frames."""


@options.group
class FrameOptions:
    """Options of the output of frames: trees, lines, fields or records."""

    summary: bool = Option(False, "--summary", help="One line per frame.")
    json: options.Json = False
    form: Literal["text", "tabs", "fields", "json", "ek", "pdml"] | None = Option(
        None,
        "-T",
        help="As tshark: lines, lines with tabs, the fields of -e, a JSON array of records, one per line, XML.",
    )
    field: list[str] | None = Option(
        None,
        "-e",
        metavar="NAME",
        autocompletion=options.complete_filter,
        help="With -T fields: a field, by its filter name. Repeatable.",
    )
    field_form: list[str] | None = Option(
        None,
        "-E",
        metavar="NAME=VALUE",
        help="With -T fields: header=y, separator=/t|/s|X, quote=d|s|n, occurrence=f|l|a, aggregator=X.",
    )
    hexdump: bool = Option(False, "-x", "--hex", help="Trees with a hex dump.")
    full: bool = Option(False, "-V", "--full", help="Trees with all bytes and all elements of arrays.")
    time: options.Time = None
    utc: options.Utc = False
    bytes_: options.Bytes = "hex"
    ranges: bool = Option(False, "--ranges", help="With --json: byte range of every field. Trees always show it.")
    show_secrets: options.ShowSecrets = False
    color: options.Color = "auto"

    @property
    def needs_one_process(self) -> Iterator[tuple[bool, str]]:
        """Whether something keeps several processes (``--jobs``) from making this form, and what."""
        yield self.shape in (TREES, PDML), "goes with --summary, --json and -T fields"
        before = self.times.form == "delta" or any("displayed" in name for name in self.field or ())
        yield before, "does not know the frame before: choose another time"
        yield self.shape == LINES and sys.stdout.isatty(), "is for files and pipes"

    def check(self) -> None:
        """Refuse options that exclude each other."""
        plain = (self.shape == LINES and self.summary) or self.shape not in (LINES, TREES)
        output = "--json" if self.json else "--summary"
        form = f"-T {self.form}" if self.form else output
        fields = self.form == "fields"
        options.refuse(
            (self.summary and self.json, "--summary and --json exclude each other"),
            (self.form and (self.summary or self.json), f"-T {self.form} and {output} exclude each other"),
            (self.hexdump and plain, f"--hex goes with trees, not with {form}"),
            (self.full and plain, f"--full goes with trees, not with {form}"),
            (
                self.ranges and self.shape not in (TREES, RECORDS, ARRAY),
                f"--ranges goes with --json or trees, not with {form}",
            ),
            ((self.field or self.field_form) and not fields, "-e and -E go with -T fields"),
            (fields and not self.field, "-T fields needs the fields: -e NAME, as in -e frame.time -e frame.type"),
        )
        _ = self.times, self.lines

    @cached_property
    def shape(self) -> str:
        """Form in which frames are written."""
        if self.form is None or self.form == "text":
            lines = self.summary or (self.form is not None and not self.full and not self.hexdump)
            return RECORDS if self.json else LINES if lines else TREES
        return {"ek": RECORDS, "json": ARRAY, "pdml": PDML, "fields": FIELDS, "tabs": FIELDS}[self.form]

    @property
    def is_records(self) -> bool:
        """Whether JSON is written."""
        return self.shape in (RECORDS, ARRAY)

    @property
    def style(self) -> Style | None:
        """Style of the records of frames; None: no records are needed."""
        from wiredecode.fields.layer import Style

        if self.lines is not None:
            return self.lines.style
        if self.shape == LINES:
            return None
        if self.shape == TREES:  # trees shorten bytes themselves
            from wiredecode.view.values import Raw

            return Style(Raw, self.show_secrets)
        from wiredecode.frames.record import BYTES

        return Style(BYTES[self.bytes_], self.show_secrets)

    @cached_property
    def lines(self) -> FieldLines | None:
        """Writer of fields, if they are wanted."""
        if self.shape != FIELDS:
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
        return options.times(self.time, utc=self.utc, records=self.shape not in (TREES, LINES))

    @cached_property
    def rules(self) -> ColorRules | None:
        """The user's colour rules, where lines or trees have colours."""
        if self.shape not in (LINES, TREES) or not wants_color(self.color, sys.stdout):
            return None
        settings = options.settings()
        if not settings.colors:
            return None
        from wiredecode.view.colors import ColorRules

        rules = ColorRules(settings)
        if rules.problem:
            complain(rules.problem)
        return rules

    def demand(self, select: Filter | None) -> Demand:
        """The demand of this form on the frames that ``select`` matches."""
        from wiredecode.dissect.dissector import Demand

        lines, style = self.lines, self.style
        return Demand(
            style=style,
            link_responses=style is not None if lines is None else lines.needs_responses,
            copies=self.shape != LINES if lines is None else lines.needs_copies,
            analyse=lines is not None and lines.needs.analysis,
            facts=lines is not None and lines.needs.facts,
            select=select,
        )

    @property
    def are_bulk_lines(self) -> bool:
        """Whether frames are shown as lines of the usual form, which `SummaryLines` makes in bulk."""
        return self.shape == LINES and self.rules is None and self.times.is_usual and not sys.stdout.isatty()

    @property
    def colors(self) -> Filter | None:
        """Filter of the frames that the user's rules colour."""
        return None if self.rules is None else self.rules.select

    @property
    def tree_options(self) -> TreeOptions:
        from wiredecode.view.theme import TreeOptions

        return TreeOptions(self.bytes_, self.full, self.show_secrets, self.hexdump, self.times)

    def writer(self, session: CaptureSession) -> FrameWriter:
        """Return a function that writes the frames of a session in the form of the options; most are `_one_by_one`."""
        makers = {TREES: _trees, LINES: _lines, FIELDS: _fields, RECORDS: _records, ARRAY: _array, PDML: _pdml}
        return makers[self.shape](session, self)


def _lines(session: CaptureSession, chosen: FrameOptions) -> FrameWriter:
    from wiredecode.view.summary import SummaryLines

    color = wants_color(chosen.color, sys.stdout)
    lines: SummaryLines | ScreenLines = SummaryLines(color=color, times=chosen.times, apart=session.shared is not None)
    heads: list[str] = []
    ends: Callable[[Frame], str] | None = None
    rules = chosen.rules
    if sys.stdout.isatty():
        from wiredecode.view.screen import ScreenLines

        lines = ScreenLines(color=color, times=chosen.times)
        heads, ends = [lines.header()], lines.ends

    def line(frame: Frame) -> str:
        text = lines.line(frame)
        if rules is not None:
            text = rules.paint(text, frame)
        text = text if ends is None else ends(frame) + text
        return heads.pop() + text if heads else text

    make = lines.line if rules is None and not heads else line
    if session.dissector.demand.blocks and isinstance(lines, SummaryLines):
        return partial(_in_blocks, session, lines, session.safely(make))
    place = lines.placed if isinstance(lines, SummaryLines) else None
    return _one_by_one(session.output.text, session.guard(make, place))


def _in_blocks(session: CaptureSession, lines: SummaryLines, line: Callable[[Frame], str], _: Iterable[Frame]) -> None:
    """Write the lines of all frames, plain ones in bulk."""
    write, shared = session.output.text, session.shared
    for items in session.items():
        if shared is not None:
            write(shared.rows(lines.rows(items[:-1], line), lines.placed))
        elif items:
            write(lines.of_items(items, line))


def record_lines(session: CaptureSession, ranges: bool, bytes_: str) -> FrameWriter:
    """Writer of NDJSON, one record per frame; ``bytes_``: form of bytes."""
    return _one_by_one(session.output.write, _record_line(session, ranges, bytes_))


def _record_line(session: CaptureSession, ranges: bool, bytes_: str) -> Callable[[Frame], bytes]:
    from wiredecode.frames.record import BYTES, record_line

    show = BYTES[bytes_]
    return session.guard(lambda frame: record_line(frame, ranges=ranges, show=show))  # a partial takes longer


def _one_by_one(
    write: Callable[[Any], object], make: Callable[[Frame], Any], head: str = "", foot: str = ""
) -> FrameWriter:
    """Return a function that writes ``make(frame)`` of every frame; ``foot`` also after an error."""

    def show(frames: Iterable[Frame]) -> None:
        if head:
            write(head)
        try:
            for frame in frames:
                write(make(frame))
        finally:
            if foot:
                write(foot)

    return show


def _records(session: CaptureSession, chosen: FrameOptions) -> FrameWriter:
    return record_lines(session, chosen.ranges, chosen.bytes_)


def _array(session: CaptureSession, chosen: FrameOptions) -> FrameWriter:
    """Writer of one JSON array of all records."""
    from wiredecode.frames.record import JsonArray

    line = _record_line(session, chosen.ranges, chosen.bytes_)

    def show(frames: Iterable[Frame]) -> None:
        with closing(JsonArray(session.output.write)) as array:
            for frame in frames:
                array.add(line(frame))

    return show


def _pdml(session: CaptureSession, chosen: FrameOptions) -> FrameWriter:
    """Writer of one XML document, complete at any end of the capture."""
    from wiredecode.extras import version_number
    from wiredecode.frames.record import BYTES
    from wiredecode.view.pdml import FOOT, HEAD, Pdml

    line = session.guard(Pdml(BYTES[chosen.bytes_], secrets=chosen.show_secrets).packet)
    return _one_by_one(session.output.text, line, HEAD.format(version=version_number()), FOOT)


def _fields(session: CaptureSession, chosen: FrameOptions) -> FrameWriter:
    lines = chosen.lines
    assert lines is not None
    return _one_by_one(session.output.text, session.guard(lines.line), lines.header())


def _trees(session: CaptureSession, chosen: FrameOptions) -> FrameWriter:
    from wiredecode.view.console import tree_writer
    from wiredecode.view.tree import frame_tree

    color, terminal = wants_color(chosen.color, sys.stdout), sys.stdout.isatty()
    write = tree_writer(session.output, color=color, terminal=terminal)
    tree_options, rules = chosen.tree_options, chosen.rules

    def tree(frame: Frame) -> RenderableType:
        style = "" if rules is None else rules.style(frame)
        return frame_tree(frame, tree_options, style)

    return _one_by_one(write, session.guard(tree))
