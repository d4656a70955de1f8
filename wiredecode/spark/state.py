"""A bucket of one source between two steps: what has been read of its connections so far (docs/spark.md).

Nothing here needs Spark. A state is a pickle: load only what this program itself has written.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version

import pyarrow as pa

from wiredecode.frames.totals import Totals
from wiredecode.spark.decode import TableDemand, ended, row_batch
from wiredecode.spark.packets import packet_batches

CODEC = "zstd"
BEGIN_ANEW = "the states were written with {}: go on with that, or begin a new folder of states"


class OtherState(ValueError):
    """A state that was written with another version or another demand; ``str()`` is one line."""


class BucketState:
    """Decodes the packets of ``bucket`` of ``source``, some at a time.

    ``dumps`` and ``loads`` keep it in between: rows are those of :func:`wiredecode.spark.decode.decode`, whatever the
    packets were cut into. Requests that wait for their response, and frames that are not complete, wait in the state.
    """

    def __init__(self, demand: TableDemand, source: str, bucket: int) -> None:
        self.demand, self.source, self.bucket = demand, source, bucket
        self.reader = demand.reader((), bucket, bulk=False)
        self.packets = 0
        """Packets so far."""

    def feed(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows that some more packets bring: rows of them in the order of :data:`WITHIN`."""
        for packets in packet_batches([rows], self.packets + 1):
            self.packets += len(packets)
            for made in self.reader.push(self.reader.dissector.feed(packets)):
                yield row_batch(made, self.source, self.demand)

    def finish(self, since: Totals | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of all that waits, and the report; ``since``: what earlier reports counted."""
        for made in self.reader.push(self.reader.dissector.finish()):
            yield row_batch(made, self.source, self.demand)
        yield ended(self.reader, self.source, self.bucket, self.demand, since)

    def dumps(self) -> bytes:
        """The state as bytes, compressed; of what the demand tells there is only a digest."""
        reader = self.reader
        kept = self.packets, reader.dissector, reader.messages, reader.matched
        data = pickle.dumps(kept, pickle.HIGHEST_PROTOCOL)
        packed: bytes = pa.compress(data, CODEC, asbytes=True)
        return b"%s\n%d %s\n%s" % (mark(self.demand), len(data), _digest(packed), packed)

    @classmethod
    def loads(cls, demand: TableDemand, source: str, bucket: int, data: bytes) -> BucketState:
        """The state of :meth:`dumps`. Raises :class:`OtherState`."""
        written, _, rest = data.partition(b"\n")
        header, _, packed = rest.partition(b"\n")
        size, _, digest = header.partition(b" ")
        if digest != _digest(packed):
            raise OtherState("the state is damaged, or of another wiredecode: begin a new folder of states")
        if written != mark(demand):
            found, now = (each.decode().partition(" ")[0] for each in (written, mark(demand)))
            other = "other options" if found == now else f"wiredecode {found}, this is {now}"
            raise OtherState(BEGIN_ANEW.format(other))
        state = cls(demand, source, bucket)
        try:
            state.packets, *kept = pickle.loads(pa.decompress(packed, int(size), CODEC, asbytes=True))
        except (AttributeError, ImportError, TypeError) as error:  # a class that is not there, or has changed
            raise OtherState(BEGIN_ANEW.format(f"another wiredecode ({error})")) from None
        state.reader.resume(*kept)
        return state


def mark(demand: TableDemand) -> bytes:
    """What a state depends on: the version, and a digest of the demand."""
    text = repr(sorted(demand.__getstate__().items())).encode()
    return b"%s %s" % (running().encode(), _digest(text))


def running() -> str:
    """The version of this program."""
    try:
        return version("wiredecode")
    except PackageNotFoundError:  # out of a checkout, or an archive
        return "unknown"


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).hexdigest().encode()
