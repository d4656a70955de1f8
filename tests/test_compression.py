"""Bounded decompression: every codec, every status, no output beyond the limit."""

from __future__ import annotations

import builtins
import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from wiredecode.protocols.shared import compression
from wiredecode.protocols.shared.compression import CODECS, Decompressed, Status, decompress

TEXT = b"".join(b"Zstd-%d-" % index + b"x" * 60 for index in range(40)) + bytes(range(256))


def _snappy_chunk(kind: int, payload: bytes, plain: bytes) -> bytes:
    from crc32c import crc32c

    crc = crc32c(plain)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    body = masked.to_bytes(4, "little") + payload
    return bytes([kind]) + len(body).to_bytes(3, "little") + body


IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"


def _snappy(data: bytes) -> bytes:
    import cramjam

    return bytes(cramjam.snappy.compress(data))


def _snappy_java(data: bytes) -> bytes:
    """The framing of snappy-java: two blocks."""
    half = len(data) // 2
    blocks = [_snappy_raw(each) for each in (data[:half], data[half:])]
    return b"\x82SNAPPY\0" + bytes([0, 0, 0, 1] * 2) + b"".join(len(each).to_bytes(4) + each for each in blocks)


def _snappy_raw(data: bytes) -> bytes:
    import cramjam

    return bytes(cramjam.snappy.compress_raw(data))


def _lz4(data: bytes, **options: Any) -> bytes:
    import lz4.frame

    return lz4.frame.compress(data, **options)  # type: ignore[no-any-return]


def _lz4_kafka(data: bytes) -> bytes:
    """A frame of Kafka before 0.10, without its size: the byte after the flags is not their checksum."""
    frame = bytearray(_lz4(data, store_size=False, block_size=4))
    frame[6] ^= 0xFF
    return bytes(frame)


def _zstd(data: bytes, **options: Any) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(**options).compress(data)


def _zstd_without_size(data: bytes) -> bytes:
    import zstandard

    compressor = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return compressor.compress(data) + compressor.flush()


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "snappy": _snappy,
    "snappy-raw": _snappy_raw,
    "snappy-java": _snappy_java,
    "lz4": lambda data: _lz4(data, content_checksum=True),
    "lz4-kafka": _lz4_kafka,
    "zstd": _zstd_without_size,
}
STREAMS = ["gzip", "lz4", "zstd"]
FRAMED = ["gzip", "snappy", "lz4", "zstd"]


def test_every_codec_has_an_encoder_here() -> None:
    assert ENCODERS.keys() == CODECS.keys()


@pytest.mark.parametrize("codec", ENCODERS)
@pytest.mark.parametrize("data", [b"", b"a", TEXT, TEXT * 200], ids=["empty", "1", "3k", "600k"])
def test_data_of_exactly_the_limit_is_returned(codec: str, data: bytes) -> None:
    assert decompress(codec, ENCODERS[codec](data), len(data)) == Decompressed(data)


@pytest.mark.parametrize("codec", ENCODERS)
@pytest.mark.parametrize("limit", [0, 1, len(TEXT) * 100 - 1, len(TEXT) * 200 - 1])
def test_output_stops_at_the_limit(codec: str, limit: int) -> None:
    got = decompress(codec, ENCODERS[codec](TEXT * 200), limit)
    assert got.status is Status.LIMIT
    whole = {
        "snappy-raw": 0,
        "snappy-java": len(TEXT) * 100 if limit >= len(TEXT) * 100 else 0,
    }  # of blocks: all or none
    assert got.data == (TEXT * 200)[: whole.get(codec, limit)]
    assert str(limit) in got.message


