"""``wiredecode follow``: one connection as a dialogue."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import typer
from typer import Option

from wiredecode.cli import options
from wiredecode.cli.frame_output import record_lines
from wiredecode.cli.output import complain, say, terminal, wants_color

if TYPE_CHECKING:
    from wiredecode.cli.session import CaptureSession
    from wiredecode.filter import Filter
    from wiredecode.frames.activity import Activity
    from wiredecode.frames.frame import Frame
    from wiredecode.net.types import Event
    from wiredecode.view.follow import ConnectionFilter
    from wiredecode.view.theme import TreeOptions
MAX_GAPS = 10
"""Gaps that are reported individually."""


@options.group
class FollowOptions(options.CaptureReading):
    """Options: the connection, and the form of its output."""

    number: int | None = Option(
        None, "-n", "--connection", min=1, metavar="N", help="Show the connection with this number directly."
    )
    address: str | None = Option(
        None, metavar="ADDRESS", help="Of one end: 10.0.0.7, 10.0.0.0/8, ::1 or 10.0.0.7:4222."
    )
    port: int | None = Option(None, min=1, max=65535, metavar="PORT", help="TCP port of one end.")
    display_filter: options.FollowFilter = None
    hexdump: bool = Option(False, "--hex", help="A hex dump of every message.")
    raw: bool = Option(False, "--raw", help="The payload as it is, with passwords, without gaps.")
    json: options.Json = False
    messages: bool = Option(
        False, "--messages", help="Only the bodies of published and delivered messages, a line each."
    )
    full: bool = Option(False, "--full", help="All bodies and all bytes, however many.")
    side: Literal["client", "server"] | None = Option(None, help="Only what this side sent.")
    time: options.Time = None
    utc: options.Utc = False
    count: options.Count = None
    bytes_: options.Bytes = "hex"
    ranges: options.RecordRanges = False
    show_secrets: options.ShowSecrets = False
    color: options.Color = "auto"

    @cached_property
    def form(self) -> str:
        """Form of the output: ``text``, or the name of the option. The choices exclude each other."""
        given = {"hex": self.hexdump, "raw": self.raw, "json": self.json, "messages": self.messages}
        chosen = [name for name, on in given.items() if on]
        if len(chosen) > 1:
            raise options.UsageError(f"{' and '.join(f'--{name}' for name in chosen)} exclude each other")
        return chosen[0] if chosen else "text"

    @property
    def is_for_people(self) -> bool:
        return self.form in ("text", "hex")

    @cached_property
    def connections(self) -> ConnectionFilter:
        from wiredecode.view.follow import ConnectionFilter

        try:
            return ConnectionFilter(self.number, self.address, self.port)
        except ValueError:
            message = f"{self.address!r} is no address such as 10.0.0.7, 10.0.0.0/8 or 10.0.0.7:4222"
            raise typer.BadParameter(message, param_hint="--address") from None

    @cached_property
    def display(self) -> Filter | None:
        return options.display_filter(self.display_filter, secrets=self.show_secrets, utc=self.utc)

    @cached_property
    def tree_options(self) -> TreeOptions:
        from wiredecode.view.theme import TreeOptions

        times = options.times(self.time, utc=self.utc, records=self.form not in ("text", "hex"))
        return TreeOptions(self.bytes_, self.full, self.show_secrets, self.hexdump, times)

    def check(self) -> None:
        """Refuse what cannot be done, before anything is read."""
        form, raw = self.form, self.form == "raw"
        options.refuse(
            (self.full and not self.is_for_people, f"--full goes with the dialogue and --hex, not with --{form}"),
            (self.ranges and form != "json", "--ranges goes with --json"),
            (raw and self.count, "-c counts frames, and --raw has none; --from and --to bound it"),
            (raw and sys.stdout.isatty(), "raw bytes are not for terminals; name a file or a pipe, or take --hex"),
        )
        _ = self.tree_options, self.connections, self.display, self.decoding.demand, self.span.start, self.span.end


def follow(settings: FollowOptions) -> int:
    """Show one connection as a dialogue: both sides in order, answers below their requests.

    Without -n, it shows the connection that matches address, port and filter, or lists them if several match. A
    connection matches a filter if one of its frames does. Totals go to standard error.
    """
    settings.check()
    from wiredecode.cli.session import rereadable
    from wiredecode.view.follow import ConnectionFilter

    number = settings.number
    direct = settings.connections == ConnectionFilter(number) and settings.display is None
    if number is not None and direct and not (settings.form == "raw" and settings.side):
        return Following(settings, number, settings.files).run()
    with rereadable(settings.files) as source:
        code, chosen = _choose(settings, source)
        return code if chosen is None else Following(settings, chosen.connection.number, source, chosen).run()


def _choose(settings: FollowOptions, source: list[str | BinaryIO]) -> tuple[int, Activity | None]:
    """Find the connection in a first pass; list the connections if several fit. Return the exit code, too."""
    from wiredecode.capture.errors import Postponed
    from wiredecode.cli.session import CaptureSession, Selection
    from wiredecode.dissect.dissector import ANALYSED
    from wiredecode.view.follow import ConnectionFilter, Survey, table

    survey, connections = Survey(settings.display), settings.connections
    selection = Selection(display=settings.display)
    session = CaptureSession.of(settings, source, selection, ANALYSED, on_end=survey.end, to_stdout=False)
    rows: list[Activity] = []
    chosen: list[Activity] = []

    def work() -> None:
        with Postponed() as damage:
            for frame in session.all_frames():
                survey.frame(frame)
        rows.extend(row for row in survey.activities if survey.fits(row) and connections.fits(row.connection))
        active = [row for row in rows if any(row.frames)] or [row for row in rows if row.captured]
        if len(active) == 1:
            chosen.extend(active)
            session.shows_totals = False  # the pass that follows does
            return
        if not settings.is_for_people:
            return
        screen = terminal()
        width = None if screen is None else screen.columns
        for line in table(rows, width) if rows else ():
            session.output.text(line + "\n")
        damage.raise_again()

    code = session.work(work)
    if chosen or code:
        return code, chosen[0] if chosen else None
    if rows and not settings.is_for_people:
        complain(f"{len(rows):,} connections have frames; choose one with -n: wiredecode follow FILE lists them")
        return 2, None
    if rows or (connections == ConnectionFilter() and settings.display is None):
        if rows and not settings.verbosity.quiet:
            say(f"{'hint':<10}-n NUMBER follows one connection; --address, --port and -Y choose, too")
        return 0, None
    total = len(survey.activities.by_number)
    reason = f"there are {total:,} connections, and none of them fits; wiredecode follow FILE lists them"
    complain(reason if total else "there is no connection")
    return 1, None


class Following:
    """The pass that shows one connection."""

    def __init__(self, settings: FollowOptions, number: int, source: list[Any], seen: Activity | None = None) -> None:
        from wiredecode.cli.live import PipeSession, is_pipe
        from wiredecode.cli.session import CaptureSession, Selection
        from wiredecode.dissect.dissector import Demand
        from wiredecode.fields.layer import Style
        from wiredecode.filter import compile_filter
        from wiredecode.frames.message import Messages
        from wiredecode.frames.record import BYTES

        self.settings, self.number, self.seen, form = settings, number, seen, settings.form
        self.messages = Messages(secrets=settings.show_secrets) if form in ("text", "messages") else None
        self.pieces = self.gaps = 0
        """Pieces of payload, or bodies, that were written, and gaps between them."""
        self.color = wants_color(settings.color, sys.stdout)
        self.show = BYTES[settings.bytes_]
        peer = {"client": "server", "server": "client"}.get(settings.side or "")
        side = "" if peer is None or form == "raw" else f' && !(frame.sender == "{peer}")'
        only = compile_filter(f"tcp.stream == {number}{side}")
        self.session: CaptureSession = (PipeSession if seen is None and is_pipe(settings.files) else CaptureSession).of(
            settings,
            source,
            Selection(settings.count, settings.span, only, phrase=f"are of connection #{number}"),
            Demand(
                style=Style(self.show, settings.show_secrets) if form == "json" else None,
                link_responses=form not in ("raw", "messages"),
                messages=self.messages,
                select=only,
            ),
            on_events=self._payload if form == "raw" else None,
        )

    def run(self) -> int:
        """Show the connection; return the exit code."""
        settings, session, form = self.settings, self.session, self.settings.form
        show: dict[str, Callable[[Iterable[Frame]], None]] = {"raw": self._raw, "messages": self._bodies}
        if form == "json":
            show[form] = record_lines(session, settings.ranges, settings.bytes_)
        code = session.run(show.get(form, self._dialogue))
        if code or self.pieces or (session.shown and form not in ("raw", "messages")):
            return code
        totals = session.totals
        if self.number > totals.connections and not session.stopped:
            how = f"the last one is {totals.connections}" if totals.connections else "there are none"
            complain(f"there is no connection #{self.number}; {how}")
            return 1
        if not settings.verbosity.quiet:
            complain(self._nothing())
        return 0

    def _nothing(self) -> str:
        """Why there is nothing to show."""
        lacking = {"raw": "no payload", "messages": "no published or delivered messages"}.get(
            self.settings.form, "no frames"
        )
        text = f"connection #{self.number} has {lacking}"
        if self.settings.side or not self.settings.span.is_whole:
            return f"{text} that fit"
        if self.seen is not None and self.seen.foreign:
            text += f": it looks like {self.seen.foreign}, which is not decoded"
        return f"{text}; --raw writes its bytes" if self.settings.form in ("text", "hex", "json") else text

    def _dialogue(self, frames: Iterable[Frame]) -> None:
        from wiredecode.view.dialogue import Dialogue

        dialogue = Dialogue(
            self.session.output,
            self.settings.tree_options,
            color=self.color,
            terminal=sys.stdout.isatty(),
            messages=self.messages,
            guarded=self.session.guard,
        )
        dialogue.show(frames)

    def _bodies(self, frames: Iterable[Frame]) -> None:
        from wiredecode.view.dialogue import body_line
        from wiredecode.view.theme import SIDE, paint

        assert self.messages is not None
        for frame in frames:
            for part in self.messages.of(frame):
                for body in part.bodies:
                    line = paint(body_line(body, self.show), SIDE.get(frame.sender or "", ""), color=self.color)
                    self.session.output.text(f"{line}\n")
                    self.pieces += 1

    def _raw(self, frames: Iterable[Frame]) -> None:
        for _ in frames:  # reading them feeds the payload
            pass
        if self.gaps > MAX_GAPS:
            complain(f"and {self.gaps - MAX_GAPS:,} more gaps")

    def _payload(self, events: list[Event]) -> None:
        from wiredecode.view.follow import payload

        side, session = None, self.session
        if self.settings.side is not None and self.seen is not None:
            client = self.seen.client_side
            side = client if self.settings.side == "client" else 1 - client
        for _, time_ns, part in payload(events, self.number, side):
            if not session.within(time_ns):
                continue
            if isinstance(part, bytes):
                self.pieces += 1
                session.output.write(part)
                continue
            self.gaps += 1
            if self.gaps <= MAX_GAPS:
                who = part.direction.connection.endpoints[part.direction.side]
                complain(f"{part.length:,} bytes of {who} are left out at stream offset {part.offset:,}: {part.reason}")
