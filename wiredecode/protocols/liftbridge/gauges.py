"""How far replicas lag behind their leader."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.fields import compiler, printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.liftbridge.operations import Cursor
from wiredecode.protocols.shared.checking import inner_values
from wiredecode.protocols.shared.gauges import LAG, POSITION, Gauge, Reading
from wiredecode.protocols.shared.pairing import Newest

MOST_WAITING = 4096
"""Requests of followers that are remembered until they are answered."""


class ReplicaLag(Gauge):
    """Committed messages that a follower did not have when it asked, as the leader's answer tells."""

    types = frozenset({"ReplicationRequest", "ReplicationResponse"})

    def __init__(self) -> None:
        self._requests: Newest[int, int] = Newest(MOST_WAITING)

    def read(self, frame: Frame) -> Iterator[Reading]:
        if "copy_of" in frame.generated or not frame.inner:
            return
        values = inner_values(frame)
        if frame.type == "ReplicationRequest":
            self._requests.put(frame.id, values.get("offset", 0))
            return
        offset, told = self._requests.pop(frame.request or 0, None), frame.generated
        if offset is not None and "high_watermark" in values:
            name = f"{told.get('stream')}, partition {told.get('partition')} at {told.get('replica_id')}"
            yield Reading(LAG, name, max(values["high_watermark"] - offset, 0))


class Cursors(Gauge):
    """Where consumers go on from, as servers keep it in the stream ``__cursors``."""

    types = frozenset({"Publish"})

    def read(self, frame: Frame) -> Iterator[Reading]:
        if len(frame.inner) < 2 or "copy_of" in frame.generated or frame.inner[1].layer is not Cursor:
            return
        data = frame.inner[1].data
        values = compiler.walk(Cursor, data, 0, len(data))[0]
        stream, partition, offset = values["stream"], values.get("partition", 0), values.get("offset", 0)
        of = f"{printable(stream)}[{partition}], cursor {printable(values.get('cursor_id', ''))}"
        yield Reading(POSITION, of, offset, (stream, partition, offset - 1))


GAUGES = (ReplicaLag, Cursors)
