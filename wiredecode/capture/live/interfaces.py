"""The interfaces of this machine: what they are called, what they carry, and whether they can be captured on."""

import errno
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from wiredecode.dataclasses import asdict, dataclass, field


class LiveError(Exception):
    """A live capture cannot begin. ``str()`` is one clear line; ``advice`` are further ones: what to do about it."""

    def __init__(self, what: str, *advice: str) -> None:
        super().__init__(what)
        self.advice = advice


ANY = "any"
"""Not an interface: all interfaces."""
LINKTYPE_ETHERNET, LINKTYPE_RAW, LINKTYPE_LINUX_SLL2 = 1, 101, 276
LINKTYPE_NAMES = {LINKTYPE_ETHERNET: "Ethernet", LINKTYPE_RAW: "raw IP", LINKTYPE_LINUX_SLL2: "Linux cooked v2"}
_ARPHRD_ETHERNET = (1, 772)  # Ethernet; loopback looks like it
_ARPHRD_RAW = (519, 768, 769, 776, 65534)  # raw IP, tunnels, SIT, TUN and WireGuard
_SYSTEM = Path("/sys/class/net")
_IFF_UP = 1


@dataclass(frozen=True, slots=True)
class Device:
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
    from ifaddr import get_adapters

    ips: dict[int, tuple[str, ...]] = {}
    with suppress(OSError):  # fenced off
        for nic in get_adapters():
            ips[nic.index or 0] = tuple(f"{ip.ip if ip.is_IPv4 else ip.ip[0]}/{ip.network_prefix}" for ip in nic.ips)
    listed = [_device(index, name, ips.get(index, ())) for index, name in socket.if_nameindex()]
    return [*listed, ALL] if on_linux() else listed


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


def refusal(device: Device) -> str:
    """Why this interface cannot be captured on now, or an empty string."""
    from wiredecode.capture.live.privileges import missing_right

    if device.state == "down" and not _is_up(device.name):
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


def _number(name: str, attribute: str) -> int | None:
    text = _read(name, attribute)
    return int(text, 0) if text else None


def _read(name: str, attribute: str) -> str:
    try:
        return (_SYSTEM / name / attribute).read_text().strip()
    except OSError:  # not available for this kind of interface
        return ""
