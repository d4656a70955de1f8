"""The real captures to multiply, in proportions of real use; they complement the generated ones (``cases``).

Imports nothing large: the measuring process stays small.
"""

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
    "mixed": Mix(
        "all protocols in one capture, the same number of bytes of each source",
        (
            *(
                "rabbitmq-stream/c43_multi",
                "nats/08-pipelined-small",
                "nats/06-headers",
                "liftbridge/34-lb-replication",
            ),
            *("tank/tank_06_produce_snappy", "tank/tank_04_produce_batches", "cursus/produce", "cursus/comp-gzip"),
            *("pravega/append_basic", "pravega/read_cuts", "pravega/tables"),
        ),
        equal_bytes=True,
    ),
}
