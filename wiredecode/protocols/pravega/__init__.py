"""Pravega: the wire protocol of its segment store, and the protocol once proposed for it."""

NAME = "pravega"
PORTS = (12345, 6000, 9999)
