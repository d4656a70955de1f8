"""Pravega: the wire protocol of its segment store, and the protocol once proposed for it."""

from wiredecode.protocols.pravega.protocol import Pravega

__all__ = ["Pravega"]
