"""Problems between Pravega clients and servers, changes, and positions of readers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any
from uuid import UUID

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.net.types import Connection
from wiredecode.protocols.pravega.flows import ReaderFlows
from wiredecode.protocols.pravega.names import APPENDS, AUTH_ERRORS, FAILURES, NAMES
from wiredecode.protocols.shared import refusals
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.gauges import LAG, MAX_KNOWN, POSITION, STREAM, Change, Gauge, Measurement
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import Checks, FrameRef, Publishing, Rule, ref_of

CODES = codes_of("pravega")

# For the timeline.

DONE: dict[str, str] = NAMES["done"]


def segment_done(frame: Frame) -> Iterator[Change]:
    name = printable(frame.values.get("segment") or frame.values["target"])
    yield Change(STREAM, name, f"segment {name} is {DONE[frame.type or '']}")


# For plots.


class Readers(Gauge):
    """The next byte of each reader's segment, and the bytes between it and the last known end."""

    types = frozenset({"ReadSegment", "SegmentRead", "DataAppended", "StreamSegmentInfo"})

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        """By segment: the largest known write offset."""

    def read(self, frame: Frame) -> Iterator[Measurement]:
        values = frame.values
        if frame.type == "DataAppended":
            self._grew(frame.generated["segment"], values["current_segment_write_offset"])
        elif frame.type == "StreamSegmentInfo":
            self._grew(values["segment_name"], values["write_offset"])
        else:
            yield from self._reader(frame, values["segment"], values["offset"])

    def _reader(self, frame: Frame, segment: str, offset: int) -> Iterator[Measurement]:
        of = f"{printable(segment)}, bytes, reader #{frame.connection.id}"
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
        if segment in self._ends or len(self._ends) < MAX_KNOWN:
            self._ends[segment] = max(self._ends.get(segment, 0), end)


# Rules.

SUCCESSORS_NS = 2_000_000_000
"""A writer whose segment was sealed continues with another one within this time."""
TRANSACTION = "#transaction."
"""In names of segments, between the segment that it is merged into and the id."""
LEASE_NS = 30_000_000_000
"""A transaction still open this long after its last event is a warning: the usual lease."""


@dataclass(eq=False)
class PravegaRefusals(refusals.Refusals):
    """Replies that mean no."""

    types = FAILURES | {"SegmentAttributeUpdated", "StreamSegmentInfo"}
    protocol, table = "pravega", refusals.refusals_of("pravega")

    def errors(self, frame: Frame) -> list[str]:
        return [each.message for each in frame.findings if each.code == "refused"]

    def facts(self, frame: Frame, errors: Collection[Any]) -> dict[str, Any]:
        values, code = frame.values, frame.values.get("error_code", -1)
        host, offset = printable(values.get("correct_host", "")), values.get("offset", -1)
        trace = printable(values.get("server_stack_trace", "")).split("\n")[0]
        return {
            "client": short(frame.connection),
            "server": frame.source,
            "segment": printable(str(values.get("segment", "a segment"))),
            "host": f", but on {host}" if host else "",
            "at": f" at offset {offset:,}" if isinstance(offset, int) and offset >= 0 else "",
            "begin": values.get("start_offset"),
            "error": AUTH_ERRORS.get(code, f"code {code}"),
            "trace": f" ({trace})" if trace else "",
            "message": next(iter(errors), ""),
        }


@dataclass(eq=False)
class Sealed(Rule):
    """Writers whose segments are sealed and that continue with no other segment of the stream."""

    types = frozenset({"SetupAppend", "DataAppended", "SegmentIsSealed"})
    _writers: Newest[int, None] = field(default_factory=Newest)
    """Connections on which a client set up appends."""
    _sealed: Newest[tuple[str, str], FrameRef] = field(default_factory=Newest)
    """By host of the client and stream: the last refusal."""

    def frame(self, frame: Frame) -> None:
        number, client = frame.connection.number, frame.source if frame.sender == "client" else frame.destination
        segment = frame.values.get("segment") or frame.generated.get("segment", "")
        writer = client.rpartition(":")[0], printable(str(segment)).rpartition("/")[0]
        if frame.type == "SetupAppend":
            self._writers.put(number, None)
        if frame.type != "SegmentIsSealed":
            self._sealed.pop(writer, None)
        elif number in self._writers:
            self._sealed.put(writer, ref_of(frame))

    def finish(self) -> None:
        for (_, stream), ref in self._sealed.items():
            end = ref.connection.first_end
            long = ref.time_ns - ref.connection.first_ns >= SUCCESSORS_NS
            gave_up = long and end is not None and end.side != ref.side  # the writer gave up
            if gave_up or self.report.last_ns - ref.time_ns >= SUCCESSORS_NS:
                title = f"{short(ref.connection)} cannot write to {stream}: it is sealed, and no other segment follows"
                self.report.add(CODES["stream-sealed"], title, stream, frame=ref)


