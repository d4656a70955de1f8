"""The peer "dpkt": read a capture packet by packet, parse Ethernet, IPv4 and TCP, print a line of each."""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path

import dpkt

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    with parser.parse_args().file.open("rb") as file:
        for time, data in dpkt.pcap.Reader(file):
            ip = dpkt.ethernet.Ethernet(data).data
            if isinstance(ip, dpkt.ip.IP) and isinstance(ip.data, dpkt.tcp.TCP):
                tcp = ip.data
                ends = f"{socket.inet_ntoa(ip.src)}:{tcp.sport} > {socket.inet_ntoa(ip.dst)}:{tcp.dport}"
                sys.stdout.write(f"{time:.6f} {ends} {tcp.seq} {tcp.flags} {len(tcp.data)}\n")
