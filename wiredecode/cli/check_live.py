"""``wiredecode check -i``: problems of an interface, a line each as they begin and as they end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wiredecode.cli.capturing import OptionalLive, open_live
from wiredecode.cli.output import wants_color

if TYPE_CHECKING:
    from wiredecode.capture.batch import PacketBatch
    from wiredecode.check.live import Event
    from wiredecode.cli.live import SniffSession
    from wiredecode.cli.options import Reading
    from wiredecode.view.times import Times


def watch(
    settings: Reading,
    live: OptionalLive,
    *,
    least: str,
    fail_on: str | None,
    json: bool,
    times: Times,
    color: str,
) -> int:
    """Report problems of at least this severity until Ctrl-C or the end of the duration; the exit code of ``check``."""
    from wiredecode.check import SEVERITIES, Checker
    from wiredecode.check.live import Watch
    from wiredecode.check.verdict import NOT_JUDGED, verdict
    from wiredecode.cli.checking import judged
    from wiredecode.cli.live import PATIENCE_NS, SniffSession

    sniffer = open_live(live.wanted, live.via, live.duration, saves=False)
    if sniffer is None:
        return 2
    checker = Checker()
    watching, shown, worst = Watch(checker), SEVERITIES.index(least), len(SEVERITIES)
    seen = 0

    def tell(session: SniffSession, events: list[Event]) -> None:
        nonlocal seen, worst
        for event in events:
            severity = SEVERITIES.index(event.problem.severity)
            worst = min(worst, severity)
            if severity <= shown:
                seen += event.what == "began"
                session.output.text(line(event, session.first_ns, times, json=json, color=color))
        session.output.flush()

    try:
        session = SniffSession.of(settings, sniffer, wait_ns=PATIENCE_NS, analyse=True, on_end=checker.end)
        session.on_terminal = True
        final = NOT_JUDGED

        def look(_: PacketBatch) -> None:
            tell(session, watching.look(time.time_ns()))

        def work() -> None:
            nonlocal final
            for _ in judged(session, checker, look):
                pass
            tell(session, watching.finish())
            said = verdict(checker.coverage, watching.problems, session.totals, notes_shown=least == "note")
            final = 0 if said.judged and (said.whole or fail_on != "undecoded") else NOT_JUDGED
            if json:
                session.output.json(said.record(checker.coverage, watching.problems))
            else:
                session.output.text(f"{said.text}\n")

        if code := session.work(work):
            return code
    finally:
        sniffer.close()
    return 1 if fail_on in SEVERITIES and worst <= SEVERITIES.index(fail_on) else final


def line(event: Event, first_ns: int, times: Times, *, json: bool, color: str) -> str:
    """An event as a line, or as a JSON object."""
    import sys

    from wiredecode.check.text import COLORS, record
    from wiredecode.frames.escape import escape
    from wiredecode.frames.record import dumps

    problem = event.problem
    if json:
        return dumps({"event": event.what, **record(problem)}).decode()
    ns = problem.first_ns if event.what == "began" else problem.last_ns
    code = f"{problem.severity}[{problem.name}]"
    if wants_color(color, sys.stdout):
        code = f"\x1b[{COLORS[problem.severity]}m{code}\x1b[0m"
    where = f"  frame {problem.frames[0]}" if problem.frames else ""
    when = "" if ns is None else times.text(ns, first_ns)
    return f"{when}  {event.what}  {code}  {escape(problem.what)}{where}\n"
