"""``wiredecode follow``: one connection as a dialogue."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from wiredecode.cli import options
from wiredecode.cli.output import Output, complain, say, wants_color
from wiredecode.cli.pcap import record_lines

if TYPE_CHECKING:
    from wiredecode.cli.session import Session
    from wiredecode.dissect.dissector import Dissector
    from wiredecode.filter import Filter
    from wiredecode.frames.frame import Frame
    from wiredecode.view.follow import Piece, Seen, Survey, Wanted
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


class SideChoice(StrEnum):
    client = "client"
    server = "server"


def follow(
    files: options.Files,
    number: Annotated[
        int | None,
        typer.Option("-n", "--connection", min=1, metavar="N", help="The connection with this number, at once."),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="ADDRESS", help="Of one end: 10.0.0.7, 10.0.0.0/8, ::1 or 10.0.0.7:4222."),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, metavar="PORT", help="TCP port of one end.")
    ] = None,
    display_filter: options.FollowFilter = None,
    hexdump: Annotated[bool, typer.Option("--hex", help="A hex dump of every message.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="The payload as it is, with passwords, without holes.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON record per frame (NDJSON).")] = False,
    messages: Annotated[
        bool, typer.Option("--messages", help="Only the bodies of published and delivered messages, a line each.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="All bodies and all bytes, however many.")] = False,
    side: Annotated[SideChoice | None, typer.Option("--side", help="Only what this side sent.")] = None,
    time: options.Time = None,
    utc: options.Utc = False,
    count: options.Count = None,
    from_: options.From = None,
    to: options.To = None,
    decode_as: options.DecodeAsOption = None,
    bytes_: options.Bytes = options.BytesChoice.hex,
    ranges: options.RecordRanges = False,
    show_secrets: options.ShowSecrets = False,
    color: options.Color = options.ColorChoice.auto,
    hole_timeout: options.HoleSeconds = None,
    max_buffer: options.MaxBuffer = None,
    limit: options.LimitOption = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Show one connection as a dialogue: both sides in order, answers below their requests.

    Without -n it is the connection that fits the address, port and filter; where several do, they are listed. A
    filter that fits one frame chooses the connection. Totals go to standard error.
    """
    shape = _shape(hexdump=hexdump, raw=raw, json=json, messages=messages)
    _combine(shape, full=full, ranges=ranges, count=count)
    from wiredecode.view.theme import TreeOptions

    times = options.times(time, utc=utc, records=shape not in ("text", "hex"))
    job = Job(
        files=files,
        shape=shape,
        wanted=_wanted(number, address, port),
        display=options.display_filter(display_filter, secrets=show_secrets),
        side=side and side.value,
        tree_options=TreeOptions(bytes_.value, full=full, secrets=show_secrets, hexdump=hexdump, times=times),
        ranges=ranges,
        color=wants_color(color.value, sys.stdout),
        reading={
            "decode_as": options.decode_as(decode_as),
            "limits": options.limits(hole_timeout, max_buffer, limit),
        },
        session={
            "count": count,
            "start": options.moment(from_, "--from"),
            "end": options.moment(to, "--to"),
            "quiet": quiet,
            "verbose": verbose,
        },
    )
    return job.run()


def _shape(**given: bool) -> str:
    """What the output is; the choices exclude each other."""
    chosen = [name for name, on in given.items() if on]
    if len(chosen) > 1:
        names = ["--hex" if name == "hexdump" else f"--{name}" for name in chosen]
        raise options.UsageError(f"{' and '.join(names)} exclude each other")
    return {"hexdump": "hex"}.get(chosen[0], chosen[0]) if chosen else "text"


def _combine(shape: str, *, full: bool, ranges: bool, count: int | None) -> None:
    if full and shape not in ("text", "hex"):
        raise options.UsageError(f"--full goes with the dialogue and --hex, not with --{shape}")
    if ranges and shape != "json":
        raise options.UsageError("--ranges goes with --json")
    if shape == "raw" and count is not None:
        raise options.UsageError("-c counts frames, and --raw has none; --from and --to bound it")
    if shape == "raw" and sys.stdout.isatty():
        raise options.UsageError("raw bytes are not for terminals; name a file or a pipe, or take --hex")


def _wanted(number: int | None, address: str | None, port: int | None) -> Wanted:
    from wiredecode.view.follow import Wanted

    try:
        return Wanted(number, address, port)
    except ValueError:
        message = f"{address!r} is no address such as 10.0.0.7, 10.0.0.0/8 or 10.0.0.7:4222"
        raise typer.BadParameter(message, param_hint="--address") from None


