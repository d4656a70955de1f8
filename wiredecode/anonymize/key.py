"""Replacements that follow from a key alone: addresses, names, noise. The same input always gives the same output.

Everything keeps its length in bytes, also as text. So addresses cannot be mapped bit by bit, as Crypto-PAn does: the
image of ``10.0.0.12`` could have any number of digits. They are mapped octet by octet (IPv6: group by group, MAC: half
by half), each depending on those before it, and each keeps its number of digits. Prefixes of whole octets are kept:
two addresses share the first n octets if, and only if, their images do. :class:`CryptoPan` maps them bit by bit.
"""

import re
import secrets
from functools import lru_cache
from hashlib import blake2b, shake_256
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

KEY_BYTES = 32
MIN_KEY_BYTES = 16
ROUNDS = 8
REMEMBERED = 65536
"""Replacements of one sort that are remembered: they are made anew otherwise."""
LETTERS = bytes(97 + value % 26 for value in range(256))
BLANK = b"x"
WIDE = rb"[\xf0-\xf4][\x80-\xbf]{3}|\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]|\xc0\x80"
"""Characters beyond 16 bits as UTF-8 spells them and as Java does, and Java's zero."""
PART = re.compile(rb"\\u[0-9A-Fa-f]{4}|\\[^u]|" + WIDE + rb"|(?:(?!" + WIDE + rb")[0-9A-Za-z\x80-\xff])+")
"""An escape of JSON, a character that some readers do not take, or a part of a name."""
WIDE_ONE = re.compile(WIDE)
FACES = {4: b"\xf0\x9f\x98\x80", 6: b"\xed\xa0\xbd\xed\xb8\x80", 2: b"\xc0\x80"}
LITERAL = re.compile(
    rb"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)"
    rb"|(?<![\w:.])(?=[0-9A-Fa-f:]{0,39}::?[0-9A-Fa-f]{0,4})[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])"
)
"""Candidates for addresses in a text: IPv4 or IPv6."""
LOOPBACK = 127
SMALL_GROUP = 240
"""A permutation of so few IPv6 groups is likely to keep one where it is; a cycle keeps none."""
SMALL_NUMBER = 3
"""Numbers of up to this many digits in names stay: partitions, segments, epochs."""


class BadKey(Exception):
    """The key cannot be used."""


def read_key(source: str, *, exact: bool = False) -> bytes:
    """The key in a file, or a new one for ``random``; ``exact``: 32 bytes as they are. Raises :class:`BadKey`."""
    if source == "random":
        return secrets.token_bytes(KEY_BYTES)
    try:
        with Path(source).open("rb") as file:
            data = file.read(1 << 20)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadKey(f"--key {source}: cannot be read: {reason}") from None
    if len(data) < MIN_KEY_BYTES:
        raise BadKey(f"--key {source}: {len(data)} bytes, at least {MIN_KEY_BYTES} are needed: head -c 32 /dev/urandom")
    return data if exact and len(data) == KEY_BYTES else blake2b(data, digest_size=KEY_BYTES).digest()


