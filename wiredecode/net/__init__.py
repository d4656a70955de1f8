"""Packets to streams: link types, IPv4 and IPv6 with fragments, TCP reassembly."""

from wiredecode.net.limits import Limits
from wiredecode.net.network import Network
from wiredecode.net.types import Chunk, Connection, Direction, End, Event, Gap, Note

__all__ = ["Chunk", "Connection", "Direction", "End", "Event", "Gap", "Limits", "Network", "Note"]
