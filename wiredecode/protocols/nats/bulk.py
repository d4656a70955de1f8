"""Plain messages, and those with a plain message of a carried protocol in them, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from wiredecode.arrays import Int64s, UInt8s
from wiredecode.fields.bulk import Source
from wiredecode.frames.block import BlockMessages, Bulk, Cut, FrameBlock
from wiredecode.frames.message import DELIVER, PUBLISH, Coded, Column, HeaderLists, Messages, Slices
from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.bulk_lines import (
    BLOCK,
    BODY,
    HEADERS,
    HMSG,
    MSG,
    OPERATIONS,
    SID,
    SUBJECT,
    begins_with,
    header_spans,
    operations,
)
from wiredecode.protocols.nats.evidence import MAX_BODY_BYTES
from wiredecode.protocols.registry import carried_by
from wiredecode.protocols.shared.carried_bulk import PLACES, CarriedBulk, Payloads

if TYPE_CHECKING:
    from wiredecode.protocols.nats.conversation import NatsConversation
    from wiredecode.protocols.nats.conversation_memory import Subscription
    from wiredecode.protocols.shared.carried import CarriedProtocol, CarriedSession

AT, HEAD, INSIDE = "at", "head", "inside"
"""Parts of a cut, see :func:`operations` and :meth:`CarriedBulk.kinds`."""


class NatsBulk(Bulk):
    """Messages without a reply subject: all others are requests, or belong to them.

    Kinds 1 to 4 are :data:`PUB` to :data:`HMSG`; 4 more of each for the first kind of message of a carried protocol,
    and so on.
    """

    def __init__(self) -> None:
        self.carried: list[tuple[CarriedProtocol, CarriedBulk, int]] = []
        """And what its kinds count from, in groups of four."""
        types, protocols, linked = ["", "PUB", "HPUB", "MSG", "HMSG"], ["", *["nats"] * OPERATIONS], list[int]()
        for protocol in carried_by("nats"):
            bulk, before = protocol.bulk(), len(types) // OPERATIONS - 1
            if bulk is None:
                continue
            self.carried.append((protocol, bulk, before))
            for kind, name in enumerate(bulk.types, 1):
                if kind in bulk.linked:
                    linked += range(len(types), len(types) + OPERATIONS)
                types += [name] * OPERATIONS
                protocols += [protocol.name] * OPERATIONS
        self.types, self.protocols, self.with_links = tuple(types), tuple(protocols), tuple(linked)

    def cut(self, data: bytes) -> Cut:
        source = Source(data)
        starts, kinds, at, heads = operations(source)
        bodies, stops = at[:, BODY], starts[1:] - 2
        places = np.zeros((len(kinds), PLACES), np.int64)
        for protocol, bulk, before in self.carried:
            rows = np.flatnonzero((kinds > 0) & begins_with(source, bodies, stops, protocol.prefix))
            if len(rows):
                inner, places[rows] = bulk.kinds(source, bodies[rows], stops[rows])
                kinds[rows] = np.where(inner, kinds[rows] + OPERATIONS * (before + inner), 0)
        return Cut(starts, kinds, {AT: at, HEAD: heads, INSIDE: places})

    def decode(self, conversation: NatsConversation, block: FrameBlock, out: Messages | None) -> bool:
        said, plain = conversation.sides[block.side], (block.kinds - 1) % OPERATIONS + 1
        if block.base + block.starts[0] != said.reached or conversation.link not in (None, names.CLIENT):
            return False
        published = bool(plain[0] < MSG)
        if ((plain < MSG) != published).any():
            return False
        client = conversation.client
        if client is None:
            if plain[0] == HMSG and conversation.link is None:
                return False
            client = block.side if published else 1 - block.side
        codes, subjects = distinct(block, SUBJECT)
        inner = [*self.payloads(conversation, block, codes, subjects)]
        if not are_plain(conversation, subjects) or not all(
            bulk.accepts(session, payloads) for bulk, session, payloads in inner
        ):
            return False
        if out is None and not set(np.unique(block.kinds).tolist()).isdisjoint(self.with_links):
            return False
        if not (fits(conversation, block) if published else count_deliveries(conversation, block)):
            return False
        conversation.client = client
        block.sender = conversation.sender(block)
        said.reached = int(block.base + block.stops[-1])
        for bulk, session, payloads in inner:
            bulk.decode(session, payloads, original=published and block.side == client, links=out is not None)
        if out is not None:
            operation = PUBLISH if published else DELIVER
            others = np.ones(len(block), np.bool_)
            for bulk, _, payloads in inner:
                rows, columns = bulk.messages(payloads)
                others[rows] = False
                if not published:
                    columns.pop("outcome", None)
                out.add_part(BlockMessages(block, rows, {"index": 0, "operation": operation, **columns}))
            add_rows(block, np.flatnonzero(others), codes, subjects, operation, out)
        return True

    def linker(self, conversation: NatsConversation) -> Callable[[], None]:
        return conversation.memory.carried.linker()

    def payloads(
        self, conversation: NatsConversation, block: FrameBlock, codes: Int64s, subjects: list[str]
    ) -> Iterator[tuple[CarriedBulk, CarriedSession, Payloads]]:
        """What carried protocols have in a block, and what they remember."""
        groups = (block.kinds - 1) // OPERATIONS
        for protocol, bulk, before in self.carried:
            rows = np.flatnonzero((groups > before) & (groups <= before + len(bulk.types)))
            if len(rows):
                kinds = (groups[rows] - before).astype(np.uint8)
                where = (block.parts[AT][rows, BODY], block.stops[rows] - 2)
                payloads = Payloads(block, rows, kinds, *where, codes[rows], subjects, block.parts[INSIDE][rows])
                yield bulk, conversation.memory.carried.session(protocol.name), payloads


def distinct(block: FrameBlock, part: int) -> tuple[Int64s, list[str]]:
    """Number different texts: the number of each, and the texts."""
    _, firsts, which = np.unique(block.parts[HEAD], return_index=True, return_inverse=True)
    known: dict[bytes, int] = {}
    spans = block.parts[AT][firsts, part : part + 2].tolist()
    numbers = [known.setdefault(block.buffer[start:stop], len(known)) for start, stop in spans]
    return np.array(numbers, np.int64)[which], [text.decode("ascii") for text in known]


def are_plain(conversation: NatsConversation, subjects: list[str]) -> bool:
    """Whether messages on these subjects answer no request, and are no carried protocol's by their subject."""
    requests, of_message = conversation.memory.requests, conversation.memory.carried.of_message
    return not any(
        subject in requests or subject.startswith("$GR.") or of_message(subject, b"") is not None
        for subject in subjects
    )


