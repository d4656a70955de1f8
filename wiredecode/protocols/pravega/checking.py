"""What goes wrong between Pravega clients and servers: refusals and writers; see also reads and transactions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from wiredecode.fields import printable
from wiredecode.frames.counted import counted
from wiredecode.frames.frame import Frame
from wiredecode.protocols.pravega import codes
from wiredecode.protocols.pravega.changes import CHANGES
from wiredecode.protocols.pravega.gauges import GAUGES
from wiredecode.protocols.pravega.names import APPENDS, AUTH_ERRORS, FAILURES
from wiredecode.protocols.pravega.reads import Reads
from wiredecode.protocols.pravega.transactions import Transactions
from wiredecode.protocols.shared.checking import Checks, Place, Publishing, Report, Rule, place_of

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
                tell = self.REPORTERS.get(frame.type or "")
                if tell is None:
                    self.report.add(codes.REFUSED, finding.message, finding.message, frame=frame)
                else:
                    tell(self, frame, frame.values)

    def _token(self, frame: Frame, values: Any) -> None:
        code = values.get("error_code", -1)
        trace = printable(values.get("server_stack_trace", "")).split("\n")[0]
        who = self.report.names.short(frame.connection)
        why = AUTH_ERRORS.get(code, f"code {code}")
        what = f"the token of {who} was refused: {why}{f' ({trace})' if trace else ''}"
        self.report.add(codes.AUTHENTICATION, what, (frame.connection.number, code), frame=frame)

    def _wrong_host(self, frame: Frame, values: Any) -> None:
        segment, host = segment_of(frame), printable(values.get("correct_host", ""))
        store = frame.connection.endpoints[frame.side]
        what = f"{segment} is not on {store}{f', but on {host}' if host else ''}"
        self.report.add(codes.WRONG_HOST, what, (segment, host), frame=frame)

    def _sealed(self, frame: Frame, _: Any) -> None:
        segment = segment_of(frame)
        self.report.add(codes.SEALED, f"{segment} is sealed", segment, frame=frame)

    def _truncated(self, frame: Frame, values: Any) -> None:
        segment, begin, offset = segment_of(frame), values.get("start_offset"), values.get("offset", -1)
        who = self.report.names.short(frame.connection)
        at = f" at offset {offset:,}" if isinstance(offset, int) and offset >= 0 else ""
        what = f"{who} read {segment}{at}, which begins at {begin}"
        problem = self.report.add(codes.TRUNCATED, what, (frame.connection.number, segment), frame=frame)
        if problem is not None and problem.count > 1:
            problem.severity = "warning"

    def _condition(self, frame: Frame, _: Any) -> None:
        segment = frame.generated.get("segment", "a segment")
        problem = self.report.add(codes.CONDITIONAL, "", segment, frame=frame)
        if problem is not None:
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
        self._waiting: OrderedDict[int, tuple[Place, int, str, str]] = OrderedDict()

    def frame(self, frame: Frame) -> None:
        if frame.type != "SetupAppend":
            if frame.request is not None:
                self._waiting.pop(frame.request, None)
        elif frame.expects_response:
            raw = frame.values.get("writer_id")
            writer = str(UUID(bytes=bytes(raw))) if isinstance(raw, bytes) and len(raw) == 16 else "?"
            self._waiting[frame.id] = place_of(frame), frame.side, writer, segment_of(frame)
            if len(self._waiting) > MOST_SETUPS:
                self._waiting.popitem(last=False)

    def finish(self) -> None:
        for place, side, writer, segment in self._waiting.values():
            answers = place.connection.directions[1 - side]
            waited = self.report.last_ns - place.time_ns
            if waited < PATIENCE_NS or answers.lossy or not answers.captured:
                continue
            what = f"writer {writer} waits for its set-up on {segment}"
            problem = self.report.add(codes.SETUP_UNANSWERED, what, (writer, segment), frame=place)
            if problem is not None:
                problem.weight = waited


CHECKS = Checks(
    changes=CHANGES,
    gauges=GAUGES,
    codes=codes.ALL,
    rules=(Refusals, Setups, Transactions, Reads),
    waits=frozenset({"ReadSegment"}),
    answered=frozenset({"SetupAppend"}),
    publishes=dict.fromkeys(APPENDS, Publishing(("segment",), "event_count")),
    covered=frozenset({"refused"}),
)
