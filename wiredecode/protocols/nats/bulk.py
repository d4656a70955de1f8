"""Plain messages, and those with a published Liftbridge message in them, many at a time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from wiredecode.fields.kernel import COMPILED, Scratch, view
from wiredecode.frames.frame import NOTHING
from wiredecode.frames.message import DELIVER, PUBLISH, Coded, Column, HeaderLists, Messages, Slices, Valid
from wiredecode.frames.run import Bulk, Cut, Int64s, Run, RunLayer, UInt8s
from wiredecode.protocols.liftbridge.kernels import (
    CORRELATION,
    INBOX,
    KEY,
    PARTITION,
    PARTS,
    STREAM,
    TIMESTAMP,
    VALUE,
    Int64Rows,
    checksums,
    judge,
    locate,
)
from wiredecode.protocols.liftbridge.names import MAGIC, RAFT_MARK
from wiredecode.protocols.nats import kernels, names
from wiredecode.protocols.nats.cutting import MAX_BODY_BYTES, split
from wiredecode.protocols.nats.kernels import (
    ACK,
    ASKING,
    BLOCK,
    BODY,
    COLUMNS,
    HEADERS,
    HMSG,
    MSG,
    OPERATIONS,
    PUB,
    SID,
    SUBJECT,
)
from wiredecode.protocols.nats.layers import Msg, Pub

if TYPE_CHECKING:
    from wiredecode.protocols.liftbridge.session import Session
    from wiredecode.protocols.nats.conversation import NatsConversation, Subscription

SCRATCH = Scratch()
SMALLEST_FRAME = 5
"""+OK and its line end."""
AT = "at"
PLAIN = re.compile(rb"(?:PUB ([!-~]{1,1024})|MSG ([!-~]{1,1024}) ([!-~]+)) (\d{1,9})\r\n(?!%s)" % re.escape(MAGIC))
"""A message without headers, reply subject and envelope."""
PRIVATE = (b"_", b"$SYS")
"""How inboxes and subjects of the system account begin."""


class NatsBulk(Bulk):
    """Messages without a reply subject: all others are requests, or belong to them."""

    with_layers = (PUB, MSG)
    with_links = tuple(range(OPERATIONS * ASKING + 1, OPERATIONS * (ACK + 1) + 1))
    types = ("", "PUB", "HPUB", "MSG", "HMSG", *["Publish"] * 2 * OPERATIONS, *["Ack"] * OPERATIONS)
    protocols = ("", *["nats"] * OPERATIONS, *["liftbridge"] * 3 * OPERATIONS)

    def cut(self, data: bytes) -> Cut:
        return cut_by_kernel(data) if COMPILED else cut_in_python(data)

    def take(self, conversation: NatsConversation, run: Run, out: Messages | None) -> bool:
        return take(conversation, run, out)

    def layers(self, conversation: NatsConversation, run: Run) -> list[RunLayer]:
        return run_layers(conversation, run)


def cut_by_kernel(data: bytes) -> Cut:
    """All plain operations."""
    most = len(data) // SMALLEST_FRAME
    starts, kinds = SCRATCH.array("starts", most + 1, np.int64), SCRATCH.array("kinds", most, np.uint8)
    at = SCRATCH.array("at", most, np.int64, COLUMNS)
    spans, scratch = np.empty(10, np.int64), np.empty((2, PARTS), np.int64)
    n = kernels.cut_operations(view(data), starts, kinds, at, spans, scratch)
    if (kinds[:n] > OPERATIONS).any():
        judge(view(data), starts[1 : n + 1], kinds[:n], at[:n], BODY, HEADERS, OPERATIONS, scratch)
    return Cut(starts[: n + 1].copy(), kinds[:n].copy(), {AT: at[:n].copy()})


def cut_in_python(data: bytes) -> Cut:
    """Without a compiler the kernel is slower than the row decoder: only what a pattern finds is left to runs."""
    ends = split(data).ends
    rows = [parts_of(data, start, stop) for start, stop in zip([0, *ends], ends, strict=False)]
    columns = np.array(rows, np.int64).reshape(len(ends), 1 + COLUMNS)
    return Cut(np.array([0, *ends], np.int64), columns[:, 0].astype(np.uint8), {AT: columns[:, 1:]})


def parts_of(data: bytes, start: int, stop: int) -> tuple[int, ...]:
    """Kind and parts of an operation, as :func:`kernels.cut_operations` gives them; kind 0 more often."""
    line = PLAIN.match(data, start, stop)
    if line is None or line.end() + int(line[4]) + 2 != stop or not data.startswith(b"\r\n", stop - 2):
        return NOT_PLAIN
    subject = line[1] or line[2]
    if subject.startswith(PRIVATE) or b"._" in subject:
        return NOT_PLAIN
    if line[1]:
        return PUB, *line.span(1), 0, 0, line.end(), line.end(), 0
    return MSG, *line.span(2), *line.span(3), line.end(), line.end(), 0


NOT_PLAIN = (0,) * (1 + COLUMNS)


def take(conversation: NatsConversation, run: Run, out: Messages | None) -> bool:
    """See :meth:`Bulk.take`."""
    said, at = conversation.sides[run.side], run.parts[AT]
    if run.base + run.starts[0] != said.reached or conversation.link not in (None, names.CLIENT):
        return False
    operations, envelopes = (run.kinds - 1) % OPERATIONS + 1, (run.kinds - 1) // OPERATIONS
    published = bool(operations[0] < MSG)
    if bool((operations < MSG).all()) is not published or bool((operations < MSG).any()) is not published:
        return False
    client = conversation.client
    if client is None:
        if operations[0] == HMSG and conversation.link is None:
            return False
        client = run.side if published else 1 - run.side
    state = liftbridge_session(conversation)
    asking = int((envelopes == ASKING).sum())
    codes, subjects = distinct(run.buffer, at[:, SUBJECT], at[:, SUBJECT + 1])
    if not are_plain(conversation, state, codes, subjects, envelopes):
        return False
    if not state.has_room(asking) or (out is None and envelopes.max() >= ASKING):
        return False
    if published:
        most = conversation.max_payload or MAX_BODY_BYTES
        if conversation.verbose is not None or int((run.stops - 2 - at[:, BLOCK]).max()) > most:
            return False
    else:
        counts = deliveries(conversation, run)
        if counts is None:
            return False
        for subscription, count in counts:
            subscription.delivered += count
    conversation.client, run.dialect = client, conversation.link
    run.sender = conversation.sender(run)
    said.reached = int(run.base + run.stops[-1])
    if published and run.side == client and envelopes.any():
        remember(state, run, codes, subjects, envelopes > 0)
    if out is not None:
        found, heads = parts_of_messages(run, envelopes)
        if asking:
            state.ask_for_acks(run, *wanted_acks(run.buffer, found))
        add_rows(run, codes, subjects, envelopes, found, heads, PUBLISH if published else DELIVER, out)
    return True


def liftbridge_session(conversation: NatsConversation) -> Session:
    return cast("Session", conversation.memory.carried.session("liftbridge"))


def distinct(buffer: bytes, starts: Int64s, stops: Int64s) -> tuple[Int64s, list[str]]:
    """Number different texts in the order in which they come first: the number of each, and the texts."""
    if not COMPILED:
        known: dict[bytes, int] = {}
        spans = zip(starts.tolist(), stops.tolist(), strict=True)
        numbers = [known.setdefault(buffer[start:stop], len(known)) for start, stop in spans]
        return np.array(numbers, np.int64), [text.decode("ascii") for text in known]
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
    codes, firsts = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
    table = np.full(1 << (2 * len(starts)).bit_length(), -1, np.int64)
    count = kernels.distinct(view(buffer), starts, stops, table, codes, firsts)
    spans = zip(starts[firsts[:count]].tolist(), stops[firsts[:count]].tolist(), strict=True)
    return codes, [buffer[start:stop].decode("ascii") for start, stop in spans]


def are_plain(
    conversation: NatsConversation, state: Session, codes: Int64s, subjects: list[str], envelopes: UInt8s
) -> bool:
    """Whether messages on these subjects answer no request, and their envelopes are what the subjects ask for."""
    requests, dials = conversation.memory.requests, state.raft.dials
    acks = np.bincount(codes[envelopes == ACK], minlength=len(subjects)).tolist()
    messages = np.bincount(codes[(envelopes > 0) & (envelopes != ACK)], minlength=len(subjects)).tolist()
    for subject, ack, message in zip(subjects, acks, messages, strict=True):
        if subject in requests or subject in dials or RAFT_MARK in subject or subject.startswith("$GR."):
            return False
        if ack or message:
            meaning = state.meaning(subject)
            if meaning.facts or (message and (meaning.message_type or meaning.tail)):
                return False
            if ack and meaning.message_type not in (None, 1):
                return False
    return True


def deliveries(conversation: NatsConversation, run: Run) -> list[tuple[Subscription, int]] | None:
    """The subscriptions that messages were delivered to, and how many; None if that is worth telling."""
    at = run.parts[AT]
    codes, sids = distinct(run.buffer, at[:, SID], at[:, SID + 1])
    told = []
    for sid, count in zip(sids, np.bincount(codes).tolist(), strict=True):
        subscription = conversation.subscriptions.get(sid)
        if subscription is None:
            if conversation.whole and conversation.sides[1 - run.side].whole:
                return None
        elif subscription.delivered < subscription.most <= subscription.delivered + count:
            return None
        else:
            told.append((subscription, count))
    return told


def remember(state: Session, run: Run, codes: Int64s, subjects: list[str], wrapped: npt.NDArray[np.bool_]) -> None:
    """What a client published: servers hand on copies of it."""
    starts, stops = run.parts[AT][wrapped, BODY], run.stops[wrapped] - 2
    told = np.empty(len(starts), np.int64)
    checksums(view(run.buffer), starts, stops, told)
    state.publications.add_run(subjects, codes[wrapped], stops - starts, told, run.ids[wrapped])


# Columns.


def run_layers(conversation: NatsConversation, run: Run) -> list[RunLayer]:
    """See :meth:`Bulk.layers`."""
    told = []
    for kind, layer in ((PUB, Pub), (MSG, Msg)):
        rows = np.flatnonzero(run.kinds == kind)
        codes, generated = np.zeros(len(rows), np.int64), [NOTHING]
        if kind == MSG and len(rows):
            at = run.parts[AT][rows]
            codes, sids = distinct(run.buffer, at[:, SID], at[:, SID + 1])
            known = [conversation.subscriptions.get(sid) for sid in sids]
            generated = [NOTHING if each is None else each.generated for each in known]
        if len(rows):
            told.append(RunLayer(layer, rows, codes, generated))
    return told


# Rows.


def parts_of_messages(run: Run, envelopes: UInt8s) -> tuple[Int64Rows, Int64Rows]:
    """Parts of published messages, a row per frame (none if there are no such messages), and a row per header."""
    at, buffer = run.parts[AT], view(run.buffer)
    counts = at[:, HEADERS]
    heads = np.empty((int(counts.sum()), 4), np.int64)
    found = np.empty((0, PARTS), np.int64)
    firsts = np.cumsum(counts) - counts
    wrapped = (envelopes > 0) & (envelopes < ACK)
    if wrapped.any():
        found, spans = np.empty((len(run), PARTS), np.int64), heads if len(heads) else np.empty((1, 4), np.int64)
        locate(buffer, run.stops, wrapped, np.ascontiguousarray(at[:, BODY]), firsts, found, spans)
    if not wrapped.all() and len(heads):
        kernels.locate_headers(buffer, run.kinds, at, firsts, heads)
    return found, heads


def wanted_acks(buffer: bytes, found: Int64Rows) -> tuple[Int64s, list[bytes]]:
    """The messages that ask for acks: their rows, and subject and correlation id, which follow one another."""
    rows = np.flatnonzero(found[:, INBOX] >= 0)
    starts, stops = found[rows, INBOX], np.maximum(found[rows, INBOX + 1], found[rows, CORRELATION + 1])
    spans = zip(starts.tolist(), stops.tolist(), strict=True)
    return rows, [buffer[start:stop] for start, stop in spans]


def add_rows(
    run: Run,
    codes: Int64s,
    subjects: list[str],
    envelopes: UInt8s,
    found: Int64Rows,
    heads: Int64Rows,
    operation: str,
    out: Messages,
) -> None:
    """One row per message."""
    at, buffer = run.parts[AT], run.buffer
    columns: dict[str, Column] = {"index": 0, "operation": operation}
    bodies, ends = at[:, BODY].copy(), run.stops - 2
    if len(heads) or (run.kinds % 2 == 0).any():
        columns["headers"] = header_lists(run, envelopes, heads)
    if len(found):
        codes, subjects = distinct(buffer, *topics(at, found))
        columns |= of_envelopes(buffer, found)
        wrapped = (envelopes > 0) & (envelopes < ACK)
        bodies = np.where(wrapped, np.maximum(found[:, VALUE], 0), bodies)
        ends = np.where(wrapped, np.maximum(found[:, VALUE + 1], 0), ends)
    columns["topic"] = Coded(codes.astype(np.int32), subjects)
    columns["body"] = Slices(buffer, bodies, ends)
    out.add_run(run, np.arange(len(run)), **columns)


def topics(at: Int64Rows, found: Int64Rows) -> tuple[Int64s, Int64s]:
    """Where the stream that a published message names stands, or else the subject."""
    named = found[:, STREAM] >= 0
    starts = np.where(named, found[:, STREAM], at[:, SUBJECT])
    return starts, np.where(named, found[:, STREAM + 1], at[:, SUBJECT + 1])


def of_envelopes(buffer: bytes, found: Int64Rows) -> dict[str, Column]:
    """What only published messages of Liftbridge have; their offset is what the publisher expects, so no column."""
    return {
        "key": Slices(buffer, found[:, KEY].copy(), found[:, KEY + 1].copy()),
        "partition": Valid(found[:, PARTITION].copy(), found[:, PARTITION] >= 0),
        "timestamp": Valid(found[:, TIMESTAMP].copy(), found[:, TIMESTAMP] >= 0),
    }


def header_lists(run: Run, envelopes: UInt8s, heads: Int64Rows) -> HeaderLists:
    """Headers of the NATS message, or of the Liftbridge message in it."""
    counts = run.parts[AT][:, HEADERS]
    stops = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=stops[1:])
    keys, values = (Slices(run.buffer, heads[:, low].copy(), heads[:, low + 1].copy()) for low in (0, 2))
    plain = (envelopes == 0) | (envelopes == ACK)
    return HeaderLists(stops, keys, values, (counts > 0) | (plain & (run.kinds % 2 == 0)))
