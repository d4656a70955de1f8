"""The second pass: the frames of a connection as a sequence diagram, shortened to fit."""

from collections import Counter, deque
from collections.abc import Container, Iterable

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.escape import escape
from wiredecode.frames.frame import Frame
from wiredecode.view.summary import SummaryLines, left_side, remark, status_text

EACH = 5
"""Frames of a type that are shown from the beginning on."""
BEFORE = 2
"""Frames in front of one that matters."""
LAST = 12
"""Frames at the end."""
MAX_STEPS = 240
MAX_TROUBLE = 80
"""Frames that are shown because of a finding or as evidence."""


@dataclass(slots=True)
class Arrow:
    """A frame of the diagram."""

    number: int
    time_ns: int
    from_client: bool
    name: str
    facts: str
    latency_ns: int | None
    request: int | None
    status: str
    """Empty: it is whole."""
    findings: list[tuple[str, str]]
    """Severity and words."""
    is_evidence: bool


@dataclass(slots=True)
class Skipped:
    """Frames that are not shown one by one."""

    types: Counter[str] = field(default_factory=Counter)
    first_ns: int = 0
    last_ns: int = 0

    @property
    def count(self) -> int:
        return self.types.total()

    def frame(self, frame: Frame) -> None:
        self.first_ns = self.first_ns or frame.time_ns
        self.last_ns = frame.time_ns
        self.types[frame.shown_type] += 1


class Sequence:
    """Receives the frames of one connection; ``items`` are the steps, and the skipped frames between them.

    Shown are the first frames of each type, those with findings, the ``evidence`` (numbers of frames) and the frames
    just before, and the last ones.
    """

    def __init__(self, evidence: Container[int] = ()) -> None:
        self.items: list[Arrow | Skipped] = []
        self.frames = 0
        self._evidence = evidence
        self._lines = SummaryLines()
        self._seen: Counter[tuple[str | None, int]] = Counter()
        self._held: deque[Frame] = deque()
        self._arrows = self._trouble = 0

    def add_frames(self, frames: Iterable[Frame]) -> None:
        """Add all frames in order; frames given before an error are shown."""
        try:
            for frame in frames:
                self.frames += 1
                self._frame(frame)
        finally:
            for frame in self._held:
                self._show(frame)
            self._held.clear()

    def _frame(self, frame: Frame) -> None:
        self._seen[frame.type, frame.side] += 1
        matters = frame.number in self._evidence or any(each.severity != "note" for each in frame.findings)
        if matters and self._trouble < MAX_TROUBLE:
            self._trouble += 1
            self._let_go(BEFORE)
            while self._held:
                self._show(self._held.popleft())
            self._show(frame)
        elif self._seen[frame.type, frame.side] <= EACH and self._arrows < MAX_STEPS:
            self._let_go(0)
            self._show(frame)
        else:
            self._held.append(frame)
            if len(self._held) > LAST:
                self._skip(self._held.popleft())

    def _let_go(self, keep: int) -> None:
        while len(self._held) > keep:
            self._skip(self._held.popleft())

    def _skip(self, frame: Frame) -> None:
        if not self.items or not isinstance(self.items[-1], Skipped):
            self.items.append(Skipped())
        skipped = self.items[-1]
        assert isinstance(skipped, Skipped)
        skipped.frame(frame)

    def _show(self, frame: Frame) -> None:
        self._arrows += 1
        self.items.append(
            Arrow(
                number=frame.number,
                time_ns=frame.time_ns,
                from_client=frame.side == left_side(frame),
                name=escape(frame.shown_type),
                facts=self._lines.facts(frame).strip(),
                latency_ns=frame.latency_ns,
                request=frame.request,
                status="" if frame.status == "ok" or not frame.type else status_text(frame),
                findings=[(each.severity, remark(each)) for each in frame.findings[:3]],
                is_evidence=frame.number in self._evidence,
            )
        )
