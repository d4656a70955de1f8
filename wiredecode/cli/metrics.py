"""``wiredecode metrics``: numbers for Prometheus and OTLP."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.capturing import OptionalLive, Saving
from wiredecode.cli.output import say
from wiredecode.dataclasses import asdict, replace

if TYPE_CHECKING:
    from wiredecode.capture.batch import PacketBatch
    from wiredecode.check import Checker
    from wiredecode.check.live import Watch
    from wiredecode.metrics.instruments import Instruments

HERE = "127.0.0.1:9464"
SECOND_NS = 1_000_000_000


@options.group
class MetricsOptions(options.Reading):
    """Options of ``metrics``: counted traffic and outputs."""

    live: OptionalLive
    saving: Saving
    listen: str | None = Option(
        None, metavar="ADDR:PORT", help=f"With -i: serve them there. [default: {HERE}, unless --otlp is given]"
    )
    otlp: str | None = Option(None, metavar="URL", help="Send them to an OTLP receiver (HTTP).")
    output: str = Option("-", "-o", "--output", metavar="FILE", help="With files: write OpenMetrics there.")
    step: str = Option("10s", metavar="TIME", help="With files: time between values.")
    timeout: float = Option(30.0, metavar="SECONDS", min=0.1, help="After this time a request is unanswered.")
    max_series: int = Option(2000, metavar="N", min=1, help="Label sets of all metrics; the rest counts as other.")
    label_rule: Annotated[
        list[str] | None,
        Option(metavar="REGEX=TEXT", help="Replace this in topics of labels; ids and inboxes become * anyway."),
    ] = None
    save_evidence: Path | None = Option(
        None, metavar="DIR", help="With -i: write the last 60 s of packets between the hosts of each new error there."
    )

    @property
    def timeout_ns(self) -> int:
        return round(self.timeout * SECOND_NS)

    def check(self, files: list[str]) -> None:
        """Refuse what does not go together."""
        live = self.live
        of_live = (
            live.says_how or self.saving.save is not None or self.listen is not None or self.save_evidence is not None
        )
        options.refuse(
            (not files and live.interface is None, "nothing to count: give capture files, or -i IFACE"),
            (files and live.interface is not None, "-i counts an interface: leave out files"),
            (files and of_live, "-f, -w, --duration, --via, --listen and --save-evidence need -i"),
            (live.interface is not None and self.output != "-", "-o goes with files; -i serves numbers"),
            (live.interface is not None and self.decoding.sandbox, "--sandbox serves nothing: leave it out"),
        )
        _ = self.saving.rotation
        options.require_folder(Path(self.output))


def metrics(settings: MetricsOptions, files: options.OptionalFiles = None) -> int:
    """Serve latencies, counts and problems of broker traffic as metrics, without touching broker or client.

    With -i they are served to Prometheus, or sent by OTLP, until Ctrl-C. Of files they are written as OpenMetrics with
    times. Needs the extra metrics.
    """
    from wiredecode.extras import need

    settings.check(files or [])
    need("opentelemetry", "metrics")
    from wiredecode.check.live import Watch
    from wiredecode.metrics.instruments import Instruments
    from wiredecode.metrics.readers import otlp, prometheus
    from wiredecode.metrics.series import LabelSets, rule
    from wiredecode.tables import bound_memory

    bound_memory()
    reader, registry = prometheus()
    option = "--label-rule"
    try:
        series = LabelSets(settings.max_series, [*map(rule, settings.label_rule or ())])
        option = f"--otlp {settings.otlp}"
        readers = [reader, *(otlp(url) for url in (settings.otlp,) if url is not None)]
    except ValueError as error:
        raise options.UsageError(f"{option}: {error}") from None
    watch = Watch(groups=True)
    checker = watch.checker
    make = partial(Instruments, readers, series, checker, lambda: watch.problems, lambda: watch.backlogs)
    try:
        if files:
            with closing(make()) as instruments:
                return _of_files(settings, files, instruments, checker, watch, registry)
        return _live(settings, make, checker, watch, registry)
    finally:
        if series.refused:
            say(f"{'limit':<10}--max-series {series.most:,}: {series.refused:,} values count as other")


def _of_files(
    settings: MetricsOptions, files: list[str], instruments: Instruments, checker: Checker, watch: Watch, registry: Any
) -> int:
    from wiredecode.cli.judging import feed_checker
    from wiredecode.cli.session import CaptureSession
    from wiredecode.dissect.dissector import DEFAULT
    from wiredecode.export.atomic import open_output
    from wiredecode.metrics.readers import Steps
    from wiredecode.stats.tables import seconds

    try:
        step_ns = seconds(settings.step) * SECOND_NS
    except ValueError as error:
        raise options.UsageError(f"--step: {error}") from None
    demand = checker.demand(DEFAULT)
    session = CaptureSession.of(settings, files, demand=demand, on_end=checker.end, on_decoded=instruments.end)
    steps = Steps(registry)

    def work() -> None:
        due = 0
        for frame in feed_checker(session, checker):
            if frame.time_ns >= due:
                if due:
                    checker.exchanges.expire(frame.time_ns - settings.timeout_ns)
                    watch.look(frame.time_ns)
                    steps.take(due)
                due = frame.time_ns // step_ns * step_ns + step_ns
            instruments.frame(frame)
        checker.exchanges.expire()
        watch.finish()
        if session.totals.packets:
            steps.take(session.totals.last_ns)

    code = session.work(work)
    if session.totals.packets:
        with open_output(settings.output) as stream:
            stream.write(steps.text())
    return code


def _live(
    settings: MetricsOptions, make: Callable[..., Instruments], checker: Checker, watch: Watch, registry: Any
) -> int:
    from wiredecode.cli.judging import feed_checker
    from wiredecode.cli.live import PATIENCE_NS, SniffSession
    from wiredecode.dissect.dissector import DEFAULT
    from wiredecode.metrics.evidence import AlertPackets
    from wiredecode.metrics.readers import serve

    live, saving = settings.live, settings.saving
    evidence = None if settings.save_evidence is None else AlertPackets(settings.save_evidence)
    saves = saving.save is not None or evidence is not None
    with (
        live.capturing(saves=saves) as sniffer,
        closing(make(lambda: asdict(sniffer.counts))) as instruments,
    ):
        saving.begin(sniffer)
        demand = replace(checker.demand(DEFAULT), wait_ns=PATIENCE_NS)
        session = SniffSession.of(settings, sniffer, demand=demand, on_end=checker.end, on_decoded=instruments.end)

        listen = settings.listen or (None if settings.otlp else HERE)
        if listen is not None:
            try:
                say(f"serving {serve(registry, listen)}; Ctrl-C ends it")
            except (OSError, ValueError, OverflowError) as error:
                raise options.UsageError(f"--listen {listen}: {error}") from None

        def look(batch: PacketBatch) -> None:
            checker.exchanges.expire(time.time_ns() - settings.timeout_ns)
            watch.look(time.time_ns())
            if evidence is not None:
                evidence.look(batch, session.capture.info.interfaces)
                for each in evidence.save(watch.problems):
                    say(each)

        def work() -> None:
            for frame in feed_checker(session, checker, look):
                instruments.frame(frame)
            checker.exchanges.expire()
            watch.finish()
            for each in evidence.save(watch.problems) if evidence is not None else ():
                say(each)

        return session.work(work)
