"""The pcapng file format (draft-ietf-opsawg-pcapng): blocks in sections, each with its own byte order.

::

    type 4 | total length 4 | body, padded to 4 | total length 4

Runs of packet blocks of one type are indexed as columns; every other block is read by itself.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from struct import Struct

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int64s
from wiredecode.capture.batch import Columns, Damage, Parsed, gather, to_ns
from wiredecode.capture.info import FileInfo, Interface, NameRecord

MAGIC = b"\x0a\x0d\x0d\x0a"
MAX_BLOCK_BYTES = 16 * 1024 * 1024
"""Longest block that is believed; Wireshark's limit as well."""
MAX_SECTION_INTERFACES = 4096
"""Interfaces that one section may describe."""

SECTION_HEADER = 0x0A0D0D0A
INTERFACE_DESCRIPTION = 1
OBSOLETE_PACKET = 2
SIMPLE_PACKET = 3
NAME_RESOLUTION = 4
INTERFACE_STATISTICS = 5
ENHANCED_PACKET = 6
DECRYPTION_SECRETS = 10

_BYTE_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_MIN_BLOCK = 12
# smallest total length of the blocks whose fixed part is read
_SMALLEST = {
    SECTION_HEADER: 28,
    INTERFACE_DESCRIPTION: 20,
    OBSOLETE_PACKET: 32,
    SIMPLE_PACKET: 16,
    INTERFACE_STATISTICS: 24,
    ENHANCED_PACKET: 32,
    DECRYPTION_SECRETS: 20,
}
_PACKETS = (ENHANCED_PACKET, SIMPLE_PACKET, OBSOLETE_PACKET)
# where the packet's bytes start in its block
_DATA_AT = {ENHANCED_PACKET: 28, OBSOLETE_PACKET: 28, SIMPLE_PACKET: 12}


