"""Cutting NATS into operations and finding the parts of plain messages, as kernels.

No kernel calls one of another module: numba would not notice when that changes.
"""
# ruff: noqa: SIM109, SIM110 - comparisons and loops are what numba compiles well

from __future__ import annotations

import numpy as np

from wiredecode.fields.kernel import kernel
from wiredecode.frames.run import Int64s, UInt8s
from wiredecode.protocols.liftbridge.kernels import Int64Rows
from wiredecode.protocols.liftbridge.names import MAGIC

PUB, HPUB, MSG, HMSG = 1, 2, 3, 4
"""Kinds of frames; there are 4 more of each for what a Liftbridge envelope holds."""
OPERATIONS = 4
ASKING, ACK = 2, 3
"""A message that asks for an ack, an ack: so many times 4 are added to the kind; once for other messages."""
SUBJECT, SID, BLOCK, BODY, HEADERS = 0, 2, 4, 5, 6
COLUMNS = 7
"""Of what :func:`cut_operations` finds: start and stop of subject and sid, start of header block and payload, number
of headers."""

MAX_LINE = 64 * 1024
MAX_SUBJECT = 1024
MAX_DIGITS = 9
CR, LF, BLANK, DOT, UNDERLINE = 0x0D, 0x0A, 0x20, 0x2E, 0x5F


def word(name: bytes) -> int:
    """The first four bytes of an operation as a number."""
    return int.from_bytes(name, "big")


W_PUB, W_MSG, W_HPUB, W_HMSG = word(b"PUB "), word(b"MSG "), word(b"HPUB"), word(b"HMSG")
W_RMSG, W_LMSG = word(b"RMSG"), word(b"LMSG")
W_SUB, W_PING, W_PONG, W_OK, W_UNSU = word(b"SUB "), word(b"PING"), word(b"PONG"), word(b"+OK\r"), word(b"UNSU")
W_INFO, W_ERR, W_CONN, W_NECT = word(b"INFO"), word(b"-ERR"), word(b"CONN"), word(b"NECT")
W_ROUTE_SUB, W_ROUTE_UNSUB, W_LEAF_SUB, W_LEAF_UNSUB = word(b"RS+ "), word(b"RS- "), word(b"LS+ "), word(b"LS- ")
W_MAGIC = word(MAGIC)
W_SYSTEM = word(b"$SYS")
VERSION = np.frombuffer(b"NATS/1.0\r\n", np.uint8)
SECRETS = np.frombuffer(b"-tokenzationcookiepi-key", np.uint8)
"""Last six letters of the names of headers that may carry credentials."""
SECRET_LETTERS = 6


@kernel
def word_at(b: UInt8s, p: int) -> int:
    return int(b[p]) << 24 | int(b[p + 1]) << 16 | int(b[p + 2]) << 8 | int(b[p + 3])


@kernel
def is_line(b: UInt8s, p: int, first: int) -> bool:
    """Whether an operation of one line, as all known programs write it, begins here."""
    if first == W_PING or first == W_PONG or first == W_OK or first == W_SUB or first == W_INFO or first == W_ERR:
        return True
    if first == W_CONN:
        return p + 7 <= len(b) and word_at(b, p + 3) == W_NECT
    if first == W_UNSU:
        return p + 6 <= len(b) and b[p + 4] == 0x42 and b[p + 5] == BLANK
    return first == W_ROUTE_SUB or first == W_ROUTE_UNSUB or first == W_LEAF_SUB or first == W_LEAF_UNSUB


@kernel
def tokens(b: UInt8s, p: int, spans: Int64s) -> tuple[int, int]:
    """Read a line from a token on: the place of its LF (-1: there is none), and the number of its tokens.

    ``spans`` gets where up to five tokens start and stop. The number is 0 for a line that is not printable ASCII with
    single blanks and CRLF.
    """
    end, begin, count, plain = len(b), p, 0, True
    while p < end:
        byte = b[p]
        if byte == BLANK or byte == CR:
            plain = plain and p > begin
            if count < 5:
                spans[2 * count] = begin
                spans[2 * count + 1] = p
            count += 1
            begin = p + 1
            if byte == CR:
                if p + 1 < end and b[p + 1] == LF:
                    return p + 1, count if plain else 0
                plain = False
        elif byte == LF:
            return p, 0
        elif byte < BLANK or byte > 0x7E:
            plain = False
        p += 1
    return -1, 0


