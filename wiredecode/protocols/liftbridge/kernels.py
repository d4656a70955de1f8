"""Envelopes of published messages and their acks, as kernels read them: where their parts stand."""
# ruff: noqa: SIM110 - comparisons and loops are what numba compiles well

from __future__ import annotations

from typing import Any

import crc32c
import numpy as np
import numpy.typing as npt

from wiredecode.fields.kernel import COMPILED, kernel
from wiredecode.frames.run import Int64s, UInt8s
from wiredecode.protocols.liftbridge.kinds import CRC_FLAG, LONG_HEADER, SHORT_HEADER

Int64Rows = npt.NDArray[np.int64]
"""Two dimensions."""

KEY, VALUE, STREAM, PARTITION, TIMESTAMP, INBOX, CORRELATION = 0, 2, 4, 6, 7, 8, 10
PARTS = 12
"""Columns of what :func:`published` finds: start and stop of key, value and stream; partition, timestamp; start and
stop of the subject for the ack, if one is wanted, and of the correlation id."""
NO_ACK = 2
MAX_ID = 500
"""Longest subject for acks and longest correlation id that are plain."""
CASTAGNOLI = 0x82F63B78
"""Polynomial of CRC-32C, reflected (RFC 3720, appendix B.4)."""


def checksum_tables() -> npt.NDArray[np.uint32]:
    """Of 8 bytes at a time: ``[k, x]`` is what byte x adds when k more bytes follow it."""
    tables = np.empty((8, 256), np.uint32)
    tables[0] = np.arange(256)
    for _ in range(8):
        tables[0] = tables[0] >> 1 ^ np.where(tables[0] & 1, np.uint32(CASTAGNOLI), np.uint32(0))
    for k in range(1, 8):
        tables[k] = tables[k - 1] >> 8 ^ tables[0][tables[k - 1] & 0xFF]
    return tables


TABLES = checksum_tables()


@kernel
def sliced_checksum(b: UInt8s, p: int, stop: int) -> int:
    """CRC-32C of ``b[p:stop]``."""
    crc = np.uint32(0xFFFFFFFF)
    while p + 8 <= stop:
        crc ^= np.uint32(b[p]) | np.uint32(b[p + 1]) << 8 | np.uint32(b[p + 2]) << 16 | np.uint32(b[p + 3]) << 24
        crc = np.uint32(
            TABLES[7, crc & 0xFF]
            ^ TABLES[6, crc >> 8 & 0xFF]
            ^ TABLES[5, crc >> 16 & 0xFF]
            ^ TABLES[4, crc >> 24]
            ^ TABLES[3, b[p + 4]]
            ^ TABLES[2, b[p + 5]]
            ^ TABLES[1, b[p + 6]]
            ^ TABLES[0, b[p + 7]]
        )
        p += 8
    while p < stop:
        crc = np.uint32(TABLES[0, (crc ^ b[p]) & 0xFF] ^ crc >> 8)
        p += 1
    return int(crc ^ np.uint32(0xFFFFFFFF))


def library_checksum(b: Any, p: int, stop: int) -> int:
    """The same without a compiler."""
    return crc32c.crc32c(b[p:stop])


checksum = sliced_checksum if COMPILED else library_checksum


@kernel
def checksums(b: UInt8s, starts: Int64s, stops: Int64s, told: Int64s) -> None:
    """CRC-32C of each stretch, in ``told``."""
    for i in range(len(starts)):
        told[i] = checksum(b, starts[i], stops[i])


@kernel
def varint(b: UInt8s, p: int, stop: int) -> tuple[int, int]:
    """A number of up to 63 bits and the position after it; the position is -1 if there is none."""
    value, shift = 0, 0
    while p < stop and shift < 63:
        byte = int(b[p])
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, p
        shift += 7
    return 0, -1


@kernel
def ascii_only(b: UInt8s, p: int, stop: int) -> bool:
    while p < stop:
        if b[p] >= 0x80:
            return False
        p += 1
    return True


@kernel
def map_entry(b: UInt8s, p: int, stop: int, spans: Int64Rows, row: int) -> bool:
    """Read a header; ``spans[row]`` gets the range of its name and that of its value. Whether it is plain."""
    at, to = p, p
    if p < stop and b[p] == 0x0A:
        size, at = varint(b, p + 1, stop)
        to = at + size
        if at < 0 or to > stop or not ascii_only(b, at, to):
            return False
        p = to
    spans[row, 0], spans[row, 1] = at, to
    at, to = p, p
    if p < stop and b[p] == 0x12:
        size, at = varint(b, p + 1, stop)
        to = at + size
        if at < 0:
            return False
    spans[row, 2], spans[row, 3] = at, to
    return to == stop


@kernel
def body_of(b: UInt8s, p: int, stop: int, message_type: int, checked: bool) -> int:
    """Where the message of a plain envelope of this type starts; -1: it is another envelope.

    ``checked``: its CRC is known to be right.
    """
    if p + SHORT_HEADER > stop or b[p + 4] != 0 or b[p + 7] != message_type:
        return -1
    body = p + b[p + 5]
    if b[p + 5] == LONG_HEADER and b[p + 6] == CRC_FLAG and body <= stop:
        stored = int(b[p + 8]) << 24 | int(b[p + 9]) << 16 | int(b[p + 10]) << 8 | int(b[p + 11])
        return body if checked or checksum(b, body, stop) == stored else -1
    return body if b[p + 5] == SHORT_HEADER and b[p + 6] == 0 else -1