class Key:
    """The replacements of one key."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.ipv4 = lru_cache(REMEMBERED)(self._ipv4)
        self.ipv6 = lru_cache(REMEMBERED)(self._ipv6)
        self.mac = lru_cache(REMEMBERED)(self._mac)
        self._part = lru_cache(REMEMBERED)(self._disguise)

    def _number(self, *parts: bytes) -> int:
        return int.from_bytes(blake2b(b"\0".join(parts), key=self._secret, digest_size=16).digest(), "big")

    def _permute(self, low: int, high: int, value: int, *context: bytes) -> int:
        """The image of ``value`` in a cycle of ``low`` up to ``high`` that the context chooses: never ``value``."""
        order = sorted(range(low, high), key=lambda each: self._number(b"order", *context, each.to_bytes(4, "big")))
        return order[(order.index(value) + 1) % len(order)]

    # Addresses.

    def _ipv4(self, address: bytes) -> bytes:
        if not 0 < address[0] < 224:
            return address  # none, multicast, broadcast: of no host
        out = address[:1] if address[0] == LOOPBACK else b""
        for index, octet in enumerate(address[len(out) :], len(out)):
            out += bytes([self._octet(octet, index, address[:index])])
        return out

    def _octet(self, octet: int, index: int, before: bytes) -> int:
        low, high = (0, 10) if octet < 10 else (10, 100) if octet < 100 else (100, 256)
        if not index:
            low, high = max(low, 1), min(high, 223)  # 127 is left out; what comes after it moves by one
            moved = octet - (octet > LOOPBACK)
            image = self._permute(low, high, moved, b"v4", before)
            return image + (image >= LOOPBACK)
        return self._permute(low, high, octet, b"v4", before)

    def _ipv6(self, address: bytes) -> bytes:
        parsed = IPv6Address(address)
        if parsed.is_loopback or parsed.is_unspecified or address[0] == 0xFF:
            return address
        if parsed.ipv4_mapped is not None:
            return address[:12] + self.ipv4(address[12:])
        out = b""
        for index in range(0, 16, 2):
            group = int.from_bytes(address[index : index + 2], "big")
            out += self._group(group, index, address[:index]).to_bytes(2, "big")
        return out

    def _group(self, group: int, index: int, before: bytes) -> int:
        """The image has as many hexadecimal digits; link-local and unique local prefixes stay what they are."""
        if group == 0 or (not index and group >> 8 in (0xFE, 0xFC, 0xFD)):
            return group
        low = 1 << (group.bit_length() - 1) // 4 * 4
        if low * 15 <= SMALL_GROUP:
            return self._permute(low, low * 16, group, b"v6", before)
        return low + self._feistel(group - low, low * 15, b"v6", before)

    def _mac(self, address: bytes) -> bytes:
        if address[0] & 1 or not any(address):
            return address  # broadcast and groups; loopback has zeros
        flags, vendor = address[0] & 3, int.from_bytes(address[:3], "big")
        vendor = self._feistel(vendor >> 18 << 16 | vendor & 0xFFFF, 1 << 22, b"mac")
        last = self._feistel(int.from_bytes(address[3:], "big"), 1 << 24, b"mac", address[:3])
        first = (vendor >> 16 << 2 | flags) << 16 | vendor & 0xFFFF
        return first.to_bytes(3, "big") + last.to_bytes(3, "big")

    def _feistel(self, value: int, size: int, *context: bytes) -> int:
        """The image of ``value`` in a permutation of the numbers below ``size``."""
        left = 1
        while left * left < size:
            left += left
        right = -(-size // left)
        while True:
            value = self._rounds(value, left, right, context)
            if value < size:  # else once more: the path through a permutation comes back
                return value

    def _rounds(self, value: int, left: int, right: int, context: tuple[bytes, ...]) -> int:
        high, low = divmod(value, left)
        for number in range(ROUNDS):
            seen = (low if number % 2 else high).to_bytes(64, "big") if max(left, right) < 1 << 512 else b""
            shift = self._number(b"round", bytes([number]), *context, seen)
            if number % 2:
                high = (high + shift) % right
            else:
                low = (low + shift) % left
        return high * left + low

    # Texts.

    def addresses(self, raw: bytes) -> bytes:
        """A text with the addresses in it replaced."""
        return LITERAL.sub(lambda match: self._literal(match[0]), raw) if b"." in raw or b":" in raw else raw

    def _literal(self, raw: bytes) -> bytes:
        try:
            if b":" in raw:
                address = IPv6Address(raw.decode())
                image = str(IPv6Address(self.ipv6(address.packed))).encode()
            else:
                image = str(IPv4Address(self.ipv4(IPv4Address(raw.decode()).packed))).encode()
        except AddressValueError:
            return raw
        if len(image) == len(raw):
            return image
        same = b":" in raw and ipv6_same(raw, self.ipv6)
        return same or bytes(each if each in b".:" else 48 for each in raw)

    def names(self, raw: bytes, words: frozenset[str], *, digits: bool = False) -> bytes:
        """A text with its addresses and its names replaced, part by part; ``words`` stay."""
        out, done = [], 0
        for match in LITERAL.finditer(raw):
            out += [self._names(raw[done : match.start()], words, digits), self._literal(match[0])]
            done = match.end()
        image = b"".join((*out, self._names(raw[done:], words, digits)))
        return image if is_text(raw) else spoil(raw, image)

    def _names(self, raw: bytes, words: frozenset[str], digits: bool) -> bytes:
        return PART.sub(lambda match: self._one(match[0], words, digits), raw)

    def _one(self, part: bytes, words: frozenset[str], digits: bool) -> bytes:
        if part[:1] == b"\\":
            return part if len(part) == 2 else b"\\u0078"
        if WIDE_ONE.fullmatch(part):
            return FACES[len(part)]
        if part.isdigit() and (digits or len(part) <= SMALL_NUMBER):
            return part
        if part.decode("latin-1") in words:
            return part
        image = self._part(part)
        while image.decode("latin-1") in words:
            image = self._part(image)
        return image

    def _disguise(self, part: bytes) -> bytes:
        """Letters become letters, digits digits; other bytes (of UTF-8) small letters."""
        spaces = [_space(byte) for byte in part]
        value, size = 0, 1
        for (low, count), byte in zip(spaces, part, strict=True):
            value, size = value * count + (byte - low if byte < 128 else byte % 26), size * count
        shape = bytes(low for low, _ in spaces)
        value = self._feistel(value, size, b"part", shape) if size < 1 << 500 else self._wide(part, size)
        image = bytearray()
        for low, count in reversed(spaces):
            value, digit = divmod(value, count)
            image.append(low + digit)
        image.reverse()
        return bytes(image)

    def _wide(self, part: bytes, size: int) -> int:
        """For parts that are too long for two images to be the same in practice."""
        return int.from_bytes(shake_256(self._secret + part).digest(size.bit_length() // 8 + 16), "big") % size

    def noise(self, body: bytes) -> bytes:
        """Letters in place of a body: the same for the same body."""
        return shake_256(self._secret + b"body" + body).digest(len(body)).translate(LETTERS)


def ipv6_same(raw: bytes, image: object) -> bytes:
    """An IPv6 address that keeps its spelling, group by group."""
    text = raw.decode()
    mapped = IPv6Address(image(IPv6Address(text).packed)).exploded.split(":")  # type: ignore[operator]
    head, _, tail = text.partition("::")
    parts = head.split(":") if head else []
    ends = tail.split(":") if tail else []
    chosen = mapped[: len(parts)], mapped[8 - len(ends) :] if ends else []
    spelled = [
        [each[-len(old) :] if old else "" for each, old in zip(*pair, strict=True)]
        for pair in zip(chosen, (parts, ends), strict=True)
    ]
    out = ":".join(spelled[0]) + ("::" if "::" in text else "") + ":".join(spelled[1])
    return out.encode() if len(out) == len(raw) else b""


def _space(byte: int) -> tuple[int, int]:
    """The first of the characters that may replace a byte, and their number."""
    if 48 <= byte < 58:
        return 48, 10
    return (65, 26) if 65 <= byte < 91 else (97, 26)


def is_text(raw: bytes) -> bool:
    """Whether it is UTF-8."""
    try:
        WIDE_ONE.sub(b"", raw).decode()
    except UnicodeDecodeError:
        return False
    return True


def spoil(raw: bytes, image: bytes) -> bytes:
    """The image of bytes that are not UTF-8 is not UTF-8, either."""
    at = next(index for index, byte in enumerate(image) if raw[index] >= 0x80)
    return image[:at] + b"\xff" + image[at + 1 :]


def blank(raw: bytes) -> bytes:
    """Bytes that say nothing; zeros and ends of lines, which divide what is said, stay."""
    if raw[:1] + raw[-1:] in (b"{}", b"[]"):  # JSON stays JSON
        return b'"' + BLANK * (len(raw) - 2) + b'"'
    return raw.translate(NO_MEANING)


NO_MEANING = bytes(each if each in b"\0\r\n" else BLANK[0] for each in range(256))


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