@kernel
def number(b: UInt8s, p: int, stop: int) -> int:
    """The decimal number ``b[p:stop]``; -1 if it is none."""
    if p >= stop or stop - p > MAX_DIGITS:
        return -1
    value = 0
    while p < stop:
        digit = int(b[p]) - 0x30
        if digit < 0 or digit > 9:
            return -1
        value = 10 * value + digit
        p += 1
    return value


@kernel
def counted(b: UInt8s, p: int, line: int) -> int:
    """The size at the end of the line whose LF is at ``line``; -1 if there is none."""
    if b[line - 1] != CR:
        return -1
    at = line - 2
    while at > p and b[at] != BLANK:
        at -= 1
    return number(b, at + 1, line - 1) if b[at] == BLANK else -1


@kernel
def is_plain(b: UInt8s, p: int, stop: int) -> bool:
    """Whether a subject is no inbox and not of the system account: those are read one by one."""
    if stop - p > MAX_SUBJECT or b[p] == UNDERLINE or (stop - p >= 4 and word_at(b, p) == W_SYSTEM):
        return False
    while p < stop:
        if b[p] == DOT and b[p + 1] == UNDERLINE:
            return False
        p += 1
    return True


@kernel
def is_secret(b: UInt8s, p: int, stop: int) -> bool:
    """Whether a header may carry credentials, by the end of its name."""
    if stop - p < SECRET_LETTERS:
        return False
    for name in range(0, len(SECRETS), SECRET_LETTERS):
        same = 0
        while same < SECRET_LETTERS and b[stop - SECRET_LETTERS + same] | 0x20 == SECRETS[name + same] | 0x20:
            same += 1
        if same == SECRET_LETTERS:
            return True
    return False


@kernel
def header_lines(b: UInt8s, p: int, stop: int, spans: Int64Rows, row: int, keep: bool) -> int:
    """Read a plain header block; return the number of headers, -1 for another block.

    ``spans``, from ``row`` on, gets the ranges of name and value of each, all in that row unless ``keep``.
    """
    stop -= 2
    if stop - p < len(VERSION) or b[stop] != CR or b[stop + 1] != LF:
        return -1
    for index in range(len(VERSION)):
        if b[p + index] != VERSION[index]:
            return -1
    p += len(VERSION)
    count = 0
    while p < stop:
        begin = p
        while p < stop and b[p] > BLANK and b[p] < 0x7F and b[p] != 0x3A:
            p += 1
        if p == begin or p >= stop or b[p] != 0x3A or is_secret(b, begin, p):
            return -1
        spans[row, 0], spans[row, 1] = begin, p
        p += 1
        while p < stop and b[p] == BLANK:
            p += 1
        begin = p
        while p < stop and b[p] >= BLANK and b[p] < 0x7F:
            p += 1
        if p + 2 > stop or b[p] != CR or b[p + 1] != LF:
            return -1
        spans[row, 2], spans[row, 3] = begin, p
        p += 2
        count += 1
        if keep:
            row += 1
    return count


@kernel
def kind_of(b: UInt8s, kind: int, line: int, stop: int, count: int, spans: Int64s, at: Int64s, heads: Int64Rows) -> int:
    """The kind of a message with so many tokens, and its parts in ``at``; 0: it must be read one by one."""
    sizes = 2 if kind == HPUB or kind == HMSG else 1
    names = 2 if kind >= MSG else 1
    if count != names + sizes or not is_plain(b, spans[0], spans[1]):
        return 0
    at[SUBJECT], at[SUBJECT + 1] = spans[0], spans[1]
    at[SID], at[SID + 1] = spans[2], spans[3]
    at[BLOCK], at[BODY], at[HEADERS] = line + 1, line + 1, 0
    if sizes == 2:
        block = number(b, spans[2 * names], spans[2 * names + 1])
        body = line + 1 + block
        if block < len(VERSION) or body > stop:
            return 0
        at[BODY] = body
        at[HEADERS] = header_lines(b, line + 1, body, heads, 0, False)
        if at[HEADERS] < 0:
            return 0
    body = at[BODY]
    wrapped = stop - body >= 4 and word_at(b, body) == W_MAGIC
    return kind + OPERATIONS if wrapped else kind


