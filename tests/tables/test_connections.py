"""The table of connections, and TCP analysis in the table of packets."""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import wiredecode
from tests.conftest import sampled
from tests.net.test_analysis import DIFFERENT, LOSSY, tsharks
from wiredecode.net.health import KINDS
from wiredecode.tables.connections import COUNTED

CAPTURES = Path(__file__).parent.parent.parent / "captures"
SINGULAR = {"lost_segments": "lost_segment", "window_full": "window_full", "out_of_order": "out_of_order"}


def rows(name: str, **reading: object) -> list[dict[str, object]]:
    found = wiredecode.read(CAPTURES / name, level="connections", **reading).table().to_pylist()  # type: ignore[arg-type]
    return sorted(found, key=lambda row: row["connection"])


@pytest.mark.parametrize("name", sampled(LOSSY, 4))
def test_kinds_of_packets_and_counts_of_connections_equal_those_of_tshark(name: str) -> None:
    if shutil.which("tshark") is None and not os.environ.get("CI"):
        pytest.skip("tshark is not installed")
    theirs, mine = tsharks(CAPTURES / name), defaultdict(set)
    packets = wiredecode.read(CAPTURES / name, level="packets", columns=["packet", "tcp_analysis"]).table()
    for row in packets.to_pylist():
        for kind in row["tcp_analysis"] or ():
            mine[kind].add(row["packet"])
    for kind in KINDS:
        if kind in DIFFERENT.get(name, ()):
            both = mine[kind] & theirs[kind]
            assert len(both) >= 0.9 * max(len(mine[kind]), len(theirs[kind])) - 1, kind
        else:
            assert mine[kind] == theirs[kind], kind
    counted: Counter[str] = Counter()
    for one in rows(name):
        counted.update({column: sum(one[f"{side}_{column}"] for side in ("client", "server")) for column in COUNTED})
    for column in COUNTED:
        kind = SINGULAR.get(column, column.removesuffix("s"))
        if kind not in DIFFERENT.get(name, ()):
            assert counted[column] == len(theirs[kind]), column


def test_packets_have_their_connection() -> None:
    table = wiredecode.read(CAPTURES / "nats/22-port-reuse-abort.pcap", level="packets").table()
    connections = rows("nats/22-port-reuse-abort.pcap")
    counts = Counter(table["connection"].to_pylist())
    assert counts == {one["connection"]: one["client_packets"] + one["server_packets"] for one in connections}


def test_a_connection_with_a_slow_reader_and_no_loss() -> None:
    slow = rows("stories/slow-consumer.pcap.zst")[0]
    assert slow["name"] == "report-export"
    assert (slow["ended_by"], slow["ended"]) == ("server", "FIN")
    assert slow["client_zero_windows"] == 1
    assert 3_000_000_000 < slow["client_zero_window_ns"] < 4_737_459_000
    assert slow["server_keep_alives"] == 4
    assert slow["server_missing"] == slow["client_missing"] == 0


def test_frames_and_bytes_equal_those_of_the_table_of_frames() -> None:
    name = "nats/14-cluster-routes.pcap"
    frames = wiredecode.read(CAPTURES / name, columns=["connection", "src", "length"]).table().to_pylist()
    counts = Counter((row["connection"], row["src"]) for row in frames)
    for one in rows(name):
        assert one["client_frames"] == counts[one["connection"], one["client"]]
        assert one["server_frames"] == counts[one["connection"], one["server"]]


def test_a_filter_chooses_connections_by_their_frames() -> None:
    found = rows("nats/02-auth.pcap", filter='frame.type == "-ERR"')
    assert [one["connection"] for one in found] == [2, 4, 6, 7, 8]


def test_stable_ids_of_connections_are_equal_in_both_tables() -> None:
    name = "rabbitmq-stream/c43_basic.pcap"
    frames = wiredecode.read(CAPTURES / name, columns=["connection"], ids="stable").table()["connection"].unique()
    assert {one["connection"] for one in rows(name, ids="stable")} == set(frames.to_pylist())
