"""Crypto-PAn (Xu, Fan, Ammar, Moon: "Prefix-Preserving IP Address Anonymization", 2002); AES is ``cryptography``'s."""

from __future__ import annotations

from hashlib import blake2b

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from wiredecode.anonymize.key import KEY_BYTES, Key

BLOCK = 16


class CryptoPan(Key):
    """Maps addresses bit by bit: two share n bits if, and only if, their images do. All else is as with other keys.

    ``secret``: 32 bytes, the AES key and the source of the padding. Other programs map alike with the same bytes.
    """

    def __init__(self, secret: bytes) -> None:
        super().__init__(blake2b(secret, digest_size=KEY_BYTES).digest())
        self._aes = Cipher(algorithms.AES(secret[:BLOCK]), modes.ECB()).encryptor()
        self._pad = int.from_bytes(self._aes.update(secret[BLOCK : 2 * BLOCK]))

    def _image(self, address: bytes) -> bytes:
        """Bit n of the image is bit n of the address, turned over where AES of the n bits before it says so."""
        bits, number = 8 * len(address), int.from_bytes(address)
        whole = number << 128 - bits
        starts = (whole >> 128 - n << 128 - n | self._pad & (1 << 128 - n) - 1 for n in range(bits))
        blocks = self._aes.update(b"".join(start.to_bytes(BLOCK) for start in starts))
        turned = int("".join("1" if first & 128 else "0" for first in blocks[::BLOCK]), 2)
        return (number ^ turned).to_bytes(len(address))

    def _ipv4(self, address: bytes) -> bytes:
        return self._image(address)

    def _ipv6(self, address: bytes) -> bytes:
        mapped = address[:12] == bytes(10) + b"\xff\xff"
        return address[:12] + self.ipv4(address[12:]) if mapped else self._image(address)
