"""Several files as one capture."""

from __future__ import annotations

import gzip
from heapq import heappop, heappush
from io import BytesIO
from pathlib import Path
from random import Random

import pytest

from tests.capture.build import Ng, packets, pcap, record
from tests.conftest import seeds
from tests.pcap import write_pcap
from wiredecode.capture import Capture

SECOND = 10**9


def _heads_merge(files: list[list[tuple[int, bytes]]]) -> list[tuple[int, bytes]]:
    """The oracle: always the earliest next packet of all files; ties by first packet, then in the given order."""
    ranked = sorted((file for file in files if file), key=lambda file: file[0][0])
    heap: list[tuple[int, int, int]] = []
    for rank, file in enumerate(ranked):
        heappush(heap, (file[0][0], rank, 0))
    merged = []
    while heap:
        _, rank, at = heappop(heap)
        merged.append(ranked[rank][at])
        if at + 1 < len(ranked[rank]):
            heappush(heap, (ranked[rank][at + 1][0], rank, at + 1))
    return merged


def _write(folder: Path, files: list[list[tuple[int, bytes]]]) -> list[Path]:
    paths = [folder / f"{index}.pcap" for index in range(len(files))]
    for path, file in zip(paths, files, strict=True):
        write_pcap(path, file)
    return paths


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("options", [{"batch_bytes": 1}, {"batch_packets": 3}, {}])
def test_overlapping_unsorted_and_equal_times_merge_by_their_heads(
    tmp_path: Path, seed: int, options: dict[str, int]
) -> None:
    rng = Random(seed)
    files: list[list[tuple[int, bytes]]] = []
    for index in range(rng.randrange(2, 6)):
        times = [rng.randrange(20) + 8 * index * (seed % 3) for _ in range(rng.randrange(30))]
        if seed % 2:
            times.sort()
        files.append([(time, b"%d/%d" % (index, k)) for k, time in enumerate(times)])
    seen, error = packets(Capture(_write(tmp_path, files), **options))
    assert error is None
    assert [(one.time_ns, one.data) for one in seen] == _heads_merge(files)
    assert [one.number for one in seen] == list(range(1, len(seen) + 1))


def test_rotated_files_in_any_order_follow_each_other(tmp_path: Path) -> None:
    # the last packet of a file and the first of the next have the same time
    rotated = [[((9 * index + k) * SECOND, b"%d/%d" % (index, k)) for k in range(10)] for index in range(5)]
    paths = _write(tmp_path, rotated)
    expected = [packet for file in rotated for packet in file]
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        capture = Capture([paths[index] for index in order])
        seen, error = packets(capture)
        assert error is None
        assert [(one.time_ns, one.data) for one in seen] == expected
        sources = [capture.info.files[capture.info.interfaces[one.interface].file].path for one in seen]
        assert sources == [str(paths[k // 10]) for k in range(50)]
        assert capture.bytes_read == capture.bytes_total


def test_rotated_files_need_one_open_file_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = _write(tmp_path, [[(SECOND * (2 * index + k), b"x") for k in range(2)] for index in range(50)])
    listing = Path("/proc/self/fd")
    if not listing.exists():
        pytest.skip("open files cannot be counted here")
    before = len(list(listing.iterdir()))
    most = max(len(list(listing.iterdir())) for _ in Capture(paths))
    assert most - before <= 2


def test_streams_are_merged_without_being_read_again() -> None:
    odd = BytesIO(pcap(*(record(b"odd", 2 * k + 1) for k in range(100))))
    even = BytesIO(pcap(*(record(b"even", 2 * k) for k in range(100))))
    seen, error = packets(Capture([odd, even], batch_bytes=300))
    assert error is None
    assert [one.data for one in seen] == [b"even", b"odd"] * 100


@pytest.mark.parametrize("options", [{"batch_bytes": 1}, {}])
def test_interfaces_comments_and_numbers_are_those_of_the_whole_capture(options: dict[str, int]) -> None:
    ng = Ng()
    first = [
        ng.section((1, b"first")),
        ng.interface((2, b"unused")),
        ng.interface((2, b"eth1")),
        ng.enhanced(b"a", 1, interface=1),
        ng.enhanced(b"c", 30, (1, b"on c"), interface=1),
        ng.interface((2, b"late"), linktype=101),
        ng.enhanced(b"e", 50, (1, b"on e"), interface=2),
    ]
    second = [
        ng.section((1, b"second")),
        ng.interface((2, b"lo")),
        ng.enhanced(b"b", 20, (1, b"on b")),
        ng.enhanced(b"d", 40),
        ng.enhanced(b"f", 60, (1, b"on f")),
    ]
    capture = Capture([BytesIO(b"".join(first)), BytesIO(b"".join(second))], **options)
    seen, error = packets(capture)
    assert error is None
    assert [one.data for one in seen] == [b"a", b"b", b"c", b"d", b"e", b"f"]
    names = [capture.info.interfaces[one.interface].name for one in seen]
    assert names == ["eth1", "lo", "eth1", "lo", "late", "lo"]
    assert [one.name for one in capture.info.interfaces] == ["eth1", "lo", "late", "unused"]
    assert [one.linktype for one in seen] == [1, 1, 1, 1, 101, 1]
    assert [file.comments for file in capture.info.files] == [["first", "on c", "on e"], ["second", "on b", "on f"]]


def test_damaged_files_cost_only_their_own_rest(tmp_path: Path) -> None:
    good, cut, empty, text = (tmp_path / name for name in ("good", "cut", "empty", "text"))
    good.write_bytes(pcap(*(record(b"good", 2 * k) for k in range(5))))
    cut.write_bytes(pcap(*(record(b"cut", 2 * k + 1) for k in range(3)))[:-1])
    empty.write_bytes(b"")
    text.write_text("not a capture")
    capture = Capture([cut, tmp_path / "missing", good, empty, text])
    for _ in range(2):  # a capture of files can be read again
        seen, error = packets(capture)
        assert [one.data for one in seen] == [b"good", b"cut", b"good", b"cut", b"good", b"good", b"good"]
        assert error is not None
        assert error.path == str(cut)
        assert [Path(one.path).name for one in capture.errors] == ["cut", "missing", "empty", "text"]
        assert error.errors == capture.errors
        assert str(error).endswith("[3 more of the files cannot be read in full]")
        assert len(capture.info.interfaces) == 2


def test_files_of_both_formats_and_compressed(tmp_path: Path) -> None:
    ng = Ng(">")
    (tmp_path / "a").write_bytes(gzip.compress(pcap(record(b"1", 1), record(b"3", 3), order="<")))
    (tmp_path / "b").write_bytes(
        ng.section() + ng.interface() + ng.enhanced(b"2", 2_000_000) + ng.enhanced(b"4", 4_000_000)
    )
    capture = Capture([tmp_path / "b", tmp_path / "a"])
    seen, error = packets(capture)
    assert error is None
    assert [one.data for one in seen] == [b"1", b"2", b"3", b"4"]
    assert [file.format for file in capture.info.files] == ["pcapng", "pcap"]


def test_an_empty_list_of_files_raises() -> None:
    with pytest.raises(ValueError, match="at least one file"):
        Capture([])
