"""Names of what is counted as not decoded (IANA ethertypes and protocol numbers, tcpdump.org link types)."""

from __future__ import annotations

TRUNCATED = "truncated header"
FRAGMENT_INCOMPLETE = "IP fragment incomplete"

ADDRESS_FAMILY = 1 << 16
"""Added to a BSD address family that is not IP, to tell it from an ethertype."""
IP_VERSION = 1 << 17
"""Added to the version nibble of a raw IP packet that is neither 4 nor 6."""

IP_PROTOCOL = 1 << 18
"""Added to the protocol of an IP packet that could have carried another packet, and does not."""

_ETHERTYPES = {
    0x0806: "ARP",
    0x6558: "Ethernet in Ethernet",
    0x8035: "RARP",
    0x8100: "too many VLAN tags",
    0x88A8: "too many VLAN tags",
    0x9100: "too many VLAN tags",
    0x809B: "AppleTalk",
    0x8137: "IPX",
    0x8808: "Ethernet flow control",
    0x8809: "Ethernet slow protocols",
    0x8847: "MPLS",
    0x8848: "MPLS multicast",
    0x8863: "PPPoE discovery",
    0x8864: "PPPoE",
    0x888E: "EAPOL",
    0x8892: "PROFINET",
    0x88A4: "EtherCAT",
    0x88CC: "LLDP",
    0x88E5: "MACsec",
    0x88E7: "802.1ah",
    0x88F7: "PTP",
    0x8926: "VN-Tag",
    0x8906: "FCoE",
    0x9000: "Ethernet loopback",
}

_PROTOCOLS = {
    1: "ICMP",
    2: "IGMP",
    4: "IP in IP",
    17: "UDP",
    33: "DCCP",
    41: "IPv6 in IP",
    46: "RSVP",
    47: "GRE",
    50: "ESP",
    58: "ICMPv6",
    59: "IPv6 no next header",
    88: "EIGRP",
    89: "OSPF",
    103: "PIM",
    112: "VRRP",
    132: "SCTP",
    136: "UDP-Lite",
    137: "MPLS in IP",
}

_LINKTYPES = {
    3: "AX25",
    6: "IEEE802_5",
    7: "ARCNET_BSD",
    8: "SLIP",
    9: "PPP",
    10: "FDDI",
    50: "PPP_HDLC",
    51: "PPP_ETHER",
    100: "ATM_RFC1483",
    104: "C_HDLC",
    105: "IEEE802_11",
    107: "FRELAY",
    114: "LTALK",
    117: "PFLOG",
    119: "IEEE802_11_PRISM",
    122: "IP_OVER_FC",
    127: "IEEE802_11_RADIOTAP",
    163: "IEEE802_11_AVS",
    187: "BLUETOOTH_HCI_H4",
    189: "USB_LINUX",
    195: "IEEE802_15_4_WITHFCS",
    201: "BLUETOOTH_HCI_H4_WITH_PHDR",
    220: "USB_LINUX_MMAPPED",
    227: "CAN_SOCKETCAN",
    239: "NFLOG",
    240: "NETANALYZER",
    249: "USBPCAP",
    252: "WIRESHARK_UPPER_PDU",
    253: "NETLINK",
    271: "VSOCK",
    272: "NORDIC_BLE",
}


def linktype_name(linktype: int) -> str:
    """``"linktype 147 (USER0)"``."""
    name = f"USER{linktype - 147}" if 147 <= linktype <= 162 else _LINKTYPES.get(linktype, "unknown")
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
    return _ETHERTYPES.get(ethertype, f"ethertype 0x{ethertype:04x}")


def protocol_name(protocol: int) -> str:
    """Name of a transport other than TCP, by its IP protocol number."""
    return _PROTOCOLS.get(protocol, f"IP protocol {protocol}")
