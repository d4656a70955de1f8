"""TLS between reassembly and dissection: with the secrets of a connection its records become the bytes inside them."""

from wiredecode.tls.keylog import KeyLog
from wiredecode.tls.stage import Decryption

__all__ = ["Decryption", "KeyLog"]
