"""The peer "Scapy": read a capture packet by packet, dissect it and print Scapy's one-line summary."""

from __future__ import annotations

import argparse
import sys

from scapy.layers.inet import TCP  # noqa: F401  (binds IPv4 and TCP to Ethernet)
from scapy.layers.l2 import Ether  # noqa: F401  (registers the link type)
from scapy.utils import PcapReader

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("-c", type=int, default=0, metavar="N", help="stop after N packets")
    options = parser.parse_args()
    with PcapReader(options.file) as reader:
        for number, packet in enumerate(reader, 1):
            sys.stdout.write(packet.summary() + "\n")
            if number == options.c:
                break
