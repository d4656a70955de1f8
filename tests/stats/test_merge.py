"""Two halves of the connections, counted apart and pickled, give the statistics of the whole."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from tests.conftest import CAPTURES, sampled
from tests.stats.test_numbers import plain
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.net.buckets import Bucket, Buckets
from wiredecode.net.distribution import Distribution
from wiredecode.protocols.registry import session_ports
from wiredecode.stats.counters import Counters
from wiredecode.stats.tables import STATISTICS
from wiredecode.stats.tallies import Counted, Throughput
from wiredecode.stats.topics import MAX_TOPICS, OTHERS

SEVERAL = (
    *("rabbitmq-stream/c43_multi.pcap", "rabbitmq-stream/c43_subentry.pcap", "rabbitmq-stream/d_drop1pct.pcap"),
    *("nats/14-cluster-routes.pcap", "liftbridge/30-lb-publish-ack.pcap", "cursus/group.pcap"),
    *("tank/tank_08_consume_positions.pcap", "pravega/read_cuts.pcap", "stories/advertised-refused.pcap"),
)


def counted(path: str, interval: int | None, bucket: Bucket | None = None) -> Counted:
    counters = Counters(STATISTICS, interval)
    demand = counters.demand(Demand(stable_ids=True, bucket=bucket))
    dissector = Dissector(demand, on_decoded=counters.end)
    for frame in dissector.frames(open_capture([CAPTURES / path])):
        counters.frame(frame)
    return counters.finish()


@pytest.mark.parametrize("interval", [1, None], ids=["each second", "fitting"])
@pytest.mark.parametrize("path", sampled(SEVERAL, 3))
def test_statistics_of_two_halves_equal_those_of_the_whole(path: str, interval: int | None) -> None:
    dealt = Buckets(2, session_ports({}))
    halves = [counted(path, interval, Bucket(dealt, number)) for number in range(2)]
    merged: Counted = pickle.loads(pickle.dumps(halves[1]))
    merged.merge(pickle.loads(pickle.dumps(halves[0])))
    whole = counted(path, interval)
    for statistic in STATISTICS:
        found, wanted = (alone(statistic.name, each.rows(statistic)) for each in (merged, whole))
        assert list(map(plain, found)) == list(map(plain, wanted)), statistic.name


def alone(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the lag of Pravega's readers: the end of a segment is known from other connections, too."""
    return [row for row in rows if name != "consumers" or (row["protocol"], row["what"]) != ("pravega", "lag")]


@pytest.mark.parametrize(("most", "error"), [(262_144, 0), (1024, 0.03)])
def test_percentiles_of_merged_times(most: int, error: float) -> None:
    """Exact, or nearly so where one has more values than it keeps: each full memory once took half of the precision."""
    halves, whole = [Distribution(most), Distribution(most), Distribution(most)], Distribution(1 << 20)
    for number in range(40_000):
        time_ns = number * number % 1_000_003
        halves[number % 2].add(time_ns, 1 + number % 3)
        whole.add(time_ns, 1 + number % 3)
    for half in halves[:2]:
        halves[2].merge(pickle.loads(pickle.dumps(half)))
    for found in halves[2:]:
        assert found.count == whole.count
        assert found.columns() == pytest.approx(whole.columns(), rel=error, abs=0)


def test_intervals_that_grew_differently() -> None:
    """Two and five seconds have no multiple in common below ten."""
    tallies = [Throughput(None), Throughput(None), Throughput(None)]
    for second in range(40):
        for tally in (tallies[second % 2], tallies[2]):
            tally.add(second * 10**9, "nats", "a", "publish", 1, 1, second)
    merged, other, whole = tallies
    for tally, interval in ((merged, 2), (other, 5), (whole, 10)):
        tally._lengthen(interval)
    merged.merge(other)
    rows: list[Any] = [*merged.rows()]
    assert sorted(rows) == sorted(whole.rows())
    assert sorted(row[4:6] for row in rows) == [(10, 45), (10, 145), (10, 245), (10, 345)]


def test_topics_beyond_the_limit_are_counted_together() -> None:
    halves = [Counters(STATISTICS, 1).counted["latency"] for _ in range(2)]
    for number in range(2 * MAX_TOPICS):
        halves[number % 2]["nats", "request", f"t{number}", "a:1"].unanswered += 1
    halves[0].merge(halves[1])
    assert len(halves[0]) == MAX_TOPICS + 1
    assert halves[0]["nats", "request", OTHERS, "a:1"].unanswered == MAX_TOPICS
