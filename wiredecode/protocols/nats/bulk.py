"""Reads plain messages in blocks."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from wiredecode.arrays import Bools, Int64s, UInt8s
from wiredecode.fields.credentials import TOKEN_HEAD, is_secret_pair
from wiredecode.fields.textfields import MAX_DIGITS
from wiredecode.frames.block import BlockMessages, Bulk, BulkSplit, FrameBlock, Samples
from wiredecode.frames.frame import NOTHING
from wiredecode.frames.message import DELIVER, PUBLISH, Coded, Column, HeaderLists, Messages, Slices
from wiredecode.protocols.nats import conversation_memory as memory
from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.conversation import NatsConversation
from wiredecode.protocols.nats.conversation_memory import NatsSubscription
from wiredecode.protocols.nats.evidence import MAX_BODY_BYTES
from wiredecode.protocols.nats.layers_decoders import GRAMMARS
from wiredecode.protocols.registry import carried_by

PUB, HPUB, MSG, HMSG = 1, 2, 3, 4
"""Kinds of frames."""
SUBJECT, SID, BLOCK, BODY, HEADERS = 0, 2, 4, 5, 6
COLUMNS = 7
"""The parts of a message: start and stop of subject and sid, start of header block and payload, number of headers."""

MAX_LINE = 64 * 1024
CR, LF, BLANK = b"\r\n "


def words(*names: bytes) -> npt.NDArray[np.uint32]:
    """The first four bytes of operations as numbers."""
    return np.array([int.from_bytes(name, "big") for name in names], np.uint32)


WITH_BODY = words(b"PUB ", b"MSG ", b"HPUB", b"HMSG", b"RMSG", b"LMSG")
ONE_LINE = words(b"SUB ", b"PING", b"PONG", b"+OK\r", b"INFO", b"-ERR", b"RS+ ", b"RS- ", b"LS+ ", b"LS- ")
LONG_NAMES = [(words(b"UNSU"), 2, words(b"SUB ")), (words(b"CONN"), 3, words(b"NECT"))]
"""Longer ones: their first four bytes, and four more from where on. At other lines cutting stops."""

PLAIN = re.compile(rb"(H)?(?:PUB ([!-~]{1,1024})|MSG ([!-~]{1,1024}) ([!-~]+)) (?(1)(\d{1,9}) )")
"""A plain message up to its size."""
PRIVATE = re.compile(memory.PRIVATE.pattern.encode())
"""Messages on these subjects are read singly."""
VERSION, SEQUENCE_LINE = b"NATS/1.0\r\n", b"\nNats-Sequence:"
BLOCK_LINES = re.compile(rb"NATS/1\.0\r\n(?:[!-9;-~]+:[ -~]*\r\n)*\r\n")
HEADER = re.compile(rb"([!-9;-~]+): *([ -~]*)\r\n")


class WordBuffer:
    """A buffer, its bytes, and four of them at a time as a number."""

    def __init__(self, buffer: bytes) -> None:
        self.buffer, self.octets = buffer, np.frombuffer(buffer, np.uint8)
        self._words = np.ndarray((max(len(buffer) - 3, 0),), ">u4", buffer, strides=(1,))

    def words(self, positions: Int64s) -> npt.NDArray[np.uint32]:
        """The four bytes at each place; 0 where the buffer has fewer."""
        if not len(self._words):
            return np.zeros(len(positions), np.uint32)
        return self._words[positions].astype(np.uint32)


class LineOperations(NamedTuple):
    """Operations that begin on a line, for the lines that begin as an operation does."""

    starts: Int64s
    ends: Int64s
    """Where the LF of the line is."""
    stops: Int64s
    """End of the operation; -1: it is unusual, or not whole."""
    digits: Int64s
    """Where the size of the body starts."""


def lines(source: WordBuffer) -> LineOperations:
    octets = source.octets
    ends = np.flatnonzero(octets == LF)
    starts = np.concatenate(([0], ends[:-1] + 1))[: len(ends)]
    last = max(len(octets) - 4, 0)
    firsts = source.words(np.minimum(starts, last))
    counted, single = np.isin(firsts, WITH_BODY), np.isin(firsts, ONE_LINE)
    for first, at, more in LONG_NAMES:
        rows = np.flatnonzero(firsts == first)
        single[rows] = source.words(np.minimum(starts[rows] + at, last)) == more
    counted &= (firsts & 0xFF == BLANK) | (octets[np.minimum(starts + 4, len(octets) - 1)] == BLANK)
    operations = np.flatnonzero((counted | single) & (ends - starts >= 4))
    starts, ends, counted = starts[operations], ends[operations], counted[operations]
    sizes, digits = sizes_of(source, ends)
    behind = np.where(counted, ends + 3 + sizes, ends + 1)
    whole = np.where(counted, (sizes >= 0) & (behind <= len(octets)), ends - starts < MAX_LINE)
    behind = np.where(whole, behind, 2)
    whole &= (octets[behind - 1] == LF) & (~counted | (octets[behind - 2] == CR))
    return LineOperations(starts, ends, np.where(whole, behind, -1), digits)


def sizes_of(source: WordBuffer, ends: Int64s) -> tuple[Int64s, Int64s]:
    """The number at the end of lines, -1 where there is none, and where it starts."""
    octets = source.octets
    sizes, at = np.zeros(len(ends), np.int64), ends - 2
    rows, scale = np.flatnonzero(octets[ends - 1] == CR), 1
    for _ in range(MAX_DIGITS):
        digits = octets[at[rows]] - np.uint8(ord("0"))
        rows, digits = rows[digits < 10], digits[digits < 10]
        if not len(rows):
            break
        sizes[rows] += digits.astype(np.int64) * scale
        at[rows] -= 1
        scale *= 10
    there = (at < ends - 2) & (octets[at] == BLANK)
    return np.where(there, sizes, -1), at + 1


def chain(lines: LineOperations) -> Int64s:
    """The lines on which operations begin, as far as each follows the one before."""
    if not len(lines.starts) or lines.starts[0] != 0:
        return np.empty(0, np.int64)
    direct = lines.starts[1:] == lines.stops[:-1]
    if direct.all():  # no line inside a body begins as an operation does
        return np.arange(len(lines.starts) - (lines.stops[-1] <= 0))
    following = np.searchsorted(lines.starts, lines.stops)
    begins = lines.starts[np.minimum(following, len(lines.starts) - 1)] == lines.stops
    steps = np.where(begins, following, -1).tolist()
    stops, at, passed = lines.stops.tolist(), 0, []
    while at >= 0 and stops[at] > 0:
        passed.append(at)
        at = steps[at]
    return np.array(passed, np.int64)


@lru_cache(maxsize=65_536)
def parts_of(head: bytes) -> tuple[int, ...]:
    """Kind, bounds of subject and sid, size of headers, of the words before a size. Kind 0: decode it one by one."""
    match = PLAIN.fullmatch(head)
    if match is None:
        return NOT_PLAIN
    published = match[2] is not None
    subject = 2 if published else 3
    if PRIVATE.match(match[subject]):
        return NOT_PLAIN
    kind = (PUB if published else MSG) + (match[1] is not None)
    sid = (0, 0) if published else match.span(4)
    return kind, *match.span(subject), *sid, int(match[5] or 0)


NOT_PLAIN = (0,) * 6


def operations(source: WordBuffer) -> tuple[Int64s, UInt8s, Int64s, Int64s]:
    """Cut whole operations off the front until one is unusual.

    Their starts, and the end of the last one; their kinds; their parts, and the number of the text before
    their size: if that is the same, so are subject and sid.
    """
    split_lines = lines(source)
    chosen = chain(split_lines)
    count, buffer = len(chosen), source.buffer
    starts, ends, stops, digits = (column[chosen] for column in split_lines)
    bounds = np.concatenate(([0], stops)).astype(np.int64)
    texts = [buffer[a:b] for a, b in zip(starts.tolist(), digits.tolist(), strict=True)]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    heads = np.fromiter(map(numbers.__getitem__, texts), np.int64, count)
    parts = np.array([*map(parts_of, numbers)], np.int64).reshape(-1, 6)[heads]
    kinds, at = parts[:, 0].copy(), np.zeros((count, COLUMNS), np.int64)
    at[:, :BLOCK] = parts[:, 1:5] + starts[:, None]
    at[:, BLOCK], at[:, BODY] = ends + 1, ends + 1 + parts[:, 5]
    body = kinds != 0
    body[body] = begins_with(source, at[body, BODY], stops[body], names.PAYLOAD_VERSION[:4])
    kinds[body & np.isin(kinds, (PUB, MSG))] = 0  # headers that lost the H before them are read alone
    kinds[(kinds != 0) & begins_with(source, at[:, BODY], stops, TOKEN_HEAD)] = 0  # and what may be a JWT
    with_block = np.flatnonzero((kinds == HPUB) | (kinds == HMSG))
    for row, begin, body, stop in zip(
        with_block.tolist(), *(each[with_block].tolist() for each in (at[:, BLOCK], at[:, BODY], stops)), strict=True
    ):
        headers = count_headers(buffer, begin, body) if body <= stop - 2 else -1
        if headers < 0:
            kinds[row] = 0
        else:
            at[row, HEADERS] = headers
    return bounds, kinds.astype(np.uint8), at, heads


def count_headers(buffer: bytes, start: int, stop: int) -> int:
    """The headers in a plain block; -1 for another one, and where one may carry credentials or a sequence."""
    if BLOCK_LINES.fullmatch(buffer, start, stop) is None or buffer.find(SEQUENCE_LINE, start, stop) >= 0:
        return -1
    headers = HEADER.findall(buffer, start + len(VERSION), stop)
    if any(is_secret_pair(name.decode(), value.decode()) for name, value in headers):
        return -1
    return len(headers)


def header_spans(buffer: bytes, starts: Int64s, stops: Int64s) -> Int64s:
    """Start and stop of name and value of each header of plain blocks, a row per header."""
    find, rows = HEADER.finditer, []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        rows += [(*match.span(1), *match.span(2)) for match in find(buffer, start + len(VERSION), stop)]
    return np.array(rows, np.int64).reshape(-1, 4)


def begins_with(source: WordBuffer, starts: Int64s, stops: Int64s, prefix: bytes) -> Bools:
    """Whether payloads of at least four bytes begin with a prefix of up to four."""
    long = stops - starts >= 4
    matches: Bools = long & (source.words(np.where(long, starts, 0)) >> 8 * (4 - len(prefix)) == int.from_bytes(prefix))
    return matches


AT, HEAD = "at", "head"
"""Parts of a cut, see :func:`operations`."""


class NatsBulk(Bulk):
    """Messages without a reply subject: all others are requests, or belong to them. Carried ones are read alone."""

    types = ("", "PUB", "HPUB", "MSG", "HMSG")

    def __init__(self) -> None:
        self.carried = [protocol.prefix for protocol in carried_by("nats")]

    def split(self, data: bytes) -> BulkSplit:
        source = WordBuffer(data)
        starts, kinds, at, heads = operations(source)
        for prefix in self.carried:
            kinds[begins_with(source, at[:, BODY], starts[1:] - 2, prefix)] = 0
        return BulkSplit(starts, kinds, {AT: at, HEAD: heads})

    def samples(self, conversation: NatsConversation, block: FrameBlock) -> Samples | None:
        """See `Bulk.samples`; not of frames with headers, which differ in more than their size."""
        if (block.kinds != block.kinds[0]).any() or block.kinds[0] in (HPUB, HMSG):
            return None
        _, firsts, which = np.unique(block.parts[HEAD], return_index=True, return_inverse=True)
        name, buffer = self.types[int(block.kinds[0])], block.buffer
        values, generated = [], []
        for begin, end, sid_begin, sid_end in block.parts[AT][firsts, :BLOCK].tolist():
            sample = {"operation": name, "subject": buffer[begin:end].decode()}
            subscription = None
            if sid_end > sid_begin:
                sample["sid"] = buffer[sid_begin:sid_end].decode()
                subscription = conversation.subscriptions.get(sample["sid"])
            values.append(sample)
            generated.append(NOTHING if subscription is None else subscription.generated)
        sizes = block.stops - 2 - block.parts[AT][:, BODY]
        return Samples(GRAMMARS[names.CLIENT][name], values, generated, which, "size", sizes)

    def notes(self, block: FrameBlock) -> Iterable[tuple[str, int]] | None:
        if block.kinds[0] >= MSG:
            return None
        codes, subjects = distinct(block, SUBJECT)
        bodies = zip(codes.tolist(), block.parts[AT][:, BODY].tolist(), (block.stops - 2).tolist(), strict=True)
        buffer = memoryview(block.buffer)
        return [(subjects[code], crc32c(buffer[begin:end])) for code, begin, end in bodies]

    def decode(self, conversation: NatsConversation, block: FrameBlock, out: Messages | None) -> bool:
        side = conversation.sides[block.side]
        if block.base + block.starts[0] != side.reached or conversation.link not in (None, names.CLIENT):
            return False
        published = bool(block.kinds[0] < MSG)
        if ((block.kinds < MSG) != published).any():
            return False
        client = conversation.client
        if client is None:
            if block.kinds[0] == HMSG and conversation.link is None:
                return False
            client = block.side if published else 1 - block.side
        codes, subjects = distinct(block, SUBJECT)
        if not are_plain(conversation, subjects):
            return False
        if not (fits(conversation, block) if published else count_deliveries(conversation, block)):
            return False
        conversation.client = client
        block.sender = conversation.sender(block)
        side.reached = int(block.base + block.stops[-1])
        if out is not None:
            add_rows(block, codes, subjects, PUBLISH if published else DELIVER, out)
        return True


def distinct(block: FrameBlock, part: int) -> tuple[Int64s, list[str]]:
    """Number different texts: the number of each, and the texts."""
    _, firsts, which = np.unique(block.parts[HEAD], return_index=True, return_inverse=True)
    numbered: dict[bytes, int] = {}
    spans = block.parts[AT][firsts, part : part + 2].tolist()
    numbers = [numbered.setdefault(block.buffer[start:stop], len(numbered)) for start, stop in spans]
    return np.array(numbers, np.int64)[which], [text.decode("ascii") for text in numbered]


def are_plain(conversation: NatsConversation, subjects: list[str]) -> bool:
    """Whether messages on these subjects answer no request, and are no carried protocol's by their subject."""
    requests = conversation.memory.requests
    asked = requests and any(subject in requests for subject in subjects)
    answered = any(subject.startswith("$GR.") for subject in subjects)
    return not (asked or answered or conversation.memory.carried.on_any(subjects))