class PcapNg:
    """Index the packet blocks of a pcapng file and keep what its other blocks say.

    Simple packet blocks carry no time: theirs is 0.
    """

    def __init__(self, info: FileInfo, max_record: int) -> None:
        self._info = info
        self._max_record = max_record
        self._max_block = max(MAX_BLOCK_BYTES, max_record + 32)
        self._order = "<"
        self._head = Struct("<II")
        self._base = 0
        """Index of the section's first interface within the file."""
        """Packets found up to now: numbers packet comments."""

    def unit(self) -> str:
        return "a block"

    def parse(self, buffer: bytes, position: int, limit: int) -> Parsed:
        runs: list[Columns] = []
        need = _MIN_BLOCK
        damage: Damage | None = None
        room = limit
        while room > 0 and len(buffer) - position >= _MIN_BLOCK:
            damage = self._enter_section(buffer, position)
            if damage is not None:
                break
            kind, length = self._head.unpack_from(buffer, position)
            damage = self._check_length(kind, length, position)
            if damage is not None:
                break
            size = length + (-length & 3)  # some writers do not count the padding
            if len(buffer) - position < size:
                need = size
                break
            if kind in _PACKETS:
                run, position, damage = self._run(kind, buffer, position, room)
                if run is not None:
                    runs.append(run)
                    room -= len(run.start)
            else:
                damage = self._check_block(kind, buffer, position, length, size)
                if damage is None:
                    self._block(kind, buffer[position + 8 : position + size - 4])
                    position += size
            if damage is not None:
                break
        columns = Columns(*map(np.concatenate, zip(*runs, strict=True))) if runs else None
        return Parsed(columns, position, need, damage)

    # -- blocks one by one ---------------------------------------------------------------------

    def _enter_section(self, buffer: bytes, position: int) -> Damage | None:
        """At a section header: switch to its byte order, before its length is believed."""
        if buffer[position : position + 4] != MAGIC:
            return None if self._info.sections else Damage("no section header at the start", position)
        order = _BYTE_ORDERS.get(buffer[position + 8 : position + 12])
        if order is None:
            return Damage("a section header without a valid byte-order magic", position)
        self._order = order
        self._head = Struct(order + "II")
        return None

    def _check_length(self, kind: int, length: int, position: int) -> Damage | None:
        smallest = _SMALLEST.get(kind, _MIN_BLOCK)
        if smallest <= length <= self._max_block:
            return None
        return Damage(
            f"absurd block length: {length} bytes for block type {kind:#x}, possible are {smallest} to"
            f" {self._max_block}",
            position,
        )

    def _check_block(self, kind: int, buffer: bytes, position: int, length: int, size: int) -> Damage | None:
        """Return the damage of a complete block that holds no packet, if any."""
        trailer: int = Struct(self._order + "I").unpack_from(buffer, position + size - 4)[0]
        if trailer != length:
            return _lengths_differ(length, trailer, position)
        if kind == SECTION_HEADER:
            major: int = Struct(self._order + "H").unpack_from(buffer, position + 12)[0]
            if major != 1:
                return Damage(f"a section of pcapng version {major}, only 1 is known", position)
        described = len(self._info.interfaces) - self._base
        if kind == INTERFACE_DESCRIPTION and described >= MAX_SECTION_INTERFACES:
            return Damage(f"more than {MAX_SECTION_INTERFACES} interfaces in one section", position)
        return None

    def _block(self, kind: int, body: bytes) -> None:
        info, order = self._info, self._order
        if kind == SECTION_HEADER:
            self._base = len(info.interfaces)
            self._keep_comments(options(body[16:], order))
            info.sections += 1
        elif kind == INTERFACE_DESCRIPTION:
            pairs = list(options(body[8:], order))
            info.interfaces.append(interface(body, pairs, order, info.index))
            self._keep_comments(pairs)
        elif kind == NAME_RESOLUTION:
            records, rest = name_records(body, order)
            info.name_records += [record for record in records if info.keep(len(str(record)))]
            self._keep_comments(options(rest, order))
        elif kind == DECRYPTION_SECRETS:
            secret, rest = secrets(body, order)
            if info.keep(len(secret[1])):
                info.secrets.append(secret)
            self._keep_comments(options(rest, order))
        elif kind == INTERFACE_STATISTICS:
            self._keep_comments(options(body[12:], order))

    def _keep_comments(self, pairs: Iterable[tuple[int, bytes]]) -> None:
        for code, value in pairs:
            if code == OPT_COMMENT and self._info.keep(len(value)):
                self._info.comments.append(text(value))

    # -- packets as columns --------------------------------------------------------------------

    def _too_long(self, captured: int, block: int) -> str:
        limit = f", the limit is {self._max_record}" if captured > self._max_record else ", which is too small for it"
        return f"absurd packet length: {captured} bytes in a block of {block}{limit}"

    def _run(self, kind: int, buffer: bytes, position: int, limit: int) -> tuple[Columns | None, int, Damage | None]:
        """Index consecutive packet blocks of one type; the first is complete and of a believable length."""
        at, length, position = self._scan(kind, buffer, position, limit)
        u32 = self._order + "u4"
        damage: Damage | None = None
        trailer = gather(buffer, at + length + (-length & 3) - 4, u32)
        original = gather(buffer, at + (8 if kind == SIMPLE_PACKET else 24), u32)
        captured, interface, described = self._captured_lengths(kind, buffer, at, original)
        space = length - (16 if kind == SIMPLE_PACKET else 32)
        good = (trailer == length) & (captured <= space) & (captured <= self._max_record) & described
        if not good.all():
            bad = int(np.argmin(good))
            position = int(at[bad])
            if trailer[bad] != length[bad]:
                damage = _lengths_differ(int(length[bad]), int(trailer[bad]), position)
            elif not described[bad]:
                damage = Damage(f"a packet of the undescribed interface {interface[bad]}", position)
            else:
                damage = Damage(self._too_long(int(captured[bad]), int(length[bad])), position)
            at, length, captured = at[:bad], length[:bad], captured[:bad]
            original, interface = original[:bad], interface[:bad]
        if not len(at):
            return None, position, damage
        if kind != SIMPLE_PACKET:
            self._packet_comments(buffer, at, length, captured)
        return self._columns(kind, buffer, at, captured, original, interface), position, damage

    def _scan(self, kind: int, buffer: bytes, position: int, limit: int) -> tuple[Int64s, Int64s, int]:
        """Offsets and lengths of the complete blocks of type ``kind``, and where the run ends."""
        head, end = self._head.unpack_from, len(buffer)
        last = end - _SMALLEST[kind]
        smallest, largest = _SMALLEST[kind], self._max_block
        starts: list[int] = []
        append = starts.append
        for _ in range(limit):
            if position > last:
                break
            block, length = head(buffer, position)
            if block != kind or not smallest <= length <= largest:
                break
            append(position)
            position += length + (-length & 3)
        if position > end:
            position = starts.pop()
        at = np.array(starts, np.int64)
        return at, gather(buffer, at + 4, self._order + "u4"), position

    def _captured_lengths(
        self, kind: int, buffer: bytes, at: Int64s, original: Int64s
    ) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
        """Captured lengths, interfaces counted within the section, and whether these are described."""
        described = self._info.interfaces[self._base :]
        if kind == SIMPLE_PACKET:
            interface = np.zeros(len(at), np.int64)
            snaplen = described[0].snaplen if described else 0
            captured = np.minimum(original, snaplen) if snaplen else original
        else:
            size = "u4" if kind == ENHANCED_PACKET else "u2"  # the obsolete block counts drops beside it
            interface = gather(buffer, at + 8, self._order + size)
            captured = gather(buffer, at + 20, self._order + "u4")
        return captured, interface, interface < len(described)

    def _packet_comments(self, buffer: bytes, at: Int64s, length: Int64s, captured: Int64s) -> None:
        options_at = at + 28 + captured + (-captured & 3)
        options_end = at + length - 4
        for i in np.flatnonzero(options_end - options_at >= 4).tolist():
            pairs = options(buffer[int(options_at[i]) : int(options_end[i])], self._order)
            self._keep_comments(pairs)

    def _columns(
        self, kind: int, buffer: bytes, at: Int64s, captured: Int64s, original: Int64s, interface: Int64s
    ) -> Columns:
        described = self._info.interfaces[self._base :]
        time_ns = np.zeros(len(at), np.int64)
        if kind != SIMPLE_PACKET:
            u32 = self._order + "u4"
            high = gather(buffer, at + 12, u32).astype(np.uint64)
            ticks = high << np.uint64(32) | gather(buffer, at + 16, u32).astype(np.uint64)
            time_ns = _times(ticks, interface, described)
        linktypes = np.array([each.linktype for each in described], np.int32)
        return Columns(
            start=at + _DATA_AT[kind],
            captured=captured,
            original=original,
            time_ns=time_ns,
            linktype=linktypes[interface],
            interface=(interface + self._base).astype(np.int32),
        )