def fits(conversation: NatsConversation, block: FrameBlock) -> bool:
    """Whether nobody answers these publishes, and none is larger than the server takes."""
    most = conversation.max_payload or MAX_BODY_BYTES
    return conversation.verbose is None and int((block.stops - 2 - block.parts[AT][:, BLOCK]).max()) <= most


def count_deliveries(conversation: NatsConversation, block: FrameBlock) -> bool:
    """Count them for their subscriptions; False: something about that is worth telling, and nothing was counted."""
    codes, sids = distinct(block, SID)
    counts: list[tuple[Subscription, int]] = []
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


def add_rows(
    block: FrameBlock, rows: Int64s, codes: Int64s, subjects: list[str], operation: str, out: Messages
) -> None:
    """One row per message that is one of NATS."""
    at, kinds = block.parts[AT][rows], block.kinds[rows]
    columns: dict[str, Column] = {"index": 0, "operation": operation}
    if (kinds % 2 == 0).any():
        columns["headers"] = header_lists(block.buffer, at, kinds)
    columns["topic"] = Coded(codes[rows].astype(np.int32), subjects)
    columns["body"] = Slices(block.buffer, at[:, BODY].copy(), block.stops[rows] - 2)
    out.add_part(BlockMessages(block, rows, columns))


def header_lists(buffer: bytes, at: Int64s, kinds: UInt8s) -> HeaderLists:
    """Headers of each message; null where it can have none."""
    some = at[kinds % 2 == 0]
    spans = header_spans(buffer, some[:, BLOCK], some[:, BODY])
    stops = np.concatenate(([0], np.cumsum(at[:, HEADERS])))
    keys, values = (Slices(buffer, spans[:, low].copy(), spans[:, low + 1].copy()) for low in (0, 2))
    return HeaderLists(stops, keys, values, kinds % 2 == 0)
