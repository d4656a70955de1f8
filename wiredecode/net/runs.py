"""Places runs: the first segments of a connection in a batch, as far as they are whole, plain and in order.

Nearly all packets of a busy connection are in runs. Its columns go into the streams together. A connection that is new,
closed, or waits for missing bytes has no run; nor has one with few packets in the batch, as columns do not pay then.
"""

from collections.abc import Iterator

import numpy as np

from wiredecode.arrays import Bools, Int64s
from wiredecode.net.connection_state import ConnectionState, Owner
from wiredecode.net.flows import Connections
from wiredecode.net.segments import ACK, FIN, FLOW, HALF, IPV6_FLOW, MASK, RST, SYN, FlowKey, Segments, reverse
from wiredecode.net.types import Event

CONTROL = SYN | FIN | RST | ACK
SHORTEST = 16
"""Segments from which on a run is faster than one segment at a time (measured)."""
MIX = np.uint64(0x9E3779B97F4A7C15)
"""For hashing: odd, with bits everywhere."""


def place_runs(s: Segments, clock: Int64s, connections: Connections, owners: list[Owner], out: list[Event]) -> Bools:
    """Place the runs of a batch, and note their connections and sides in ``owners``; return which rows they have.

    ``clock``: the capture clock at each packet, ns.
    """
    placed = np.zeros(len(s), bool)
    for rows, forward in by_connection(s):
        owner = connections.find(key := flow_of(s, int(rows[0])))
        if owner is None or key == reverse(key) or not may_run(owner[0]):
            continue
        state, first_side = owner
        side = np.where(forward, first_side, 1 - first_side)
        size = length_of_run(s, rows, side, state)
        if size >= SHORTEST:
            _place(s, rows[:size], side[:size], clock, state, out)
            placed[rows[:size]] = True
            sides = (state, 0), (state, 1)
            for row, each in zip(rows[:size].tolist(), side[:size].tolist(), strict=True):
                owners[row] = sides[each]
    return placed


def by_connection(s: Segments) -> Iterator[tuple[Int64s, Bools]]:
    """Yield the rows of each connection that has enough, and which have the direction of the first.

    In the order of the first rows. Nothing, if the hash of two connections is the same.
    """
    source, target = (s.source_high, s.source_low), (s.target_high, s.target_low)
    ports = s.ports.astype(np.uint64)
    low, high = ports & np.uint64(0xFFFF), ports >> np.uint64(16) & np.uint64(0xFFFF)
    ends = [(a * MIX ^ b) * MIX ^ port for (a, b), port in ((source, high), (target, low))]
    mixed = (ends[0] + ends[1]) * MIX  # the same for both directions
    _, first, group, count = np.unique(mixed, return_index=True, return_inverse=True, return_counts=True)
    if not (count >= SHORTEST).any():
        return
    leader = first[group]
    columns = (*source, *target, s.ports)
    backward = (*target, *source, low.astype(np.int64) << 16 | high.astype(np.int64) | s.ports & IPV6_FLOW)
    forward = np.all([column == column[leader] for column in columns], axis=0)
    reverse_ = np.all([other == column[leader] for other, column in zip(backward, columns, strict=True)], axis=0)
    if not (forward | reverse_).all():
        return
    order, begins = np.argsort(group, kind="stable"), np.cumsum(count) - count
    for each in np.argsort(first).tolist():
        if count[each] >= SHORTEST:
            rows = order[begins[each] : begins[each] + count[each]]
            yield rows, forward[rows]


def flow_of(s: Segments, row: int) -> FlowKey:
    """The flow of a segment."""
    high, low, other_high, other_low, ports = (int(getattr(s, name)[row]) for name in FLOW)
    return high, low, other_high, other_low, ports


def may_run(state: ConnectionState) -> bool:
    """Whether the next segments of a connection need no look at what came before."""
    return not state.closed_sides and all(stream.is_clear for stream in state.streams)


def length_of_run(s: Segments, rows: Int64s, side: Int64s, state: ConnectionState) -> int:
    """Number of first rows that are whole, in order, and acknowledge only captured bytes. Streams must have begun."""
    flags, length, start = s.flags[rows], s.length[rows], s.start[rows]
    seq, ack = s.seq[rows], s.ack[rows]
    plain = (flags & CONTROL == ACK) & (length == s.captured[rows]) & (start >= 0)
    plain &= s.completed_by[rows] == s.number[rows]
    for each, stream in enumerate(state.streams):
        own = side == each
        sent = np.cumsum(np.where(own, length, 0))
        if stream.base is None:
            plain &= sent == 0
            continue
        expected = stream.base + stream.offset + sent
        in_order = (seq + length - expected) & MASK == 0
        behind = (ack - expected + HALF & MASK) <= HALF
        plain &= (length == 0) | np.where(own, in_order, behind)
    return len(rows) if plain.all() else int(np.argmin(plain))


def _place(s: Segments, rows: Int64s, side: Int64s, clock: Int64s, state: ConnectionState, out: list[Event]) -> None:
    """Place a run: what `Connections.touch` and `Reassembler.extend` do for each of its segments."""
    own_ns = state.clock.advance(s.completed_ns[rows])
    buffer = s.buffer
    for each, stream in enumerate(state.streams):
        own = side == each
        if not own.any():
            continue
        state.acks[each] = int(s.ack[rows[own][-1]])
        peer = state.streams[1 - each]
        if peer.answered is None:
            peer.answered = int(own_ns[own][0])
        own_rows = rows[own & (s.length[rows] > 0)]
        if len(own_rows):
            starts, lengths = s.start[own_rows], s.length[own_rows]
            places = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
            data = b"".join([buffer[start:stop] for start, stop in places])
            stream.extend_run(data, lengths, s.number[own_rows], s.time_ns[own_rows], s.completed_ns[own_rows], out)
    state.last_ns, state.last_capture_ns = int(own_ns[-1]), int(clock[s.row[rows[-1]]])
