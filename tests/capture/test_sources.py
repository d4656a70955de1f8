"""Compressed files, standard input, slow pipes, and inputs that are no captures."""

from __future__ import annotations

import gzip
import os
import pickle
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.capture.build import Ng, packets, pcap, read, record
from wiredecode.capture import Capture, CaptureError
from wiredecode.capture.pcap import Pcap

_RANDOM = Random(2)
FRAMES = [_RANDOM.randbytes(700) + bytes([k % 251]) * 700 for k in range(200)]
PCAP = pcap(*(record(data, k) for k, data in enumerate(FRAMES)))


def _zstd(data: bytes) -> bytes:
    return bytes(pytest.importorskip("zstandard").compress(data))


def _lz4(data: bytes) -> bytes:
    return bytes(pytest.importorskip("lz4.frame").compress(data))


CODECS: list[tuple[str, Callable[[bytes], bytes]]] = [("gzip", gzip.compress), ("zstd", _zstd), ("lz4", _lz4)]
codecs = pytest.mark.parametrize(("name", "compress"), CODECS)


@codecs
@pytest.mark.parametrize("batch_bytes", [1, 5000, 1 << 20])
def test_compression_is_recognised_by_content_not_by_name(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes], batch_bytes: int
) -> None:
    path = tmp_path / "plain.pcap"
    path.write_bytes(compress(PCAP))
    capture = Capture([path], batch_bytes=batch_bytes)
    seen, error = packets(capture)
    assert error is None
    assert [one.data for one in seen] == FRAMES
    assert capture.info.files[0].compression == name
    assert capture.bytes_read == capture.bytes_total == path.stat().st_size


@codecs
def test_several_members_are_one_stream_and_zero_padding_is_ignored(
    name: str, compress: Callable[[bytes], bytes]
) -> None:
    cuts = [0, 3, 24, 5000, len(PCAP)]
    members = [compress(PCAP[low:high]) for low, high in pairwise(cuts)]
    seen, error = read(b"".join(members) + bytes(1000))
    assert error is None
    assert [one.data for one in seen] == FRAMES


