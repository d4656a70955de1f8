"""``wiredecode trace``: one message from its publisher to its consumers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.options import UsageError
from wiredecode.cli.output import say, terminal

if TYPE_CHECKING:
    from wiredecode.cli.session import CaptureSession
    from wiredecode.frames.message import Messages
    from wiredecode.trace import Collector, Criteria, Finder, SightedMessage
    from wiredecode.trace.clocks import Offset


@options.group
class TraceOptions(options.CaptureReading):
    """Options: the message, and the form of the output."""

    frame: int | None = Option(None, min=1, metavar="N", help="A message of frame N.")
    message: int | None = Option(None, min=1, metavar="M", help="With --frame: message M of the frame.")
    ident: str | None = Option(
        None, "--id", metavar="ID", help="Publishing id, sequence, offset, correlation or message id."
    )
    topic: str | None = Option(None, metavar="NAME", help="Only of this stream, topic, subject or segment.")
    text: str | None = Option(None, metavar="TEXT", help="Its body holds this text.")
    hexadecimal: str | None = Option(None, "--body-bytes", metavar="HEX", help="Its body holds these bytes.")
    key: str | None = Option(None, metavar="TEXT", help="Its key.")
    own_clocks: bool = Option(
        False, "--own-clocks", help="Several captures: keep their own times, even if their clocks differ."
    )
    nth: int = Option(1, min=1, metavar="N", help="Trace this match, if there are several.")
    two_passes: options.TwoPasses = False
    json: bool = Option(False, "--json", help="One JSON object.")
    output: Path | None = Option(
        None,
        "-o",
        "--output",
        metavar="FILE",
        callback=options.require_folder,
        help="Write the hops as OpenTelemetry spans, in OTLP's JSON.",
    )
    otlp: str | None = Option(None, metavar="URL", help="Send the hops as spans to an OTLP receiver (HTTP).")

    @property
    def criteria(self) -> Criteria:
        from wiredecode.trace import Criteria

        if self.message is not None and self.frame is None:
            raise UsageError("--message needs --frame")
        key = None if self.key is None else _bytes(self.key)
        contents = [] if self.text is None else [_bytes(self.text)]
        if self.hexadecimal is not None:
            try:
                contents.append(bytes.fromhex(self.hexadecimal))
            except ValueError:
                raise UsageError(
                    f"--body-bytes: {self.hexadecimal!r} is not hexadecimal, as in 'de ad be ef'"
                ) from None
        if self.frame is None and self.ident is None and key is None and not contents:
            raise UsageError("which message? Give --frame, --id, --text, --body-bytes or --key")
        index = None if self.message is None else self.message - 1
        return Criteria(self.frame, index, self.ident, self.topic, key, tuple(contents))

    @property
    def endpoint(self) -> str | None:
        """Receiver of the spans. Raises if it is no address, or if the extra is missing."""
        if self.output is None and self.otlp is None:
            return None
        from wiredecode.extras import need

        need("opentelemetry", "spans")
        from wiredecode.metrics.readers import TRACES_PATH, endpoint_of

        try:
            return None if self.otlp is None else endpoint_of(self.otlp, TRACES_PATH)
        except ValueError as error:
            raise UsageError(f"--otlp: {error}") from None


def trace(settings: TraceOptions) -> int:
    """Follow one message from its publisher to broker, replicas and consumers.

    Every hop has its frame, the time since the hop before, and the evidence that it is the same message. If several
    messages fit, they are listed. Captures are read twice. Clocks of captures of several hosts are compared by their
    connections, and corrected. Exit code 1: no message fits. Spans need the extra metrics.
    """
    from wiredecode.cli.live import is_pipe
    from wiredecode.trace import Collector, Finder
    from wiredecode.trace.clocks import compare

    criteria, files, quiet = settings.criteria, settings.files, settings.verbosity.quiet
    endpoint = settings.endpoint
    if is_pipe(files) or "-" in files:
        raise UsageError("trace reads captures twice: give it files, not a pipe")
    clocks = [] if settings.own_clocks else compare(files)
    if not quiet:
        for line in clock_lines(files, clocks):
            say(line)
    finder = Finder(criteria)
    session = _session(settings, clocks, finder.messages, again=False)
    code = session.work(lambda: _find(session, finder))
    if code == INTERRUPTED:
        return code
    if not finder.found:
        if not quiet and (session.totals.packets or not code):  # else the file could not be read
            say(finder.why())
        return code or 1
    collector = Collector(finder.found)
    second = _session(settings, clocks, collector.messages, again=True)
    if second.work(lambda: _collect(second, collector)) == INTERRUPTED:
        return INTERRUPTED
    messages = collector.found()
    if settings.nth > len(messages):
        raise UsageError(f"--nth {settings.nth}: the messages that match are {len(messages)}")
    _show(second, messages, clocks, settings)
    wanted = settings.output is not None or endpoint is not None
    exported = not wanted or _export(messages[settings.nth - 1], settings, endpoint)
    for more, condition in ((finder.more, "fit"), (collector.more, "have one of these bodies")):
        if more and not quiet:
            say(f"{more:,} more sightings {condition}: select fewer, for example with --topic, --from and --to")
    return code if exported else 2


def _export(message: SightedMessage, settings: TraceOptions, endpoint: str | None) -> bool:
    """Write and send the spans; False: the receiver did not accept them."""
    from wiredecode.export.atomic import NewFile
    from wiredecode.metrics.spans import as_json, send, spans

    spans_of_message = spans(message)
    if settings.output is not None:
        with NewFile(settings.output) as stream:
            stream.write(as_json(spans_of_message).encode())
    if endpoint is None or send(spans_of_message, endpoint):
        return True
    say(f"--otlp {settings.otlp}: the receiver did not accept the spans; is it running there, with OTLP over HTTP?")
    return False


def clock_lines(files: list[str], clocks: list[Offset | None]) -> Iterator[str]:
    """Lines about clock offsets; none if one clock explains all."""
    for file, clock in zip(files, clocks, strict=False):
        if clock is None:
            yield f"{file}: no connection in both directions compares its clock with that of {files[0]}"
        elif clock.offset_ns:
            ahead = "ahead of" if clock.offset_ns > 0 else "behind"
            by = f"{abs(clock.offset_ns) / 1e9:.6f} s"
            yield f"{file}: its clock is {by} {ahead} that of {files[0]} (± {clock.error_ns / 1e9:.6f} s); corrected"


def _bytes(text: str) -> bytes:
    """Bytes of an argument, also if it was no UTF-8."""
    return text.encode(errors="surrogateescape")


def _session(settings: TraceOptions, clocks: list[Offset | None], messages: Messages, *, again: bool) -> CaptureSession:
    """One pass; the second one reports nothing."""
    from wiredecode.capture import open_capture
    from wiredecode.cli.session import EVERYTHING, CaptureSession, Selection
    from wiredecode.dissect.dissector import Demand

    files = settings.files
    shifts = [0 if each is None else -each.offset_ns for each in clocks]
    return CaptureSession.of(
        settings,
        open_capture(files, shifts_ns=shifts) if any(shifts) else files,
        EVERYTHING if again else Selection(span=settings.span),
        Demand(link_responses=again, messages=messages),
        two_passes=settings.two_passes,
        totals=settings.verbosity.verbose and not again,
        to_stdout=False,
    )


def _find(session: CaptureSession, finder: Finder) -> None:
    for frame, counts in session.chosen_frames():
        finder.frame(frame, counts=counts)


def _collect(session: CaptureSession, collector: Collector) -> None:
    from wiredecode.capture import CaptureError

    with suppress(CaptureError):  # reported in the first pass
        for frame in session.all_frames():
            collector.frame(frame)


def _show(
    session: CaptureSession,
    messages: list[SightedMessage],
    clocks: list[Offset | None],
    settings: TraceOptions,
) -> None:
    from wiredecode.trace import text

    nth = settings.nth
    message = messages[nth - 1]
    if settings.json:
        from wiredecode.frames.record import dumps

        record = text.record(message, nth, len(messages))
        record["clocks"] = [each._asdict() for each in clocks if each is not None] if len(clocks) > 1 else []
        session.output.write(dumps(record))
    else:
        lines, screen = [], terminal()
        width = text.WIDTH if screen is None else screen.columns
        if len(messages) > 1:
            lines += [f"{len(messages):,} messages fit; this is number {nth}"]
            lines += [*text.message_lines(messages, nth, session.first_ns, width), ""]
        for line in (*lines, *(line for _, line in text.hop_lines(message, session.first_ns, width))):
            session.output.text(f"{line}\n")
    session.output.flush()