@dataclass(slots=True)
class Transaction:
    """A transaction as its segments show it."""

    stream: str
    ref: FrameRef
    events: int = 0
    last_ns: int = 0
    created: bool = False
    """The controller's connection is in the capture: its merging would be seen, too."""
    over: bool = False


@dataclass(eq=False)
class Transactions(Rule):
    """Transactions that never ended: their events lie in segments of their own until then."""

    types = frozenset({"CreateSegment", "AppendBlockEnd", "MergeSegments", "MergeSegmentsBatch", "DeleteSegment"})
    _known: Newest[str, Transaction] = field(default_factory=Newest)

    def frame(self, frame: Frame) -> None:
        values, kind = frame.values, frame.type
        segments = values.get("source_segment_ids") or [values.get("source", values.get("segment"))]
        if kind == "AppendBlockEnd":
            segments = [frame.generated.get("segment")]
        for segment in segments if isinstance(segments, list) else ():
            transaction = self._of(frame, segment)
            if transaction is None:
                continue
            if kind in ("MergeSegments", "MergeSegmentsBatch", "DeleteSegment"):
                transaction.over = True
                continue
            transaction.last_ns = frame.time_ns
            if kind == "AppendBlockEnd":
                transaction.events += max(values.get("num_events", 0), 0)
            else:
                transaction.created = True

    def _of(self, frame: Frame, segment: object) -> Transaction | None:
        if not isinstance(segment, str) or TRANSACTION not in segment:
            return None
        parent, _, number = segment.partition(TRANSACTION)
        stream = parent.rpartition("/")[0]
        key = f"{stream}{TRANSACTION}{number}"
        return self._known.get_or_make(key, lambda: Transaction(printable(stream), ref_of(frame)))

    def finish(self) -> None:
        for key, each in self._known.items():
            if each.created and each.events and not each.over:
                self._report_open(each, printable(key.rpartition(TRANSACTION)[2]))

    def _report_open(self, each: Transaction, number: str) -> None:
        waited = self.report.last_ns - each.last_ns
        title = f"{each.events:,} events of transaction {number} of {each.stream} were never merged"
        severity = None if waited >= LEASE_NS else "note"
        problem = self.report.add(CODES["transaction-open"], title, title, frame=each.ref, severity=severity)
        problem.detail(f"the last event was written at {self.report.seconds(each.last_ns)}")


@dataclass(eq=False)
class Writers(Rule):
    """Ids of writers that two clients use at a time: events of one seem to repeat those of the other."""

    types = frozenset({"SetupAppend", *APPENDS})
    _owners: Newest[tuple[str, bytes], Connection] = field(default_factory=Newest)
    """By segment and writer: the connection that set it up last."""

    def frame(self, frame: Frame) -> None:
        number, segment = frame.values.get("writer_id"), frame.generated.get("segment", "")
        if not isinstance(number, bytes):
            return  # truncated, or of the early proposal
        if frame.type == "SetupAppend":
            self._owners.put((printable(frame.values.get("segment", "")), number), frame.connection)
            return
        owner = self._owners.get((segment, number))
        if owner is None or owner is frame.connection:
            return
        both = f"{short(frame.connection)} and {short(owner)}"
        title = f"{both} append to {segment} as one writer, {UUID(bytes=number)}, at the same time"
        problem = self.report.add(CODES["writer-shared"], title, (segment, number), frame=frame)
        problem.detail(
            f"{short(owner)} set it up at {self.report.seconds(owner.first_ns)}, the other one appends since then, too"
        )
        self.report.concerns(problem, owner)


CHECKS = Checks(
    changes=dict.fromkeys(DONE, segment_done),
    gauges=(Readers,),
    flows=(ReaderFlows,),
    codes=CODES,
    rules=(PravegaRefusals, Sealed, Transactions, Writers),
    waits=frozenset({"ReadSegment"}),
    expected=frozenset({"Exists", "Conditional", "KeyVersion", "BadOffset", "AttributeUpdate"}),
    pushes=frozenset({"SegmentRead"}),
    publishes=dict.fromkeys(APPENDS, Publishing(("segment",), "event_count")),
    covered=frozenset({"refused"}),
)
