"""Link layer: start and type of the network layer, for all packets of a batch together; names of the types."""

from functools import cache

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.data import tables_of

IPV4 = 0x0800
IPV6 = 0x86DD
VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
"""802.1Q, 802.1ad, and the older QinQ."""
TRUNCATED = -1
UNKNOWN_LINKTYPE = -2

LINKTYPE_NULL = 0
LINKTYPE_ETHERNET = 1
LINKTYPE_LOOP = 108
LINKTYPE_LINUX_SLL = 113
LINKTYPE_LINUX_SLL2 = 276
LINKTYPE_PPP = 9
LINKTYPE_PPI = 192
LINKTYPE_NFLOG = 239
LINKTYPES_RAW = (12, 14, 101)
"""101 is LINKTYPE_RAW; 12 and 14 are DLT_RAW as BSD and OpenBSD wrote it into files."""
LINKTYPE_IPV4 = 228
LINKTYPE_IPV6 = 229
FAMILIES_IPV6 = (10, 24, 28, 30)
"""AF_INET6 of Linux, NetBSD and OpenBSD, FreeBSD, Darwin."""

PPP_PROTOCOLS = {0x21: IPV4, 0x57: IPV6}
NFLOG_PAYLOAD, NFLOG_PREFIX = 9, 10
"""Types of the attributes that hold the packet, and a text of the rule that logs it."""
MAX_ATTRIBUTES = 32
"""Attributes of NFLOG before it, at most; the kernel writes some 15."""

_TYPED = {LINKTYPE_ETHERNET: (12, 14), LINKTYPE_LINUX_SLL: (14, 16), LINKTYPE_LINUX_SLL2: (0, 20)}
"""Link types that carry an ethertype: its position, length of the header."""


class Octets:
    """A buffer to gather big-endian integers from, one numpy gather per column.

    An index too near to the end reads the last bytes of the buffer: callers check lengths and ignore that.
    """

    __slots__ = ("_size", "_u8", "_u16", "_u32", "_u64")

    def __init__(self, buffer: bytes) -> None:
        if len(buffer) < 8:
            buffer = bytes(buffer) + bytes(8)
        size = self._size = len(buffer)
        self._u8 = np.frombuffer(buffer, np.uint8)
        self._u16: npt.NDArray[np.uint16] = np.ndarray((size - 1,), "<u2", buffer, 0, (1,))
        self._u32: npt.NDArray[np.uint32] = np.ndarray((size - 3,), "<u4", buffer, 0, (1,))
        self._u64: npt.NDArray[np.uint64] = np.ndarray((size - 7,), "<u8", buffer, 0, (1,))

    def u8(self, at: Int64s) -> Int64s:
        return self._u8[np.minimum(at, self._size - 1)].astype(np.int64)

    def u16(self, at: Int64s) -> Int64s:
        return self._u16[np.minimum(at, self._size - 2)].byteswap().astype(np.int64)

    def u32(self, at: Int64s) -> Int64s:
        return self._u32[np.minimum(at, self._size - 4)].byteswap().astype(np.int64)

    def u64(self, at: Int64s) -> npt.NDArray[np.uint64]:
        return self._u64[np.minimum(at, self._size - 8)].byteswap()


def network_layer(batch: PacketBatch, octets: Octets, vlan_tags: int) -> tuple[Int64s, Int64s]:
    """Offset of each packet's network layer, and its ethertype; else `TRUNCATED`, `UNKNOWN_LINKTYPE` or a reason."""
    linktypes = batch.linktype
    first = int(linktypes[0])
    if (linktypes == first).all():
        return _one_linktype(first, batch.start, batch.captured, octets, vlan_tags)
    offset = batch.start.copy()
    ethertype = np.empty(len(batch), np.int64)
    for linktype in np.unique(linktypes).tolist():
        rows = np.flatnonzero(linktypes == linktype)
        offset[rows], ethertype[rows] = _one_linktype(
            linktype, batch.start[rows], batch.captured[rows], octets, vlan_tags
        )
    return offset, ethertype


def _one_linktype(
    linktype: int, start: Int64s, captured: Int64s, octets: Octets, vlan_tags: int
) -> tuple[Int64s, Int64s]:
    if linktype == LINKTYPE_PPI:
        return _inside_ppi(start, captured, octets, vlan_tags)
    if linktype in _TYPED:
        at, length = _TYPED[linktype]
        offset, ethertype = untag(start + length, octets.u16(start + at), octets, vlan_tags)
    elif linktype in LINKTYPES_RAW:
        version = octets.u8(start) >> 4
        offset, ethertype = start, np.where(version == 4, IPV4, np.where(version == 6, IPV6, IP_VERSION + version))
        return offset, np.where(captured > 0, ethertype, TRUNCATED)
    elif linktype in (LINKTYPE_NULL, LINKTYPE_LOOP):
        offset, ethertype = start + 4, _by_family(octets.u32(start))
    elif linktype == LINKTYPE_PPP:
        offset, ethertype = _behind_ppp(start, octets)
    elif linktype == LINKTYPE_NFLOG:
        offset, ethertype = _inside_nflog(start, captured, octets), _family_type(octets.u8(start))
    elif linktype in (LINKTYPE_IPV4, LINKTYPE_IPV6):
        offset, ethertype = start, np.full(len(start), IPV4 if linktype == LINKTYPE_IPV4 else IPV6, np.int64)
    else:
        offset, ethertype = start, np.full(len(start), UNKNOWN_LINKTYPE, np.int64)
    short = offset > start + captured
    if short.any():
        ethertype = np.where(short, TRUNCATED, ethertype)
    return offset, ethertype


