"""Where the elements of arrays start whose elements vary in length: one after another, in all frames.

An element that is made of fixed runs and of values with their length in front is described by a *program*: rows of
``(operation, a, b, c)`` that say how to step over it. The program is run by a compiled kernel, frame after frame, or
by numpy, the k-th elements of all frames in one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wiredecode.fields import kernel as kernels
from wiredecode.fields.columns.rows import Int64s, Rows
from wiredecode.fields.kernel import kernel, view

if TYPE_CHECKING:
    from wiredecode.fields import Number

Step = tuple[int, int, int, int]
"""``(FIXED, bytes, 0, 0)``, ``(SIZED, width of the length, shape, null)`` or ``(UNLESS, mask, value, 0)``: the row is
not plain if the next byte under the mask has the value."""

FIXED, SIZED, UNLESS = 0, 1, 2
LITTLE, SIGNED = 1, 2
"""Bits of ``shape``."""
NO_NULL = -(1 << 62)
MAX_STEPS = 4096
"""Most elements of a frame that are found in steps of numpy; frames with more are not plain."""
FEW = 16
"""Below so many frames per step, a loop in plain Python is faster than numpy."""


def sized_step(length: Number, null: int | None) -> Step:
    shape = (LITTLE if length.little else 0) | (SIGNED if length.signed else 0)
    return SIZED, length.width, shape, NO_NULL if null is None else null


@kernel
def step_kernel(
    b: npt.NDArray[np.uint8],
    p: Int64s,
    e: Int64s,
    good: npt.NDArray[np.bool_],
    counts: Int64s,
    program: Int64s,
    places: Int64s,
) -> int:
    """Step over ``counts[i]`` elements of row i, or over all up to its end where that is negative.

    Moves ``p``, writes the counts, and where elements start into ``places``; rows that do not fit get ``good`` False
    and a count of 0. Returns how many elements there are.
    """
    total = 0
    for i in range(len(p)):
        q, end, wanted = p[i], e[i], counts[i]
        first = total
        fits = good[i]
        while fits and ((wanted < 0 and q < end) or total - first < wanted):
            places[total] = q
            total += 1
            for j in range(len(program)):
                operation = program[j, 0]
                if operation == FIXED:
                    q += program[j, 1]
                elif operation == UNLESS:
                    if q < end and b[q] & program[j, 1] == program[j, 2]:
                        fits = False
                else:
                    width, shape = program[j, 1], program[j, 2]
                    if q + width > end:
                        fits = False
                        break
                    value = 0
                    for k in range(width):
                        at = q + width - 1 - k if shape & LITTLE else q + k
                        value = value << 8 | int(b[at])
                    if shape & SIGNED and value >> (8 * width - 1):
                        value -= 1 << (8 * width)
                    q += width
                    if value != program[j, 3]:
                        if value < 0:
                            fits = False
                            break
                        q += value
            if q > end:
                fits = False
        if fits:
            p[i], counts[i] = q, total - first
        else:
            total = first
            good[i], p[i], e[i], counts[i] = False, 0, 0, 0
    return total


def follow(program: list[Step], rows: Rows) -> None:
    """Step over one element in all rows."""
    for operation, a, b, c in program:
        if operation == FIXED:
            rows.advance(a)
        elif operation == UNLESS:
            there = rows.p < rows.e
            octets = rows.source.gather("u1", np.where(there, rows.p, 0))
            rows.require(~there | (octets & a != b))
        else:
            order, sign = "<" if b & LITTLE else ">", "i" if b & SIGNED else "u"
            sizes = rows.number(f"{order}{sign}{a}").astype(np.int64)
            rows.require((sizes >= 0) | (sizes == c))
            rows.advance(np.where(sizes == c, 0, sizes))


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
    most = np.where(counts < 0, left // least + 1, counts)
    steps = int(most.max(initial=0))
    if kernels.COMPILED or int(most.sum()) < FEW * steps:
        return run_kernel(rows, counts, program, int(most.sum()))
    return lockstep(lambda some: follow(program, some), rows, counts)


def run_kernel(rows: Rows, counts: Int64s, program: list[Step], most: int) -> tuple[Int64s, Int64s]:
    places = np.empty(most + len(rows), np.int64)
    operations = np.array(program, np.int64).reshape(-1, 4)
    counts = counts.copy()
    rows.p, rows.e = rows.p.copy(), rows.e.copy()
    total = step_kernel(view(rows.source.buffer), rows.p, rows.e, rows.good, counts, operations, places)
    return places[:total], counts


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
