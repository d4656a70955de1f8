"""Crypto-PAn: the addresses of its authors' program, and prefixes bit by bit."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("cryptography")

from wiredecode.anonymize.key import CryptoPan

SECRET = bytes.fromhex("1522178d33a4cf80130a5b1649907d10d8988f837979652762574c2d2a842202")
SAMPLE = {
    "128.11.68.132": "135.242.180.132",
    "129.118.74.4": "134.136.186.123",
    "130.132.252.244": "133.68.164.234",
    "141.223.7.43": "141.167.8.160",
    "141.233.145.108": "141.129.237.235",
}
"""Of sample_trace_raw.dat and its sanitized copy, as the authors distribute them."""


def packed(text: str) -> bytes:
    return bytes(map(int, text.split(".")))


@pytest.mark.parametrize("address", SAMPLE)
def test_images_equal_those_of_the_authors(address: str) -> None:
    assert CryptoPan(SECRET).ipv4(packed(address)) == packed(SAMPLE[address])


@pytest.mark.parametrize("size", [4, 16])
def test_images_share_the_same_prefix_length(size: int) -> None:
    key, chosen = CryptoPan(SECRET), random.Random(18)
    image = key.ipv4 if size == 4 else key.ipv6
    for _ in range(50):
        one = chosen.getrandbits(8 * size)
        other = one ^ chosen.getrandbits(chosen.randrange(1, 8 * size))
        images = [int.from_bytes(image(each.to_bytes(size))) for each in (one, other)]
        assert (one ^ other).bit_length() == (images[0] ^ images[1]).bit_length()


def test_ipv4_in_ipv6_stays_ipv4_in_ipv6() -> None:
    key = CryptoPan(SECRET)
    mapped = bytes(10) + b"\xff\xff" + packed("128.11.68.132")
    assert key.ipv6(mapped) == bytes(10) + b"\xff\xff" + packed("135.242.180.132")
    assert key.addresses(b"at 128.11.68.132:4222") == b"at 000.00.00.000:4222"  # longer: no address may grow
    assert key.addresses(b"at 141.223.7.43:4222") == b"at 000.000.0.00:4222"
