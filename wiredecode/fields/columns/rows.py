"""Many frames of one type at once: where each of them is being read, and how values are gathered from the buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


HEX = np.frombuffer(b"".join(b"%02x" % octet for octet in range(256)), np.uint16)
"""Two digits for each byte."""
MAX_OFFSET = 2**31 - 1
"""Arrow's ``binary`` and ``string`` count their bytes in 32 bits."""


class Source:
    """The buffer that holds the frames."""

    def __init__(self, buffer: bytes) -> None:
        self.buffer = buffer
        self.arrow = pa.py_buffer(buffer)

    @cached_property
    def octets(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.buffer, np.uint8)

    @cached_property
    def _not_ascii(self) -> Int64s:
        return np.flatnonzero(self.octets > 0x7F)

    def is_ascii(self, starts: Int64s, stops: Int64s) -> Bools:
        """Whether each ``buffer[start:stop]`` is."""
        found: Bools = np.searchsorted(self._not_ascii, starts) == np.searchsorted(self._not_ascii, stops)
        return found

    @cached_property
    def white(self) -> Int64s:
        """Where white space is, and as if there was some at the end."""
        octets = self.octets
        controls = octets - np.uint8(ord("\t")) <= ord("\r") - ord("\t")  # \t \n \v \f \r; below, it wraps around
        return np.append(np.flatnonzero(controls | (octets == ord(" "))), len(self.buffer))

    @cached_property
    def breaks(self) -> Int64s:
        """Where white space is that does not separate words on a line, and as if there was some at the end."""
        octets = np.frombuffer(self.buffer + b"\n", np.uint8)[self.white]
        found: Int64s = self.white[(octets != ord(" ")) & (octets != ord("\t"))]
        return found

    @cached_property
    def words(self) -> Int64s:
        """Where words start that have white space before them, and as if one did at the end."""
        after = self.white[:-1] + 1
        return np.append(after[after != self.white[1:]], len(self.buffer))

    def gather(self, code: str, places: Int64s) -> npt.NDArray[Any]:
        """One number at each place; ``code`` is a numpy type with its byte order (``">u4"``). Native order comes back.

        The view begins at every byte of the buffer, so that one gather reads whole numbers: no step over their bytes.
        """
        kind = np.dtype(code)
        windows = len(self.buffer) - kind.itemsize + 1
        if windows <= 0:
            return np.zeros(len(places), kind.newbyteorder("="))
        view: npt.NDArray[Any] = np.ndarray((windows,), kind, self.buffer, strides=(1,))
        return view[places].astype(kind.newbyteorder("="), copy=False)

    def slices(self, starts: Int64s, lengths: Int64s) -> pa.Array:
        """``buffer[start : start + length]`` of each row, as ``binary``.

        An array whose elements are by turns a value and what stands between two values needs no copy to make, and
        taking every other element of it is one memcpy each: 20 times faster than an index per byte.
        """
        bounds = np.empty(2 * len(starts) + 1, np.int64)
        bounds[0:-1:2] = np.maximum.accumulate(np.where(lengths > 0, starts, 0)) if len(starts) else 0
        bounds[1::2] = bounds[0:-1:2] + lengths
        bounds[-1] = bounds[-2] if len(starts) else 0
        if (np.diff(bounds) < 0).any():  # values that overlap or do not follow one another
            pairs = zip(starts.tolist(), lengths.tolist(), strict=True)
            return pa.array([self.buffer[start : start + length] for start, length in pairs], pa.binary())
        wide = len(self.buffer) > MAX_OFFSET
        kind, offsets = (pa.large_binary(), bounds) if wide else (pa.binary(), bounds.astype(np.int32))
        both = pa.Array.from_buffers(kind, 2 * len(starts), [None, pa.py_buffer(offsets), self.arrow])
        return both.take(pa.array(np.arange(0, 2 * len(starts), 2))).cast(pa.binary())


