"""Raft between Liftbridge's metadata servers, carried in plain NATS messages.

Source: liftbridge-io/nats-on-a-log (nats_transport.go) and hashicorp/raft (commands.go, log.go, net_transport.go). A
server dials another with a JSON request; then each side publishes bytes to the other's inbox::

    caller:  type u8 | MessagePack map                  for each RPC; after InstallSnapshot the snapshot's bytes
    callee:  MessagePack string (error) | MessagePack map   for each answer, in order

Keys are the names of Go's struct fields, those of the RPC header included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import orjson

from wiredecode.fields import EPOCH, Rest, Short, UInt8, UInt32, printable, rfc3339_ns, text
from wiredecode.layer import Layer, Style
from wiredecode.protobuf import Embedded, message
from wiredecode.protobuf import Message as Protobuf
from wiredecode.protocols.liftbridge import names
from wiredecode.protocols.liftbridge.messagepack import (
    ErrorText,
    Integer,
    Keyed,
    MapLayer,
    Maps,
    Raw,
    String,
    Truth,
    keyed,
)
from wiredecode.protocols.liftbridge.operations import MetadataSnapshot, RaftLog

NAME = "raft"
YEAR_ONE_SECONDS = 62_135_596_800
"""Go counts time from the year 1: so many seconds before the Unix epoch."""