@kernel
def cut_operations(b: UInt8s, starts: Int64s, kinds: UInt8s, at: Int64Rows, spans: Int64s, heads: Int64Rows) -> int:
    """Cut whole operations off ``b`` until one is cut or unusual; return how many there are.

    Of operation i ``starts[i]`` is the first byte, ``kinds[i]`` the kind, ``at[i]`` the parts; ``starts`` also gets
    the end of the last one. ``spans`` and ``heads`` are used on the way. Of messages with an envelope the kind says
    only that; see :func:`wiredecode.protocols.liftbridge.kernels.judge`.
    """
    n, p, end = 0, 0, len(b)
    starts[0] = 0
    while p + 5 <= end and n < len(kinds):
        first, kind, stop = word_at(b, p), 0, 0
        if is_line(b, p, first):
            line = p + 4 if first != W_OK else p + 3
            while line < end and b[line] != LF and line - p < MAX_LINE:
                line += 1
            if line >= end or b[line] != LF:
                break
            stop = line + 1
        else:
            q = p + 4
            if first == W_PUB or first == W_MSG:
                kind = PUB if first == W_PUB else MSG
            elif first == W_HPUB or first == W_HMSG:
                if b[q] == BLANK:
                    kind = HPUB if first == W_HPUB else HMSG
                    q += 1
            elif first != W_RMSG and first != W_LMSG:
                break
            line, count = tokens(b, q, spans)
            if line < 0:
                break
            size = counted(b, p, line)
            stop = line + 3 + size
            if size < 0 or stop > end or b[stop - 2] != CR or b[stop - 1] != LF:
                break
            if kind:
                kind = kind_of(b, kind, line, stop - 2, count, spans, at[n], heads)
        kinds[n] = kind
        n += 1
        p = stop
        starts[n] = p
    return n


@kernel
def locate_headers(b: UInt8s, kinds: UInt8s, at: Int64Rows, firsts: Int64s, heads: Int64Rows) -> None:
    """Find the headers of NATS messages; those of message i are in ``heads`` from row ``firsts[i]`` on."""
    for i in range(len(kinds)):
        if at[i, HEADERS] > 0 and (kinds[i] <= OPERATIONS or kinds[i] > ACK * OPERATIONS):
            header_lines(b, at[i, BLOCK], at[i, BODY], heads, firsts[i], True)


@kernel
def distinct(b: UInt8s, starts: Int64s, stops: Int64s, table: Int64s, codes: Int64s, firsts: Int64s) -> int:
    """Number different texts in the order in which they come first; return how many there are.

    ``codes[i]`` is the number of text i, ``firsts[k]`` the place of text k. ``table``: a power of two of elements,
    all -1, more than there are texts.
    """
    count, mask, before = 0, len(table) - 1, -1
    for i in range(len(starts)):
        start, size = starts[i], stops[i] - starts[i]
        if before >= 0 and is_same(b, start, size, starts[before], stops[before]):
            codes[i] = codes[before]
            continue
        mixed = size
        for index in range(start, start + size):
            mixed = (mixed ^ b[index]) * 0x01000193 & 0xFFFFFFFF
        slot = (mixed ^ mixed >> 15) & mask
        while table[slot] >= 0:
            known = firsts[table[slot]]
            if is_same(b, start, size, starts[known], stops[known]):
                break
            slot = (slot + 1) & mask
        if table[slot] < 0:
            table[slot] = count
            firsts[count] = i
            count += 1
        codes[i] = table[slot]
        before = i
    return count


@kernel
def is_same(b: UInt8s, start: int, size: int, other: int, stop: int) -> bool:
    if stop - other != size:
        return False
    for index in range(size):
        if b[start + index] != b[other + index]:
            return False
    return True