@pytest.mark.parametrize("codec", FRAMED)
def test_a_bomb_costs_no_more_than_the_limit(codec: str) -> None:
    bomb = ENCODERS[codec](bytes(24_000_000))
    limit = 1_000_000
    decompress(codec, bomb, limit)
    tracemalloc.start()
    got = decompress(codec, bomb, limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (got.status, got.data) == (Status.LIMIT, bytes(limit))
    assert peak < 3 * limit


def test_a_raw_snappy_bomb_is_refused_by_its_announced_length() -> None:
    got = decompress("snappy-raw", b"\xff\xff\xff\xff\x0f" + b"\xfe\x01\x00" * 100, 1 << 20)
    assert (got.status, got.data) == (Status.LIMIT, b"")


@pytest.mark.parametrize("codec", STREAMS)
def test_reads_all_concatenated_streams(codec: str) -> None:
    parts = [b"one", b"", TEXT * 50, b"four"]
    data = b"".join(ENCODERS[codec](part) for part in parts)
    assert decompress(codec, data, 1 << 20) == Decompressed(b"".join(parts))
    assert decompress(codec, data, 2) == Decompressed(b"on", Status.LIMIT, "more than 2 bytes when decompressed")


@pytest.mark.parametrize("codec", STREAMS)
def test_bytes_after_the_stream_are_counted(codec: str) -> None:
    got = decompress(codec, ENCODERS[codec](TEXT) + b"\0junk", len(TEXT))
    assert (got.status, got.data, got.trailing) == (Status.TRAILING, TEXT, 5)


@pytest.mark.parametrize("codec", FRAMED)
def test_truncated_anywhere_gives_a_beginning_and_is_reported(codec: str) -> None:
    whole = ENCODERS[codec](TEXT)
    got = Decompressed(b"")
    for size in range(len(whole)):
        got = decompress(codec, whole[:size], 1 << 20)
        if codec == "snappy" and size in (0, len(IDENTIFIER)):
            continue  # an empty stream
        assert got.status is Status.CORRUPT, size
        assert TEXT.startswith(got.data), size
    assert len(got.data) > len(TEXT) // 2 or codec in ("snappy", "lz4")


@pytest.mark.parametrize("codec", [*FRAMED, "snappy-raw"])
def test_content_of_another_format(codec: str) -> None:
    for data in (b"\xff", b"plain text, not compressed", b"\xff" * 40):
        got = decompress(codec, data, 1 << 20)
        assert (got.status, got.data) == (Status.CORRUPT, b"")
        assert got.message


def test_bytes_before_the_damage_are_kept() -> None:
    compressor = zlib.compressobj(wbits=31)
    head = compressor.compress(TEXT * 3) + compressor.flush(zlib.Z_FULL_FLUSH)
    got = decompress("gzip", head + b"\xff" * 50, 1 << 20)  # block type 3 does not exist
    assert (got.status, got.data) == (Status.CORRUPT, TEXT * 3)


@pytest.mark.parametrize("codec", STREAMS)
def test_a_wrong_checksum_keeps_all_data(codec: str) -> None:
    whole = bytearray(ENCODERS[codec](TEXT * 30))
    whole[-5 if codec == "gzip" else -1] ^= 1
    got = decompress(codec, bytes(whole), 1 << 20)
    assert (got.status, got.data) == (Status.CORRUPT, TEXT * 30)
    assert got.message


@pytest.mark.parametrize("codec", STREAMS)
def test_the_second_stream_damaged_keeps_the_first(codec: str) -> None:
    second = bytearray(ENCODERS[codec](TEXT))
    second[-1] ^= 0x55
    got = decompress(codec, ENCODERS[codec](b"first") + bytes(second), 1 << 20)
    assert got.status is Status.CORRUPT
    assert got.data == b"first" + TEXT


def test_too_many_empty_members() -> None:
    member = gzip.compress(b"")
    got = decompress("gzip", member * (compression.MAX_STREAMS + 1), 100)
    assert (got.status, got.data) == (Status.LIMIT, b"")
    assert decompress("gzip", member * compression.MAX_STREAMS, 100) == Decompressed(b"")


def test_zstd_with_and_without_size_and_skippable_frames() -> None:
    skippable = b"\x5f\x2a\x4d\x18\x03\0\0\0abc"
    for frame in (_zstd(TEXT), _zstd_without_size(TEXT), _zstd(TEXT, write_content_size=False)):
        assert decompress("zstd", skippable + frame + skippable, 1 << 20) == Decompressed(TEXT)


def test_zstd_frames_as_real_clients_write_them() -> None:
    data = bytes.fromhex(
        "28b52ffd607c003d0100a800000048005375a0435a7374642d302d78313233340600029220400f01ca105079820c42024b"
    )
    records = b"".join(b"\0\0\0\x48\x00\x53\x75\xa0\x43Zstd-%d-" % index + b"x" * 60 for index in range(5))
    assert decompress("zstd", data, 380) == Decompressed(records)


def test_zstd_reserved_block_type_is_damage() -> None:
    assert decompress("zstd", b"\x28\xb5\x2f\xfd\x20\x00\x07\x00\x00", 10).status is Status.CORRUPT


@pytest.mark.parametrize("options", [{"content_checksum": True, "block_linked": False}, {"store_size": False}])
def test_lz4_variants(options: dict[str, Any]) -> None:
    assert decompress("lz4", _lz4(TEXT, **options), len(TEXT)) == Decompressed(TEXT)


def test_snappy_chunk_kinds() -> None:
    plain = _snappy_chunk(1, b"plain", b"plain")
    packed = _snappy_chunk(0, _snappy_raw(TEXT), TEXT)
    padding, skippable = b"\xfe\x02\0\0\0\0", b"\x80\x01\0\0z"
    data = IDENTIFIER + plain + padding + IDENTIFIER + skippable + packed
    assert decompress("snappy", data, 1 << 20) == Decompressed(b"plain" + TEXT)


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (_snappy_chunk(1, b"plain", b"other"), "CRC-32C"),
        (b"\x02\x00\x00\x00", "reserved"),
        (b"\x00\x03\x00\x00abc", "without checksum"),
        (_snappy_chunk(1, bytes(65_537), bytes(65_537)), "65536"),
        (_snappy_chunk(0, _snappy_raw(bytes(65_537)), bytes(65_537)), "65536"),
        (_snappy_chunk(0, b"\xff\xff\xff\xff\xff\x01", b""), "no length"),
        (_snappy_chunk(0, b"\x05\x00", b""), ""),
        (b"\xff\x01\x00\x00s", "identifier"),
        (b"\x01\xff\x00\x00", "ends early"),
    ],
)
def test_snappy_damage_keeps_the_chunks_before(chunk: bytes, message: str) -> None:
    got = decompress("snappy", IDENTIFIER + _snappy_chunk(1, b"good", b"good") + chunk, 1 << 20)
    assert (got.status, got.data) == (Status.CORRUPT, b"good")
    assert message in got.message


