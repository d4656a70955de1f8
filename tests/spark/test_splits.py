"""Large files in parts: the packets of the whole file, for any payload. No Spark is needed."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from struct import pack

import pytest

from tests.capture.build import pcap, record
from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.spark.files import first_ns
from wiredecode.spark.parcels import File
from wiredecode.spark.splits import FileSplit, packets, splits

MIB = 1 << 20
START = 1_700_000_000
Seen = list[tuple[int, bytes]]


def noise(count: int, most: int = 1500, seed: int = 1) -> list[bytes]:
    chance = random.Random(seed)
    return [chance.randbytes(chance.randint(40, most)) for _ in range(count)]


def records(payloads: list[bytes], order: str = "<", extra: int = 0) -> list[bytes]:
    """Four packets in a millisecond; ``extra`` bytes in the header of each record."""
    made = []
    for number, data in enumerate(payloads):
        seconds, fraction = divmod(number * 250, 1_000_000)
        head = record(b"", START + seconds, fraction, order)[:8] + pack(order + "II", len(data), len(data))
        made.append(head + bytes(extra) + data)
    return made


def cut(path: Path, content: bytes) -> list[FileSplit]:
    path.write_bytes(content)
    return splits(File(str(path), "s", first_ns(str(path)) or 0), len(content), MIB)


def seen(batches: list[PacketBatch]) -> Seen:
    found = []
    for batch in batches:
        columns = zip(batch.time_ns.tolist(), batch.start.tolist(), batch.captured.tolist(), strict=True)
        found += [(time_ns, batch.buffer[at : at + size]) for time_ns, at, size in columns]
    return found


def read(split: FileSplit) -> tuple[Seen, CaptureError | None]:
    batches: list[PacketBatch] = []
    try:
        batches.extend(packets(split))
    except CaptureError as error:
        return seen(batches), error
    return seen(batches), None


def together(found: list[tuple[Seen, CaptureError | None]]) -> Seen:
    return [packet for one, _ in found for packet in one]


def whole(path: Path) -> Seen:
    return seen(list(open_capture([path])))


@pytest.mark.parametrize(
    ("magic", "order", "extra"),
    [(0xA1B2C3D4, "<", 0), (0xA1B2C3D4, ">", 0), (0xA1B23C4D, "<", 0), (0xA1B2CD34, "<", 8)],
)
def test_parts_have_the_packets_of_the_file_once_and_in_order(
    tmp_path: Path, magic: int, order: str, extra: int
) -> None:
    path = tmp_path / "large.pcap"
    parts = cut(path, pcap(*records(noise(5000), order, extra), magic=magic, order=order))
    found = [read(part) for part in parts]
    assert [error for _, error in found] == [None] * 4
    assert all(one for one, _ in found), "a part is empty"
    assert together(found) == whole(path)
    for (one, _), (part, after) in zip(found, pairwise(parts), strict=False):
        assert part.file.place + len(one) <= after.file.place


def carrying(size: int, inner: bytes, ahead: int) -> bytes:
    """A packet of ``size`` bytes with records of a capture from ``ahead`` to its end."""
    room = size - ahead
    return bytes(ahead) + (inner * (room // len(inner) + 1))[-room:]


def test_captures_inside_packets_up_to_the_packet_end_are_not_records(tmp_path: Path) -> None:
    path = tmp_path / "nested.pcap"
    (inner,) = records([b"x" * 84])
    # as many records as fit, the last one ending with the packet: they lead to the true ones
    payloads = [carrying(54 + 600 * len(inner), inner, 54) for _ in range(80)]
    parts = cut(path, pcap(*records(payloads)))
    found = [read(part) for part in parts]
    assert [error for _, error in found] == [None] * len(parts)
    assert sum(bool(one) for one, _ in found) > 3
    assert together(found) == whole(path)


def test_captures_inside_packets_that_skip_true_records_are_not_records(tmp_path: Path) -> None:
    path = tmp_path / "parallel.pcap"
    size = 1000
    inner = record(b"", START)[:8] + pack("<II", size, size)
    parts = cut(path, pcap(*records([bytes(100) + inner + bytes(size - 116)] * 5000)))
    found = [read(part) for part in parts]
    assert [error for _, error in found] == [None] * len(parts)
    assert together(found) == whole(path), "where both are possible nothing is cut"


def test_zeros_and_small_numbers_are_no_records(tmp_path: Path) -> None:
    path = tmp_path / "zeros.pcap"
    parts = cut(path, pcap(*records([bytes(1200), pack("<300I", *range(300))] * 2000)))
    found = [read(part) for part in parts]
    assert together(found) == whole(path)
    assert all(one for one, _ in found)


def test_a_file_of_few_huge_packets_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge.pcap"
    parts = cut(path, pcap(*records([bytes(60_000)] * 60)))
    found = [read(part) for part in parts]
    assert together(found) == whole(path)


def test_damage_costs_the_rest_of_its_part_and_is_reported(tmp_path: Path) -> None:
    path, made = tmp_path / "damaged.pcap", records(noise(5000))
    good = pcap(*made)
    at = len(pcap(*made[:2000]))
    parts = cut(path, good[: at + 8] + b"\xff\xff\xff\x7f" + good[at + 12 :])
    found = [read(part) for part in parts]
    path.write_bytes(good)
    base, all_seen = whole(path), together(found)
    errors = [str(error) for _, error in found if error is not None]
    assert len(errors) == 1
    assert f"absurd record length: 2147483647 bytes, the limit is 1048576 at byte {at};" in errors[0]
    assert all_seen[:2000] == base[:2000]
    assert all_seen[-1900:] == base[-1900:]


def test_parts_that_do_not_meet_are_reported(tmp_path: Path) -> None:
    path, made = tmp_path / "crooked.pcap", records([bytes(1000)] * 4000)
    made[500] = made[500][:8] + pack("<II", 900_000, 900_000) + made[500][16:]  # believed, and reaches beyond the edge
    parts = cut(path, pcap(*made))
    first, error = read(parts[0])
    assert first == seen([PacketBatch.from_packets(whole_until(made, 500))])
    assert str(error).startswith(f"{path}: its packets do not lead to byte ")
    assert "read the file in one piece (splitBytes 0)" in str(error)
    assert [read(part)[1] for part in parts[1:]] == [None] * (len(parts) - 1)


def whole_until(made: list[bytes], count: int) -> Seen:
    return [((START * 4000 + number) * 250_000, one[16:]) for number, one in enumerate(made[:count])]


def test_parts_are_ordered_by_time_if_packets_are_almost(tmp_path: Path) -> None:
    path, made = tmp_path / "mixed.pcap", records([bytes(1000)] * 4000)
    parts = cut(path, pcap(*[made[low + step] for low in range(0, 4000, 10) for step in reversed(range(10))]))
    found = [read(part) for part in parts]
    assert [error for _, error in found] == [None] * 4
    assert together(found) == whole(path)
    assert all(max(before)[0] < min(after)[0] for (before, _), (after, _) in pairwise(found))


def test_time_that_goes_back_is_reported(tmp_path: Path) -> None:
    path, made = tmp_path / "back.pcap", records([bytes(1000)] * 4000)
    made[1500:] = [pack("<I", START - 5) + one[4:] for one in made[1500:]]
    found = [read(part) for part in cut(path, pcap(*made))]
    path.write_bytes(pcap(*made))
    assert together(found) == whole(path)
    assert ["time goes back" in str(error) for _, error in found].count(True) == 1


def test_unsplittable_files_are_one_part(tmp_path: Path) -> None:
    pcapng = Path(__file__).parent.parent.parent / "captures" / "rabbitmq-stream" / "d_basic.pcapng"
    for path in (pcapng, pcapng.with_name("d_basic.pcap.gz"), tmp_path / "missing.pcap"):
        assert [part.high for part in splits(File(str(path), "", 0), 10 * MIB, MIB)] == [None]
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap(*records(noise(5000))))
    assert splits(File(str(path), "", 0), 4 * MIB, 0) == [FileSplit(File(str(path), "", 0))]
    with pytest.raises(ValueError, match="too small"):
        splits(File(str(path), "", 0), 4 * MIB, 1000)


@pytest.mark.parametrize("quarters", range(4, 17))
def test_parts_cover_the_file(tmp_path: Path, quarters: int) -> None:
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap())
    parts = splits(File(str(path), "", 0), quarters * MIB // 4, MIB)
    if parts[0].high is not None:
        assert (parts[0].low, parts[-1].high) == (0, quarters * MIB // 4)
        assert all(a.high == b.low == b.file.place for a, b in pairwise(parts))
