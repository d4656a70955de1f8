"""The interfaces of this machine: what they are called, what they carry, and whether they can be captured on."""

import errno
import socket
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from struct import Struct
from typing import Any


class LiveError(Exception):
    """A live capture cannot begin. ``str()`` is one clear line; ``advice`` are further ones: what to do about it."""

    def __init__(self, what: str, *advice: str) -> None:
        super().__init__(what)
        self.advice = advice


ANY = "any"
"""Not an interface: all interfaces."""
LINKTYPE_ETHERNET, LINKTYPE_RAW, LINKTYPE_LINUX_SLL2 = 1, 101, 276
LINKTYPE_NAMES = {
    LINKTYPE_ETHERNET: "Ethernet",
    LINKTYPE_RAW: "raw IP",
    LINKTYPE_LINUX_SLL2: "Linux cooked v2",
}
_ARPHRD_ETHERNET = (1, 772)  # Ethernet; loopback looks like it
_ARPHRD_RAW = (519, 768, 769, 776, 65534)  # raw IP, tunnels, SIT, TUN and WireGuard
_SYSTEM = Path("/sys/class/net")
_IFF_UP = 1


@dataclass(frozen=True, slots=True)
class Device:
    """An interface."""

    name: str
    index: int
    """0: all interfaces."""
    linktype: int
    """LINKTYPE_ of a capture on it."""
    state: str = ""
    """``up``, ``down`` or ``unknown``: the kernel's operational state (RFC 2863), ``up`` if it has none."""
    mac: str = ""
    mtu: int = 0
    addresses: tuple[str, ...] = field(default=())
    """``address/prefix``, IPv4 and IPv6."""

    @property
    def cooked(self) -> bool:
        """Whether the kernel takes the link header away, and one that fits all kinds of links is put in its place."""
        return self.linktype == LINKTYPE_LINUX_SLL2

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "addresses": list(self.addresses), "link": LINKTYPE_NAMES[self.linktype]}


ALL = Device(ANY, 0, LINKTYPE_LINUX_SLL2, state="up")


def names() -> list[str]:
    """The interfaces by name, in the kernel's order."""
    return [name for _, name in socket.if_nameindex()]


def devices() -> list[Device]:
    """Return every interface, and `ALL` if the system can capture on all interfaces."""
    try:
        known = addresses()
    except (OSError, AttributeError):  # no rtnetlink: not Linux, or fenced off
        known = {}
    found = [_device(index, name, tuple(known.get(index, ()))) for index, name in socket.if_nameindex()]
    return [*found, ALL] if on_linux() else found


def device(name: str) -> Device:
    """The interface of that name. Raises LiveError if there is none."""
    if name == ANY:
        return ALL
    try:
        return _device(socket.if_nametoindex(name), name, ())
    except OSError as error:
        if error.errno not in (errno.ENODEV, errno.ENXIO, None):
            raise LiveError(f"{name}: {error.strerror}") from None
        there = ", ".join([*names(), ANY])
        raise LiveError(f"no interface is called {name!r}; there is {there} (see wiredecode interfaces)") from None


def on_linux() -> bool:
    """Whether packet sockets are known here."""
    return hasattr(socket, "AF_PACKET")


def refusal(one: Device) -> str:
    """Why this interface cannot be captured on now, or an empty string."""
    from wiredecode.capture.live.privileges import missing_right

    if one.state == "down" and not _is_up(one.name):
        return "is down"
    return missing_right()


def _device(index: int, name: str, addresses: tuple[str, ...]) -> Device:
    hardware = _number(name, "type")
    if hardware in _ARPHRD_ETHERNET:
        linktype = LINKTYPE_ETHERNET
    else:
        linktype = LINKTYPE_RAW if hardware in _ARPHRD_RAW else LINKTYPE_LINUX_SLL2
    state = _read(name, "operstate")
    if state in ("", "unknown"):  # loopback and tunnels have none
        state = "up" if _is_up(name) else "down"
    return Device(name, index, linktype, state, _read(name, "address"), _number(name, "mtu") or 0, addresses)


def _is_up(name: str) -> bool:
    return bool((_number(name, "flags") or 0) & _IFF_UP)


def _number(name: str, what: str) -> int | None:
    text = _read(name, what)
    return int(text, 0) if text else None


def _read(name: str, what: str) -> str:
    try:
        return (_SYSTEM / name / what).read_text().strip()
    except OSError:  # not available for this kind of interface
        return ""


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
