"""What a file looks like that is not a capture we read: for an error message that helps."""

from __future__ import annotations

_CONVERT = "convert it with: editcap -F pcapng FILE OUT.pcapng"
_UNPACK = "unpack it first"

# (offset, bytes, name, what to do)
_KNOWN: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"snoop\0\0\0", "a snoop capture", _CONVERT),
    (0, b"\x1c\x00\x01\xac", "an Ixia hardware capture", _CONVERT),
    (0, b"\x1c\x00\x01\xab", "an Ixia software capture", _CONVERT),
    (0, b"\xac\x01\x00\x1c", "an Ixia hardware capture", _CONVERT),
    (0, b"\xab\x01\x00\x1c", "an Ixia software capture", _CONVERT),
    (0, b"GMBU", "a Microsoft Network Monitor 2 capture", _CONVERT),
    (0, b"RTSS", "a Microsoft Network Monitor 1 capture", _CONVERT),
    (0, b"TRSNIFF data", "a Sniffer capture", _CONVERT),
    (0, b"XCP\0", "a NetXRay or Sniffer capture", _CONVERT),
    (0, b"ObserverPktBuffe", "a Network Instruments Observer capture", _CONVERT),
    (0, b"btsnoop\0", "a Bluetooth HCI snoop log", "it holds no TCP"),
    (0, b"\x02\x21\x4c\x18", "lz4 in its legacy format", "unpack it with: lz4 -d FILE"),
    (0, b"BZh", "bzip2", "unpack it with: bzip2 -dc FILE | wiredecode pcap -"),
    (0, b"\xfd7zXZ\0", "xz", "unpack it with: xz -dc FILE | wiredecode pcap -"),
    (1, b"\x2a\x4d\x18", "a skippable zstd or lz4 frame", "unpack it into: wiredecode pcap -"),
    (0, b"PK\x03\x04", "a zip archive", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (0, b"PAR1", "Parquet", ""),
    (0, b"ARROW1", "Arrow", ""),
    (0, b"\x7fELF", "a program", ""),
    (0, b"%PDF", "a PDF document", ""),
    (0, b"\x1f\x8b", "gzip inside a compressed file", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "zstd inside a compressed file", _UNPACK),
)
_TEXT_BYTES = 64


def looks_like(head: bytes) -> tuple[str, str]:
    """(what the first bytes of a file look like, what to do about it, possibly empty)."""
    for offset, magic, name, advice in _KNOWN:
        if head.startswith(magic, offset):
            return name, advice
    if not head.strip(b"\0"):
        return "nothing but zero bytes", ""
    start = head[:_TEXT_BYTES]
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start):
        shown = start.split(b"\n")[0].strip()[:24].decode("ascii")
        return f"text ({shown!r})", ""
    return f"unknown data ({head[:8].hex(' ')})", ""
