"""What became of requests whose answer comes later than one pass can hold them back: a pass of its own finds it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.dissect.build import build_dissector
from wiredecode.dissect.demand import Demand
from wiredecode.dissect.lookahead import (
    LOOKAHEAD_BYTES,
    LOOKAHEAD_FRAMES,
    LOOKAHEAD_NS,
    KnownOutcome,
    confirmations,
    reply_captured,
    waits,
)
from wiredecode.frames.frame import UNANSWERED, Answer, Frame
from wiredecode.net.limits import Limits
from wiredecode.net.types import Connection
from wiredecode.protocols.registry import DecodeAs

MOST_OPEN = 1_000_000
"""Requests that may wait for their answer at the same time; beyond that the oldest is forgotten."""


@dataclass(slots=True)
class WaitingRequest:
    """A request, and how much came before it."""

    connection: Connection
    side: int
    time_ns: int
    seen: int
    size: int
    answers: list[Answer] = field(default_factory=list)


class LateAnswers:
    """Is told all frames in order. :attr:`known` is by id what became of requests that could not be held back."""

    def __init__(self) -> None:
        self.known: dict[int, KnownOutcome] = {}
        self._open: OrderedDict[int, WaitingRequest] = OrderedDict()
        self._seen = self._size = 0

    def add(self, frame: Frame) -> None:
        """The next frame."""
        for confirmation in confirmations(frame, self._open):
            held = self._open[confirmation.request]
            held.answers.append(Answer(confirmation, frame.id, frame.time_ns))
            if confirmation.final is not None:
                del self._open[confirmation.request]
                if self._is_late(held, frame):
                    self.known[confirmation.request] = KnownOutcome(
                        frame.id, confirmation.final or None, tuple(held.answers)
                    )
        if waits(frame):
            self._open[frame.id] = WaitingRequest(frame.connection, frame.side, frame.time_ns, self._seen, self._size)
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        self._seen += 1
        self._size += frame.length

    def _is_late(self, request: WaitingRequest, frame: Frame) -> bool:
        many = self._seen - request.seen >= LOOKAHEAD_FRAMES or self._size - request.size > LOOKAHEAD_BYTES
        return many or frame.time_ns - request.time_ns > LOOKAHEAD_NS

    def finish(self) -> None:
        """No frame will come any more. What a hole may have answered has no outcome."""
        for number, request in self._open.items():
            outcome = UNANSWERED if reply_captured(request) else None
            if request.answers or outcome is not None:
                self.known[number] = KnownOutcome(None, outcome, tuple(request.answers))
        self._open.clear()


def find_answers(
    packets: Iterable[PacketBatch], limits: Limits, decode_as: Mapping[int, DecodeAs], *, stable_ids: bool = False
) -> Mapping[int, KnownOutcome]:
    """Read a capture for what reading it once would tell too late: for :attr:`Demand.answers`. Damage ends it."""
    demand = Demand(link_responses=False, copies=False, decode_as=decode_as, stable_ids=stable_ids)
    found = LateAnswers()
    with suppress(CaptureError):
        for frame in build_dissector(demand, limits).frames(packets):
            found.add(frame)
    found.finish()
    return found.known
