"""Packets as record batches: what link, IP and TCP headers tell, and why a packet was not decoded (docs/tables.md)."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wiredecode.capture.batch import Int64s, PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.net import link
from wiredecode.net.clock import Clock
from wiredecode.net.connections import endpoint
from wiredecode.net.ip import IpReader, Packet
from wiredecode.net.limits import Limits
from wiredecode.net.link import Octets
from wiredecode.net.names import ethertype_name, linktype_name, protocol_name
from wiredecode.net.segments import IPV6_FLOW, Segments, from_rows
from wiredecode.net.headers import HeaderReader
from wiredecode.tables.schema import packets_schema
