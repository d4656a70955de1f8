"""Complete dissections to compare: all frames of packets, and their contents."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.dataclasses import dataclass
from wiredecode.dissect import stored
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields import compiler
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.frames.totals import Totals
from wiredecode.protocols.base import Protocol
from wiredecode.view.notebook import ShownFrame

STYLE = Style()


@dataclass
class Result:
    frames: list[ShownFrame]
    totals: Totals
    error: CaptureError | None = None

    def of(self, *types: str | None) -> list[ShownFrame]:
        return [frame for frame in self.frames if frame.type in types]

    @property
    def whole(self) -> list[ShownFrame]:
        """The frames all of whose bytes were there."""
        return [frame for frame in self.frames if frame.status in ("ok", "malformed")]


def dissect(source: Iterable[PacketBatch], known: tuple[Protocol, ...] | None = None, **options: Any) -> Result:
    """Run the whole stack with records; an error of the capture is kept. ``options``: of a demand."""
    dissector = Dissector(Demand(**{"style": STYLE, "protocols": known, "frame": ShownFrame, **options}))
    frames: list[Any] = []
    error = None
    try:
        frames.extend(dissector.frames(source))
    except CaptureError as raised:
        error = raised
    return Result(frames, dissector.totals, error)


def meaning(frame: Frame, *, linked: bool = True) -> dict[str, Any]:
    """Contents of a frame, without packet numbers and times; ``linked``: with values derived from other frames."""
    content = {
        "connection": frame.connection.endpoints[0],
        "side": frame.side,
        "offset": frame.offset,
        "length": frame.length,
        "type": frame.type,
        "code": frame.code,
        "status": frame.status,
        "values": careful_values(frame),
    }
    if linked:
        findings = [finding.record() for finding in frame.findings]
        content |= {"number": frame.number, "sender": frame.sender, "layers": frame.layers, "findings": findings}
        content |= {"request": frame.request, "response": frame.response, "missing": frame.missing}
    return content


def careful_values(frame: Frame) -> dict[str, Any]:
    """Every field of the frame as numbers, text and bytes."""
    if frame.layer is None:
        return dict(frame.values)
    return _careful(frame.layer, frame.data, 0, frame.stop - frame.start, truncated=frame.is_partial).values


_careful = lru_cache(maxsize=4096)(compiler.careful)  # the same frames recur in other segments


def identity(frame: Frame) -> tuple[Any, ...]:
    """Everything of a frame that must not depend on batches or pickling."""
    findings = [finding.record() for finding in frame.findings]
    ids = frame.id, frame.number, frame.request, frame.response, frame.latency_ns
    return *ids, frame.packets, frame.time_ns, frame.type, frame.status, frame.sender, repr(frame.layers), findings


def pairing(frame: Frame) -> tuple[Any, ...]:
    """Type of a frame, and the request that it answers."""
    return frame.type, frame.status, frame.request, [finding.code for finding in frame.findings]


def dissect_in_steps(path: Path, batch: int | None = None, stored_after: int = 0) -> tuple[list[tuple[Any, ...]], Any]:
    """Contents of all frames of a capture, and the totals.

    The dissector is stored, and read again, after every ``stored_after`` batches.
    """
    demand = Demand(style=STYLE, stable_ids=True)
    dissector = Dissector(demand)
    identities: list[tuple[Any, ...]] = []
    options: dict[str, Any] = {} if batch is None else {"batch_packets": batch}
    try:
        for number, packets in enumerate(open_capture([path], **options), 1):
            identities += map(identity, list(dissector.feed(packets)))
            if stored_after and number % stored_after == 0:
                dissector = stored.load(*stored.dump(dissector))
                dissector.resume(demand)
    except CaptureError:
        pass  # a capture that is truncated
    identities += map(identity, list(dissector.finish()))
    return identities, dissector.totals
