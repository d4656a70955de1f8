"""Cursus: the length-prefixed protocol of the Cursus broker, text commands and binary batches."""

from wiredecode.protocols.cursus.protocol import Cursus

__all__ = ["Cursus"]
