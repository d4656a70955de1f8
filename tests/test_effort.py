"""Work is in proportion to bytes, whatever they are, and memory does not grow with the capture."""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice

import pytest

from tests import effort
from tests.conftest import sampled
from tests.effort import CONTENTS, PROTOCOLS, Content, after_a_loss, doubles, kept, late, own_contents
from wiredecode.capture import PacketBatch
from wiredecode.check import Checker
from wiredecode.dissect.dissector import ANALYSED, Dissector
from wiredecode.net import analysis, segment_copies, types
from wiredecode.net.buckets import Buckets
from wiredecode.net.limits import DEFAULT_LIMITS
from wiredecode.net.network import Network
from wiredecode.protocols.nats import conversation_memory
from wiredecode.protocols.nats.conversation import NatsConversation
from wiredecode.protocols.nats.transport_websocket import inflate_message
from wiredecode.spark.parcels import File, PacketParcels
from wiredecode.testing import Talk, batches

Reading = Callable[[bytes], Callable[[], object]]
OWN = 4
"""Messages of a protocol that the fast tests make contents of."""
SIZE_TIMED = 12 * 1024
PORTS = {**{name: entry.ports[0] for name, entry in PROTOCOLS.items()}, "any": 9999}


def own(name: str, most: int | None = OWN) -> dict[str, Content]:
    """Contents made of some messages of a protocol, or of all."""
    return dict(own_contents(PROTOCOLS[name].load(), most))


def growing(read: Reading, contents: Mapping[str, Content], size: int = effort.SIZE) -> list[str]:
    """The contents for which the work does more than double."""

    def make(content: Content, size: int) -> Callable[[], object]:
        return read(content(size))

    return [name for name, content in contents.items() if not doubles(partial(make, content), size)]


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_search_after_a_lost_packet_is_linear(name: str, part: int) -> None:
    chosen = [*CONTENTS, *own(name)] if name == "nats" else [*own(name), *CONTENTS][part::2]
    assert not growing(partial(after_a_loss, name), {what: (CONTENTS | own(name))[what] for what in chosen})


@pytest.mark.parametrize("content", sampled(CONTENTS, 2))
def test_a_late_start_is_linear(content: str) -> None:
    assert not growing(partial(late, PORTS["nats"]), {content: CONTENTS[content]})


@pytest.mark.parametrize("content", sampled(CONTENTS, 2))
def test_the_search_in_websockets_is_linear(content: str) -> None:
    assert not growing(partial(effort.in_websockets, 0), {content: CONTENTS[content]})


@pytest.mark.parametrize("read", [effort.compressed, pytest.param(effort.chunked, marks=pytest.mark.slow)])
def test_the_search_in_plain_bytes_is_linear(read: Reading) -> None:
    assert not growing(read, CONTENTS)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("of", PROTOCOLS)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_search_is_linear_in_messages_of_all_protocols(name: str, of: str) -> None:
    assert not growing(partial(after_a_loss, name), own(of, None if of == name else 5 * OWN))


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("where", PORTS)
def test_a_late_start_is_linear_in_messages_of_all_protocols(where: str) -> None:
    contents = {f"{name}: {what}": content for name in PROTOCOLS for what, content in own(name).items()}
    assert not growing(partial(late, PORTS[where]), CONTENTS | contents)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_time_of_a_search_grows_with_length_only(name: str) -> None:
    """Regular expressions are one call each."""

    def make(content: Content, size: int) -> Callable[[], object]:
        return after_a_loss(name, content(size))

    contents = dict([*CONTENTS.items()][::4])
    slow = [each for each in contents if not effort.grows_with_length_only(partial(make, contents[each]), SIZE_TIMED)]
    assert not slow


def test_many_streams_of_deflate_in_one_message_are_linear() -> None:
    def inflate(count: int) -> Callable[[], object]:
        return lambda: inflate_message(b"\x03\x00" * count, b"", 1 << 20)

    assert effort.grows_with_length_only(inflate, 500)


def test_frames_that_only_the_end_shows_are_searched_a_limited_number_of_times() -> None:
    """Each time one is found, the rest is searched again."""
    unit = bytes.fromhex("0000001a00000016000469747772f7fa3ff37231c89aaef0")
    assert not growing(partial(after_a_loss, "pravega"), {"pravega": effort.repeated(unit)}, 8 * effort.SIZE)


# Memory.

CLOCKS: dict[str, Callable[[int], float]] = {
    "back": lambda number: 3600.0 if number < 60 else number / 100,
    "frozen": lambda number: min(number, 60) / 100,
    "one time": lambda number: 0.0,
    "back again and again": lambda number: number % 100 / 10 + 30 * (number % 10 == 9),
}


Remembered = Callable[[Iterator[PacketBatch]], object]


def publishing(number_of_packets: int, clock: Callable[[int], float], both: bool) -> Iterator[PacketBatch]:
    """Publishes on one connection, with acknowledgments or as seen at one side only, in batches."""

    def packets() -> Iterator[bytes]:
        talk = Talk(server=("10.0.0.2", 4222))
        if both:
            yield from talk.handshake()
            for side, said in effort.NATS_OPENING:
                yield from talk.send(side, said)
        while True:
            yield from talk.send(0, b"PUB a 100\r\n" + bytes(100) + b"\r\n")
            if both:
                yield talk.ack(1)

    source = zip(map(clock, range(number_of_packets)), packets(), strict=False)
    first = 1
    while part := list(islice(source, 50)):
        yield from batches(part, first_number=first)
        first += len(part)


