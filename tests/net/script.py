"""Scripts: a line of text describes the packets of one direction, another line the events of reassembly.

Tokens of a script, one packet each; offsets count from the first byte of the stream:

    S        SYN (d0:10 after it has sequence number ISN + 1)      S:10     SYN with the first 10 bytes
    d20:10   10 bytes at offset 20                                 x20:10   the same place, other bytes
    c20:10/4 10 bytes on the wire, of which 4 were captured        F30      FIN at offset 30
    F20:10   the last 10 bytes and FIN in one segment              R30      RST
    R30:5    RST with 5 bytes                                      a30      pure ACK
    @1.5     not a packet: the time of the next packets, in seconds

The outcome: ``0-30`` delivered, ``[30-40]`` not captured, ``<40-50>`` truncated, ``!code`` a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from tests.net.craft import ACK, FIN, RST, SYN, Talk, batches
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.limits import Limits
from wiredecode.net.logical_time import packet_of
from wiredecode.net.network import Network
from wiredecode.net.types import Chunk, Direction, Event, Gap, Note

ISN = 999


def content(start: int, length: int, salt: int = 0) -> bytes:
    """The bytes of the stream at ``start``; with a ``salt``, different bytes."""
    return bytes((at * 7 + (at >> 8) * 31 + 13 + salt) % 251 for at in range(start, start + length))


def craft(script: str, isn: int = ISN) -> list[tuple[float, bytes, int]]:
    """Packets of side 0 as (seconds, captured bytes, length on the wire)."""
    talk = Talk(isn=(isn, 5000))
    now, packets = 0.0, []
    for token in script.split():
        kind, _, rest = token[0], None, token[1:]
        if kind == "@":
            now = float(rest)
            continue
        place, _, size = rest.partition(":")
        length, _, captured = size.partition("/")
        start, count = int(place or 0), int(length or 0)
        payload = content(start, count, salt=1 if kind == "x" else 0)
        flags = {"S": SYN, "F": FIN | ACK, "R": RST}.get(kind, ACK)
        packet = talk.packet(0, payload, isn + start + (kind != "S"), flags)
        cut = count - int(captured) if captured else 0
        packets.append((now, packet[: len(packet) - cut], len(packet)))
        now += 0.001
    return packets


@dataclass
class Outcome:
    """The events of a network."""

    network: Network
    events: list[Event] = field(default_factory=list)
    ready: dict[Direction, int] = field(default_factory=dict)
    """Last ready of every direction."""

    @property
    def directions(self) -> list[Direction]:
        seen = {(e.direction.connection.number, e.direction.side): e.direction for e in self.events}
        return [seen[key] for key in sorted(seen)]

    def of(self, connection: int = 1, side: int = 0) -> list[Event]:
        """The events of one direction."""
        chosen = ((e, e.direction) for e in self.events)
        return [e for e, d in chosen if (d.connection.number, d.side) == (connection, side)]

    def data(self, connection: int = 1, side: int = 0) -> bytes:
        """The bytes of one direction, joined over its gaps."""
        return b"".join(e.data for e in self.of(connection, side) if isinstance(e, Chunk))

    def notes(self) -> list[tuple[int, int, str]]:
        """(packet, offset, code) of every note."""
        return sorted((packet_of(e.ready), e.offset, e.code) for e in self.events if isinstance(e, Note))

    def pieces(self, connection: int = 1, side: int = 0) -> list[tuple[int, ...]]:
        """(end, packet, time, packet that made it ready, its time) of every piece; a chunk's columns are checked."""
        rows: list[tuple[int, ...]] = []
        for e in self.of(connection, side):
            if isinstance(e, Chunk):
                columns = (e.ends, e.packet, e.time_ns, e.ready, e.ready_ns)
                assert all(c.dtype == np.int64 and len(c) == len(e.ends) for c in columns)
                assert e.offset + len(e.data) == e.ends[-1]
                assert isinstance(e.data, bytes)
                ends, packets, times, ready, ready_ns = (c.tolist() for c in columns)
                rows += zip(ends, packets, times, map(packet_of, ready), ready_ns, strict=True)
        return rows

    def line(self, connection: int = 1, side: int = 0) -> str:
        """The events of a direction in words; delivered bytes must be those of `content`."""
        words: list[str] = []
        begin = at = 0

        def close() -> None:
            if at > begin:
                words.append(f"{begin}-{at}")

        for e in self.of(connection, side):
            if isinstance(e, Chunk):
                assert e.offset == at
                assert e.data == content(at, len(e.data))
                at += len(e.data)
            elif isinstance(e, Gap):
                assert e.offset == at
                close()
                begin = at = e.offset + e.length
                span = f"{e.offset}-{at}"
                words.append(f"[{span}]" if e.reason == "not captured" else f"<{span}>")
        close()
        return " ".join(words + [f"!{code}" for _, _, code in self.notes()])


def run(parts: Iterable[PacketBatch], limits: Limits | None = None) -> Outcome:
    """Feed batches, check the invariants after each, and finish."""
    outcome = Outcome(Network() if limits is None else Network(limits))
    network, mark = outcome.network, 0
    for part in parts:
        check(network.feed(part), outcome, mark)
        assert network.watermark >= mark, "the watermark went back"
        mark = network.watermark
    check(network.finish(), outcome, mark - 1)
    counted = network.tcp_packets + sum(network.not_decoded.values())
    assert counted == network.packets
    delivered, missing = Counter[int](), Counter[int]()
    for e in outcome.events:
        if isinstance(e, Chunk):
            delivered[id(e.direction)] += len(e.data)
        elif isinstance(e, Gap):
            missing[id(e.direction)] += e.length
    for direction in outcome.directions:
        left_out = direction.duplicate + direction.late + direction.ignored
        assert direction.captured == delivered[id(direction)] + left_out
        assert direction.missing == missing[id(direction)] + direction.acked_beyond
    return outcome


def check(events: list[Event], outcome: Outcome, mark: int) -> None:
    """Assert that nothing is ready before the watermark, and that ``ready`` never decreases along a stream."""
    for e in events:
        if isinstance(e, Chunk | Gap):
            ready = [e.ready] if isinstance(e, Gap) else e.ready.tolist()
            assert ready == sorted(ready)
            assert packet_of(ready[0]) >= mark
            assert ready[0] >= outcome.ready.get(e.direction, 0)
            outcome.ready[e.direction] = ready[-1]
    outcome.events += events


def play(script: str, size: int | None = None, isn: int = ISN, limits: Limits | None = None) -> Outcome:
    """Run a script in batches of ``size`` packets."""
    packets = craft(script, isn)
    parts = batches([(seconds, data) for seconds, data, _ in packets], size)
    whole, at = [], 0
    for part in parts:
        lengths = [length for _, _, length in packets[at : at + len(part)]]
        whole.append(replace(part, original=np.array(lengths, np.int64)))
        at += len(part)
    return run(whole, limits)
