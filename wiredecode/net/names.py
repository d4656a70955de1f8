"""Names of packets that are counted as not decoded."""

from functools import cache
from pathlib import Path

TRUNCATED = "truncated header"
FRAGMENT_INCOMPLETE = "IP fragment incomplete"

ADDRESS_FAMILY = 1 << 16
"""Added to a BSD address family that is not IP, to distinguish it from an ethertype."""
IP_VERSION = 1 << 17
"""Added to the version nibble of a raw IP packet that is neither 4 nor 6."""

IP_PROTOCOL = 1 << 18
"""Added to the protocol of an IP packet that could have carried another packet, and does not."""


@cache
def _names(table: str) -> dict[int, str]:
    import tomllib  # most captures hold nothing that needs a name

    tables = tomllib.loads(Path(__file__).with_name("names.toml").read_text("utf-8"))
    return {int(number, 0): name for number, name in tables[table].items()}


def linktype_name(linktype: int) -> str:
    """``"linktype 147 (USER0)"``."""
    name = f"USER{linktype - 147}" if 147 <= linktype <= 162 else _names("linktypes").get(linktype, "unknown")
    return f"linktype {linktype} ({name})"


def ethertype_name(ethertype: int) -> str:
    """Name of a network layer other than IP, as `link.network_layer` numbers them."""
    if ethertype < 0:
        return TRUNCATED
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