@codecs
def test_truncated_compressed_file_gives_the_packets_before(name: str, compress: Callable[[bytes], bytes]) -> None:
    content = compress(PCAP)
    for cut in (6, 30, len(content) // 2, len(content) - 1):
        seen, error = read(content[:cut])
        assert [one.data for one in seen] == FRAMES[: len(seen)]
        assert error is not None
        assert f"the {name} compression is truncated" in str(error)


def test_truncated_gzip_gives_the_packets_before() -> None:
    content = gzip.compress(PCAP)
    seen, _ = read(content[: len(content) // 2])
    assert 80 <= len(seen) <= 120


def test_truncated_gzip_gives_every_byte_that_zlib_can_give() -> None:
    # output is requested in pieces of 64 KiB: at this boundary zlib has taken all input but holds output back
    content = gzip.compress(pcap(*(record(bytes(50), k) for k in range(1100))))
    tried = 0
    for cut in range(len(content)):
        decompressed = zlib.decompressobj(31).decompress(content[:cut])
        if abs(len(decompressed) - 65536) < 300:
            tried += 1
            assert read(content[:cut], batch_bytes=1)[0] == read(decompressed)[0]
    assert tried > 3


@codecs
def test_corrupt_compressed_data_after_a_good_member(name: str, compress: Callable[[bytes], bytes]) -> None:
    bad = bytearray(compress(PCAP[5000:]))
    bad[6:200] = b"\xff" * 194
    seen, error = read(compress(PCAP[:5000]) + bytes(bad))
    assert [one.data for one in seen] == FRAMES[:3]
    assert error is not None
    assert f"the {name} compression is corrupt" in str(error)
    assert "\n" not in str(error)


@codecs
def test_rubbish_after_a_complete_member(name: str, compress: Callable[[bytes], bytes]) -> None:
    seen, error = read(compress(PCAP) + b"rubbish")
    assert len(seen) == len(FRAMES)
    assert f"the {name} compression is damaged: other bytes follow" in str(error)


@pytest.mark.parametrize(("module", "extra", "compress"), [("zstandard", "zstd", _zstd), ("lz4.frame", "lz4", _lz4)])
def test_missing_package_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str, extra: str, compress: Callable[[bytes], bytes]
) -> None:
    content = compress(PCAP)
    monkeypatch.setitem(sys.modules, module, None)
    seen, error = read(content)
    assert seen == []
    assert str(error).endswith(f"pip install '.[{extra}]' in a clone")


@pytest.mark.parametrize("name", ["gzip", "lz4"])
def test_output_of_a_decompression_bomb_is_bounded(name: str) -> None:
    content = dict(CODECS)[name](pcap(*(record(bytes(60_000), k) for k in range(200))))
    assert len(content) < 200_000
    batches = list(Capture([BytesIO(content)], batch_bytes=100_000))
    assert sum(map(len, batches)) == 200
    assert max(len(batch.buffer) for batch in batches) < 400_000


class _Slow:
    """A stream that gives a few bytes at a time and counts its reads."""

    def __init__(self, content: bytes, step: int) -> None:
        self._inner = BytesIO(content)
        self._step = step
        self.reads = 0

    def read1(self, size: int) -> bytes:
        self.reads += 1
        return self._inner.read(min(size, self._step))

    read = read1


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_slow_stream_shows_each_packet_as_it_comes(compress: Callable[[bytes], bytes]) -> None:
    slow: Any = _Slow(compress(PCAP), 50)
    reads: list[int] = []
    for batch in Capture([slow]):
        reads += [slow.reads] * len(batch)
    assert len(reads) == len(FRAMES)
    assert len(set(reads)) > 20
    if compress is bytes:
        # one read of 4 bytes for the magic, then as many as the packet's last byte takes
        assert reads == [1 + -(-(20 + (k + 1) * 1416) // 50) for k in range(len(FRAMES))]


def test_reading_a_pipe_does_not_wait_until_it_is_full() -> None:
    read_end, write_end = os.pipe()
    first, second = PCAP[: 24 + 1416], PCAP[24 + 1416 : 24 + 2 * 1416]
    with os.fdopen(read_end, "rb") as stream:
        os.write(write_end, first + second[:100])
        batches = iter(Capture([stream]))
        assert next(batches).number.tolist() == [1]
        os.write(write_end, second[100:])
        assert next(batches).number.tolist() == [2]
        os.close(write_end)
        assert next(batches, None) is None


def test_large_record_through_a_slow_pipe_is_not_parsed_at_every_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    parse = Pcap.parse

    def counted(self: Pcap, buffer: bytes, position: int, limit: int) -> Any:
        calls.append(position)
        return parse(self, buffer, position, limit)

    monkeypatch.setattr(Pcap, "parse", counted)
    slow: Any = _Slow(pcap(record(bytes(1_000_000))), 100)
    seen, error = packets(Capture([slow]))
    assert error is None
    assert slow.reads > 10_000
    assert len(calls) < 6
    assert len(seen[0].data) == 1_000_000


def test_standard_input_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(gzip.compress(PCAP))))
    capture = Capture(["-"])
    seen, error = packets(capture)
    assert error is None
    assert len(seen) == len(FRAMES)
    assert capture.info.files[0].path == "<standard input>"
    assert capture.bytes_total is None
    assert not sys.stdin.closed


def test_named_pipe(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(PCAP,))
    writer.start()
    seen, error = packets(Capture([path]))
    writer.join()
    assert error is None
    assert len(seen) == len(FRAMES)


NO_CAPTURES = [
    (b"", "is empty"),
    (b"\xd4\xc3", "is not a capture: it has only 2 bytes"),
    (b"\xd4\xc3\xb2\xa1rest", "is truncated in the middle of the file header (8 of at least 24 bytes are there)"),
    (b"\n\r\r\n\x1c\0\0\0", "is truncated in the middle of a block"),
    (b"hello, world\nsecond line", "it looks like text ('hello, world')"),
    (b"snoop\0\0\0\0\0\0\2", "it looks like a snoop capture; convert it with: editcap"),
    (b"\0" * 100, "nothing but zero bytes"),
    (b"\x01\x02\x03\x04\xff\xfe\xfd\xfc\x00", "unknown data (01 02 03 04 ff fe fd fc)"),
    (b"BZh91AY", "it looks like bzip2; unpack it with: bzip2 -dc"),
    (b"\xfd7zXZ\0\0", "it looks like xz; unpack"),
    (gzip.compress(b"member.pcap".ljust(257, b"\0") + b"ustar\0" + bytes(300)), "a tar archive inside gzip"),
    (gzip.compress(b""), "is empty"),
    (b"\x1c\0\x01\xac" + bytes(30), "an Ixia hardware capture"),
]


@pytest.mark.parametrize(("content", "message"), NO_CAPTURES, ids=[message[:40] for _, message in NO_CAPTURES])
def test_a_file_that_is_no_capture_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "input"
    path.write_bytes(content)
    seen, error = packets(Capture([path]))
    assert seen == []
    assert error is not None
    assert error.path == str(path)
    assert str(error).startswith(f"{path}: ")
    assert message in str(error)
    assert "\n" not in str(error)


def test_missing_file_directory_and_forbidden_file(tmp_path: Path) -> None:
    assert str(packets(Capture([tmp_path / "none"]))[1]).endswith("none: does not exist")
    assert "is a directory; name the capture files in it" in str(packets(Capture([tmp_path]))[1])
    assert "cannot be opened" in str(packets(Capture(["nul\0byte"]))[1])


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(24, "Too many open files")])
def test_file_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: OSError) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Path, "open", refuse)
    message = str(packets(Capture([tmp_path / "x.pcap"]))[1])
    assert "cannot be opened" in message
    assert ("no permission" in message) == isinstance(error, PermissionError)


