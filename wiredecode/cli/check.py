"""``wiredecode check``: what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wiredecode.cli import options
from wiredecode.cli.groups import with_groups
from wiredecode.cli.output import say

if TYPE_CHECKING:
    from wiredecode.check import Problem
    from wiredecode.cli.session import Session

EXAMPLES = """\b
Examples:
  wiredecode check a.pcap                     what is wrong, the worst first
  wiredecode check a.pcap --severity note     remarks, too
  wiredecode check a.pcap --json | jq .code   one object per problem
  wiredecode check a.pcap --fail-on error     exit 1 when there is an error
"""


Severity = Literal["error", "warning", "note"]


@with_groups
def check(
    files: options.Files,
    decoding: options.Decoding,
    span: options.Span,
    verbosity: options.Verbosity,
    severity: Annotated[
        Severity | None,
        typer.Option("--severity", help="The least severity that is shown. [default: warning; with -v note]"),
    ] = None,
    fail_on: Annotated[
        Severity | None, typer.Option("--fail-on", help="Exit 1 when something is as severe, or worse.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per problem (NDJSON).")] = False,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Below the problems: what changed when; with --json one more object.")
    ] = False,
) -> int:
    """Find out what is wrong in captures: causes first, with evidence and what to do.

    Nothing is printed when nothing is wrong. Numbers of frames and packets are those of other commands and of
    Wireshark; times are seconds since the first packet.
    """
    from wiredecode.check import SEVERITIES, Checker
    from wiredecode.check.timeline import Timeline
    from wiredecode.cli.checking import judged, show_timeline
    from wiredecode.cli.live import PipeSession, is_pipe
    from wiredecode.cli.session import Session

    checker = Checker()
    when = Timeline() if timeline else None
    kind = PipeSession if is_pipe(files) else Session
    over = None if when is None else when.end
    session = kind.of(files, decoding, verbosity, span=span, analyse=True, on_end=checker.end, on_over=over)
    session.quiet = verbosity.quiet or not verbosity.verbose
    least = severity or ("note" if verbosity.verbose else "warning")
    found: list[Problem] = []

    def work() -> None:
        try:
            for frame in judged(session, checker):
                if when is not None and session.within(frame.time_ns):
                    when.frame(frame)
        finally:
            found.extend(checker.finish())
            shown = SEVERITIES[: SEVERITIES.index(least) + 1]
            show(session, [each for each in found if each.severity in shown], json=json)
            if when is not None:
                show_timeline(session, when, json=json)

    code = session.work(work)
    if checker.report.untold and not verbosity.quiet:
        say(f"and {checker.report.untold:,} more problems of the same kinds")
    if code:
        return code
    worst = min((SEVERITIES.index(each.severity) for each in found), default=len(SEVERITIES))
    return 1 if fail_on is not None and worst <= SEVERITIES.index(fail_on) else 0


def show(session: Session, found: list[Problem], *, json: bool) -> None:
    """Write the problems."""
    from wiredecode.check import text

    if json:
        from wiredecode.frames.record import dumps

        for problem in found:
            session.output.write(dumps(text.record(problem)))
        return
    if found:
        session.output.text(f"{text.counts(found)}\n\n")
    for line in text.lines(found, session.first_ns):
        session.output.text(f"{line}\n")