def fits(conversation: NatsConversation, block: FrameBlock) -> bool:
    """Whether these publishes ask for no answer, and none is larger than the server accepts."""
    most = conversation.max_payload or MAX_BODY_BYTES
    return conversation.verbose is None and int((block.stops - 2 - block.parts[AT][:, BLOCK]).max()) <= most


def count_deliveries(conversation: NatsConversation, block: FrameBlock) -> bool:
    """Count them for their subscriptions; False: something about that is worth telling, and nothing was counted."""
    codes, sids = distinct(block, SID)
    counts: list[tuple[NatsSubscription, int]] = []
    for sid, count in zip(sids, np.bincount(codes).tolist(), strict=True):
        subscription = conversation.subscriptions.get(sid)
        if subscription is None:
            if conversation.whole and conversation.sides[1 - block.side].whole:
                return False
        elif subscription.delivered < subscription.most <= subscription.delivered + count:
            return False
        else:
            counts.append((subscription, count))
    for subscription, count in counts:
        subscription.delivered += count
    return True


def add_rows(block: FrameBlock, codes: Int64s, subjects: list[str], operation: str, out: Messages) -> None:
    """One row per message."""
    at = block.parts[AT]
    columns: dict[str, Column] = {"index": 0, "operation": operation}
    if (block.kinds % 2 == 0).any():
        columns["headers"] = header_lists(block.buffer, at, block.kinds)
    columns["topic"] = Coded(codes.astype(np.int32), subjects)
    columns["body"] = Slices(block.buffer, at[:, BODY].copy(), block.stops - 2)
    out.add_part(BlockMessages(block, np.arange(len(block)), columns))


def header_lists(buffer: bytes, at: Int64s, kinds: UInt8s) -> HeaderLists:
    """Headers of each message; null where it can have none."""
    some = at[kinds % 2 == 0]
    spans = header_spans(buffer, some[:, BLOCK], some[:, BODY])
    stops = np.concatenate(([0], np.cumsum(at[:, HEADERS])))
    keys, values = (Slices(buffer, spans[:, low].copy(), spans[:, low + 1].copy()) for low in (0, 2))
    return HeaderLists(stops, keys, values, kinds % 2 == 0)
