"""Saving while capturing: pcapng files, rings of files, slow decoding and slow disks."""

from __future__ import annotations

import os
import re
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.capture.info import FileInfo, Interface
from wiredecode.capture.live import pcapng_writer as saving
from wiredecode.capture.live import sniffer
from wiredecode.capture.live.pcapng_writer import CaptureWriter, Rotation, Statistics
from wiredecode.capture.live.sniffer import Sniffer

LO = Interface(1, 1000, name="lo", filter="tcp", tsresol=9)
STATISTICS = Statistics(1 << 60, (1 << 60) + 7, received=50, dropped=3)
MIB = 1 << 20


def batch(count: int, size: int = 100, first: int = 1) -> PacketBatch:
    made = [(10**18 + number, number.to_bytes(4, "big") * (size // 4)) for number in range(first, first + count)]
    return PacketBatch.from_packets(made, first_number=first)


def saved(*paths: Path) -> list[tuple[int, bytes]]:
    found = []
    for path in paths:
        for one in open_capture([path]):
            columns = zip(one.time_ns.tolist(), one.start.tolist(), one.captured.tolist(), strict=True)
            found += [(time_ns, one.buffer[start : start + size]) for time_ns, start, size in columns]
    return found


def save(path: Path, rotation: Rotation, *batches: PacketBatch) -> CaptureWriter:
    keeps = CaptureWriter(path, rotation, lambda: STATISTICS)
    for each in batches:
        keeps.write(each, [LO])
    keeps.close()
    return keeps


@pytest.mark.parametrize("size", [1, 2, 3, 4, 61])
def test_packets_of_every_length_survive_a_round_trip(tmp_path: Path, size: int) -> None:
    made = [(2**61 + i, bytes(range(size + i))) for i in range(5)]
    one = PacketBatch.from_packets(made, original=[2000 + i for i in range(5)])
    path = tmp_path / "a.pcapng"
    save(path, Rotation(), one, batch(0))
    capture = open_capture([path])
    again = next(iter(capture))
    assert saved(path) == made
    assert again.original.tolist() == [2000, 2001, 2002, 2003, 2004]
    found = capture.info.interfaces[0]
    assert (found.name, found.filter, found.snaplen, found.tsresol, found.linktype) == ("lo", "tcp", 1000, 9, 1)


def test_a_file_ends_with_the_statistics_of_its_interface(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    save(path, Rotation(), batch(1))
    data = path.read_bytes()
    length = struct.unpack("<I", data[-4:])[0]
    block = data[-length:]
    start = struct.pack("<II", STATISTICS.start_ns >> 32, STATISTICS.start_ns & 0xFFFFFFFF)
    end = struct.pack("<II", STATISTICS.end_ns >> 32, STATISTICS.end_ns & 0xFFFFFFFF)
    assert block[:20] == struct.pack("<III", 5, length, 0) + end
    assert block[20:-4] == b"\2\0\10\0" + start + b"\3\0\10\0" + end + struct.pack(
        "<HHQHHQI", 4, 8, 50, 5, 8, 3, 0
    )  # received, dropped, end of options


def test_a_capture_without_packets_is_a_file_with_an_interface(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    save(path, Rotation(), batch(0))
    capture = open_capture([path])
    assert sum(map(len, capture)) == 0
    assert [one.name for one in capture.info.interfaces] == ["lo"]


def test_a_ring_by_size_has_names_of_dumpcap_and_loses_nothing(tmp_path: Path) -> None:
    """One large batch and small ones: files end after the packet that exceeds their size."""
    batches = [batch(30_000), batch(1, first=30_001), batch(5_000, first=30_002)]
    keeps = save(tmp_path / "x.y.pcapng", Rotation(size=MIB), *batches)
    names = [path.name for path in keeps.files]
    assert sorted(names) == names == sorted(path.name for path in tmp_path.iterdir())
    assert [re.fullmatch(r"x\.y_(\d{5})_\d{14}\.pcapng", name)[1] for name in names] == [  # type: ignore[index]
        f"{number:05}" for number in range(1, len(names) + 1)
    ]
    assert all(MIB <= path.stat().st_size < MIB + 300 for path in keeps.files[:-1])
    assert len(saved(*keeps.files)) == keeps.packets == 35_001
    assert [time_ns - 10**18 for time_ns, _ in saved(*keeps.files)] == list(range(1, 35_002))


def test_only_the_last_files_of_a_ring_are_kept(tmp_path: Path) -> None:
    keeps = save(tmp_path / "x.pcapng", Rotation(size=MIB, files=2), *(batch(9_000, first=i) for i in (1, 9001, 18001)))
    assert [path.name[:7] for path in keeps.files] == ["x_00003", "x_00004"]
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in keeps.files}
    assert saved(*keeps.files)[-1][0] == 10**18 + 27_000


def test_a_ring_by_time_rotates_without_packets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(saving.time, "monotonic", lambda: now)
    keeps = CaptureWriter(tmp_path / "x.pcapng", Rotation(seconds=10), lambda: STATISTICS)
    for step in (0, 9.9, 0.2, 5, 5.1):
        now += step
        keeps.write(batch(0), [LO])
    keeps.close()
    assert len(keeps.files) == 3


class Steps:
    """A source whose packets are available immediately, to test the queue of a capture."""

    def __init__(self, *batches: PacketBatch) -> None:
        self.info = FileInfo("steps", interfaces=[LO])
        self._batches, self.done = batches, threading.Event()

    def batches(self) -> Iterator[PacketBatch]:
        yield from self._batches
        self.done.set()

    def stop(self) -> None: ...

    def counts(self) -> tuple[int, int]:
        return sum(map(len, self._batches)), 0

    def close(self) -> None: ...


def test_packets_saved_but_too_fast_to_decode_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sniffer, "QUEUE_BYTES", 25_000)
    source = Steps(*(batch(100, first=1 + 100 * i) for i in range(10)))
    live = Sniffer(source)
    live.save(tmp_path / "a.pcapng", Rotation())
    seen = 0
    for one in live:
        seen += len(one)
        assert source.done.wait(10), "the source does not wait for the decoder"
    live.close()
    counts = live.counts
    assert (seen, counts.skipped) in ((200, 800), (300, 700))  # the first one may be taken before the queue is full
    assert counts.saved == counts.received == len(saved(tmp_path / "a.pcapng")) == 1000


def test_without_saving_the_source_waits_for_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sniffer, "QUEUE_BYTES", 25_000)
    source = Steps(*(batch(100, first=1 + 100 * i) for i in range(10)))
    live = Sniffer(source)
    packets = iter(live)
    seen = len(next(packets))
    assert not source.done.wait(0.05)
    seen += sum(map(len, packets))
    live.close()
    assert (seen, live.counts.skipped) == (1000, 0)


def test_a_full_disk_ends_the_capture_with_a_clear_line(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    path = tmp_path / "a.pcapng"
    live = Sniffer(Steps(batch(100)))
    live.save(path, Rotation())
    assert live.saving is not None
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, live.saving._writer._file.fileno())
    os.close(full)
    with pytest.raises(CaptureError, match=r"a\.pcapng: can no longer be written: No space left on device"):
        list(live)
    live.close()


@pytest.mark.parametrize("fault", ["disk", "folder", "old file"])
def test_a_ring_that_cannot_continue_is_reported_and_leaves_whole_files(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ring"
    folder.mkdir()
    keeps = CaptureWriter(folder / "a.pcapng", Rotation(size=5000, files=2), lambda: STATISTICS)
    keeps.write(batch(100), [LO])
    files = keeps.files
    if fault == "folder":
        folder.rename(tmp_path / "gone")
    elif fault == "disk":
        monkeypatch.setattr(saving, "open_private", lambda path: Path("/dev/full/none").read_bytes())
    else:
        monkeypatch.setattr(Path, "unlink", lambda *_, **__: folder.read_bytes())
    with pytest.raises(CaptureError, match="cannot be written"):
        keeps.write(batch(100, first=101), [LO])
    keeps.close()
    left = [*(tmp_path / "gone" if fault == "folder" else folder).iterdir()]
    assert {path.name for path in left} >= {path.name for path in files[1:]}
    assert saved(*left)  # each can be read to its end
