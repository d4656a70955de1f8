"""``wiredecode trace``: what became of one message."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from wiredecode.cli import INTERRUPTED, options
from wiredecode.cli.groups import with_groups
from wiredecode.cli.options import UsageError
from wiredecode.cli.output import Output, say

if TYPE_CHECKING:
    from wiredecode.cli.session import Session
    from wiredecode.frames.message import Messages
    from wiredecode.trace import Collector, Criteria, Finder, Message
    from wiredecode.trace.clocks import Offset

EXAMPLES = """\b
Examples:
  wiredecode trace a.pcap --text order-4711       the message that holds this text
  wiredecode trace a.pcap --id 42 --topic orders  publishing id, offset, sequence
  wiredecode trace a.pcap --frame 31 --index 2    message 2 (from 0) of frame 31
  wiredecode trace a.pcap --key k1 --nth 3        the third that has this key
"""


@with_groups
def trace(
    files: options.Files,
    decoding: options.Decoding,
    span: options.Span,
    verbosity: options.Verbosity,
    frame: Annotated[int | None, typer.Option("--frame", min=1, metavar="N", help="A message of frame N.")] = None,
    index: Annotated[
        int | None, typer.Option("--index", min=0, metavar="I", help="With --frame: message I of it, from 0.")
    ] = None,
    ident: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Publishing id, sequence, offset, correlation or message id."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Only of this stream, topic, subject or segment.")
    ] = None,
    text: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="Its body holds this text.")] = None,
    hexadecimal: Annotated[
        str | None, typer.Option("--bytes", metavar="HEX", help="Its body holds these bytes.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Its key.")] = None,
    own_clocks: Annotated[
        bool, typer.Option("--own-clocks", help="Several captures: by their own times, however their clocks differ.")
    ] = False,
    nth: Annotated[int, typer.Option("--nth", min=1, metavar="N", help="Which, where several messages fit.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Follow one message from its publisher to broker, replicas and consumers.

    Every hop has its frame, the time since the hop before, and what tells that it is the same message. Where several
    messages fit, they are listed. Captures are read twice. Clocks of captures of several hosts are compared by their
    connections, and corrected. Exit code 1: no message fits.
    """
    from wiredecode.cli.live import is_pipe
    from wiredecode.trace import Collector, Finder, chosen, group
    from wiredecode.trace.clocks import compare

    criteria = _criteria(frame, index, ident, topic, text, hexadecimal, key)
    if is_pipe(files) or "-" in files:
        raise UsageError("trace reads captures twice: give it files, not a pipe")
    clocks = [] if own_clocks else compare(files)
    if not verbosity.quiet:
        for line in clock_lines(files, clocks):
            say(line)
    finder = Finder(criteria)
    session = _session(files, clocks, finder.messages, decoding, span, verbosity, again=False)
    code = session.work(lambda: _find(session, finder))
    if code == INTERRUPTED:
        return code
    if not finder.found:
        if not verbosity.quiet:
            say(finder.why())
        return code or 1
    collector = Collector(finder.found)
    second = _session(files, clocks, collector.messages, decoding, span, verbosity, again=True)
    if second.work(lambda: _collect(second, collector)) == INTERRUPTED:
        return INTERRUPTED
    messages = chosen(group(collector.sightings), finder.found)
    if nth > len(messages):
        raise UsageError(f"--nth {nth}: messages that fit: {len(messages)}")
    _show(second, collector, messages, clocks, nth, json=json)
    for more, what in ((finder.more, "fit"), (collector.more, "have one of these bodies")):
        if more and not verbosity.quiet:
            say(f"{more:,} more sightings {what}: ask for less, as with --topic, --from and --to")
    return code


def clock_lines(files: list[str], clocks: list[Offset | None]) -> Iterator[str]:
    """How clocks differ; nothing where one clock explains all."""
    for file, clock in zip(files, clocks, strict=False):
        if clock is None:
            yield f"{file}: no connection in both directions compares its clock with that of {files[0]}"
        elif clock.offset_ns:
            ahead = "ahead of" if clock.offset_ns > 0 else "behind"
            by = f"{abs(clock.offset_ns) / 1e9:.6f} s"
            yield f"{file}: its clock is {by} {ahead} that of {files[0]} (± {clock.error_ns / 1e9:.6f} s); corrected"


def _criteria(
    frame: int | None,
    index: int | None,
    ident: str | None,
    topic: str | None,
    text: str | None,
    hexadecimal: str | None,
    key: str | None,
) -> Criteria:
    from wiredecode.trace import Criteria

    if index is not None and frame is None:
        raise UsageError("--index is of a frame: give --frame, too")
    if all(each is None for each in (frame, ident, text, hexadecimal, key)):
        raise UsageError("which message? Give --frame, --id, --text, --bytes or --key")
    contents = [] if text is None else [_bytes(text)]
    if hexadecimal is not None:
        try:
            contents.append(bytes.fromhex(hexadecimal))
        except ValueError:
            raise UsageError(f"--bytes: {hexadecimal!r} is not hexadecimal, as in 'de ad be ef'") from None
    return Criteria(frame, index, ident, topic, None if key is None else _bytes(key), tuple(contents))


def _bytes(text: str) -> bytes:
    """What was typed, also where it was no UTF-8."""
    return text.encode(errors="surrogateescape")


def _session(
    files: list[str],
    clocks: list[Offset | None],
    messages: Messages,
    decoding: options.Decoding,
    span: options.Span,
    verbosity: options.Verbosity,
    *,
    again: bool,
) -> Session:
    """One pass; the second one is told nothing of."""
    from wiredecode.capture import open_capture
    from wiredecode.cli.session import Session
    from wiredecode.dissect.demand import Demand
    from wiredecode.dissect.dissector import Dissector
    from wiredecode.net import Network

    demand = Demand(link_responses=again, messages=messages, decode_as=decoding.ports)
    shifts = [0 if each is None else -each.offset_ns for each in clocks]
    return Session(
        open_capture(files, shifts_ns=shifts) if any(shifts) else files,
        Dissector(demand, Network(decoding.limits)),
        Output(sys.stdout),
        start=None if again else span.start,
        end=None if again else span.end,
        quiet=again or verbosity.quiet or not verbosity.verbose,
        verbose=verbosity.verbose,
    )


def _find(session: Session, finder: Finder) -> None:
    try:
        for frame in session.decoded():
            finder.search(*session.span())
            finder.frame(frame)
    finally:
        finder.search(*session.span())


def _collect(session: Session, collector: Collector) -> None:
    assert session.dissector is not None
    from wiredecode.capture import CaptureError

    with suppress(CaptureError):  # told in the first pass
        for frame in session.decoded():
            collector.collect()
            collector.frame(frame)


def _show(
    session: Session,
    collector: Collector,
    messages: list[Message],
    clocks: list[Offset | None],
    nth: int,
    *,
    json: bool,
) -> None:
    from wiredecode.trace import text

    message = messages[nth - 1]
    if json:
        from wiredecode.frames.record import dumps

        record = text.record(message, collector.names, nth, len(messages))
        record["clocks"] = [each._asdict() for each in clocks if each is not None] if len(clocks) > 1 else []
        session.output.write(dumps(record))
    else:
        if len(messages) > 1:
            session.output.text(f"{len(messages):,} messages fit; this is number {nth}\n")
            for line in text.listed(messages, nth, session.first_ns):
                session.output.text(f"{line}\n")
            session.output.text("\n")
        for line in text.lines(message, session.first_ns, collector.names):
            session.output.text(f"{line}\n")
    session.output.flush()
