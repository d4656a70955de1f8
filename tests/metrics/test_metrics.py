"""``wiredecode metrics``: the same numbers as ``stats`` and ``check``, bounded, for Prometheus and OTLP."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.cli.conftest import Run
from tests.metrics.conftest import Replay
from tests.pcap import write_pcap
from wiredecode.capture import open_capture
from wiredecode.metrics.series import DESTINATION, OTHER, SYSTEM, LabelSets, rule
from wiredecode.testing.packets import Talk

CAPTURES = Path(__file__).parents[2] / "captures"
BASIC = CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"
SLOW = CAPTURES / "stories" / "slow-consumer.pcap.zst"
REFUSED = CAPTURES / "stories" / "publishes-refused.pcap"
JETSTREAM = CAPTURES / "nats" / "13-jetstream.pcap"
KILLED = CAPTURES / "stories" / "broker-killed.pcap"
DURATION, REQUEST = "messaging_client_operation_duration_seconds", "wiredecode_request_duration_seconds"
Found = dict[str, dict[tuple[str, ...], float]]


def values(families: Iterable[Metric], *labels: str) -> Found:
    """Sums of values by sample name and labels."""
    found: Found = defaultdict(lambda: defaultdict(float))
    for family in families:
        for sample in family.samples:
            found[sample.name][tuple(sample.labels.get(name, "") for name in labels)] += sample.value
    return found


def at_the_end(run: Run, capture: Path, *labels: str) -> Found:
    result = run("metrics", capture, "--step", "24h", "-q")
    assert result.code == 0
    return values(text_string_to_metric_families(result.out), *labels)


def table(run: Run, capture: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run("stats", capture, "--table", name, "--json", "-q").out)[name]
    return rows


@pytest.mark.parametrize("capture", [BASIC, SLOW, REFUSED], ids=lambda path: path.stem)
def test_a_file_has_the_numbers_of_stats(run: Run, capture: Path) -> None:
    by_topic = at_the_end(run, capture, "messaging_destination_name")
    confirms = table(run, capture, "confirms")
    for row in confirms:
        topic = (row["stream"],)
        assert by_topic[f"{DURATION}_count"][topic] == row["confirmed"]
        assert by_topic["wiredecode_publish_failed_total"][topic] == row["failed"]
        assert by_topic["wiredecode_publish_unconfirmed_total"][topic] == row["unconfirmed"]
    delivered: dict[tuple[str, ...], float] = defaultdict(float)
    for row in table(run, capture, "throughput"):
        if row["operation"] == "deliver":
            delivered[row["topic"],] += row["messages"]
    assert by_topic["messaging_client_consumed_messages_total"] == delivered
    by_type = at_the_end(run, capture, "messaging_operation_name")
    asked: dict[tuple[str, ...], float] = defaultdict(float)
    for row in table(run, capture, "latency"):
        if row["count"]:
            asked[row["request"] or "",] += row["count"]
        within = row["count"] and row["max_us"] <= 10_000_000
        if within:
            assert by_type[f"{REQUEST}_sum"][row["request"] or "",] > 0
    assert by_type[f"{REQUEST}_count"] == asked


def test_problems_equal_those_of_check(run: Run) -> None:
    found = at_the_end(run, KILLED, "wiredecode_code", "wiredecode_severity")["wiredecode_problems"]
    *problems, _ = map(json.loads, run("check", KILLED, "--json", "-q", "--severity", "note").lines)
    expected: dict[tuple[str, ...], float] = defaultdict(float)
    for each in problems:
        expected[each["code"], each["severity"]] += each["count"]
    assert found == expected


def test_consumer_groups_have_the_numbers_of_flows(run: Run) -> None:
    """How many messages a group got, did not get yet, and for how long, at the end and before."""
    capture = CAPTURES / "flows/n-discard-old.pcap.zst"
    name = "wiredecode_group_oldest_undelivered_age_seconds"
    labels = "messaging_destination_name", "messaging_consumer_group_name"
    found, key = at_the_end(run, capture, *labels), ("ord6.new", "report")
    (row,) = map(json.loads, run("flows", capture, "--json", "-q").lines)
    assert found["wiredecode_group_delivered_total"] == {key: row["delivered"]}
    assert found["wiredecode_group_lag"] == {key: row["lag"]}
    assert 0 < found[name][key] < 3
    steps = run("metrics", capture, "--step", "5s", "-q").lines
    ages = [float(line.split()[-2]) for line in steps if line.startswith(f"{name}{{")]
    assert max(ages) > 5 and min(ages) == 0  # it was away for 8 s, and then it had all


def test_every_step_is_whole_openmetrics(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "m.txt"
    assert run("metrics", SLOW, "--step", "1s", "-o", target, "-q").code == 0
    steps: dict[str, list[str]] = defaultdict(list)
    said = target.read_text().splitlines()
    times = {line.rpartition(" ")[2] for line in said if not line.startswith("#")}
    for line in said:
        for time in times if line.startswith("#") else (line.rpartition(" ")[2],):
            steps[time].append(line)
    assert len(times) == 5 and said[-1] == "# EOF"
    counts = []
    for time in sorted(times, key=float):
        found = values(text_string_to_metric_families("\n".join(steps[time])))
        counts.append(found["messaging_client_consumed_messages_total"][()])
    assert counts == sorted(counts) and len({*counts}) == 5


@pytest.mark.parametrize("capture", [BASIC, JETSTREAM, KILLED], ids=lambda path: path.stem)
def test_histograms_equal_those_of_sql_over_messages(run: Run, capture: Path) -> None:
    pytest.importorskip("duckdb")
    buckets = at_the_end(run, capture, "le")[f"{DURATION}_bucket"]
    query = (
        "select latency_ns, count(*) as n from messages"
        " where operation = 'publish' and sender = 'client' and outcome = 'ok' and topic not like '$JS.%' group by 1"
    )
    rows = [json.loads(line) for line in run("sql", capture, query, "-2", "-q").out.splitlines()]
    assert rows and sum(row["n"] for row in rows) == buckets["+Inf",]
    for (bound,), count in buckets.items():
        assert count == sum(row["n"] for row in rows if row["latency_ns"] <= float(bound) * 1e9), bound


def test_label_sets_are_bounded_and_the_limit_is_reported(run: Run) -> None:
    bounded = run("metrics", SLOW, "--step", "24h", "--max-series", "3", "-q")
    found = values(text_string_to_metric_families(bounded.out), "messaging_destination_name")
    whole = at_the_end(run, SLOW, "messaging_destination_name")
    name = "messaging_client_consumed_messages_total"
    assert sum(found[name].values()) == sum(whole[name].values()) and (OTHER,) in found[name]
    assert "--max-series 3:" in bounded.err


def test_max_series_alone_bounds_label_sets(run: Run, tmp_path: Path) -> None:
    """NATS messages to 2,500 subjects: the SDK combines those beyond 2,000 under an overflow label."""
    talk = Talk(server=("10.0.0.2", 4222))
    packets = [*talk.handshake(), *talk.send(1, b'INFO {"server_id":"x","version":"2.10.0"}\r\n')]
    said = b'CONNECT {"verbose":false}\r\n' + b"".join(b"PUB t%d.a 1\r\nx\r\n" % number for number in range(2500))
    write_pcap(tmp_path / "many.pcap", enumerate([*packets, *talk.send(0, said)], 10**18))
    result = run("metrics", tmp_path / "many.pcap", "--step", "24h", "--max-series", "3000", "-q")
    found = values(text_string_to_metric_families(result.out), "messaging_destination_name")
    topics = found["messaging_client_sent_messages_total"]
    assert len(topics) == sum(topics.values()) == 2500 and "overflow" not in result.out


def test_topics_lose_inboxes_and_ids() -> None:
    series = LabelSets(257, [rule(r"^eu\.=region.")])
    topics = {
        "_INBOX.kLvGPZb0bOkEXZeB86msLp.MV2iXONt": "_INBOX.*",
        "orders.6d0f8a8e-2f4b-4c1d-9e53-77b1a0c9d2f4.new": "orders.*.new",
        "eu.sensors.40961": "region.sensors.*",
        "orders.v2": "orders.v2",
        "internationalization": "internationalization",
    }
    for topic, shown in topics.items():
        assert dict(series.labels("m", "nats", topic=topic)) == {SYSTEM: "nats", DESTINATION: shown}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["a.pcap", "-i", "lo"], "leave out files"),
        (["--step", "1s"], "give capture files, or -i IFACE"),
        (["-i", "lo", "-o", "m.txt"], "-o goes with files"),
        ([str(BASIC), "--save-evidence", "x"], "need -i"),
        ([str(BASIC), "--label-rule", "(=x"], "--label-rule"),
        ([str(BASIC), "--step", "soon"], "--step"),
        (["-i", "lo", "--otlp", "grpc://h:4317"], "--otlp"),
    ],
)
def test_conflicting_options_are_refused(run: Run, words: list[str], says: str) -> None:
    result = run("metrics", *words)
    assert result.code == 2 and says in result.err and "Traceback" not in result.err


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_an_interface_is_served(run: Run, replay: Replay) -> None:
    address, pages = f"127.0.0.1:{free_port()}", []

    def scrape() -> None:
        request = urllib.request.Request(f"http://{address}/metrics")
        request.add_header("Accept", "application/openmetrics-text; version=1.0.0")
        with urllib.request.urlopen(request, timeout=20) as answer:
            pages.append(answer.read().decode())

    replay(BASIC, scrape)
    result = run("metrics", "-i", "lo", "--listen", address)
    assert result.code == 0 and f"serving http://{address}/metrics" in result.err
    found = values(text_string_to_metric_families(pages[0]), "wiredecode_state")
    assert found["wiredecode_packets_total"] == {("received",): 513, ("dropped",): 257, ("skipped",): 3, ("saved",): 0}
    assert found["messaging_client_sent_messages_total"][("",)] > 0


def test_a_port_in_use_is_one_line(run: Run, replay: Replay) -> None:
    replay(BASIC)
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = run("metrics", "-i", "lo", "--listen", f"127.0.0.1:{server.getsockname()[1]}")
    assert result.code == 2 and "--listen" in result.err and "Traceback" not in result.err


def test_otlp_gets_the_same_values(run: Run, replay: Replay) -> None:
    received: list[tuple[str, bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    replay(BASIC)
    try:
        assert run("metrics", "-i", "lo", "--otlp", f"http://127.0.0.1:{server.server_port}").code == 0
    finally:
        server.shutdown()
        server.server_close()
    path, body = received[-1]
    found = {
        metric.name: metric
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert path == "/v1/metrics" and "wiredecode.packets" in found
    served = at_the_end(run, BASIC, "le")
    for name, shown in (("messaging.client.operation.duration", DURATION), ("wiredecode.request.duration", REQUEST)):
        points = found[name].histogram.data_points
        assert found[name].unit == "s" and all(0 < point.min <= point.max <= point.sum for point in points)
        assert sum(point.sum for point in points) == pytest.approx(served[f"{shown}_sum"]["",])
        counts = [sum(column) for column in zip(*(point.bucket_counts for point in points), strict=True)]
        upto = [served[f"{shown}_bucket"][f"{bound}",] for bound in (*points[0].explicit_bounds, "+Inf")]
        assert [*accumulate(counts)] == upto


def test_the_packets_of_a_new_error_are_saved(run: Run, replay: Replay, tmp_path: Path) -> None:
    replay(KILLED)
    result = run("metrics", "-i", "lo", "--listen", "127.0.0.1:0", "--save-evidence", tmp_path / "tickets")
    saved = sorted((tmp_path / "tickets").iterdir())
    *problems, _ = map(json.loads, run("check", KILLED, "--json", "-q").lines)
    errors = [each["code"] for each in problems if each["severity"] == "error"]
    assert result.code == 0 and len(saved) == len(errors) > 0
    assert all(code in path.name for code, path in zip(sorted(errors), saved, strict=True))
    assert sum(len(batch) for batch in open_capture([str(saved[0])])) > 0


def test_evidence_on_a_full_disk_is_reported_and_leaves_no_partial_file(
    run: Run, replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("wiredecode.capture.live.pcapng_writer.PcapNgWriter.write", full)
    replay(KILLED)
    result = run("metrics", "-i", "lo", "--listen", "127.0.0.1:0", "--save-evidence", tmp_path / "tickets")
    assert result.code == 0 and result.err.count(".pcapng: No space left on device\n") == 2
    assert not [*(tmp_path / "tickets").iterdir()]


@pytest.mark.parametrize("command", [["metrics", "--listen", "127.0.0.1:0"], ["check"]], ids=lambda words: words[0])
def test_an_interface_is_opened_with_the_requested_options(run: Run, replay: Replay, command: list[str]) -> None:
    asked = replay(BASIC)
    words = ["-i", "any", "-f", "port 5552", "-p", "--duration", "2.57", "--via", "tcpdump", "-s", "259", "-B", "7"]
    assert run(*command, *words).code in (0, 3)
    where, via, duration = asked
    for part in ("interface='any'", "'port 5552'", "promiscuous=False", "snaplen=259", "buffer_mib=7"):
        assert part in where
    assert (via, duration) == ("tcpdump", "2.57")


def test_packets_are_saved_with_w_and_ring_options(run: Run, replay: Replay) -> None:
    asked = replay(BASIC)
    words = ["-w", "new.pcapng", "--ring-size", "3", "--ring-seconds", "2.57", "--ring-files", "7"]
    assert run("metrics", "-i", "lo", "--listen", "127.0.0.1:0", *words).code == 0
    assert asked[-2] == "new.pcapng" and all(part in asked[-1] for part in ("3145728", "2.57", "7"))


def test_a_request_is_unanswered_after_a_time(run: Run) -> None:
    """Three PINGs get no response: with a short --timeout they are counted before the capture ends."""

    def unanswered(*words: str) -> list[float]:
        by_time: dict[str, float] = defaultdict(float)
        for line in run("metrics", SLOW, "--step", "1s", "-q", *words).lines:
            if line.startswith("wiredecode_requests_unanswered_total") and "PING" in line:
                by_time[line.split()[-1]] += float(line.split()[-2])
        return [by_time[time] for time in sorted(by_time, key=float)]

    early, late = unanswered("--timeout", "1.5"), unanswered()
    assert early[-1] == late[-1] == 3 and sum(early[:-1]) > sum(late[:-1]) == 0


def test_dashboard_and_alerts_name_metrics_that_exist(run: Run) -> None:
    folder = CAPTURES.parent / "docs" / "deploy"
    text = "".join((folder / name).read_text() for name in ("grafana.json", "alerts.yml"))
    used = set(re.findall(r"\b(?:messaging_client|wiredecode)_[a-z_]+(?=[\[{ ])", text))
    used -= {"wiredecode_code", "wiredecode_severity", "wiredecode_consumer", "wiredecode_state"}
    pulls = CAPTURES / "nats" / "13-jetstream.pcap"
    known = {"wiredecode_packets_total"}.union(*(at_the_end(run, each) for each in (REFUSED, KILLED, SLOW, pulls)))
    assert len(used) > 9 and used <= known
    assert json.loads((folder / "grafana.json").read_text())["panels"]


def test_only_the_page_is_served_and_a_silent_client_delays_nobody() -> None:
    from prometheus_client import CollectorRegistry

    from wiredecode.metrics.readers import serve

    page = serve(CollectorRegistry(), "127.0.0.1:0")
    host, port = urllib.parse.urlsplit(page).netloc.split(":")
    with socket.create_connection((host, int(port))) as silent:
        silent.sendall(b"GET /metr")
        with urllib.request.urlopen(page, timeout=20) as answer:
            assert answer.status == 200
        for path in ("/", "/metrics/", "/favicon.ico", "/metrics/../x"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=20)
