"""Published messages and their acks, many at a time."""

from __future__ import annotations

from functools import cache
from itertools import repeat

import crc32c
import numpy as np

from wiredecode.arrays import Bools, Int64s, UInt8s
from wiredecode.fields.bulk import Source
from wiredecode.fields.protobuf import Message
from wiredecode.fields.protobuf.columns import Elements, Members, Spans, members
from wiredecode.frames.frame import NOT_ASKED
from wiredecode.frames.message import Coded, Column, HeaderLists, Slices, Valid
from wiredecode.protocols.liftbridge import names
from wiredecode.protocols.liftbridge.conversation_memory import Memory, acked_in
from wiredecode.protocols.liftbridge.layers import Ack, Envelope, Header, Publish
from wiredecode.protocols.liftbridge.layers_replication import CRC_FLAG, LONG_HEADER, SHORT_HEADER
from wiredecode.protocols.shared.carried_bulk import PLACES, CarriedBulk, Payloads

PLAIN, ASKING, ACK = 1, 2, 3
"""A published message, one that wants an ack, and an ack."""
CORRELATION_ID = b"Z"
"""Tag of a published message's correlation id; that of an ack has another."""
MAX_ID = 500
"""Longest subject for acks and longest correlation id that are plain."""


class LiftbridgeBulk(CarriedBulk):
    """What servers say to each other is left to the row decoder."""

    types = ("Publish", "Publish", "Ack")
    linked = frozenset({ASKING, ACK})

    def kinds(self, source: Source, starts: Int64s, stops: Int64s) -> tuple[UInt8s, Int64s]:
        kinds, places = np.zeros(len(starts), np.uint8), np.zeros((len(starts), PLACES), np.int64)
        for layer in (Publish, Ack):
            bodies = contents(source, starts, stops, layer)
            rows = np.flatnonzero(bodies >= 0)
            if len(rows):
                found = members(source, bodies[rows], stops[rows], layer)
                kinds[rows] = published(source, found) if layer is Publish else acked(source, found)
                places[rows] = key_places(found)
        return kinds, places

    def accepts(self, session: Memory, payloads: Payloads) -> bool:
        acks, count = payloads.kinds == ACK, len(payloads.subjects)
        if not session.has_room(int((payloads.kinds == ASKING).sum())):
            return False
        each = (np.bincount(payloads.codes[chosen], minlength=count).tolist() for chosen in (acks, ~acks))
        for subject, ack, message in zip(payloads.subjects, *each, strict=True):
            if ack or message:
                meaning = session.meaning(subject)
                if meaning.facts or (message and (meaning.message_type or meaning.tail)):
                    return False
                if ack and meaning.message_type not in (None, names.ACK):
                    return False
        return True

    def decode(self, session: Memory, payloads: Payloads, *, original: bool, links: bool) -> None:
        block = payloads.block
        if original:
            spans = zip(payloads.starts.tolist(), payloads.stops.tolist(), strict=True)
            crcs = checksums(block.buffer, spans, len(payloads.rows))
            sizes = payloads.stops - payloads.starts
            session.publications.add_run(payloads.subjects, payloads.codes, sizes, crcs, block.ids[payloads.rows])
        if links and (asking := payloads.kinds == ASKING).any():
            some = payloads.at(asking)
            session.add_requests(block, some.rows, ack_keys(some, acks=False))
            block.expects_response = np.zeros(len(block), np.bool_)
            block.expects_response[some.rows] = True
        if links and (acks := payloads.kinds == ACK).any():
            some = payloads.at(acks)
            session.acks.add(block, block.numbers[some.rows], ack_keys(some, acks=True), repeat(None))
            block.requests = np.zeros(len(block), np.int64)

    def messages(self, session: Memory, payloads: Payloads) -> tuple[Int64s, dict[str, Column]]:
        some = payloads.at(payloads.kinds != ACK)
        found, buffer = read(some), some.block.buffer
        values = found.spans["value"]
        columns: dict[str, Column] = {
            "topic": topics(some, found.spans["stream"]),
            "namespace": namespaces(session, some, found.spans["ack_inbox"]),
            "key": Slices(buffer, *found.spans["key"]),
            "body": Slices(buffer, np.maximum(values.starts, 0), np.maximum(values.stops, 0)),
            "partition": Valid(*found.numbers["partition"]),
            "timestamp": Valid(*found.numbers["timestamp"]),
        }
        columns["outcome"] = Coded(np.where(some.kinds == PLAIN, 0, -1).astype(np.int32), [NOT_ASKED])
        if len(found.elements["headers"].rows):
            columns["headers"] = header_lists(Source(buffer), found.elements["headers"], len(some.rows))
        return some.rows, columns


@cache
def usual_header(layer: type[Envelope], *, checked: bool) -> int:
    """The first eight bytes of an envelope, as servers and clients write them without and with CRC."""
    envelope = layer(flags=CRC_FLAG, header_length=LONG_HEADER, crc=0) if checked else layer()
    return int.from_bytes(bytes(envelope)[:SHORT_HEADER], "big")


def contents(source: Source, starts: Int64s, stops: Int64s, layer: type[Envelope]) -> Int64s:
    """Where the messages of plain envelopes of this type start; -1: it is another one, or its CRC is bad."""
    whole = stops - starts >= SHORT_HEADER
    heads = source.gather(">u8", np.where(whole, starts, 0))
    bodies = np.where(whole & (heads == usual_header(layer, checked=False)), starts + SHORT_HEADER, -1)
    sealed = whole & (heads == usual_header(layer, checked=True)) & (stops - starts >= LONG_HEADER)
    if len(rows := np.flatnonzero(sealed)):
        inside = starts[rows] + LONG_HEADER
        spans = zip(inside.tolist(), stops[rows].tolist(), strict=True)
        good = checksums(source.buffer, spans, len(rows)) == source.gather(">u4", starts[rows] + SHORT_HEADER)
        bodies[rows] = np.where(good, inside, -1)
    return bodies


