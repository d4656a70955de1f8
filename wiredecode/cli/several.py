"""``--jobs``: an export by several processes, with the same rows in the same order."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from wiredecode.capture import CaptureError
from wiredecode.capture.reader import Capture
from wiredecode.cli.options import UsageError
from wiredecode.jobs.dissector import SharedDissector
from wiredecode.jobs.merge import Merge
from wiredecode.jobs.worker import Done, Worker
from wiredecode.net.clock import Clock
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import Limits
from wiredecode.net.share import Share
from wiredecode.protocols import registry

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from wiredecode.capture import PacketBatch
    from wiredecode.cli.session import Packets, Session
    from wiredecode.dissect.identify import DecodeAs
    from wiredecode.jobs.exchange import Peers
    from wiredecode.jobs.rows import Rows
    from wiredecode.net.segments import Segments

FORESEEN_BYTES = 16 * 1024 * 1024
"""The connections of so many bytes are dealt at once."""

Make = Callable[[Callable[..., SharedDissector]], "tuple[SharedDissector, Rows]"]
"""Makes a dissector, by calling what it is given with the options of one, and what collects its rows."""
Shape = Callable[[pa.RecordBatch], pa.RecordBatch]


def check(jobs: int, session: Session) -> None:
    """Refuse what several processes cannot do."""
    if "fork" not in multiprocessing.get_all_start_methods():
        raise UsageError("--jobs needs an operating system whose processes can fork")
    if session.capture.bytes_total is None:
        raise UsageError("--jobs reads a capture several times, so it needs files: not standard input, not a pipe")


def first_segments(packets: Packets) -> list[Segments]:
    """The TCP segments of the first :data:`FORESEEN_BYTES` of a capture."""
    parts: list[Segments] = []
    headers, clock = HeaderReader(Limits(), Counter(), Counter()), Clock(0)
    with suppress(CaptureError):
        for batch in packets:
            if len(batch):
                parts.append(headers.read(batch, clock.advance(batch.time_ns)))
            if packets.bytes_read >= FORESEEN_BYTES:
                break
    return parts


def batches(
    jobs: int,
    session: Session,
    decode_as: Mapping[int, DecodeAs],
    make: Make,
    shape: Shape = lambda batch: batch,
    warm: Callable[[Iterator[PacketBatch]], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows that ``make`` and ``shape`` make of the capture, in its order; without the number of their frame.

    ``warm`` is given the first packets before there are several processes: what is imported, compiled or loaded for
    them is shared by all.
    """
    if warm is not None and isinstance(session.capture, Capture):
        with suppress(CaptureError):
            warm(islice(session.capture, 1))
    bound = frozenset(registry.together(decode_as))

    share = Share(0, jobs, bound)
    share.foresee(first_segments(session.capture))

    def work(index: int, peers: Peers, pipe: Connection) -> Done:
        session.quiet = True  # progress is shown once
        share.index = index
        dissector, rows = make(partial(SharedDissector, share, peers, bound))
        error = Worker(pipe, shape).run(dissector, rows, session.batches(), lambda: session.capture.bytes_read)
        return Done(dissector.totals, session.capture.info, error, session.stopped)

    merge = session.counting = Merge(jobs, work, session.advance)
    for batch in merge:
        yield batch.select(range(1, batch.num_columns))
    session.capture.info = merge.done[0].info
    session.stopped = merge.done[0].stopped
