"""Kafka through the kit."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from wiredecode.fields.layer import Layer
from wiredecode.fields.tagged import UnknownTag
from wiredecode.protocols.kafka.layers import OTHERS, layer_of, versions
from wiredecode.protocols.kafka.layers_table import REQUESTS, RESPONSES
from wiredecode.protocols.kafka.protocol import Kafka
from wiredecode.testing import Case, Part, ProtocolTests

CAPTURE = Path(__file__).parents[2] / "captures" / "kafka" / "small.pcap"


def request(name: str, version: int, correlation: int, **fields: Any) -> Part:
    layer = layer_of(f"{name}Request", version)
    return Part(1, 0, bytes(layer(api_version=version, correlation_id=correlation, client_id="app-1", **fields)))


def response(name: str, version: int, correlation: int, **fields: Any) -> Part:
    return Part(1, 1, bytes(layer_of(f"{name}Response", version)(correlation_id=correlation, **fields)))


DIALOGUE = [
    request("ApiVersions", 3, 1, client_software_name="app", client_software_version="1.0"),
    response("ApiVersions", 3, 1),
    request("Metadata", 12, 2, topics=None),
    response("Metadata", 12, 2, cluster_id="c"),
    request("Heartbeat", 4, 3, group_id="g", generation_id=1, member_id="m", group_instance_id=None),
    request("Heartbeat", 4, 4, group_id="g", generation_id=1, member_id="m", group_instance_id=None),
    response("Heartbeat", 4, 3, error=27),
    response("Heartbeat", 4, 4),
]


def unknown(chance: Random) -> list[UnknownTag]:
    """One tag that no version has, made without Scapy's packet around it: there are thousands."""
    made = UnknownTag.bare()
    made.fields.update(tag=chance.randrange(1000, 9999), data=chance.randbytes(3))
    return [made]


VALUES = {"UnknownTags": unknown}


class KafkaTests(ProtocolTests):
    protocol = Kafka
    steady: ClassVar = frozenset({"size", "api_key", "api_version", "correlation_id", "error"})
    values: ClassVar = VALUES
    wanted = 5  # hundreds of layers use the same few kinds

    @classmethod
    def cases(cls) -> list[Case]:
        """Two frames of each layer."""
        return [(layer, raw) for layer in cls.layers() for raw in cls.made(layer)[:2]]


class TestKafka(KafkaTests):
    """The newest version of every message; :class:`TestEveryVersion` has all others."""

    captures: ClassVar = [CAPTURE]
    dialogues: ClassVar = {"a group": DIALOGUE}

    @classmethod
    def layers(cls) -> list[type[Layer]]:
        newest = {versions(message.name).layers()[-1]: None for message in (*REQUESTS.values(), *RESPONSES.values())}
        return [*newest, *OTHERS]


@pytest.mark.slow
class TestEveryVersion(KafkaTests):
    """All versions that :class:`TestKafka` leaves out."""

    @classmethod
    def layers(cls) -> list[type[Layer]]:
        newest = set(TestKafka.layers())
        return [layer for layer in super().layers() if layer not in newest]
