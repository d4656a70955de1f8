"""Generated captures must be valid TCP, decoded to the last byte, and reproducible."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import multiply, wire
from tests.bench.bodies import bodies
from tests.bench.cases import CASES, make
from tests.bench.check import examine
from tests.bench.growth import exponent
from tests.conftest import sampled

PAYLOAD = 66
"""Where the payload starts: Ethernet, IPv4, TCP with timestamps."""


def records(path: Path) -> list[tuple[int, bytes]]:
    return list(multiply.read_records(path))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    return Path(str(make("nats-few", 0.1, folder)["path"]))


@pytest.mark.parametrize("name", sampled(CASES, 4))
def test_every_generated_byte_is_decoded(name: str, tmp_path: Path) -> None:
    """Of all cases: ``python -m tests.bench --smoke``, which .ci/run runs."""
    found = examine(name, tmp_path, 0.03 if not CASES[name].loss else 0.3)
    assert found["right"], found


def test_every_checksum_is_right(small: Path) -> None:
    for _, packet in records(small):
        assert multiply.word_sum(packet[14:34]) % 0xFFFF == 0
        segment = packet[34:]
        assert (multiply.word_sum(packet[26:34]) + 6 + len(segment) + multiply.word_sum(segment)) % 0xFFFF == 0


def test_times_increase_by_whole_microseconds(small: Path) -> None:
    times = [time for time, _ in records(small)]
    assert times == sorted(times)
    assert times[0] >= wire.START_NS
    assert len(set(times)) > len(times) * 0.9


def test_sequence_numbers_are_contiguous_and_acks_follow_data(small: Path) -> None:
    following: dict[bytes, int] = {}
    for _, packet in records(small):
        way, back = packet[26:34] + packet[34:38], packet[30:34] + packet[26:30] + packet[36:38] + packet[34:36]
        sequence, acknowledged = int.from_bytes(packet[38:42]), int.from_bytes(packet[42:46])
        flags = packet[47]
        assert following.get(way, sequence) == sequence
        following[way] = sequence + len(packet) - 34 - (packet[46] >> 4) * 4 + bool(flags & (wire.SYN | wire.FIN))
        if flags & wire.ACK:
            assert acknowledged <= following[back]


def test_both_sides_open_acknowledge_and_close_every_connection(small: Path) -> None:
    packets = [packet for _, packet in records(small)]
    assert sum(packet[47] == wire.SYN for packet in packets) == 16
    assert sum(packet[47] == wire.SYN | wire.ACK for packet in packets) == 16
    assert sum(bool(packet[47] & wire.FIN) for packet in packets) == 32
    assert sum(len(packet) == PAYLOAD for packet in packets) > len(packets) // 4


def test_frames_cross_segments(tmp_path: Path) -> None:
    path = Path(str(make("rabbitmq-publish", 0.5, tmp_path)["path"]))
    full = [packet for _, packet in records(path) if len(packet) == PAYLOAD + wire.SEGMENT]
    starts = [packet for packet in full if packet[PAYLOAD + 4 : PAYLOAD + 8] == b"\0\2\0\1"]
    assert 0 < len(starts) < len(full) / 2


def test_the_same_arguments_give_the_same_file(tmp_path: Path, small: Path) -> None:
    again = make("nats-few", 0.1, tmp_path)
    assert Path(str(again["path"])).read_bytes() == small.read_bytes()


def test_a_kept_capture_is_reused_and_a_truncated_one_made_again(tmp_path: Path) -> None:
    path = Path(str(make("nats", 0.1, tmp_path)["path"]))
    whole, made_at = path.read_bytes(), path.stat().st_mtime_ns
    make("nats", 0.1, tmp_path)
    assert path.stat().st_mtime_ns == made_at
    path.write_bytes(whole[:1000])
    make("nats", 0.1, tmp_path)
    assert path.read_bytes() == whole


def test_trouble_drops_repeats_and_delays(tmp_path: Path) -> None:
    def talk(rng: object, number: int) -> Iterator[wire.Turn]:
        while True:
            yield wire.Turn([wire.Send(wire.CLIENT, bytes(10_000))], 0)

    speaker = [wire.Speaker(talk, 5552)]
    wire.write_capture(tmp_path / "plain", speaker, 500_000)
    wire.write_capture(tmp_path / "rough", speaker, 500_000, loss=0.1)
    sent = {packet for _, packet in records(tmp_path / "plain") if len(packet) > PAYLOAD}
    rough = [packet for _, packet in records(tmp_path / "rough") if len(packet) > PAYLOAD]
    common = sent & set(rough)
    assert 0.9 < len(common) / len(sent) < 1
    assert len(rough) > len(set(rough))
    sequences = [int.from_bytes(packet[38:42]) for packet in rough]
    assert sequences != sorted(sequences)


def test_bodies_have_the_wanted_sizes_and_differ() -> None:
    some = list(itertools.islice(bodies(random.Random(1), 16, 200), 20_000))
    assert len(set(some)) == len(some)
    assert {len(body) for body in some} == set(range(17, 201))
    assert all(body.isascii() and body.startswith(b'{"id":') for body in some)


@pytest.mark.parametrize(("power", "seconds"), [(1, [2.0, 4.0, 8.0]), (2, [1.0, 4.0, 16.0])])
def test_exponent(power: float, seconds: list[float]) -> None:
    assert exponent([10, 20, 40], seconds) == pytest.approx(power)
