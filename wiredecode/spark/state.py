"""A bucket of one source between two steps: the state of its connections (docs/spark.md).

Nothing here needs Spark. A state is a pickle: load only what this program itself has written.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version

import pyarrow as pa

from wiredecode.capture.batch import PacketBatch
from wiredecode.frames.totals import Totals
from wiredecode.spark.decode import BucketReader, Decoded, TableDemand
from wiredecode.tables.reader import Rows

CODEC = "zstd"
OPTIONS = "the states were written with other options: repeat those, or name a new folder of states"
VERSION = (
    "the states were written by {}, and this is {}: finish with that version (the same command and --finish), "
    "then name a new folder of states"
)
DAMAGED = "the state is damaged: name a new folder of states"


class OtherState(ValueError):
    """A state of another version or another demand; ``str()`` is one line."""


class BucketState:
    """Decodes the packets of ``bucket`` of ``source``, some at a time.

    ``dumps`` and ``loads`` keep it in between: rows are those of :func:`wiredecode.spark.decode.decode`, wherever the
    packets are divided. Requests that wait for their response, and frames that are not complete, wait in the state.
    """

    def __init__(self, demand: TableDemand, source: str, bucket: int) -> None:
        self.demand = demand
        self.reader = BucketReader(demand, source, bucket, bulk=False)
        self.packets = 0
        """Number of packets."""

    def feed(self, batch: PacketBatch) -> Iterator[Rows]:
        """The rows that the next packets complete; they are counted from ``packets`` + 1."""
        self.packets += len(batch)
        return self.reader.converted(self.reader.push(self.reader.dissector.feed(batch)))

    def finish(self, since: Totals | None = None) -> Iterator[Decoded]:
        """The rows of all that waits, and the report; ``since``: what earlier reports counted."""
        yield from self.reader.converted(self.reader.push(self.reader.dissector.finish()))
        yield self.reader.report(since)

    def dumps(self) -> bytes:
        """The state as bytes, compressed: its mark, sizes and digest, and a pickle; of the demand only a digest."""
        data = pickle.dumps((self.packets, *self.reader.kept()), pickle.HIGHEST_PROTOCOL)
        packed: bytes = pa.compress(data, CODEC, asbytes=True)
        return b"%s\n%d %s\n%s" % (mark(self.demand).encode(), len(data), digest(packed).encode(), packed)

    @classmethod
    def loads(cls, demand: TableDemand, source: str, bucket: int, data: bytes) -> BucketState:
        """The state of :meth:`dumps`. Raises :class:`OtherState`."""
        written, _, rest = data.partition(b"\n")
        header, _, packed = rest.partition(b"\n")
        size, _, summed = header.partition(b" ")
        if summed != digest(packed).encode():
            raise OtherState(DAMAGED)
        check(written.decode(), demand)
        state = cls(demand, source, bucket)
        try:
            state.packets, *kept = pickle.loads(pa.decompress(packed, int(size), CODEC, asbytes=True))
        except (AttributeError, ImportError, TypeError) as error:  # a class that is missing or has changed
            raise OtherState(VERSION.format(f"another wiredecode ({error})", running())) from None
        state.reader.resume(*kept)
        return state


def mark(demand: TableDemand) -> str:
    """The version, and a digest of the demand: what a state depends on."""
    return f"{running()} {digest(repr(sorted(demand.__getstate__().items())).encode())}"


def check(written: str, demand: TableDemand) -> None:
    """Raise :class:`OtherState` if the mark of a state is not that of this version and ``demand``."""
    before = written.partition(" ")[0]
    if before != running():
        raise OtherState(VERSION.format(f"wiredecode {before}", running()))
    if written != mark(demand):
        raise OtherState(OPTIONS)


def running() -> str:
    """The version of this program."""
    try:
        return version("wiredecode")
    except PackageNotFoundError:  # out of a checkout, or an archive
        return "unknown"


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()
