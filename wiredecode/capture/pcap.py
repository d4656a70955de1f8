"""The pcap file format (draft-ietf-opsawg-pcap): a 24-byte file header, then one record per packet.

::

    magic 4 | version 2+2 | reserved 4+4 | snaplen 4 | link type 4        file header
    seconds 4 | fraction 4 | captured 4 | original 4 | packet bytes       record

The byte order and the unit of the fraction follow from the magic. The "modified" variant of old Linux
distributions has 8 more bytes (interface, protocol, packet type) in every record header.
"""

from struct import Struct

import numpy as np

from wiredecode.capture.batch import NS_PER_SECOND, Columns, Damage, Parsed, gather
from wiredecode.capture.info import FileInfo, Interface

FILE_HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16
MODIFIED_HEADER_BYTES = 24

# magic as a big-endian number: name, nanoseconds per unit, bytes of a record header
_VARIANTS = {
    0xA1B2C3D4: ("pcap", 1000, RECORD_HEADER_BYTES),
    0xA1B23C4D: ("pcap (nanoseconds)", 1, RECORD_HEADER_BYTES),
    0xA1B2CD34: ("pcap (modified)", 1000, MODIFIED_HEADER_BYTES),
}
MAGICS = {
    number.to_bytes(4, "little" if order == "<" else "big"): (order, variant)
    for number, variant in _VARIANTS.items()
    for order in "<>"
}
_LINKTYPE_MASK = 0xFFFF


class Pcap:
    """Index the records of a pcap file."""

    def __init__(self, magic: bytes, info: FileInfo, max_record: int) -> None:
        self._order, (info.format, self._unit_ns, self._header) = MAGICS[magic]
        self._info = info
        self._max_record = max_record
        self._length = Struct(self._order + "I")
        self._linktype: int | None = None

    def unit(self) -> str:
        """Name of the unit that is truncated if the file ends too early."""
        return "the file header" if self._linktype is None else "a packet record"

    def parse(self, buffer: bytes, position: int, limit: int) -> Parsed:
        """Index at most ``limit`` packets of ``buffer[position:]``."""
        if self._linktype is None:
            if len(buffer) - position < FILE_HEADER_BYTES:
                return Parsed(None, position, FILE_HEADER_BYTES)
            self._linktype = self._read_file_header(buffer, position)
            position += FILE_HEADER_BYTES
        header, end = self._header, len(buffer)
        starts = self._records(buffer, position, limit)
        if starts:
            position = starts[-1] + header + self._length.unpack_from(buffer, starts[-1] + 8)[0]
        need = header
        damage = None
        if position > end:  # the last record is not there yet in full
            need = position - starts[-1]
            position = starts.pop()
            if need - header > self._max_record:
                damage = self._absurd(need - header, position)
        columns = self._columns(buffer, starts)
        if columns is not None and int(columns.captured.max()) > self._max_record:
            bad = int(np.argmax(columns.captured > self._max_record))
            position = starts[bad]
            damage = self._absurd(int(columns.captured[bad]), position)
            columns = self._columns(buffer, starts[:bad])
        return Parsed(columns, position, need, damage)

    def _records(self, buffer: bytes, position: int, limit: int) -> list[int]:
        """Where records start; the last one may end beyond the buffer."""
        header, length_at = self._header, self._length.unpack_from
        last = len(buffer) - header
        starts: list[int] = []
        append = starts.append
        for _ in range(limit):
            if position > last:
                break
            append(position)
            position += header + length_at(buffer, position + 8)[0]
        return starts

    def _read_file_header(self, buffer: bytes, position: int) -> int:
        snaplen, network = Struct(self._order + "II").unpack_from(buffer, position + 16)
        linktype: int = network & _LINKTYPE_MASK
        resolution = 9 if self._unit_ns == 1 else 6
        interface = Interface(linktype, snaplen, resolution, file=self._info.index)
        self._info.interfaces.append(interface)
        return linktype

    def _columns(self, buffer: bytes, starts: list[int]) -> Columns | None:
        if not starts:
            return None
        at = np.array(starts, np.int64)
        u32 = self._order + "u4"
        count = len(starts)
        return Columns(
            start=at + self._header,
            captured=gather(buffer, at + 8, u32),
            original=gather(buffer, at + 12, u32),
            time_ns=gather(buffer, at, u32) * NS_PER_SECOND + gather(buffer, at + 4, u32) * self._unit_ns,
            linktype=np.full(count, self._linktype, np.int32),
            interface=np.zeros(count, np.int32),
        )

    def _absurd(self, captured: int, offset: int) -> Damage:
        return Damage(
            f"absurd record length: {captured} bytes, the limit is {self._max_record}",
            offset,
            "the file is probably damaged here; everything before it has been read",
        )
