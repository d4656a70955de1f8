"""Frames as records, byte for byte as ``pcap --json`` writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wiredecode.dissect.build import build_dissector
from wiredecode.dissect.demand import Demand
from wiredecode.export.columns import checked, picker, record_columns
from wiredecode.export.job import Export, Pass
from wiredecode.export.json_array import JsonArray
from wiredecode.fields.layer import Style
from wiredecode.frames.record import BYTES, RecordLines, dumps, record

if TYPE_CHECKING:
    from wiredecode.dissect.dissector import Dissector
    from wiredecode.frames.frame import Frame


class RecordExport(Export):
    """Records as lines or as one array, whole or with some of their columns."""

    def begin(self, source: Pass) -> Dissector:
        """Open the output; return the dissector. Raises UnknownColumn."""
        job = self.job
        self._columns = None if job.columns is None else checked(job.columns, record_columns())
        self._show = BYTES[job.bytes or "hex"]
        if job.display is not None and job.stable_ids:
            job.display.check_stable()
        demand = Demand(
            style=Style(self._show, job.show_secrets),
            answers=job.answers(),
            select=job.display,
            decode_as=job.decode_as,
            stable_ids=job.stable_ids,
        )
        dissector = build_dissector(demand, job.limits)
        self.open()
        return dissector

    def write(self, source: Pass) -> None:
        """Write the record of every frame."""
        line, self._output = source.guarded(self._line()), source.output
        write = source.output.write
        array = self._array = JsonArray(write, b"[\n", b"\n]\n") if self.form.name == "json" else None
        for frame in source.frames():
            self.done += 1
            if array is None:
                write(line(frame))
            else:
                array.add(line(frame)[:-1])

    def _line(self) -> Callable[[Frame], bytes]:
        ranges, show = self.job.ranges, self._show
        if self._columns is None:
            return RecordLines(ranges=ranges, show=show).line
        pick = picker(self._columns)
        return lambda frame: dumps(pick(record(frame, ranges=ranges)), show)

    def end(self) -> None:
        """Close the array."""
        if self._array is not None:
            self._array.close()
            self._output.flush()