@dataclass(slots=True)
class Rows:
    """n frames, or structures inside frames: row i is read at ``p[i]`` and ends at ``e[i]``.

    ``good`` turns False where a row cannot be read plainly; such a row stands at 0 and has no bytes.
    """

    source: Source
    p: Int64s
    e: Int64s
    good: Bools

    def __len__(self) -> int:
        return len(self.p)

    @classmethod
    def of(cls, source: Source, starts: Int64s, stops: Int64s) -> Rows:
        inside = (starts >= 0) & (starts <= stops) & (stops <= len(source.buffer))
        rows = cls(source, starts.astype(np.int64), stops.astype(np.int64), np.ones(len(starts), np.bool_))
        rows.require(inside)
        return rows

    def require(self, condition: Bools) -> None:
        """Rows for which it does not hold are not plain."""
        if condition.all():
            return
        self.good &= condition
        self.p[~self.good] = self.e[~self.good] = 0

    def advance(self, size: int | Int64s) -> Int64s:
        """Step over ``size`` bytes, which must be there; return where they start."""
        start = self.p
        self.p = start + size
        self.require(self.p <= self.e)
        return start if self.good.all() else np.where(self.good, start, 0)

    def at(self, chosen: Int64s) -> Rows:
        """Some of the rows."""
        return Rows(self.source, self.p[chosen], self.e[chosen], self.good[chosen])

    def moved(self, chosen: Int64s, rows: Rows) -> None:
        """Go on where ``rows``, which were made by :meth:`at`, stopped."""
        self.p[chosen] = rows.p
        good = np.ones(len(self), np.bool_)
        good[chosen] = rows.good
        self.require(good)

    def number(self, code: str) -> npt.NDArray[Any]:
        """Read a number; 0 where the row is not plain."""
        places = self.advance(np.dtype(code).itemsize)
        values = self.source.gather(code, places)
        if not self.good.all():
            values[~self.good] = 0
        return values


def following(found: Int64s, places: Int64s) -> Int64s:
    """The first of the ``found`` places that is not before each of the given ones."""
    return found[np.minimum(np.searchsorted(found, places), len(found) - 1)]


def masked(array: pa.Array, there: Bools) -> pa.Array:
    """The array of numbers, texts or bytes with nulls where ``there`` is False; nothing is copied."""
    if there.all():
        return array
    if array.null_count:
        there = there & np.asarray(array.is_valid())
    bits = pa.py_buffer(np.packbits(there, bitorder="little").tobytes())
    return pa.Array.from_buffers(array.type, len(array), [bits, *array.buffers()[1:]])


def spread(array: pa.Array, chosen: Int64s, size: int) -> pa.Array:
    """``size`` rows with the array's elements at the chosen ones, and null at the others."""
    if len(chosen) == size:
        return array
    places = np.zeros(size, np.int64)
    places[chosen] = np.arange(len(chosen))
    there = np.zeros(size, np.bool_)
    there[chosen] = True
    return array.take(pa.array(places, mask=~there))


def spelled(values: npt.NDArray[Any], spell: Callable[[Any], str]) -> pa.Array:
    """Texts of numbers of which few are different: each is spelled once."""
    distinct, which = np.unique(values, return_inverse=True)
    return pa.array([spell(value) for value in distinct.tolist()], pa.string()).take(pa.array(which.ravel()))


def lengths(array: pa.Array) -> Int64s:
    """Bytes of each element of a ``binary`` or ``string`` array without offset."""
    bounds = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1) if len(array) else np.zeros(1, np.int32)
    return np.diff(bounds).astype(np.int64)


def hexadecimal(array: pa.Array) -> pa.Array:
    """Each element of a ``binary`` array as text in hex."""
    _, bounds, data = array.buffers()
    octets = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    places = np.frombuffer(bounds, np.int32, len(array) + 1).astype(np.int64) * 2 if len(array) else np.zeros(1)
    text = pa.py_buffer(HEX[octets].tobytes())
    wide = pa.Array.from_buffers(pa.large_string(), len(array), [None, pa.py_buffer(places.astype(np.int64)), text])
    return wide.cast(pa.string())