def test_snappy_without_identifier() -> None:
    assert decompress("snappy", _snappy_chunk(1, b"x", b"x"), 10).status is Status.CORRUPT


def test_unknown_codec_is_a_status() -> None:
    got = decompress("codec 6", b"data", 10)
    assert (got.status, got.data) == (Status.UNKNOWN, b"")
    assert "codec 6" in got.message


@pytest.mark.parametrize(("codec", "library"), [("snappy", "cramjam"), ("lz4", "lz4"), ("zstd", "zstandard")])
def test_a_missing_library_is_named_with_its_extra(codec: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = ENCODERS[codec](TEXT)
    real = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.split(".")[0] == library:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    got = decompress(codec, data, 1 << 20)
    assert (got.status, got.data) == (Status.MISSING, b"")
    assert "not decoded" in got.message
    assert f"'.[{codec}]'" in got.message


@pytest.mark.parametrize("codec", CODECS)
def test_mutations_never_raise_nor_exceed_the_limit(codec: str) -> None:
    dice = random.Random(f"compression {codec}")
    whole = ENCODERS[codec](TEXT)
    seen = set()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        del data[dice.randint(len(data) // 2, 2 * len(data)) :]
        limit = dice.choice([0, 10, len(TEXT), 1 << 20])
        got = decompress(codec, bytes(data), limit)
        assert len(got.data) <= limit
        seen.add(got.status)
    assert codec == "snappy" or Status.LIMIT in seen
    assert codec == "none" or Status.CORRUPT in seen
