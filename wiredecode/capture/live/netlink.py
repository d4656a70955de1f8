"""Addresses of all interfaces, asked of the kernel by rtnetlink(7): needs no rights and no other program."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from struct import Struct

_HEADER = Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_ADDRESS = Struct("=BBBBI")  # ifaddrmsg: family, prefix length, flags, scope, interface index
_ATTRIBUTE = Struct("=HH")  # rtattr: length, type
_DONE, _ERROR, _NEW_ADDRESS, _GET_ADDRESS = 3, 2, 20, 22
_REQUEST_DUMP = 0x301
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RECEIVE_BYTES = 64 * 1024


def addresses() -> dict[int, list[str]]:
    """``address/prefix`` of every interface, by its index. Raises OSError where the kernel does not answer."""
    found: dict[int, list[str]] = defaultdict(list)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(1)
        kernel.send(
            _HEADER.pack(_HEADER.size + _ADDRESS.size, _GET_ADDRESS, _REQUEST_DUMP, 1, 0) + bytes(_ADDRESS.size)
        )
        while True:
            for kind, body in _messages(kernel.recv(_RECEIVE_BYTES)):
                if kind in (_DONE, _ERROR):
                    return found
                if kind == _NEW_ADDRESS and (one := _address(body)) is not None:
                    found[one[0]].append(one[1])


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _, _, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        yield kind, data[at + _HEADER.size : at + length]
        at += length + (-length & 3)


def _address(body: bytes) -> tuple[int, str] | None:
    """(interface index, address/prefix); of a point-to-point link the local end."""
    _, prefix, _, _, index = _ADDRESS.unpack_from(body)
    values: dict[int, bytes] = {}
    at = _ADDRESS.size
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if length < _ATTRIBUTE.size:
            break
        values[kind] = body[at + _ATTRIBUTE.size : at + length]
        at += length + (-length & 3)
    raw = values.get(_IFA_LOCAL) or values.get(_IFA_ADDRESS) or b""
    if len(raw) == 4:
        return index, f"{IPv4Address(raw)}/{prefix}"
    return (index, f"{IPv6Address(raw)}/{prefix}") if len(raw) == 16 else None
