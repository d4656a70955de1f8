"""The pcapng blocks that hold no packet, and options: from bytes to what ``info`` keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from struct import Struct

from wiredecode.capture.info import Interface, NameRecord, Section

OPT_END = 0
OPT_COMMENT = 1
_SHB_HARDWARE, _SHB_OS, _SHB_APPLICATION = 2, 3, 4
_IF_NAME, _IF_DESCRIPTION, _IF_TSRESOL, _IF_FILTER, _IF_OS, _IF_FCSLEN, _IF_TSOFFSET = 2, 3, 9, 11, 12, 13, 14
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


def section(found: Iterable[tuple[int, bytes]], order: str) -> Section:
    names = {_SHB_HARDWARE: "hardware", _SHB_OS: "os", _SHB_APPLICATION: "application"}
    known = {names[code]: text(value) for code, value in found if code in names}
    return Section(**known, byteorder="little" if order == "<" else "big")


def interface(body: bytes, found: Iterable[tuple[int, bytes]], order: str, file: int) -> Interface:
    """An interface description block: link type 2, reserved 2, snaplen 4, options."""
    linktype, snaplen = Struct(order + "HxxI").unpack_from(body)
    one = Interface(linktype, snaplen, file=file)
    for code, value in found:
        if code == _IF_NAME:
            one.name = text(value)
        elif code == _IF_DESCRIPTION:
            one.description = text(value)
        elif code == _IF_TSRESOL and len(value) >= 1:
            one.tsresol = value[0]
        elif code == _IF_FILTER and value[:1] == b"\0":  # kind 0: text of a capture filter
            one.filter = text(value[1:])
        elif code == _IF_OS:
            one.os = text(value)
        elif code == _IF_FCSLEN and len(value) >= 1:
            one.fcs_bytes = value[0]
        elif code == _IF_TSOFFSET and len(value) == 8:
            one.tsoffset = Struct(order + "q").unpack(value)[0]
    return one


def name_records(body: bytes, order: str) -> tuple[list[NameRecord], bytes]:
    """The records of a name-resolution block, and the bytes after them (options).

    Record: type 2, length 2, value padded to 4; type 0 ends the records.
    """
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
