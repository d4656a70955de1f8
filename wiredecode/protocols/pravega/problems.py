"""What goes wrong between Pravega clients and servers: refusals and writers (reads and transactions have
modules of their own); what changes, and how far readers are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar
from uuid import UUID

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.plurals import counted
from wiredecode.protocols.pravega.names import APPENDS, AUTH_ERRORS, FAILURES
from wiredecode.protocols.pravega.problems_reads import Reads
from wiredecode.protocols.pravega.problems_transactions import Transactions
from wiredecode.protocols.shared.changes import STREAM, Change
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.gauges import LAG, MOST_KNOWN, POSITION, Gauge, Measurement
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import Checks, FrameRef, Publishing, Report, Rule, ref_of

CODES = codes_of("pravega")

# For the timeline.

DONE = {
    "SegmentCreated": "created",
    "SegmentSealed": "sealed",
    "SegmentTruncated": "truncated",
    "SegmentDeleted": "deleted",
    "SegmentsMerged": "merged",
    "SegmentPolicyUpdated": "given another policy",
}


def segment_done(frame: Frame) -> Iterator[Change]:
    name = printable(frame.values.get("segment") or frame.values["target"])
    yield Change(STREAM, name, f"segment {name} is {DONE[frame.type or '']}")


CHANGES = dict.fromkeys(DONE, segment_done)


# For plots.


class Readers(Gauge):
    """The next byte of each reader's segment, and the bytes between it and the end that was told last."""

    types = frozenset({"ReadSegment", "SegmentRead", "DataAppended", "StreamSegmentInfo"})

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        """By segment: the largest write offset that was told."""

    def read(self, frame: Frame) -> Iterator[Measurement]:
        values = frame.values
        if frame.type == "DataAppended":
            self._grew(frame.generated["segment"], values["current_segment_write_offset"])
        elif frame.type == "StreamSegmentInfo":
            self._grew(values["segment_name"], values["write_offset"])
        else:
            yield from self._reader(frame, values["segment"], values["offset"])

    def _reader(self, frame: Frame, segment: str, offset: int) -> Iterator[Measurement]:
        of = f"{printable(segment)}, bytes, reader #{frame.connection.number}"
        if frame.type == "ReadSegment":
            yield Measurement(POSITION, of, offset)
            return
        offset += len(frame.values["data"])
        yield Measurement(POSITION, of, offset)
        self._grew(segment, offset)
        if frame.values["at_tail"] or frame.values["end_of_segment"]:
            yield Measurement(LAG, of, 0)
        elif (end := self._ends.get(segment, offset)) > offset:
            yield Measurement(LAG, of, end - offset)

    def _grew(self, segment: str, end: int) -> None:
        if segment in self._ends or len(self._ends) < MOST_KNOWN:
            self._ends[segment] = max(self._ends.get(segment, 0), end)


GAUGES = (Readers,)


# Rules.

MOST_SETUPS = 10_000
"""That may wait for their answer; the oldest are forgotten."""
PATIENCE_NS = 1_000_000_000
"""A writer is not set up when so much of the capture followed."""


class Refusals(Rule):
    """Replies that mean no."""

    types = FAILURES | {"SegmentAttributeUpdated", "StreamSegmentInfo"}

    def frame(self, frame: Frame) -> None:
        for finding in frame.findings:
            if finding.code == "refused":
                reporter = self.REPORTERS.get(frame.type or "")
                if reporter is None:
                    self.report.add(CODES["refused"], finding.message, finding.message, frame=frame)
                else:
                    reporter(self, frame, frame.values)

    def _token(self, frame: Frame, values: Any) -> None:
        code = values.get("error_code", -1)
        trace = printable(values.get("server_stack_trace", "")).split("\n")[0]
        who = self.report.names.short(frame.connection)
        why = AUTH_ERRORS.get(code, f"code {code}")
        what = f"the token of {who} was refused: {why}{f' ({trace})' if trace else ''}"
        self.report.add(CODES["authentication"], what, (frame.connection.number, code), frame=frame)

    def _wrong_host(self, frame: Frame, values: Any) -> None:
        segment, host = segment_of(frame), printable(values.get("correct_host", ""))
        store = frame.connection.endpoints[frame.side]
        what = f"{segment} is not on {store}{f', but on {host}' if host else ''}"
        self.report.add(CODES["wrong-host"], what, (segment, host), frame=frame)

    def _sealed(self, frame: Frame, _: Any) -> None:
        segment = segment_of(frame)
        self.report.add(CODES["segment-sealed"], f"{segment} is sealed", segment, frame=frame)

    def _truncated(self, frame: Frame, values: Any) -> None:
        segment, begin, offset = segment_of(frame), values.get("start_offset"), values.get("offset", -1)
        who = self.report.names.short(frame.connection)
        at = f" at offset {offset:,}" if isinstance(offset, int) and offset >= 0 else ""
        what = f"{who} read {segment}{at}, which begins at {begin}"
        problem = self.report.add(CODES["segment-truncated"], what, (frame.connection.number, segment), frame=frame)
        if problem.count > 1:
            problem.severity = "warning"

    def _condition(self, frame: Frame, _: Any) -> None:
        segment = frame.generated.get("segment", "a segment")
        problem = self.report.add(CODES["conditional-refused"], "", segment, frame=frame)
        problem.what = f"{counted(problem.count, 'conditional append')} to {segment} came too late"

    REPORTERS: ClassVar[dict[str, Callable[[Refusals, Frame, Any], None]]] = {
        "AuthTokenCheckFailed": _token,
        "WrongHost": _wrong_host,
        "SegmentIsSealed": _sealed,
        "SegmentIsTruncated": _truncated,
        "ConditionalCheckFailed": _condition,
    }


def segment_of(frame: Frame) -> str:
    return printable(str(frame.values.get("segment", "a segment")))


class Setups(Rule):
    """Writers that were not set up."""

    types = FAILURES | {"SetupAppend", "AppendSetup"}

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._waiting: Newest[int, tuple[FrameRef, int, str, str]] = Newest(MOST_SETUPS)

    def frame(self, frame: Frame) -> None:
        if frame.type != "SetupAppend":
            if frame.request is not None:
                self._waiting.pop(frame.request, None)
        elif frame.expects_response:
            raw = frame.values.get("writer_id")
            writer = str(UUID(bytes=bytes(raw))) if isinstance(raw, bytes) and len(raw) == 16 else "?"
            self._waiting.put(frame.id, (ref_of(frame), frame.side, writer, segment_of(frame)))

    def finish(self) -> None:
        for place, side, writer, segment in self._waiting.values():
            answers = place.connection.directions[1 - side]
            waited = self.report.last_ns - place.time_ns
            if waited < PATIENCE_NS or answers.lossy or not answers.captured:
                continue
            what = f"writer {writer} waits for its set-up on {segment}"
            problem = self.report.add(CODES["setup-unanswered"], what, (writer, segment), frame=place)
            problem.weight = waited


CHECKS = Checks(
    changes=CHANGES,
    gauges=GAUGES,
    codes=CODES,
    rules=(Refusals, Setups, Transactions, Reads),
    waits=frozenset({"ReadSegment"}),
    answered=frozenset({"SetupAppend"}),
    publishes=dict.fromkeys(APPENDS, Publishing(("segment",), "event_count")),
    covered=frozenset({"refused"}),
)
