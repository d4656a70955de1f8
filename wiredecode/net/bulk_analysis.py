"""TCP analysis as columns, of connections in whose packets of a batch nothing happens.

Most segments continue exactly what their side sent, and acknowledge what the other side sent: of these only round
trips, window updates and full windows are worth telling. `analyse` does that for many connections at once, and says
which rows are left for :mod:`wiredecode.net.analysis`, which looks at each segment; both give the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from wiredecode.arrays import Bools, Int64s
from wiredecode.net.analysis import UNACKED_SEGMENTS, ConnectionAnalysis, Side
from wiredecode.net.health import KEEP_ALIVE, WINDOW_FULL, WINDOW_UPDATE, ZERO_WINDOW_PROBE
from wiredecode.net.segments import ACK, FIN, HALF, MASK, RST, SYN, ByConnection, FlowKey, Segments, distances, reverse

COLUMNS_PAY_FROM = 256
"""Segments of a batch from which on columns are faster (measured)."""
APART = 1 << 34
"""Between the offsets of two flows, when those of all flows are searched at once."""


class BulkAnalysis:
    """The segments of one batch, sorted by connection and in packet order within each."""

    def __init__(
        self, segments: Segments, by: ByConnection, known: dict[FlowKey, tuple[ConnectionAnalysis, int]]
    ) -> None:
        self._segments, self._by = segments, by
        self.kinds: dict[int, int] = {}
        """Packet number to kinds, where there are any."""
        self._sides: list[Side | None] = []
        """By flow, also of the flows that send nothing in this batch."""
        self._conversations: list[ConnectionAnalysis | None] = []
        found = [known.get(key) for key in by.keys]
        for flow, other in enumerate(by.other.tolist()):
            sends = flow < len(found)
            owner = found[flow] if sends else found[other]
            self._conversations.append(None if owner is None else owner[0])
            self._sides.append(None if owner is None else owner[0].sides[owner[1] if sends else 1 - owner[1]])
        self._arrange()

    def _arrange(self) -> None:
        """``own`` and ``across`` are the places of the segments before each one, of its side and of the other."""
        s, by = self._segments, self._by
        self.row, self.flow, self.conn, self.first, self.lower = by.row, by.flow, by.conn, by.first, by.lower
        row = self.row
        self.seq, self.ack, self.length = s.seq[row], s.ack[row], s.length[row]
        self.flags, self.window, self.time = s.flags[row], s.window[row], s.time_ns[row]
        place = np.arange(len(row))
        before = []
        for which in (self.lower, ~self.lower):
            last = np.append(-1, np.maximum.accumulate(np.where(which, place, -1))[:-1])
            before.append(np.where(last < by.begin, -1, last))
        self.own, self.across = np.where(self.lower, *before), np.where(self.lower, *before[::-1])
        self.sent, self.sent_across = by.sent(self.length)
        """Bytes that its side sent in this batch before it, and the other side."""

    def analyse(self, opened: set[FlowKey]) -> Bools:
        """Analyse what is plain; returns which rows of ``segments`` are not. ``opened``: keys to leave alone."""
        begin = int(self.time.min())
        state = np.array([_state(side, begin) for side in self._sides], np.int64)
        usable = state[:, 0] >= 0
        for flow, (key, conversation) in enumerate(zip(self._by.keys, self._conversations, strict=False)):
            if key in opened or reverse(key) in opened or conversation is None or conversation.in_handshake:
                usable[flow] = False
        other = self._by.other
        self._next = state[:, 0]
        usable &= distances(self._next[other], state[:, 1]) <= 0  # else what it acknowledged is still to come
        usable &= usable[other]
        mine, theirs = self.flow, other[self.flow]
        self._acked = distances(self._next[theirs], self.ack)
        previous = np.where(self.own < 0, state[mine, 1], self.ack[self.own])
        before = np.where(self.own < 0, state[mine, 2], self.window[self.own])
        same = previous == self.ack
        pure = self.length == 0
        bad = ~usable[mine] | (self.flags & (SYN | FIN | RST | ACK) != ACK) | (self.window == 0)
        bad |= distances(self._next[mine], self.seq) != self.sent
        bad |= (distances(previous, self.ack) < 0) | (self._acked > self.sent_across)
        bad |= pure & same & (before == self.window)
        edges = np.where(self.across < 0, state[theirs, 1], self.ack[self.across])
        room = np.where(self.across < 0, state[theirs, 2], self.window[self.across])
        scale = state[theirs, 3]
        full = ~pure & (scale >= 0)
        full &= (self.seq + self.length & MASK) == (edges + (room << np.maximum(scale, 0)) & MASK)
        kinds: Int64s = WINDOW_UPDATE * (pure & same).astype(np.int64) + WINDOW_FULL * full.astype(np.int64)
        trips = self._round_trips(usable)
        bad |= trips[2]
        plain: Bools = np.logical_not(np.logical_or.reduceat(bad, self.first))
        good: Bools = np.repeat(plain, self._by.sizes)
        self._finish(plain, good, kinds, trips)
        left = np.zeros(len(bad), np.bool_)
        left[self.row[~good]] = True
        return left

    def owners(self, rows: Bools) -> Iterator[tuple[int, int]]:
        """Packet number and connection of some ``rows`` of ``segments``."""
        chosen = np.flatnonzero(rows[self.row])
        numbers = self._segments.number[self.row[chosen]]
        for number, flow in zip(numbers.tolist(), self.conn[chosen].tolist(), strict=True):
            conversation = self._conversations[flow]
            if conversation is not None:
                yield number, conversation.number

    def _round_trips(self, usable: Bools) -> tuple[Int64s, Int64s, Bools, Any]:
        """Per segment: how many of those it may acknowledge are so, the time since the last of them was sent (-1: none
        is news), and whether more wait than are remembered; then those that wait, by flow."""
        other = self._by.other
        data = np.flatnonzero(self.length > 0)
        sides = [(flow, side) for flow, side in enumerate(self._sides) if side is not None and usable[flow]]
        old = np.array([(flow, *each) for flow, side in sides for each in side.unacked], np.int64).reshape(-1, 3)
        ends = np.concatenate([distances(self._next[old[:, 0]], old[:, 1]), self.sent[data] + self.length[data]])
        owner = np.concatenate([old[:, 0], self.flow[data]])
        when = np.concatenate([old[:, 2], self.time[data]])
        keys = owner * APART + ends + HALF
        order = np.argsort(keys, kind="stable")
        keys, owner, when, ends = keys[order], owner[order], when[order], ends[order]
        begin = np.searchsorted(owner, np.arange(len(self._by.other) + 1))
        theirs = other[self.flow]
        acked = np.searchsorted(keys, theirs * APART + self._acked + HALF, "right") - begin[theirs]
        counted = np.where(self.own < 0, 0, acked[self.own])
        news = acked > counted
        sent = np.zeros(len(acked), np.int64)
        sent[news] = when[(begin[theirs] + acked - 1)[news]]
        trip = np.where(news & (sent != 0), np.maximum(self.time - sent, 0), -1)
        index = np.zeros(len(acked), np.int64)
        where = np.empty(len(order), np.int64)
        where[order] = np.arange(len(order))
        index[data] = where[len(old) :] - begin[self.flow[data]] + 1
        waiting = index - np.where(self.across < 0, 0, acked[self.across])
        return acked, trip, waiting > UNACKED_SEGMENTS, (begin, when, ends)

    def _finish(self, plain: Bools, good: Bools, kinds: Int64s, trips: Any) -> None:
        number = self._segments.number[self.row]
        for place in np.flatnonzero(good & (kinds > 0)).tolist():
            side = self._sides[self.flow[place]]
            assert side is not None
            side.health.count(int(kinds[place]), int(number[place]))
            self.kinds[int(number[place])] = int(kinds[place])
        ends = np.append(self.first, len(self.row)).tolist()
        for which in np.flatnonzero(plain).tolist():
            first, stop = ends[which], ends[which + 1]
            flow = int(self.conn[first])
            conversation = self._conversations[flow]
            assert conversation is not None
            lower = self.lower[first:stop]
            ours, theirs = first + np.flatnonzero(lower), first + np.flatnonzero(~lower)
            self._advance(flow, ours, theirs, kinds, trips)
            self._advance(int(self._by.other[flow]), theirs, ours, kinds, trips)
            health = conversation.health
            health.last_ns = max(health.last_ns, int(self.time[first:stop].max()))
            data = first + np.flatnonzero(self.length[first:stop] > 0)
            if len(data):
                health.active_all(self.time[data])

    def _advance(self, flow: int, places: Int64s, across: Int64s, kinds: Int64s, trips: Any) -> None:
        """One direction: ``places`` are its segments, ``across`` those of the other one."""
        acked, trip, _, (begin, when, ends) = trips
        side, health = self._sides[flow], self._sides[flow].health  # type: ignore[union-attr]
        assert side is not None
        waiting = slice(int(begin[flow]) + (int(acked[across[-1]]) if len(across) else 0), int(begin[flow + 1]))
        found = trip[across]
        for trip_ns in found[found >= 0].tolist():
            health.rtt.add(trip_ns)
        if len(places):
            last, sent = int(places[-1]), self.length[places]
            health.came(self.time[places])
            health.packets += len(places)
            health.payload += int(sent.sum())
            if self.ack[places[0]] != side.ack or self.ack[last] != side.ack:  # they never go back
                side.duplicate_acks = 0
            side.next = side.to_be_acked = int(self._next[flow] + self.sent[last] + self.length[last]) & MASK
            with_data = np.flatnonzero(sent)
            if len(with_data):
                side.next_ns = int(self.time[places[with_data[-1]]])
            side.window, side.last_kinds = int(self.window[last]), int(kinds[last])
            side.ack, side.ack_ns = int(self.ack[last]), int(self.time[last])
        at = (ends[waiting] + int(self._next[flow]) & MASK).tolist()
        side.unacked = deque(zip(at, when[waiting].tolist(), strict=True), maxlen=UNACKED_SEGMENTS)


def _state(side: Side | None, now: int) -> tuple[int, int, int, int]:
    """Next sequence number, ACK, window and scale; the first is -1 where something has to be looked at."""
    if side is None or side.next is None or side.ack is None or side.to_be_acked != side.next or side.window <= 0:
        return -1, 0, 0, -1
    if side.zero_since is not None or side.last_kinds & (KEEP_ALIVE | ZERO_WINDOW_PROBE) or side.repeats(now):
        return -1, 0, 0, -1
    return side.next, side.ack, side.window, -1 if side.scale is None else side.scale
