"""Names of addresses, from the capture: DNS answers (RFC 1035) and name-resolution blocks. No queries are sent."""

import re
import socket
from collections.abc import Iterator

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.net import link
from wiredecode.net.limits import Limits
from wiredecode.net.link import Octets
from wiredecode.net.types import Connection

UDP, DNS = 17, 53
A, AAAA = 1, 28
SIZES = {A: 4, AAAA: 16}
ANSWERED = 0x8000
"""Flag of an answer; the last four bits of the flags are the reason if there is none."""
HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
MAX_ADDRESSES, MAX_ANSWERS, MAX_LABELS = 65_536, 64, 128


class Hosts:
    """Learns names as packets come. A connection has the last name before its first packet."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._names: dict[str, list[tuple[int, str]]] = {}

    def add(self, address: str, name: str, packet: int = 0) -> None:
        """Learn a name; ignores invalid names, and addresses beyond the limit."""
        name = name.rstrip(".")
        if not HOST.fullmatch(name) or (len(self._names) >= MAX_ADDRESSES and address not in self._names):
            return
        entries = self._names.setdefault(address, [])
        if not entries or entries[-1][1] != name:
            entries.append((packet, name))
            del entries[:-8]

    def learn_names(self, batch: PacketBatch) -> None:
        for address, name in batch.names:
            self.add(address, name)
        octets = Octets(batch.buffer)
        offset, ethertype = link.network_layer(batch, octets, self._limits.vlan_tags)
        for kind, protocol_at, fixed in ((link.IPV4, 9, 0), (link.IPV6, 6, 40)):
            rows = np.flatnonzero(ethertype == kind)
            at = offset[rows]
            udp = at + (fixed or (octets.u8(at) & 15) * 4)
            chosen = (octets.u8(at + protocol_at) == UDP) & (octets.u16(udp) == DNS)
            self._answers(batch, rows[chosen], udp[chosen] + 8)

    def _answers(self, batch: PacketBatch, rows: Int64s, begin: Int64s) -> None:
        ends = (batch.start[rows] + batch.captured[rows]).tolist()
        for number, start, end in zip(batch.number[rows].tolist(), begin.tolist(), ends, strict=True):
            try:
                for address, name in answers(batch.buffer[start:end]):
                    self.add(address, name, number)
            except (IndexError, ValueError, OSError):
                continue  # cut, or no DNS

    def of(self, connection: Connection) -> tuple[str | None, str | None] | None:
        """The names of both ends; None: neither has one."""
        first, second = (self._before(end.rpartition(":")[0], connection.first) for end in connection.endpoints)
        return (first, second) if first or second else None

    def _before(self, address: str, packet: int) -> str | None:
        entries = self._names.get(address.strip("[]"), ())
        return next((name for learned, name in reversed(entries) if learned < packet), None)


def answers(data: bytes) -> Iterator[tuple[str, str]]:
    """Addresses of a DNS message, and the name that was asked for. Raises IndexError where it is truncated."""
    flags, questions, count = (int.from_bytes(data[at : at + 2]) for at in (2, 4, 6))
    if not flags & ANSWERED or flags & 0xF or questions != 1:
        return
    name, at = _name(data, 12)
    at += 4
    for _ in range(min(count, MAX_ANSWERS)):
        _, at = _name(data, at)
        kind, size = int.from_bytes(data[at : at + 2]), int.from_bytes(data[at + 8 : at + 10])
        value, at = data[at + 10 : at + 10 + size], at + 10 + size
        if len(value) == size == SIZES.get(kind):
            yield socket.inet_ntop(socket.AF_INET if kind == A else socket.AF_INET6, value), name


def _name(data: bytes, at: int) -> tuple[str, int]:
    """A name, and where it ends; pointers lead to what was said before (section 4.1.4)."""
    labels: list[str] = []
    end = 0
    for _ in range(MAX_LABELS):
        size = data[at]
        if size & 0xC0 == 0xC0:
            end, at = end or at + 2, (size & 0x3F) << 8 | data[at + 1]
        elif size:
            labels.append(data[at + 1 : at + 1 + size].decode("ascii"))
            at += 1 + size
        else:
            return ".".join(labels), end or at + 1
    raise ValueError("a name without end")
