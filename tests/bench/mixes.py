"""Which captures are multiplied into which benchmark. Imports nothing large: the measuring process stays small."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mix:
    """Small captures that one large capture is made of."""

    about: str
    sources: tuple[str, ...]
    """Paths below ``captures``, without ``.pcap``."""
    megabytes: float = 30
    """Usual size, 10**6 bytes: less where tshark would run for many minutes."""
    equal_bytes: bool = False
    """Every source contributes as many bytes as the others; else as many copies."""


def _of(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in names)


MIXES = {
    "small": Mix(
        "RabbitMQ Stream, many connections, mostly frames of a few hundred bytes",
        _of("rabbitmq-stream", *("c43_multi", "c43_basic", "c43_offsets", "c43_amqp", "c43_credit"))
        + _of("rabbitmq-stream", *("c43_filter", "c43_sac", "c43_superstream", "c43_js_basic")),
        megabytes=100,
    ),
    "batches": Mix(
        "RabbitMQ Stream, frames of up to a megabyte, whole chunks, compressed sub-batches",
        _of("rabbitmq-stream", "c43_large", "c43_codecs_py", "c43_subentry"),
        megabytes=100,
    ),
    "nats": Mix(
        "NATS, dozens of small messages in every segment, some with headers",
        _of("nats", "08-pipelined-small", "06-headers"),
    ),
    "liftbridge": Mix(
        "Liftbridge, replication in messages of a megabyte, and publishing",
        _of("liftbridge", "34-lb-replication", "30-lb-publish-ack"),
    ),
    "tank": Mix(
        "TANK, plain and snappy bundles of many messages, small segments and segments of 64 KiB",
        _of("tank", "tank_06_produce_snappy", "tank_25_jumbo_loopback", "tank_04_produce_batches"),
        equal_bytes=True,
    ),
    "cursus": Mix(
        "Cursus, batches, consuming, gzip",
        _of("cursus", "produce", "consume", "comp-gzip"),
        equal_bytes=True,
    ),
    "pravega": Mix(
        "Pravega, appends of many events, reads cut anywhere, tables",
        _of("pravega", "append_basic", "read_cuts", "tables"),
        equal_bytes=True,
    ),
    "mixed": Mix(
        "all protocols in one capture, the same number of bytes of each",
        (
            *("rabbitmq-stream/c43_multi", "nats/08-pipelined-small", "liftbridge/34-lb-replication"),
            *("tank/tank_06_produce_snappy", "cursus/produce", "pravega/read_cuts"),
        ),
        equal_bytes=True,
    ),
}