def _times(ticks: npt.NDArray[np.uint64], interface: Int64s, described: list[Interface]) -> Int64s:
    """Times of packets whose interfaces may count in different units."""
    units = [(each.tsresol, each.tsoffset) for each in described]
    if len(set(units)) == 1:
        return to_ns(ticks, *units[0])
    times = np.zeros(len(ticks), np.int64)
    for index in np.unique(interface).tolist():
        mine = interface == index
        times[mine] = to_ns(ticks[mine], *units[index])
    return times


def _lengths_differ(first: int, second: int, position: int) -> Damage:
    return Damage(f"a block whose two lengths differ ({first} and {second})", position)


OPT_END = 0
OPT_COMMENT = 1
_IF_TEXTS = {2: "name", 3: "description", 12: "os"}
_IF_TSRESOL, _IF_FILTER, _IF_TSOFFSET = 9, 11, 14
_NAME_IPV4, _NAME_IPV6 = 1, 2


def text(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", "replace")


def options(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """(code, value) pairs up to the end-of-options mark; stops at an option that does not fit."""
    head = Struct(order + "HH")
    at = 0
    while at + 4 <= len(data):
        code, length = head.unpack_from(data, at)
        at += 4
        if code == OPT_END or at + length > len(data):
            return
        yield code, data[at : at + length]
        at += length + (-length & 3)


def interface(body: bytes, pairs: Iterable[tuple[int, bytes]], order: str, file: int) -> Interface:
    """An interface description block: link type 2, reserved 2, snaplen 4, options."""
    linktype, snaplen = Struct(order + "HxxI").unpack_from(body)
    described = Interface(linktype, snaplen, file=file)
    for code, value in pairs:
        if code in _IF_TEXTS:
            setattr(described, _IF_TEXTS[code], text(value))
        elif code == _IF_TSRESOL and len(value) >= 1:
            described.tsresol = value[0]
        elif code == _IF_FILTER and value[:1] == b"\0":  # kind 0: text of a capture filter
            described.filter = text(value[1:])
        elif code == _IF_TSOFFSET and len(value) == 8:
            described.tsoffset = Struct(order + "q").unpack(value)[0]
    return described


def name_records(body: bytes, order: str) -> tuple[list[NameRecord], bytes]:
    """Records of a name-resolution block (type 2, length 2, padded value; type 0 ends), and the bytes after them."""
    head = Struct(order + "HH")
    records: list[NameRecord] = []
    at = 0
    while at + 4 <= len(body):
        kind, length = head.unpack_from(body, at)
        at += 4
        if kind == 0:
            break
        value = body[at : at + length]
        if len(value) < length:
            return records, b""
        at += length + (-length & 3)
        record = _name_record(kind, value)
        if record is not None:
            records.append(record)
    return records, body[at:]


def _name_record(kind: int, value: bytes) -> NameRecord | None:
    size = {_NAME_IPV4: 4, _NAME_IPV6: 16}.get(kind)
    if size is None or len(value) <= size:
        return None
    raw = value[:size]
    address = str(IPv4Address(raw)) if size == 4 else str(IPv6Address(raw))
    return NameRecord(address, tuple(text(name) for name in value[size:].split(b"\0") if name))


def secrets(body: bytes, order: str) -> tuple[tuple[int, bytes], bytes]:
    """A decryption-secrets block: secrets type 4, length 4, data padded to 4; and the options after it."""
    kind, length = Struct(order + "II").unpack_from(body)
    return (kind, body[8 : 8 + length]), body[8 + length + (-length & 3) :]