def checked(source: Iterator[PacketBatch]) -> object:
    """What is remembered after a check."""
    checker = Checker()
    dissector = Dissector(ANALYSED, on_end=checker.end)
    for frame in dissector.frames(source):
        checker.frame(frame)
    return checker, dissector


def analysed(source: Iterator[PacketBatch]) -> object:
    """What is remembered of connections while the capture goes on."""
    network = Network(analyse=True)
    for batch in source:
        network.feed(batch)
    return network


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("both", [True, False], ids=["both sides", "one side"])
@pytest.mark.parametrize("remembered", [analysed, pytest.param(checked, marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_any_clock(
    clock: str, both: bool, remembered: Remembered, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in (
        *((segment_copies, "REMEMBERED"), (types, "MAX_LOSSES"), (analysis, "UNACKED_SEGMENTS")),
        (conversation_memory, "MAX_CONTENTS"),
    ):
        monkeypatch.setattr(module, name, 100)
    small, large = (kept(lambda size: remembered(publishing(size, CLOCKS[clock], both)), n) for n in (600, 1800))
    assert large < 1.5 * small


def test_segments_that_no_longer_wait_for_the_other_side_are_forgotten() -> None:
    """One segment waits for bytes that never come; those behind it wait for the next packet only."""

    def hold(count: int) -> Network:
        talk = Talk()
        first = [*talk.handshake(), ahead(talk, 0, b"x", 900_000_000), *talk.send(0, b"x")]
        network = Network()
        network.feed(next(batches([(0.0, packet) for packet in first])))
        for number in range(count):
            pair = [ahead(talk, 1, bytes(100), 10), *talk.send(0, bytes(10))]
            talk.seq[1] += 100
            network.feed(next(batches([(0.0, packet) for packet in pair], first_number=len(first) + 2 * number + 1)))
        return network

    def ahead(talk: Talk, side: int, data: bytes, ack: int) -> bytes:
        """The next segment of a side, which acknowledges so many bytes that were not captured."""
        talk.seq[1 - side] += ack
        packet = talk.packet(side, data)
        talk.seq[1 - side] -= ack
        return packet

    assert kept(hold, 500) < kept(hold, 100) + 20_000


def test_packets_of_chunks_are_forgotten_with_the_operations_in_them() -> None:
    """No chunk ends where an operation does."""
    message = b"RMSG $G a 500\r\n" + bytes(500) + b"\r\n"
    dissector, remembered = Dissector(ANALYSED), []

    def source() -> Iterator[PacketBatch]:
        yield from batches(effort.chunks(message * 200 + b"RMSG"), size=50)
        (tracker,) = dissector._trackers.values()
        assert isinstance(tracker.conversation, NatsConversation)
        (stream, _) = tracker.conversation.inner.streams
        assert stream is not None
        remembered.append(len(stream.carriers))

    assert sum(frame.type == "RMSG" for frame in dissector.frames(source())) == 200
    assert remembered[0] < 5


def dialogues(connections: int, rounds: int) -> list[bytes]:
    """Packets of connections that ask and answer so often each, without an end."""
    packets: list[bytes] = []
    for number in range(connections):
        talk = Talk(client=(f"10.1.{number >> 8}.{number & 255}", 40000), server=("10.0.0.2", PORTS["rabbitmq_stream"]))
        packets += talk.handshake()
        for turn in range(rounds):
            packets += talk.send(0, struct.pack(">IHHII", 12, 17, 1, turn, 0))
            packets += talk.send(1, struct.pack(">IHHIHI", 14, 0x8011, 1, turn, 1, 0))
    return packets


def test_a_connection_of_few_packets_costs_few_calls() -> None:
    """The number of connections costs more than that of packets, but is bounded: no container is made unasked."""

    def cost(connections: int, rounds: int) -> int:
        packets = dialogues(connections, rounds)
        return effort.calls(effort.reading(packets, analyse=True))

    cost(1, 1)
    few, many = cost(2, 200), cost(200, 2)
    assert many < 2.1 * few


def test_connections_that_ended_are_freed_without_a_collection() -> None:
    packets = dialogues(8, 3)
    effort.reading(packets, analyse=True)()
    gc.disable()
    try:
        with effort.others_frozen():
            effort.reading(packets, analyse=True)()
            assert not [each for each in gc.get_objects() if isinstance(each, types.Connection)]
    finally:
        gc.enable()


def test_packets_are_dealt_to_many_buckets_as_quickly_as_to_few() -> None:
    packets = dialogues(500, 2)

    def cost(buckets: int) -> int:
        parcels = PacketParcels(File("many", "", 0), Buckets(buckets, {}), DEFAULT_LIMITS)
        return effort.calls(lambda: [*parcels.rows(batches(packets))])

    cost(1)
    assert cost(2000) < 1.1 * cost(2)
