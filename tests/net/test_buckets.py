"""Buckets of connections: both directions are in one bucket, and no connection in two."""

from __future__ import annotations

from pathlib import Path

from wiredecode.capture import open_capture
from wiredecode.net.buckets import Bucket, Buckets
from wiredecode.net.network import Network


def test_every_connection_is_whole_in_one_bucket(captures: Path) -> None:
    path = captures / "rabbitmq-stream" / "c43_basic.pcap"
    everything = connections(path, Network())
    found = [connections(path, Network(bucket=Bucket(Buckets(3, {}), number))) for number in range(3)]
    assert len(everything) == sum(map(len, found)) == 7
    assert set(everything) == set().union(*found)
    assert max(map(len, found)) < 7


def test_connections_that_share_state_are_in_one_bucket(captures: Path) -> None:
    path = captures / "rabbitmq-stream" / "c43_basic.pcap"
    sizes = [
        len(connections(path, Network(bucket=Bucket(Buckets(3, {5552: "rabbitmq_stream"}), number))))
        for number in range(3)
    ]
    assert sorted(sizes) == [0, 0, 7]


def connections(path: Path, network: Network) -> list[tuple[tuple[str, ...], int]]:
    """Endpoints and bytes of the connections that a network keeps."""
    size: dict[tuple[str, ...], int] = {}
    for batch in open_capture([path], batch_bytes=3000):
        for event in network.feed(batch):
            key = tuple(sorted(event.direction.connection.endpoints))
            size[key] = size.get(key, 0) + len(getattr(event, "data", b""))
    network.finish()
    for connection in network.pop_forgotten():
        size.setdefault(tuple(sorted(connection.endpoints)), 0)
    return sorted(size.items())