def checksums(buffer: bytes, spans: zip[tuple[int, int]], count: int) -> Int64s:
    """CRC-32C of each stretch."""
    return np.fromiter(map(crc32c.crc32c, [buffer[start:stop] for start, stop in spans]), np.int64, count)


def published(source: Source, found: Members) -> UInt8s:
    """The kinds of published messages."""
    good = found.good & good_headers(source, found) & good_ids(source, found)
    asking = found.spans["ack_inbox"].there & (found.numbers["ack_policy"].values != names.NO_ACK)
    return np.where(good, np.where(asking, ASKING, PLAIN), 0).astype(np.uint8)


def good_ids(source: Source, found: Members) -> Bools:
    """Whether what ties an ack to its message is plain in each of them."""
    good = np.ones(len(found.good), np.bool_)
    for name in ("ack_inbox", "correlation_id"):
        spans = found.spans[name]
        short = (spans.stops - spans.starts <= MAX_ID) & (spans.stops > spans.starts)
        good &= ~spans.there | (short & (source.octets[spans.starts - 1] != 0))  # nor a length of needless bytes
    return good


def good_headers(source: Source, found: Members) -> Bools:
    """Whether the headers of each message are plain, too."""
    good = np.ones(len(found.good), np.bool_)
    rows, starts, stops = found.elements["headers"]
    good[rows[~members(source, starts, stops, Header).good]] = False
    return good


def acked(source: Source, found: Members) -> UInt8s:
    """The kinds of acks: those that refuse a message are not plain."""
    good = found.good & good_ids(source, found) & found.spans["ack_inbox"].there
    return np.where(good & (found.numbers["ack_error"].values == 0), ACK, 0).astype(np.uint8)


def read(payloads: Payloads) -> Members:
    """The fields of published messages that are plain."""
    source = Source(payloads.block.buffer)
    heads = source.gather(">u8", payloads.starts)
    sealed = heads == usual_header(Publish, checked=True)
    bodies = payloads.starts + np.where(sealed, LONG_HEADER, SHORT_HEADER)
    layer: type[Message] = Publish
    return members(source, bodies, payloads.stops, layer)


def key_places(found: Members) -> Int64s:
    """Where that stands which a published message and its ack have in common; see :func:`ack_keys`."""
    inboxes, ids = found.spans["ack_inbox"], found.spans["correlation_id"]
    return np.stack((inboxes.starts, inboxes.stops, np.maximum(inboxes.stops, ids.stops)), axis=1)


def ack_keys(payloads: Payloads, *, acks: bool) -> list[bytes]:
    """As :func:`acks.ack_key`: the inbox, and the correlation id, which follows."""
    buffer, places = payloads.block.buffer, payloads.places.tolist()
    if not acks:
        return [buffer[start:end] for start, _, end in places]
    tag = CORRELATION_ID
    return [
        buffer[start:stop] + tag + buffer[stop + 1 : end] if end > stop else buffer[start:stop]
        for start, stop, end in places
    ]


def topics(payloads: Payloads, streams: Spans) -> Coded:
    """The stream that a message names, or else its subject."""
    buffer, known = payloads.block.buffer, {subject.encode(): code for code, subject in enumerate(payloads.subjects)}
    codes = payloads.codes.astype(np.int32)
    rows = np.flatnonzero(streams.stops > streams.starts)
    spans = zip(streams.starts[rows].tolist(), streams.stops[rows].tolist(), strict=True)
    named = [buffer[start:stop] for start, stop in spans]
    for name in dict.fromkeys(named):
        known.setdefault(name, len(known))
    codes[rows] = np.fromiter(map(known.__getitem__, named), np.int32, len(named))
    return Coded(codes, [name.decode("ascii") for name in known])


def namespaces(session: Memory, payloads: Payloads, inboxes: Spans) -> Column:
    """The cluster of each message: that of the server on its connection, or the one that its subjects name."""
    buffer, own = payloads.block.buffer, session.servers.get(payloads.block.connection.number)
    if own is not None:
        return own
    subjects = [session.meaning(subject).namespace for subject in payloads.subjects]
    spans = zip(payloads.codes.tolist(), inboxes.starts.tolist(), inboxes.stops.tolist(), strict=True)
    names = [subjects[code] or (acked_in(buffer[a:b].decode("ascii")) if b > a else None) for code, a, b in spans]
    known = {name: code for code, name in enumerate(dict.fromkeys(filter(None, names)))}
    return Coded(np.array([known.get(name, -1) for name in names], np.int32), [*known])


def header_lists(source: Source, headers: Elements, count: int) -> HeaderLists:
    """The headers of each message; null where it has none."""
    found = members(source, headers.starts, headers.stops, Header)
    counts = np.bincount(headers.rows, minlength=count)
    stops = np.concatenate(([0], np.cumsum(counts)))
    keys, values = (
        Slices(source.buffer, np.maximum(spans.starts, 0), np.maximum(spans.stops, 0))
        for spans in (found.spans["key"], found.spans["value"])
    )
    return HeaderLists(stops, keys, values, counts > 0)
