"""``wiredecode follow``: one connection as a dialogue."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import typer

from wiredecode.cli import options
from wiredecode.cli.frame_output import record_lines
from wiredecode.cli.groups import group, with_groups
from wiredecode.cli.output import complain, say, wants_color

if TYPE_CHECKING:
    from wiredecode.cli.session import Session
    from wiredecode.fields.layer import Style
    from wiredecode.filter import Filter
    from wiredecode.frames.activity import Activity
    from wiredecode.frames.frame import Frame
    from wiredecode.net.types import Event
    from wiredecode.view.follow import ConnectionFilter, Piece, Survey
    from wiredecode.view.theme import TreeOptions

EXAMPLES = """\b
Examples:
  wiredecode follow a.pcap                         the connection, or a list
  wiredecode follow a.pcap -n 3                    connection 3 as a dialogue
  wiredecode follow a.pcap --address 10.0.0.7 --hex
  wiredecode follow a.pcap -Y 'finding.severity == "error"'
  wiredecode follow a.pcap -n 3 --messages --bytes text
  wiredecode follow a.pcap -n 3 --raw --side client > requests.bin
  tcpdump -U -w - port 5552 | wiredecode follow - -n 1
"""
MAX_HOLES = 10
"""Holes that are told one by one."""


@group
class FollowOptions:
    """Which connection, and what is shown of it."""

    files: options.Files
    number: Annotated[
        int | None,
        typer.Option("-n", "--connection", min=1, metavar="N", help="The connection with this number, at once."),
    ] = None
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="ADDRESS", help="Of one end: 10.0.0.7, 10.0.0.0/8, ::1 or 10.0.0.7:4222."),
    ] = None
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, metavar="PORT", help="TCP port of one end.")
    ] = None
    display_filter: options.FollowFilter = None
    hexdump: Annotated[bool, typer.Option("--hex", help="A hex dump of every message.")] = False
    raw: Annotated[bool, typer.Option("--raw", help="The payload as it is, with passwords, without holes.")] = False
    json: options.Json = False
    messages: Annotated[
        bool, typer.Option("--messages", help="Only the bodies of published and delivered messages, a line each.")
    ] = False
    full: Annotated[bool, typer.Option("--full", help="All bodies and all bytes, however many.")] = False
    side: Annotated[Literal["client", "server"] | None, typer.Option("--side", help="Only what this side sent.")] = None
    time: options.Time = None
    utc: options.Utc = False
    count: options.Count = None
    bytes_: options.Bytes = "hex"
    ranges: options.RecordRanges = False
    show_secrets: options.ShowSecrets = False
    color: options.Color = "auto"
    decoding: options.Decoding
    span: options.Span
    verbosity: options.Verbosity

    @cached_property
    def form(self) -> str:
        """What the output is: ``text``, or as the option is called. The choices exclude each other."""
        given = {"hex": self.hexdump, "raw": self.raw, "json": self.json, "messages": self.messages}
        chosen = [name for name, on in given.items() if on]
        if len(chosen) > 1:
            raise options.UsageError(f"{' and '.join(f'--{name}' for name in chosen)} exclude each other")
        return chosen[0] if chosen else "text"

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
        if self.full and self.form not in ("text", "hex"):
            raise options.UsageError(f"--full goes with the dialogue and --hex, not with --{self.form}")
        if self.ranges and self.form != "json":
            raise options.UsageError("--ranges goes with --json")
        if self.form == "raw" and self.count is not None:
            raise options.UsageError("-c counts frames, and --raw has none; --from and --to bound it")
        if self.form == "raw" and sys.stdout.isatty():
            raise options.UsageError("raw bytes are not for terminals; name a file or a pipe, or take --hex")
        _ = self.tree_options, self.connections, self.display, self.decoding.arguments, self.span.start, self.span.end


@with_groups
def follow(settings: FollowOptions) -> int:
    """Show one connection as a dialogue: both sides in order, answers below their requests.

    Without -n it is the connection that fits the address, port and filter; where several do, they are listed. A
    filter that fits one frame chooses the connection. Totals go to standard error.
    """
    settings.check()
    from wiredecode.cli.session import rereadable
    from wiredecode.view.follow import ConnectionFilter

    number = settings.number
    direct = (
        settings.connections == ConnectionFilter(number)
        and settings.display is None
        and not (settings.form == "raw" and settings.side)
    )
    if number is not None and direct:
        return Following(settings, number, settings.files).run()
    with rereadable(settings.files) as source:
        return _choose(settings, source)


def _choose(settings: FollowOptions, source: list[str | BinaryIO]) -> int:
    """Find the connection in a first pass, show it in a second one."""
    choice = Choice(settings, source)
    code = choice.run()
    if choice.chosen is None:
        return code
    for each in source:
        if not isinstance(each, str):
            each.seek(0)
    return Following(settings, choice.chosen.connection.number, source, choice.chosen).run()


class Choice:
    """The first pass over the capture: which connection is meant."""

    def __init__(self, settings: FollowOptions, source: list[Any]) -> None:
        from wiredecode.cli.session import Session
        from wiredecode.view.follow import Survey

        self.settings, display = settings, settings.display
        self.survey: Survey = Survey(display)
        self.session: Session = Session.of(
            *(source, settings.decoding, settings.verbosity), display=display, analyse=True, on_end=self.survey.end
        )
        self.chosen: Activity | None = None

    def run(self) -> int:
        """List the connections, unless one is chosen; return the exit code."""
        self.found = 0
        code = self.session.work(self._survey)
        if self.chosen is not None or code:
            return code
        if not self.found and not (self.settings.connections.is_all and self.settings.display is None):
            self._complain()
            return 2
        if self.found and not self.settings.verbosity.quiet:
            say(f"{'hint':<10}-n NUMBER follows one of them; --address, --port and -Y choose, too")
        return 0

    def _survey(self) -> None:
        from wiredecode.capture.errors import Postponed
        from wiredecode.view.follow import table

        session = self.session
        with Postponed() as damage:
            for frame in session.decoded():
                self.survey.see(frame)
        fits, survey = self.settings.connections.fits, self.survey
        rows = [row for row in survey.activities if survey.fits(row) and fits(row.connection)]
        spoken = [row for row in rows if any(row.frames)] or [row for row in rows if row.captured]
        self.found = len(rows)
        if len(spoken) == 1:
            self.chosen = spoken[0]
            session.quiet = True  # the second pass tells all
            return
        for line in table(rows) if rows else ():
            session.output.text(line + "\n")
        damage.raise_again()

    def _complain(self) -> None:
        total = len(self.survey.activities.by_number)
        what = "connections, and none of them fits"
        complain(
            f"there are {total:,} {what}; wiredecode follow FILE lists them" if total else "there is no connection"
        )


class Following:
    """The pass that shows one connection."""

    def __init__(self, settings: FollowOptions, number: int, source: list[Any], seen: Activity | None = None) -> None:
        from wiredecode.cli.live import PipeSession, is_pipe
        from wiredecode.cli.session import Session
        from wiredecode.frames.message import Messages

        self.settings, self.number, self.seen = settings, number, seen
        wants_bodies = settings.form in ("text", "messages")
        self.messages = Messages(secrets=settings.show_secrets) if wants_bodies else None
        self.shown = self.holes = 0
        only = self._only()
        kind = PipeSession if seen is None and is_pipe(settings.files) else Session
        self.session: Session = kind.of(
            *(source, settings.decoding, settings.verbosity),
            count=settings.count,
            span=settings.span,
            display=only,
            on_events=self._payload() if settings.form == "raw" else None,
            style=self._style(),
            link_responses=settings.form not in ("raw", "messages"),
            copies=True,
            messages=self.messages,
            select=only,
        )

    def _only(self) -> Filter:
        from wiredecode.filter import compile_filter

        other = {"client": "server", "server": "client"}.get(self.settings.side or "")
        side = "" if other is None or self.settings.form == "raw" else f' && !(frame.sender == "{other}")'
        return compile_filter(f"tcp.stream == {self.number}{side}")

    def _style(self) -> Style | None:
        if self.settings.form != "json":
            return None
        from wiredecode.cli.frame_output import show_bytes
        from wiredecode.fields.layer import Style

        return Style(show_bytes(True, self.settings.bytes_), self.settings.show_secrets, text=True)

    def _payload(self) -> Callable[[list[Event]], None]:
        from wiredecode.view.follow import payload

        side = None
        if self.settings.side is not None and self.seen is not None:
            client = self.seen.client_side
            side = client if self.settings.side == "client" else 1 - client

        def events(found: list[Event]) -> None:
            for piece in payload(found, self.number, side):
                self._piece(piece)

        return events

    def run(self) -> int:
        show: dict[str, Callable[[Iterable[Frame]], None]] = {
            "text": self._dialogue,
            "hex": self._dialogue,
            "raw": self._raw,
            "json": self._records,
            "messages": self._bodies,
        }
        code = self.session.run(show[self.settings.form])
        if self.shown or code:
            return code
        totals = self.session.totals
        if self.number > totals.connections and not self.session.stopped:
            how = f"the last one is {totals.connections}" if totals.connections else "there are none"
            complain(f"there is no connection #{self.number}; {how}")
            return 2
        if not self.settings.verbosity.quiet:
            complain(self._nothing())
        return 0

    def _nothing(self) -> str:
        """Why there is nothing to show."""
        what = {"raw": "no payload", "messages": "no published or delivered messages"}.get(
            self.settings.form, "no frames"
        )
        text = f"connection #{self.number} has {what}"
        if self.settings.side or not self.settings.span.is_whole:
            return f"{text} that fit"
        if self.seen is not None and self.seen.other:
            text += f": it looks like {self.seen.other}, which is not decoded"
        return f"{text}; --raw writes its bytes" if self.settings.form in ("text", "hex", "json") else text

    def _count_frames(self, frames: Iterable[Frame]) -> Iterable[Frame]:
        for frame in frames:
            self.shown += 1
            yield frame

    def _dialogue(self, frames: Iterable[Frame]) -> None:
        from wiredecode.view.dialogue import Dialogue

        dialogue = Dialogue(
            self.session.output,
            self.settings.tree_options,
            color=wants_color(self.settings.color, sys.stdout),
            terminal=sys.stdout.isatty(),
            messages=self.messages,
            guarded=self.session.guarded,
        )
        dialogue.show(self._count_frames(frames), lambda: self.session.first_ns)

    def _records(self, frames: Iterable[Frame]) -> None:
        record_lines(self.session, self.settings.ranges, self.settings.bytes_)(self._count_frames(frames))

    def _bodies(self, frames: Iterable[Frame]) -> None:
        from wiredecode.frames.message import FrameMessages
        from wiredecode.frames.record import BYTES
        from wiredecode.view.dialogue import body_line, painted
        from wiredecode.view.theme import SIDE

        assert self.messages is not None
        show, write = BYTES[self.settings.bytes_], self.session.output.text
        for frame in frames:
            for part in self.messages.drain():
                for body in part.bodies if isinstance(part, FrameMessages) and part.frame is frame else ():
                    line = painted(
                        body_line(body, show),
                        SIDE.get(frame.sender or "", ""),
                        color=wants_color(self.settings.color, sys.stdout),
                    )
                    write(f"{line}\n")
                    self.shown += 1

    def _raw(self, frames: Iterable[Frame]) -> None:
        for _ in frames:  # reading them feeds the payload
            pass
        if self.holes > MAX_HOLES:
            complain(f"and {self.holes - MAX_HOLES:,} more holes")

    def _piece(self, piece: Piece) -> None:
        _, time_ns, what = piece
        if not self.session.within(time_ns):
            return
        if isinstance(what, bytes):
            self.shown += 1
            self.session.output.write(what)
            return
        self.holes += 1
        if self.holes <= MAX_HOLES:
            who = what.connection.endpoints[what.side]
            complain(f"{what.length:,} bytes of {who} are left out at stream offset {what.offset:,}: {what.reason}")
