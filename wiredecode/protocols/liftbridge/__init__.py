"""Liftbridge: envelopes and Raft streams inside NATS messages."""

from wiredecode.protocols.liftbridge.protocol import Liftbridge

__all__ = ["Liftbridge"]