def untag(offset: Int64s, ethertype: Int64s, octets: Octets, vlan_tags: int) -> tuple[Int64s, Int64s]:
    """Step over VLAN tags: two bytes of tag control, then the next ethertype."""
    for _ in range(vlan_tags):
        tagged = (ethertype == VLAN_TAGS[0]) | (ethertype == VLAN_TAGS[1]) | (ethertype == VLAN_TAGS[2])
        if not tagged.any():
            break
        ethertype = np.where(tagged, octets.u16(offset + 2), ethertype)
        offset = offset + 4 * tagged
    return offset, ethertype


def _by_family(word: Int64s) -> Int64s:
    """BSD null header: the address family in the byte order of the host (loop: always big-endian)."""
    return _family_type(np.where(word > 0xFFFF, _swapped(word >> 16), word))


def _swapped(number: Int64s) -> Int64s:
    """The low 16 bits, in the other byte order."""
    return ((number & 0xFF) << 8) | ((number >> 8) & 0xFF)


def _family_type(family: Int64s) -> Int64s:
    return np.where(family == 2, IPV4, np.where(np.isin(family, FAMILIES_IPV6), IPV6, ADDRESS_FAMILY + family))


def _behind_ppp(start: Int64s, octets: Octets) -> tuple[Int64s, Int64s]:
    """PPP: address and control may be left out, and the protocol's first byte if it is 0 (RFC 1661 section 6)."""
    offset = start + 2 * (octets.u16(start) == 0xFF03)
    short = octets.u8(offset) & 1 == 1
    protocol = np.where(short, octets.u8(offset), octets.u16(offset))
    ethertype = PPP_NUMBER + protocol
    for number, known in PPP_PROTOCOLS.items():
        ethertype = np.where(protocol == number, known, ethertype)
    return offset + np.where(short, 1, 2), ethertype


def _inside_ppi(start: Int64s, captured: Int64s, octets: Octets, vlan_tags: int) -> tuple[Int64s, Int64s]:
    """A PPI header names its length and the link type of its packet, little-endian."""
    length, inner = _swapped(octets.u16(start + 2)), _swapped(octets.u16(start + 4))
    offset, ethertype = start + length, np.full(len(start), TRUNCATED, np.int64)
    whole = (length >= 8) & (length <= captured)
    for linktype in np.unique(inner[whole]).tolist():
        rows = np.flatnonzero(whole & (inner == linktype))
        if linktype == LINKTYPE_PPI:  # only a forged one holds another
            ethertype[rows] = UNKNOWN_LINKTYPE
            continue
        place = offset[rows], captured[rows] - length[rows]
        offset[rows], ethertype[rows] = _one_linktype(linktype, *place, octets, vlan_tags)
    return offset, ethertype


def _inside_nflog(start: Int64s, captured: Int64s, octets: Octets) -> Int64s:
    """Where the packet begins among the attributes of NFLOG: length and type in the byte order of the host, padding."""
    at, end, found = start + 4, start + captured, np.zeros(len(start), bool)
    for _ in range(MAX_ATTRIBUTES):
        length, kind = octets.u16(at), octets.u16(at + 2)
        little = (kind > 0xFF) | ((kind == 0) & (length > 0xFF))
        length = np.where(little, _swapped(length), length)
        found |= (np.where(little, kind >> 8, kind) == NFLOG_PAYLOAD) & (at < end)
        if (found | (at >= end)).all():
            break
        at = np.where(found, at, at + np.maximum((length + 3) & ~3, 4))
    return np.where(found, at + 4, end + 1)


HEADER_TRUNCATED = "truncated header"
FRAGMENT_INCOMPLETE = "IP fragment incomplete"

PPP_NUMBER = 1 << 19
"""Added to the protocol of a PPP frame that is not IP."""
ADDRESS_FAMILY = 1 << 16
"""Added to a BSD address family that is not IP, to distinguish it from an ethertype."""
IP_VERSION = 1 << 17
"""Added to the version nibble of a raw IP packet that is neither 4 nor 6."""

IP_PROTOCOL = 1 << 18
"""Added to the protocol of an IP packet that could have carried another packet, and does not."""


@cache
def _names(table: str) -> dict[int, str]:
    tables = tables_of(__package__, "names.toml")
    return {int(number, 0): name for number, name in tables[table].items()}


def linktype_name(linktype: int) -> str:
    """``"linktype 147 (USER0)"``."""
    name = f"USER{linktype - 147}" if 147 <= linktype <= 162 else _names("linktypes").get(linktype, "unknown")
    return f"linktype {linktype} ({name})"


def ethertype_name(ethertype: int) -> str:
    """Name of a network layer other than IP, as `link.network_layer` numbers them."""
    if ethertype < 0:
        return HEADER_TRUNCATED
    if ethertype >= PPP_NUMBER:
        return f"PPP protocol 0x{ethertype - PPP_NUMBER:04x}"
    if ethertype >= IP_PROTOCOL:
        return protocol_name(ethertype - IP_PROTOCOL)
    if ethertype >= IP_VERSION:
        return f"raw IP version {ethertype - IP_VERSION}"
    if ethertype >= ADDRESS_FAMILY:
        return f"address family {ethertype - ADDRESS_FAMILY}"
    if ethertype < 0x0600:
        return "IEEE 802.3 LLC"
    return _names("ethertypes").get(ethertype, f"ethertype 0x{ethertype:04x}")


def protocol_name(protocol: int) -> str:
    """Name of a transport other than TCP, by its IP protocol number."""
    return _names("protocols").get(protocol, f"IP protocol {protocol}")
