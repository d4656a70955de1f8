"""The benchmark's captures and the talks in each. Imports nothing large."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.wire import SEGMENT, Speaker, write_capture

VERSION = 3
"""Of the traffic: a capture in the cache that was made by another version is made anew."""


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of capture."""

    about: str
    speakers: tuple[tuple[str, str, int], ...]
    """Module, name in it, and number of speakers."""
    protocols: tuple[str, ...]
    loss: float = 0.0
    """Share of the segments with payload that are lost, repeated or late."""
    midstream: bool = False
    """The capture was begun later than its connections: no SYN, no handshake, nothing declared."""
    turns: int = 0
    """After that many a connection closes, and another one takes its place; 0: none does."""
    segment: int = SEGMENT
    """Most payload bytes of a packet."""


CASES = {
    "rabbitmq-publish": Case(
        "RabbitMQ Stream, Publish with 10 to 100 messages of 105 to 200 bytes, and its confirms",
        (("traffic_rabbitmq", "PUBLISHER", 16),),
        ("rabbitmq_stream",),
    ),
    "rabbitmq-deliver": Case(
        "RabbitMQ Stream, chunks of 20 to 600 messages of 105 to 200 bytes with CRC, and credits",
        (("traffic_rabbitmq", "CONSUMER", 16),),
        ("rabbitmq_stream",),
    ),
    "nats": Case(
        "NATS, bodies of 17 to 200 bytes, published and delivered, about ten messages per segment",
        (("traffic_nats", "MANY", 8),),
        ("nats",),
    ),
    "nats-few": Case(
        "NATS, the same bodies, one to three messages per segment",
        (("traffic_nats", "FEW", 8),),
        ("nats",),
    ),
    "liftbridge": Case(
        "NATS and Liftbridge, publish and ack envelopes with CRC, each published and delivered",
        (("traffic_nats", "LIFTBRIDGE", 6),),
        ("nats", "liftbridge"),
    ),
    "tank": Case(
        "TANK, snappy bundles of 20 to 250 messages, produced and consumed",
        (("traffic_tank", "PRODUCER", 8), ("traffic_tank", "CONSUMER", 8)),
        ("tank",),
    ),
    "cursus": Case(
        "Cursus, batches of 10 to 100 messages, produced and consumed",
        (("traffic_cursus", "PRODUCER", 8), ("traffic_cursus", "CONSUMER", 8)),
        ("cursus",),
    ),
    "pravega": Case(
        "Pravega, append blocks of 20 to 200 events, half of them with an event cut by the block's end",
        (("traffic_pravega", "WRITER", 16),),
        ("pravega",),
    ),
    "mixed": Case(
        "all protocols in one capture, about the same number of bytes of each",
        (
            *(("traffic_rabbitmq", "PUBLISHER", 1), ("traffic_rabbitmq", "CONSUMER", 1), ("traffic_nats", "MANY", 1)),
            *(("traffic_nats", "FEW", 1), ("traffic_nats", "LIFTBRIDGE", 2), ("traffic_tank", "PRODUCER", 1)),
            *(("traffic_tank", "CONSUMER", 1), ("traffic_cursus", "PRODUCER", 1), ("traffic_cursus", "CONSUMER", 1)),
            ("traffic_pravega", "WRITER", 2),
        ),
        ("rabbitmq_stream", "nats", "liftbridge", "tank", "cursus", "pravega"),
    ),
    "rabbitmq-publish-lossy": Case(
        "the publishes again, 0.5 % of the segments lost, repeated or late",
        (("traffic_rabbitmq", "PUBLISHER", 16),),
        ("rabbitmq_stream",),
        loss=0.005,
    ),
}
CASES |= {
    f"{name}-midstream": replace(case, about=f"{case.about}; begun in the middle of the connections", midstream=True)
    for name, case in CASES.items()
    if not case.loss
}
CASES |= {
    "connections": replace(CASES["mixed"], about="all protocols in many short connections, two turns each", turns=2),
    "rough": replace(
        CASES["mixed"],
        about="the same, the first connections begun before the capture, 0.2 % of the segments lost, repeated or late",
        turns=2,
        loss=0.002,
        midstream=True,
    ),
    "segments": replace(
        CASES["rabbitmq-deliver"], about="RabbitMQ Stream, the chunks in segments of 200 bytes", segment=200
    ),
    "web": Case("no protocol of wiredecode: HTTP on a thousand connections", (("traffic_web", "BROWSER", 1000),), ()),
}


def make(name: str, megabytes: float, folder: Path) -> dict[str, int | str]:
    """Return the capture's path and counts; make it if the folder does not hold it."""
    path = folder / f"{name}-{megabytes:g}.pcap"
    account = path.with_suffix(".json")
    if account.exists() and path.exists():
        made: dict[str, int | str] = json.loads(account.read_bytes())
        if made.get("version") == VERSION and made["bytes"] == path.stat().st_size:
            return made | {"path": str(path)}
    case = CASES[name]
    speakers: list[Speaker] = []
    for module, speaker, count in case.speakers:
        one: Speaker = getattr(importlib.import_module(f"tests.bench.{module}"), speaker)
        speakers += [replace(one, turns=case.turns)] * count
    part = path.with_suffix(".part")
    size = int(megabytes * 1e6)
    counts = write_capture(part, speakers, size, case.loss, midstream=case.midstream, segment=case.segment)
    part.replace(path)
    made = {"case": name, "version": VERSION, **counts}
    account.write_text(json.dumps(made))
    return made | {"path": str(path)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cases", description=__doc__)
    parser.add_argument("case", choices=CASES, nargs="+", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--size", type=float, default=300, metavar="MB", help="10**6 bytes, default 300")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="default: TMPDIR")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.case:
        print(json.dumps(make(name, options.size, options.folder)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
