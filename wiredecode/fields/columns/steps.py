"""Where the elements of arrays start whose elements vary in length: one after another, in all frames.

An element that is made of fixed runs and of values with their length in front is described by a *program*: rows of
``(operation, a, b, c)`` that say how to step over it, and plain Python is generated from it, as in
:mod:`wiredecode.fields.compiler`: a tenth of a microsecond per element. Elements of other forms are stepped over by
numpy, the k-th elements of all frames in one step.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from wiredecode.fields import Number
from wiredecode.fields.columns.rows import Int64s, Rows

Step = tuple[int, int, int, int]
"""``(FIXED, bytes, 0, 0)``, ``(SIZED, width of the length, shape, null)`` or ``(UNLESS, mask, value, 0)``: the row is
not plain if the next byte under the mask has the value."""

FIXED, SIZED, UNLESS = 0, 1, 2
LITTLE, SIGNED = 1, 2
"""Bits of ``shape``."""
NO_NULL = -(1 << 62)
MAX_STEPS = 4096
"""Most elements of a frame that are found in steps of numpy; frames with more are not plain."""
CODES = {(1, False): "B", (1, True): "b", (2, False): "H", (2, True): "h", (4, False): "I", (4, True): "i"}
CODES |= {(8, False): "Q", (8, True): "q"}
"""Of :mod:`struct`, by width and whether it is signed."""


def sized_step(length: Number, null: int | None) -> Step:
    shape = (LITTLE if length.little else 0) | (SIGNED if length.signed else 0)
    return SIZED, length.width, shape, NO_NULL if null is None else null


@cache
def stepper(program: tuple[Step, ...]) -> Callable[[bytes, int, int, int, Callable[[int], None]], int]:
    """The program as a function of a buffer, where elements begin and end in it, their count, and who is told places.

    It steps over ``count`` elements, or over all up to the end where that is negative, and returns the place behind
    them; -1 where they do not fit.
    """
    namespace: dict[str, Any] = {"error": struct.error}
    body = [f"        {line}" for line in element_code(program, namespace)]
    loops = [("for _ in range(count):", "if count >= 0:"), ("while p < e:", "else:")]
    lines = ["def step(b, p, e, count, tell):", "  try:"]
    for loop, case in loops:
        lines += [f"    {case}", f"      {loop}", *body]
    lines += ["  except (IndexError, error):", "    return -1", "  return p"]
    exec(compile("\n".join(lines), "<steps>", "exec"), namespace)
    found: Callable[[bytes, int, int, int, Callable[[int], None]], int] = namespace["step"]
    return found


def element_code(program: tuple[Step, ...], namespace: dict[str, Any]) -> Iterator[str]:
    """The lines that step over one element."""
    yield "tell(p)"
    at = 0
    for operation, a, b, c in program:
        if operation == FIXED:
            at += a
        elif operation == UNLESS:
            yield f"if p + {at} < e and b[p + {at}] & {a} == {b}: return -1"
        else:
            order = "little" if b & LITTLE else "big"
            number = struct.Struct(("<" if b & LITTLE else ">") + CODES[a, bool(b & SIGNED)]) if a != 3 else None
            if number is None:
                yield f"n = int.from_bytes(b[p + {at} : p + {at + a}], {order!r}, signed={bool(b & SIGNED)})"
            else:
                name = f"unpack{len(namespace)}"
                namespace[name] = number.unpack_from
                yield f"n, = {name}(b, p + {at})"
            if c != NO_NULL:
                yield f"if n == {c}: n = 0"
            if b & SIGNED:
                yield "if n < 0: return -1"
            yield f"p += n + {at + a}"
            at = 0
    if at:
        yield f"p += {at}"
    yield "if p > e: return -1"


def lockstep(advance: Callable[[Rows], object], rows: Rows, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Step over the elements, the k-th of all rows at once; counts below 0 mean up to the end."""
    found: list[tuple[Int64s, Int64s]] = []
    while True:
        k = len(found)
        open_ones = np.flatnonzero(rows.good & (((counts < 0) & (rows.p < rows.e)) | (counts > k)))
        if not len(open_ones):
            break
        if k == MAX_STEPS:
            fits = np.ones(len(rows), np.bool_)
            fits[open_ones] = False
            rows.require(fits)
            break
        found.append((open_ones, rows.p[open_ones]))
        some = rows.at(open_ones)
        advance(some)
        rows.moved(open_ones, some)
    found = [(which[rows.good[which]], places[rows.good[which]]) for which, places in found]
    made = np.zeros(len(rows), np.int64)
    for which, _ in found:
        made[which] += 1
    firsts = np.cumsum(made) - made
    starts = np.empty(int(made.sum()), np.int64)
    for k, (which, places) in enumerate(found):
        starts[firsts[which] + k] = places
    return starts, made


def element_starts(
    rows: Rows, counts: Int64s, least: int, program: list[Step] | None, advance: Callable[[Rows], object]
) -> tuple[Int64s, Int64s]:
    """Where the elements of all rows start, row after row, and how many each row has; ``rows`` moves behind them.

    ``counts`` below 0: up to the end of the row. ``least`` is the size of the smallest element: a count that cannot be
    true fails before anything is made for it. ``advance`` steps over an element that has no program.
    """
    left = rows.e - rows.p
    rows.require(counts <= left // least)
    counts = np.where(rows.good, counts, 0)
    if program is None:
        return lockstep(advance, rows, counts)
    if len(program) == 1 and program[0][0] == FIXED:
        return fixed_starts(rows, counts, program[0][1])
    return stepped(rows, counts, stepper(tuple(program)))


def stepped(rows: Rows, counts: Int64s, step: Callable[..., int]) -> tuple[Int64s, Int64s]:
    """Step over the elements of one row after another: what a loop finds in each is not known before."""
    buffer, places = rows.source.buffer, array("q")
    made, behind = [], []
    for p, e, good, count in zip(*(column.tolist() for column in (rows.p, rows.e, rows.good, counts)), strict=True):
        first = len(places)
        reached = step(buffer, p, e, count, places.append) if good else -1
        if reached < 0:
            del places[first:]
        behind.append(reached)
        made.append(len(places) - first)
    rows.p = np.array(behind, np.int64)
    rows.require(rows.p >= 0)
    return np.frombuffer(places, np.int64) if places else np.empty(0, np.int64), np.array(made, np.int64)


def fixed_starts(rows: Rows, counts: Int64s, width: int) -> tuple[Int64s, Int64s]:
    """Elements of the same size follow from the counts."""
    left = rows.e - rows.p
    rows.require((counts >= 0) | (left % width == 0))
    counts = np.where(rows.good, np.where(counts < 0, left // width, counts), 0)
    firsts = np.cumsum(counts) - counts
    total = int(counts.sum())
    starts = np.repeat(rows.p - firsts * width, counts) + np.arange(total, dtype=np.int64) * width
    rows.advance(counts * width)
    return starts, counts
