"""A report agrees with other commands, loads nothing, and is safe for any capture."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import wiredecode
from tests.cli.conftest import Run, run
from tests.report.support import CAPTURES, CHROMIUM, Page, browse, logged, report, undrawn
from tests.support import beginning
from tests.view.frames import CLIENT, SERVER, packets, write
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.filter import compile_filter
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.protocols.rabbitmq_stream.layers import Property
from wiredecode.report.sequence import Sequence

__all__ = ["run"]

STARVED = CAPTURES / "stories/credit-starvation.pcap"
SECTIONS = ("summary", "findings", "timeline", "flows", "plots", "sequence", "connections", "commands", "streams")
PLOTS = ("throughput", "messages", "latency", "heat", "credit", "connections-open")
EVIL = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'\"&{{7*7}}$\\frac{1}{2}$"
browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian package chromium)")


@pytest.fixture(scope="module")
def starved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Page]:
    out = tmp_path_factory.mktemp("report") / "report.html"
    return out, report(out, STARVED)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Page]:
    """Markup in every text that a client or broker can choose."""
    folder = tmp_path_factory.mktemp("hostile")
    pair = Property(key=EVIL, value=EVIL)
    message = layers.PublishedMessage(publishing_id=0x0102, data=EVIL.encode())
    talk = packets(
        [
            (
                CLIENT,
                layers.PeerProperties(correlation_id=2, properties=[pair, Property(key="product", value=EVIL)]),
            ),
            (SERVER, layers.PeerPropertiesResponse(correlation_id=2, response_code=1, properties=[pair])),
            (CLIENT, layers.Open(correlation_id=3, virtual_host=EVIL)),
            (CLIENT, layers.Create(correlation_id=4, stream=EVIL)),
            (CLIENT, layers.DeclarePublisher(correlation_id=5, publisher_id=1, publisher_reference=EVIL, stream=EVIL)),
            (SERVER, layers.LAYERS[0x800D, 1](correlation_id=4, response_code=5)),
            (SERVER, layers.LAYERS[0x8001, 1](correlation_id=5, response_code=1)),
            (CLIENT, layers.Publish(publisher_id=1, messages=[message])),
            (CLIENT, layers.Subscribe(correlation_id=6, subscription_id=2, stream=EVIL, offset_type=1, credit=3)),
            (SERVER, layers.Close(correlation_id=7, closing_code=13, closing_reason=EVIL)),
        ]
    )
    capture = write(folder / "hostile.pcap", talk)
    named = folder / "<b onclick=x>.pcap"
    named.write_bytes(capture.read_bytes())
    return folder / "report.html", report(folder / "report.html", named, "--title", EVIL)


@pytest.fixture
def plain(starved: tuple[Path, Page], monkeypatch: pytest.MonkeyPatch) -> None:
    """The reports of this test have no plots; the shared fixture has."""
    undrawn(monkeypatch)


def test_all_sections_and_plots_exist(starved: tuple[Path, Page]) -> None:
    _, page = starved
    assert set(SECTIONS) <= set(page.ids)
    assert [each for each in page.ids if each.startswith("plot-")] == [f"plot-{name}" for name in PLOTS]
    assert sum(tag == "svg" for tag, _ in page.tags) == len(PLOTS) + 1  # flows
    assert "consumes orders too slowly" in page.text["findings"]
    assert "evidence" in page.text["sequence"]


def test_numbers_equal_those_of_other_commands(starved: tuple[Path, Page]) -> None:
    _, page = starved
    frames = [*wiredecode.read(STARVED)]
    counted = {row[1]: int(row[3].replace(",", "")) for row in page.rows["commands"][1:] if row[2] == "client"}
    for kind in ("Publish", "Credit", "Subscribe", "Open"):
        assert counted[kind] == sum(frame.type == kind and frame.sender == "client" for frame in frames)
    messages = [*wiredecode.read(STARVED, level="messages")]
    (row,) = [row for row in page.rows["streams"][1:] if row[1] == "orders"]
    sums = [sum(each["operation"] == kind for each in messages) for kind in ("publish", "deliver")]
    assert [int(row[place].replace(",", "")) for place in (2, 4)] == sums
    assert len(page.rows["connections"]) - 1 == len({frame.connection.number for frame in frames})
    latencies = sorted(
        frame.latency_ns for frame in frames if frame.type == "PeerPropertiesResponse" and frame.latency_ns is not None
    )
    (row,) = [row for row in page.rows["commands"] if row[1] == "PeerProperties"]
    assert row[5] == str(len(latencies))
    assert float(row[9].split()[0]) == pytest.approx(latencies[-1] / 1e6, rel=0.01)


def test_replicated_messages_are_not_counted(tmp_path: Path, plain: None) -> None:
    capture = CAPTURES / "kafka/coordinators.pcap.zst"
    operations = [each["operation"] for each in wiredecode.read(capture, level="messages")]
    assert "forward" in operations
    page = report(tmp_path / "report.html", capture)
    for place, operation in ((2, "publish"), (4, "deliver")):
        shown = sum(int(row[place].replace(",", "")) for row in page.rows["streams"][1:])
        assert shown == operations.count(operation)


def test_the_sequence_shows_the_requested_connection_or_that_of_the_worst_finding(
    starved: tuple[Path, Page], tmp_path: Path, plain: None
) -> None:
    _, page = starved
    assert "Connection #5: " in page.text["sequence"]
    assert "frames more in" in page.text["sequence"]
    other = report(tmp_path / "other.html", STARVED, "-n", 7)
    assert "Connection #7: " in other.text["sequence"]
    assert "Publish" in other.text["sequence"]


def test_nothing_is_loaded_and_nothing_runs(starved: tuple[Path, Page], hostile: tuple[Path, Page]) -> None:
    for _, page in (starved, hostile):
        for link in page.links():
            assert link.startswith(("#", "data:image/png;base64,")), link
        assert not [
            tag for tag, _ in page.tags if tag in ("script", "link", "iframe", "object", "embed", "base", "form")
        ]
        assert not [name for _, given in page.tags for name in given if name.startswith("on")]
        (policy,) = [str(given["content"]) for tag, given in page.tags if given.get("http-equiv")]
        assert policy.startswith("default-src 'none'")
        assert len(page.ids) == len(set(page.ids))


def test_markup_of_the_wire_is_text(hostile: tuple[Path, Page]) -> None:
    _, page = hostile
    assert {tag for tag, _ in page.tags} & {"img", "frac"} == set()
    assert "<script>document.title" in page.text["streams"]
    assert "<script>document.title" in page.text["sequence"]
    assert "<script>document.title" in page.text["findings"]
    assert "<script>document.title" in page.text["plots"]  # the legend
    assert "<script>document.title" in page.text["flows"]
    assert "{{7*7}}" in page.text["streams"]
    assert "<b onclick=x>.pcap" in page.text[""]


@browser
@pytest.mark.parametrize("which", [pytest.param("starved", marks=pytest.mark.slow), "hostile"])
def test_a_browser_reports_no_error(which: str, request: pytest.FixtureRequest) -> None:
    out, page = request.getfixturevalue(which)
    done = browse(out, "--dump-dom")
    assert done.returncode == 0, done.stderr
    assert logged(done) == []
    shown = Page(done.stdout)
    assert shown.ids == page.ids
    assert "<title>owned" not in done.stdout


def test_a_finding_has_likely_causes_and_consequences(tmp_path: Path, plain: None) -> None:
    page = report(tmp_path / "cut.html", CAPTURES.parent / "tests/check/outages/rabbit_cut.pcap.zst")
    assert "Likely: the path between both hosts was cut: neither heard the other" in page.text["findings"]
    assert "tcp.reset (3 times): the client reset billing (#3)" in page.text["findings"]


@browser
def test_a_browser_reports_errors_of_a_broken_page(tmp_path: Path, starved: tuple[Path, Page]) -> None:
    """Validates the test above: errors are visible, and an injected script is refused."""
    broken = tmp_path / "broken.html"
    broken.write_text("<script>console.error('seen')</script>")
    assert "seen" in logged(browse(broken, "--dump-dom"))[0]
    broken.write_text(starved[1].html.replace("<main>", "<main><script>document.title='owned'</script>"))
    done = browse(broken, "--dump-dom")
    assert logged(done)
    assert "<title>owned" not in done.stdout


def test_no_secret_is_on_the_page(tmp_path: Path) -> None:
    page = report(tmp_path / "r.html", CAPTURES / "rabbitmq-stream/c43_basic.pcap", "-n", 2)
    assert "SaslAuthenticate" in page.text["sequence"]
    assert "Z3Vlc3Q" not in page.html
    assert "\\x00guest" not in page.html


def test_only_the_requested_time_counts(tmp_path: Path, plain: None) -> None:
    page = report(tmp_path / "r.html", STARVED, "--to", "0.3")
    counted = {row[1]: row[3] for row in page.rows["commands"][1:]}
    frames = [*wiredecode.read(STARVED)]
    begin = frames[0].connection.first_ns
    expected = sum(frame.type == "Open" and frame.time_ns - begin <= 300_000_000 for frame in frames)
    assert counted["Open"] == str(expected)
    assert "Unsubscribe" not in counted


def test_only_matching_frames_count(tmp_path: Path, plain: None) -> None:
    page = report(tmp_path / "r.html", STARVED, "-Y", "tcp.stream == 5")
    expected = [frame for frame in wiredecode.read(STARVED) if frame.connection.number == 5]
    counted = {(row[1], row[2]): row[3] for row in page.rows["commands"][1:]}
    assert counted["Credit", "client"] == str(sum(frame.type == "Credit" for frame in expected))
    assert [row[0] for row in page.rows["connections"][1:]] == ["#5"]
    assert "report-export (#5) consumes orders too slowly" in page.text["findings"]
    assert {row[1] for row in page.rows["timeline"][1:]} == {"opened", "closed", "warning"}
    assert sum(int(row[4].replace(",", "")) for row in page.rows["streams"][1:]) > 0
    other = report(tmp_path / "o.html", STARVED, "-Y", "tcp.stream == 3")
    assert "too slowly" not in other.text["findings"] + other.text["timeline"]


@pytest.mark.slow
def test_the_timeline_equals_that_of_stats_plus_problems(tmp_path: Path, run: Run) -> None:
    path = beginning(CAPTURES / "stories/leader-killed.pcap.zst", 16_000, tmp_path)  # up to the new leader
    rows = report(tmp_path / "r.html", path).rows["timeline"][1:]
    kinds = {row[1] for row in rows}
    counted = {each["kind"] for each in json.loads(run("stats", path, "--timeline", "--json", "-q").out)["events"]}
    assert {"leader", "replicas", "term", "opened", "closed"} <= kinds & counted
    assert kinds - counted <= {"error", "warning"}
    assert any("went away" in row[2] for row in rows if row[1] == "error")
    assert [float(row[0].replace(",", "")) for row in rows] == sorted(float(row[0].replace(",", "")) for row in rows)


def test_standard_input_is_read_once_and_used_twice(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starved: tuple[Path, Page], plain: None
) -> None:
    class Pipe(io.BytesIO):
        def fileno(self) -> int:
            raise OSError

    stdin: Any = io.TextIOWrapper(Pipe(STARVED.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run("report", "-q", "-", "-o", tmp_path / "r.html").code == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(STARVED.read_bytes())))
    assert run("report", "-q", "-", "-o", "-").raw == (tmp_path / "r.html").read_bytes()
    page = Page((tmp_path / "r.html").read_text())
    assert page.text["sequence"].replace("follow - -n", f"follow {STARVED.name} -n") == starved[1].text["sequence"]


def test_empty_and_damaged_captures_have_a_report(run: Run, tmp_path: Path) -> None:
    empty = write(tmp_path / "empty.pcap", [])
    page = report(tmp_path / "empty.html", empty)
    assert "Nothing could be judged: the capture has no packets." in (tmp_path / "empty.html").read_text()
    assert "None." in page.text["findings"]
    assert "There is nothing to draw." in page.text["plots"]
    result = run("report", "-q", CAPTURES / "rabbitmq-stream/d_cutfile.pcap", "-o", tmp_path / "cut.html")
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert "PeerProperties" in Page((tmp_path / "cut.html").read_text()).text["commands"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{starved}", "-n", "99", "-o", "r.html"], "there is no connection #99"),
        (["{starved}"], "Missing option '-o'"),
        (["missing.pcap", "-o", "r.html"], "missing.pcap"),
        (["{starved}", "-o", "no/such/folder/r.html"], "there is no folder no/such/folder"),
    ],
)
def test_errors_are_one_line_and_leave_no_file(
    words: list[str], said: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("report", "-q", *(word.format(starved=STARVED) for word in words))
    assert (result.code, len(result.err.splitlines())) == (1 if "there is no connection" in said else 2, 1)
    assert said in result.err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("nats/14-cluster-routes.pcap", marks=pytest.mark.slow),
        "liftbridge/34-lb-replication.pcap.zst",
        pytest.param("tank/tank_08_consume_positions.pcap", marks=pytest.mark.slow),
    ],
)
def test_every_capture_has_a_report_below_three_megabytes(name: str, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    page = report(out, CAPTURES / name)
    assert set(SECTIONS) <= set(page.ids)
    assert out.stat().st_size < 3_000_000


@pytest.mark.parametrize(
    "name",
    [
        "nats/14-cluster-routes.pcap",
        "liftbridge/34-lb-replication.pcap.zst",
        "tank/tank_08_consume_positions.pcap",
        "cursus/group.pcap",
    ],
)
def test_a_connection_is_shown_alike_with_and_without_other_connections(name: str) -> None:
    """Frames of other connections are skipped in the second pass."""

    def steps(number: int, *, skip_hidden: bool) -> list[str]:
        display, sequence = compile_filter(f"tcp.stream == {number}"), Sequence()
        dissector = Dissector(Demand(link_responses=False, select=display, skip_hidden=skip_hidden))
        sequence.add_frames(filter(display.matches, dissector.frames(open_capture([CAPTURES / name]))))
        return [repr(each) for each in sequence.items]

    for number in (1, 2, 3):
        assert steps(number, skip_hidden=True) == steps(number, skip_hidden=False)
