"""NATS: the client protocol, and routes, gateways and leaf links between servers."""

from wiredecode.protocols.nats.protocol import Nats

__all__ = ["Nats"]