@kernel
def is_minus_one(b: UInt8s, p: int, stop: int) -> bool:
    """Whether the number -1 comes next, in ten bytes."""
    if p + 10 > stop or b[p + 9] != 1:
        return False
    for index in range(p, p + 9):
        if b[index] != 0xFF:
            return False
    return True


@kernel
def published(b: UInt8s, p: int, stop: int, found: Int64s, spans: Int64Rows, row: int, keep: bool) -> int:
    """Read the envelope of a plain published message; return the number of its headers, -1 if it is another one.

    ``found`` gets its parts (-1: left out); ``spans``, from ``row`` on, its headers, all in that row unless ``keep``,
    which is for messages that were read before.
    """
    p = body_of(b, p, stop, 0, keep)
    if p < 0:
        return -1
    for part in range(PARTS):
        found[part] = -1
    headers, last, policy = 0, 0, 0
    while p < stop:
        tag, number = int(b[p]), int(b[p]) >> 3
        if number > 12 or number < last or (number == last and number != 9):
            return -1
        last = number
        if number == 1 and is_minus_one(b, p + 1, stop):  # any offset will do
            value, at = 0, p + 11
        else:
            value, at = varint(b, p + 1, stop)
        if at < 0:
            return -1
        if number == 1 or number == 4 or number == 6 or number == 12:
            if tag & 7 != 0 or (value >> 31 != 0 and number > 4):
                return -1
            p = at
            if number == 4:
                found[TIMESTAMP] = value
            elif number == 6:
                found[PARTITION] = value
            elif number == 12:
                policy = value
            continue
        p = at + value
        if tag & 7 != 2 or number == 0 or p > stop:
            return -1
        if number == 9:
            if not map_entry(b, at, p, spans, row):
                return -1
            headers += 1
            if keep:
                row += 1
        elif number > 3 and not ascii_only(b, at, p):
            return -1
        elif number < 6:
            if number < 4 or value > 0:
                part = KEY if number == 2 else VALUE if number == 3 else STREAM
                found[part], found[part + 1] = at, p
        elif number >= 10:
            if value > MAX_ID or b[at - 1] == 0:  # none, or a length with more bytes than it needs
                return -1
            part = INBOX if number == 10 else CORRELATION
            found[part], found[part + 1] = at, p
    if policy == NO_ACK:
        found[INBOX] = found[INBOX + 1] = -1
    return headers


@kernel
def is_ack(b: UInt8s, p: int, stop: int) -> bool:
    """Whether an envelope is a plain ack that does not refuse the message."""
    p = body_of(b, p, stop, 1, False)
    last = 0
    while 0 <= p < stop:
        tag, number = int(b[p]), int(b[p]) >> 3
        value, at = varint(b, p + 1, stop)
        if number > 10 or number <= last or at < 0 or (number == 10 and value != 0):
            return False
        last, p = number, at
        if number == 4 or number >= 7:
            if tag & 7 != 0 or (number == 7 and value >> 31 != 0):
                return False
        else:
            p = at + value
            if tag & 7 != 2 or p > stop or not ascii_only(b, at, p):
                return False
    return p == stop


@kernel
def judge(
    b: UInt8s, stops: Int64s, kinds: UInt8s, at: Int64Rows, body: int, headers: int, step: int, scratch: Int64Rows
) -> None:
    """Tell what the envelopes of messages hold whose kind says only that there is one: it is above ``step``.

    Of message i the envelope is from ``at[i, body]`` up to the CRLF before ``stops[i]``; ``kinds[i]`` grows by 0 for a
    message, ``step`` for one that asks for an ack, twice as much for an ack; 0: it must be read one by one.
    ``at[i, headers]`` gets the number of headers of a message. ``scratch`` has two rows.
    """
    for i in range(len(kinds)):
        if kinds[i] <= step:
            continue
        start, stop = at[i, body], stops[i] - 2
        if is_ack(b, start, stop):
            kinds[i] += 2 * step
            continue
        count = published(b, start, stop, scratch[0], scratch, 1, False)
        if count < 0:
            kinds[i] = 0
            continue
        at[i, headers] = count
        if scratch[0, INBOX] >= 0:
            kinds[i] += step


@kernel
def locate(
    b: UInt8s,
    stops: Int64s,
    wrapped: npt.NDArray[np.bool_],
    bodies: Int64s,
    firsts: Int64s,
    found: Int64Rows,
    heads: Int64Rows,
) -> None:
    """Find the parts of published messages, where ``wrapped``; headers of message i in ``heads`` from ``firsts[i]``."""
    for i in range(len(wrapped)):
        if wrapped[i]:
            published(b, bodies[i], stops[i] - 2, found[i], heads, firsts[i], True)
        else:
            for part in range(PARTS):
                found[i, part] = -1
