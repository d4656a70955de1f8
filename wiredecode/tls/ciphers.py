"""Cipher suites: keys from secrets (RFC 5246 sections 5 and 6.3, RFC 8446 section 7), and opening one record."""

import hmac as compare
from collections.abc import Callable
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from wiredecode.data import storable

GCM, CCM, CCM_8, CHACHA, CBC = "GCM", "CCM", "CCM_8", "CHACHA20", "CBC"
TLS_1_2, TLS_1_3 = 0x0303, 0x0304


class Suite(NamedTuple):
    """Parameters of a cipher suite that decryption of records needs."""

    kind: str
    key: int
    prf: type[hashes.HashAlgorithm] = hashes.SHA256
    mac: type[hashes.HashAlgorithm] | None = None
    """Hash of the MAC of CBC suites."""


def _suites() -> dict[int, Suite]:
    """IANA's numbers; the key exchange does not matter here."""
    suites: dict[int, Suite] = {
        0x1301: Suite(GCM, 16),
        0x1302: Suite(GCM, 32, hashes.SHA384),
        0x1303: Suite(CHACHA, 32),
        0x1304: Suite(CCM, 16),
        0x1305: Suite(CCM_8, 16),
    }
    small, large = Suite(GCM, 16), Suite(GCM, 32, hashes.SHA384)
    for number in (0x9C, 0x9E, 0xA2, 0xA6, 0xA8, 0xAA, 0xAC, 0xC02B, 0xC02D, 0xC02F, 0xC031, 0xD001):
        suites |= {number: small, number + 1: large}
    for number in (0xC09C, 0xC09E, 0xC0A4, 0xC0A6, 0xC0AC):
        suites |= {number: Suite(CCM, 16), number + 1: Suite(CCM, 32)}
    for number in (0xC0A0, 0xC0A2, 0xC0A8, 0xC0AA, 0xC0AE):
        suites |= {number: Suite(CCM_8, 16), number + 1: Suite(CCM_8, 32)}
    suites |= dict.fromkeys(range(0xCCA8, 0xCCAF), Suite(CHACHA, 32))
    for mac, numbers in (
        (hashes.SHA1, ((0x2F, 0x35), (0x33, 0x39), (0x8C, 0x8D), (0xC009, 0xC00A), (0xC013, 0xC014), (0xC035, 0xC036))),
        (hashes.SHA256, ((0x3C, 0x3D), (0x67, 0x6B), (0xC023, 0), (0xC027, 0), (0xAE, 0), (0xC037, 0))),
        (hashes.SHA384, ((0, 0xC024), (0, 0xC028), (0, 0xAF), (0, 0xC038))),
    ):
        prf = hashes.SHA384 if mac is hashes.SHA384 else hashes.SHA256
        for numbers_128, number_256 in numbers:
            suites |= {numbers_128: Suite(CBC, 16, prf, mac), number_256: Suite(CBC, 32, prf, mac)}
    del suites[0]
    return suites


SUITES = _suites()


class Aead:
    """Opens the records of one direction: AES-GCM, AES-CCM and ChaCha20-Poly1305 of TLS 1.2 and 1.3.

    ``sequence`` is the number of the next record. ``overhead``: bytes of a record that are no content, without its
    header (of CBC at least); ``skip``: those of them before the content.
    """

    def __init__(self, suite: Suite, key: bytes, iv: bytes, version: int) -> None:
        tag = 8 if suite.kind == CCM_8 else 16
        simple: Any = {GCM: AESGCM, CHACHA: ChaCha20Poly1305}.get(suite.kind)
        self._open: Callable[[bytes, bytes, bytes], bytes] = (simple(key) if simple else AESCCM(key, tag)).decrypt
        self._iv, self._number = iv, int.from_bytes(iv)
        self._inner = version == TLS_1_3
        self.skip = 8 if not self._inner and suite.kind != CHACHA else 0
        self.overhead = self.skip + tag + self._inner
        self.sequence = 0
        self._made_of = suite, key, iv, version

    def __reduce__(self) -> tuple[Any, ...]:
        return aead, self._made_of, {"sequence": self.sequence}

    def open(self, sequence: int, header: bytes, body: bytes) -> tuple[int, bytes]:
        """Content type and content. Raises InvalidTag."""
        if self._inner:
            plain = self._open((self._number ^ sequence).to_bytes(12), body, header).rstrip(b"\0")
            if not plain:
                raise InvalidTag
            return plain[-1], plain[:-1]
        size = len(body) - self.overhead
        if size < 0:
            raise InvalidTag
        nonce = self._iv + body[:8] if self.skip else (self._number ^ sequence).to_bytes(12)
        additional = sequence.to_bytes(8) + header[:3] + size.to_bytes(2)
        return header[0], self._open(nonce, body[self.skip :], additional)


