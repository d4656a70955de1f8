"""What became of transactions: their events lie in segments of their own until these are merged or deleted."""

from __future__ import annotations

from dataclasses import dataclass

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.plurals import counted
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import FrameRef, Report, Rule, ref_of

CODES = codes_of("pravega")

TRANSACTION = "#transaction."
"""In names of segments, between the segment that it is merged into and the id."""
MOST_TRANSACTIONS = 10_000
"""That are remembered; the oldest are forgotten."""
PATIENCE_NS = 30_000_000_000
"""So long after its last event a transaction that is still open is worth a warning: the usual lease."""


@dataclass(slots=True)
class Transaction:
    """A transaction as its segments show it."""

    stream: str
    place: FrameRef
    events: int = 0
    last_ns: int = 0
    created: bool = False
    """The controller's connection is in the capture: its merging would be seen, too."""
    merged: bool = False
    deleted: bool = False


class Transactions(Rule):
    """Transactions that were aborted, or never ended."""

    types = frozenset({"CreateSegment", "AppendBlockEnd", "MergeSegments", "MergeSegmentsBatch", "DeleteSegment"})

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._known: Newest[str, Transaction] = Newest(MOST_TRANSACTIONS)
        self._aborted: dict[str, tuple[int, int]] = {}

    def frame(self, frame: Frame) -> None:
        values = frame.values
        if frame.type == "AppendBlockEnd":
            transaction = self._of(frame, frame.generated.get("segment"))
            if transaction is not None:
                transaction.events += max(values.get("num_events", 0), 0)
                transaction.last_ns = frame.time_ns
        elif frame.type == "CreateSegment":
            transaction = self._of(frame, values.get("segment"))
            if transaction is not None:
                transaction.created, transaction.last_ns = True, frame.time_ns
        elif frame.type == "DeleteSegment":
            transaction = self._of(frame, values.get("segment"))
            if transaction is not None:
                transaction.deleted, transaction.last_ns = True, frame.time_ns
        else:
            sources = values.get("source_segment_ids", [values.get("source")])
            for source in sources if isinstance(sources, list) else ():
                transaction = self._of(frame, source)
                if transaction is not None:
                    transaction.merged = True

    def _of(self, frame: Frame, segment: object) -> Transaction | None:
        if not isinstance(segment, str) or TRANSACTION not in segment:
            return None
        parent, _, number = segment.partition(TRANSACTION)
        stream = parent.rpartition("/")[0]
        key = f"{stream}{TRANSACTION}{number}"
        return self._known.get_or_make(key, lambda: Transaction(printable(stream), ref_of(frame)))

    def finish(self) -> None:
        for key, each in self._known.items():
            number = printable(key.rpartition(TRANSACTION)[2])
            if each.merged:
                continue
            if each.deleted:
                self._report_aborted(each, number)
            elif each.created and each.events:
                self._report_open(each, number)

    def _report_aborted(self, each: Transaction, number: str) -> None:
        count, events = self._aborted.get(each.stream, (0, 0))
        count, events = self._aborted[each.stream] = count + 1, events + each.events
        problem = self.report.add(CODES["transaction-aborted"], "", each.stream, frame=each.place)
        problem.what = f"{counted(count, 'transaction')} of {each.stream} with {events:,} events ended in an abort"
        problem.detail(f"{number}: {each.events:,} events, aborted at {self.report.seconds(each.last_ns)}")

    def _report_open(self, each: Transaction, number: str) -> None:
        waited = self.report.last_ns - each.last_ns
        what = f"{each.events:,} events of transaction {number} of {each.stream} were never merged"
        severity = None if waited >= PATIENCE_NS else "note"
        key = (each.stream, number)
        problem = self.report.add(CODES["transaction-open"], what, key, frame=each.place, severity=severity)
        problem.detail(f"the last event was written at {self.report.seconds(each.last_ns)}")