def test_read_error_in_the_middle_keeps_earlier_packets() -> None:
    class Failing(BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            data = super().read1(1000)
            if self.tell() > 10_000:
                raise OSError(5, "Input/output error")
            return data

    seen, error = packets(Capture([Failing(PCAP)]))
    assert [one.data for one in seen] == FRAMES[: 9976 // 1416]
    assert "cannot be read on: Input/output error at byte 10000" in str(error)


def test_a_file_that_cannot_be_read_at_all_has_no_place() -> None:
    class Failing(BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            raise OSError("no such host")

    _, error = packets(Capture([Failing()]))
    assert str(error).endswith(": cannot be read: no such host")


def test_names_from_the_file_system_cannot_forge_lines_or_colours() -> None:
    error = CaptureError("a\nb\x1b[31m\udcff", "is empty")
    assert str(error) == "a\\nb\\x1b[31m\\udcff: is empty"


def test_errors_survive_pickling() -> None:
    error = CaptureError("f.pcap", "is cut", 30, 2, "advice")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "f.pcap: is cut at byte 30 (packet 2); advice"
    assert (copy.path, copy.offset, copy.packet) == ("f.pcap", 30, 2)


def test_optional_codecs_are_not_imported_for_plain_files() -> None:
    code = "import sys, wiredecode.capture; print(sorted({'zstandard', 'lz4', 'scapy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("compress", [bytes, gzip.compress, _zstd, _lz4])
@pytest.mark.parametrize("options", [{"batch_bytes": 1}, {"batch_bytes": 3000}, {"batch_packets": 1}, {}])
def test_batch_size_does_not_change_the_packets(compress: Callable[[bytes], bytes], options: dict[str, int]) -> None:
    little, big = Ng("<"), Ng(">")
    content = b"".join(
        [
            little.section(),
            little.interface((9, b"\x09")),
            *(little.enhanced(data[: 40 * k], k, (1, b"%d" % k)) for k, data in enumerate(FRAMES[:30])),
            big.section(),
            big.interface(snaplen=100),
            big.interface(linktype=101),
            *((big.simple, big.obsolete, big.enhanced)[k % 3](data[: k + 1]) for k, data in enumerate(FRAMES[:60])),
            little.enhanced(b"wrong byte order: damage"),
        ]
    )
    expected, whole_error = read(content)
    assert len(expected) == 90
    assert "absurd block length" in str(whole_error)
    seen, error = read(compress(content), **options)
    assert seen == expected
    assert str(error) == str(whole_error)