@dataclass
class Job:
    """What the command line asked for."""

    files: list[str]
    shape: str
    wanted: Wanted
    display: Filter | None
    side: str | None
    tree_options: TreeOptions
    ranges: bool
    color: bool
    reading: dict[str, Any]
    session: dict[str, Any]

    def run(self) -> int:
        """Find the connection, then follow it; return the exit code."""
        from wiredecode.view.follow import Wanted

        number = self.wanted.number
        direct = self.wanted == Wanted(number) and self.display is None and not (self.shape == "raw" and self.side)
        if number is not None and direct:
            return Following(self, number, self.files).run()
        with ExitStack() as opened:
            source: list[str | BinaryIO] = [*self.files]
            if "-" in self.files and sys.stdin is not None and not sys.stdin.isatty():
                source = [opened.enter_context(_spooled()) if name == "-" else name for name in self.files]
            return self._choose(source)

    def _choose(self, source: list[str | BinaryIO]) -> int:
        """Find the connection in a first pass, show it in a second one."""
        choice = Choice(self, source)
        code = choice.run()
        if choice.chosen is None:
            return code
        for each in source:
            if not isinstance(each, str):
                each.seek(0)
        return Following(self, choice.chosen.connection.number, source, choice.chosen).run()


def _spooled() -> BinaryIO:
    """Standard input, in a file: it is read twice, first to find the connection."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the caller
    shutil.copyfileobj(sys.stdin.buffer, file)
    file.seek(0)
    return file


class Choice:
    """The first look at the capture: which connection is meant."""

    def __init__(self, job: Job, source: list[Any]) -> None:
        from wiredecode.capture import open_capture
        from wiredecode.cli.session import Session
        from wiredecode.dissect.dissector import Dissector
        from wiredecode.view.follow import Survey

        self.job, display = job, job.display
        dissector = Dissector(
            **job.reading,
            style=None if display is None else display.style(None),
            link_responses=display is not None and display.needs_responses,
        )
        self.survey: Survey = Survey(dissector, display)
        told = {"quiet": job.session["quiet"], "verbose": job.session["verbose"]}
        self.session: Session = Session(open_capture(source), dissector, Output(sys.stdout), **told)
        self.chosen: Seen | None = None

    def run(self) -> int:
        """List the connections, unless one is chosen; return the exit code."""
        self.found = 0
        code = self.session.work(self._look)
        if self.chosen is not None or code:
            return code
        if not self.found and not (self.job.wanted.is_all and self.job.display is None):
            self._complain()
            return 2
        if self.found and not self.job.session["quiet"]:
            say(f"{'hint':<10}-n NUMBER follows one of them; --address, --port and -Y choose, too")
        return 0

    def _look(self) -> None:
        from wiredecode.capture import CaptureError

        session, failure = self.session, None
        frames = session.frames()
        clock = self.job.display.clock if self.job.display is not None else None
        try:
            for frame in frames:
                if clock is not None:
                    clock.first_ns = session.first_ns
                self.survey.see(frame)
        except CaptureError as error:
            failure = error
        rows = [row for _, row in sorted(self.survey.seen.items()) if row.fits and self.job.wanted.fits(row.connection)]
        spoken = [row for row in rows if row.frames] or [row for row in rows if row.size]
        self.found = len(rows)
        if len(spoken) == 1:
            self.chosen = spoken[0]
            session.quiet = True  # the second look tells all
            return
        self._list(rows)
        if failure is not None:
            raise failure

    def _list(self, rows: list[Seen]) -> None:
        from wiredecode.view.dialogue import listing

        if not rows:
            return
        cells: list[tuple[str, ...]] = [("#", "FRAMES", "BYTES", "SECONDS", "PROTOCOL", "CLIENT → SERVER")]
        for row in rows:
            ends, client = row.connection.endpoints, row.client_side
            seconds = f"{(row.last_ns - row.first_ns) / 1e9:.3f}" if row.frames else "-"
            protocol = ", ".join(row.protocols) or (f"({row.other or 'unknown'})" if row.size else "-")
            who = f"{ends[client]} → {ends[1 - client]}"
            cells.append((str(row.connection.number), f"{row.frames:,}", f"{row.size:,}", seconds, protocol, who))
        for line in listing(cells):
            self.session.output.text(line + "\n")

    def _complain(self) -> None:
        total = len(self.survey.seen)
        what = "connections, and none of them fits"
        complain(
            f"there are {total:,} {what}; wiredecode follow FILE lists them" if total else "there is no connection"
        )


class Following:
    """The look at one connection that shows it."""

    def __init__(self, job: Job, number: int, source: list[Any], seen: Seen | None = None) -> None:
        from wiredecode.capture import open_capture
        from wiredecode.cli.live import PipeSession, is_pipe
        from wiredecode.cli.session import Session
        from wiredecode.frames.message import Messages

        self.job, self.number, self.seen = job, number, seen
        wants_bodies = job.shape in ("text", "messages")
        self.messages = Messages(secrets=job.tree_options.secrets) if wants_bodies else None
        self.shown = 0
        display = self._only()
        kind = PipeSession if seen is None and is_pipe(job.files) else Session
        packets = source if kind is PipeSession else open_capture(source)
        output, decoder = Output(sys.stdout), self._dissector(display)
        self.session: Session = kind(packets, decoder, output, display=display, **job.session)

    def _only(self) -> Filter:
        from wiredecode.filter import compile_filter

        other = {"client": "server", "server": "client"}.get(self.job.side or "")
        side = "" if other is None or self.job.shape == "raw" else f' && !(frame.sender == "{other}")'
        return compile_filter(f"tcp.stream == {self.number}{side}")

    def _dissector(self, only: Filter) -> Dissector:
        from wiredecode.cli.pcap import show_bytes
        from wiredecode.dissect.dissector import Dissector
        from wiredecode.fields.layer import Style

        shape, style = self.job.shape, None
        if shape == "json":
            style = Style(show_bytes(True, self.job.tree_options.bytes), self.job.tree_options.secrets, text=True)
        linked = shape not in ("raw", "messages")
        return Dissector(**self.job.reading, style=style, link_responses=linked, messages=self.messages, select=only)

    def run(self) -> int:
        show: dict[str, Callable[[Iterable[Frame]], None]] = {
            "text": self._dialogue,
            "hex": self._dialogue,
            "raw": self._raw,
            "json": self._records,
            "messages": self._bodies,
        }
        code = self.session.run(show[self.job.shape])
        if self.shown or code:
            return code
        totals = self.session.totals
        if self.number > totals.connections and not self.session.stopped:
            how = f"the last one is {totals.connections}" if totals.connections else "there are none"
            complain(f"there is no connection {self.number}; {how}")
            return 2
        if not self.job.session["quiet"]:
            complain(self._nothing())
        return 0

    def _nothing(self) -> str:
        """Why there is nothing to show."""
        what = {"raw": "no payload", "messages": "no published or delivered messages"}.get(self.job.shape, "no frames")
        text = f"connection {self.number} has {what}"
        if self.job.side or self.session.start or self.session.end:
            return f"{text} that fit"
        if self.seen is not None and self.seen.other:
            text += f": it looks like {self.seen.other}, which is not decoded"
        return f"{text}; --raw writes its bytes" if self.job.shape in ("text", "hex", "json") else text

    def _counted(self, frames: Iterable[Frame]) -> Iterable[Frame]:
        for frame in frames:
            self.shown += 1
            yield frame

    def _dialogue(self, frames: Iterable[Frame]) -> None:
        from wiredecode.view.dialogue import Dialogue

        dialogue = Dialogue(
            self.session.output,
            self.job.tree_options,
            color=self.job.color,
            terminal=sys.stdout.isatty(),
            messages=self.messages,
        )
        dialogue.show(self._counted(frames), lambda: self.session.first_ns)

    def _records(self, frames: Iterable[Frame]) -> None:
        record_lines(self.session, self.job.ranges, self.job.tree_options.bytes)(self._counted(frames))

    def _bodies(self, frames: Iterable[Frame]) -> None:
        from wiredecode.frames.message import FrameMessages
        from wiredecode.frames.record import BYTES
        from wiredecode.view.dialogue import body_line, painted
        from wiredecode.view.theme import SIDE

        assert self.messages is not None
        show, write = BYTES[self.job.tree_options.bytes], self.session.output.text
        for frame in frames:
            for part in self.messages.take():
                for body in part.bodies if isinstance(part, FrameMessages) and part.frame is frame else ():
                    line = painted(body_line(body, show), SIDE.get(frame.sender or "", ""), color=self.job.color)
                    write(f"{line}\n")
                    self.shown += 1

    def _raw(self, frames: Iterable[Frame]) -> None:
        from wiredecode.view.follow import Payload

        assert self.session.dissector is not None
        side = None
        if self.job.side is not None and self.seen is not None:
            client = self.seen.client_side
            side = client if self.job.side == "client" else 1 - client
        self.holes = 0
        Payload(self.session.dissector, self.number, side, self._piece)
        for _ in frames:  # reading them feeds the payload
            pass
        if self.holes > MAX_HOLES:
            complain(f"and {self.holes - MAX_HOLES:,} more holes")

    def _piece(self, piece: Piece) -> None:
        _, time_ns, what = piece
        start, end = self.session.span()
        if (start is not None and time_ns < start) or (end is not None and time_ns > end):
            return
        if isinstance(what, bytes):
            self.shown += 1
            self.session.output.write(what)
            return
        self.holes += 1
        if self.holes <= MAX_HOLES:
            who = what.connection.endpoints[what.side]
            complain(f"{what.length:,} bytes of {who} are left out at stream offset {what.offset:,}: {what.reason}")