@storable
def aead(suite: Suite, key: bytes, iv: bytes, version: int) -> Aead:
    """Make a cipher again from a stored state."""
    return Aead(suite, key, iv, version)


class BlockChain:
    """AES-CBC of TLS 1.2 with HMAC, before or (RFC 7366) after encryption."""

    def __init__(self, suite: Suite, key: bytes, mac: bytes, *, mac_last: bool) -> None:
        assert suite.mac is not None
        self._key, self._mac, self._hash, self._last = key, mac, suite.mac(), mac_last
        self.skip, self.overhead = 16, 17 + self._hash.digest_size
        self.sequence = 0

    def open(self, sequence: int, header: bytes, body: bytes) -> tuple[int, bytes]:
        size = self._hash.digest_size
        if self._last:
            body, mac = body[:-size], body[-size:]
            self._check(sequence, header, body, mac)
        if len(body) < 32 or len(body) % 16:
            raise InvalidTag
        opened = Cipher(algorithms.AES(self._key), modes.CBC(body[:16])).decryptor()
        plain = opened.update(body[16:]) + opened.finalize()
        plain = plain[: len(plain) - plain[-1] - 1]
        if not self._last:
            if len(plain) < size:
                raise InvalidTag
            plain, mac = plain[:-size], plain[-size:]
            self._check(sequence, header, plain, mac)
        return header[0], plain

    def _check(self, sequence: int, header: bytes, data: bytes, mac: bytes) -> None:
        computed = hmac.HMAC(self._mac, self._hash)
        computed.update(sequence.to_bytes(8) + header[:3] + len(data).to_bytes(2) + data)
        if not compare.compare_digest(computed.finalize(), mac):
            raise InvalidTag


Opener = Aead | BlockChain


def expand_label(suite: Suite, secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label without context (RFC 8446 section 7.1)."""
    label = b"tls13 " + label
    info = size.to_bytes(2) + bytes([len(label)]) + label + b"\0"
    return HKDFExpand(suite.prf(), size, info).derive(secret)


def opener_1_3(suite: Suite, secret: bytes) -> Opener:
    """Decryption of one direction, from its traffic secret."""
    key = expand_label(suite, secret, b"key", suite.key)
    return Aead(suite, key, expand_label(suite, secret, b"iv", 12), TLS_1_3)


def next_secret(suite: Suite, secret: bytes) -> bytes:
    """After a key update."""
    return expand_label(suite, secret, b"traffic upd", suite.prf().digest_size)


def openers_1_2(suite: Suite, master: bytes, client: bytes, server: bytes, *, mac_last: bool) -> tuple[Opener, Opener]:
    """Decryption of client and server, from the master secret and both randoms."""
    mac = suite.mac().digest_size if suite.mac is not None else 0
    iv = 0 if suite.kind == CBC else 12 if suite.kind == CHACHA else 4
    block = _prf(suite, master, b"key expansion" + server + client, 2 * (mac + suite.key + iv))
    cuts, at = [], 0
    for size in (mac, mac, suite.key, suite.key, iv, iv):
        cuts.append(block[at : at + size])
        at += size
    first, second = (
        BlockChain(suite, cuts[2 + side], cuts[side], mac_last=mac_last)
        if suite.kind == CBC
        else Aead(suite, cuts[2 + side], cuts[4 + side], TLS_1_2)
        for side in (0, 1)
    )
    return first, second


def _prf(suite: Suite, secret: bytes, seed: bytes, size: int) -> bytes:
    """P_hash of RFC 5246 section 5."""

    def signed(data: bytes) -> bytes:
        digest = hmac.HMAC(secret, suite.prf())
        digest.update(data)
        return digest.finalize()

    output, chain = b"", seed
    while len(output) < size:
        chain = signed(chain)
        output += signed(chain + seed)
    return output[:size]
