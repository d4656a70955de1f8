"""Changes over time on one screen, compared with truth files, the table of connections, and frames."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import wiredecode
from tests.cli.conftest import Run, run
from tests.support import beginning
from wiredecode.check.timeline import (
    WEIGHTS,
    Timeline,
    TimelineEvent,
    amount,
    condense,
    lines,
    plots,
    ranged_text,
    throughput,
)
from wiredecode.protocols.checks import offers
from wiredecode.protocols.registry import carried_by, protocols

__all__ = ["run"]

CAPTURES = Path(__file__).parent.parent.parent / "captures"
STORY = CAPTURES / "stories/leader-killed.pcap.zst"
SCREENS = (
    *("stories/slow-consumer.pcap.zst", "nats/14-cluster-routes.pcap", "cursus/group.pcap"),
    *("pravega/segment_admin.pcap", "tank/tank_02_create_discover.pcap"),
    *("rabbitmq-stream/c43_sac.pcap", "rabbitmq-stream/d_drop1pct.pcap", "nats/02-auth.pcap"),
)


@pytest.mark.parametrize("name", SCREENS)
def test_it_is_one_screen(run: Run, name: str) -> None:
    screen(run, CAPTURES / name)


def screen(run: Run, capture: Path) -> list[str]:
    found = run("stats", capture, "--timeline", "-q")
    assert found.code == 0
    assert 4 <= len(found.lines) <= 24
    assert max(map(len, found.lines)) <= 80
    return found.lines


@pytest.mark.slow
def test_the_story_of_a_leader_that_was_killed(run: Run) -> None:
    """Times and names equal those of the truth file, from the servers' own logs."""
    words = [" ".join(line.split()) for line in screen(run, STORY)]
    assert any(line.startswith("25.425 s closed 5 connections by client FIN") for line in words)
    assert "lb-b reports that lb-c does not lead orders-stream[0] and 2 more" in " ".join(words)
    kinds = [line.split()[2] for line in words[3:] if line[0].isdigit()]
    assert {"opened", "closed", "leader", "term", "replicas", "stream"} <= set(kinds)


def test_json_has_every_event_with_its_evidence(run: Run, tmp_path: Path) -> None:
    """Of a cluster that begins, and of one that ends."""
    kinds = set()
    for story in (beginning(STORY, 1500, tmp_path), CAPTURES / "liftbridge/34-lb-replication.pcap.zst"):
        told = json.loads(run("stats", story, "--timeline", "--json", "-q").out)
        frames = {frame.number: frame for frame in wiredecode.read(story)}
        connections = wiredecode.read(story, level="connections", columns=["connection", "ended", "end_packet"]).table()
        closed = {row["connection"]: row["end_packet"] for row in connections.to_pylist() if row["ended"]}
        assert {each["connection"]: each["packet"] for each in told["events"] if each["kind"] == "closed"} == closed
        for each in told["events"]:
            kinds.add(each["kind"])
            if each["kind"] == "leader":
                frame = frames[each["frame"]]
                assert frame.time_ns == each["time_ns"]
                assert frame.type in ("AppendEntries", "PropagatedRequest")
        assert [each["time_ns"] for each in told["events"]] == sorted(each["time_ns"] for each in told["events"])
        flow = told["throughput"]
        assert sum(flow["client_bytes"]) + sum(flow["server_bytes"]) == sum(frame.length for frame in frames.values())
    assert {"leader", "closed"} <= kinds


def test_a_client_that_reads_nothing_is_a_stall(run: Run) -> None:
    told = json.loads(run("stats", CAPTURES / "stories/slow-consumer.pcap.zst", "--timeline", "--json", "-q").out)
    stall = next(each for each in told["events"] if each["kind"] == "stall")
    assert "report-export" in stall["what"]
    assert stall["until_time_ns"] - stall["time_ns"] > 3_000_000_000


@pytest.mark.parametrize(
    ("name", "kind", "what"),
    [
        ("broker-paused.pcap.zst", "silence", "sends nothing for 2."),
        ("mtu-black-hole.pcap", "stall", "10.77.0.1:5552 acknowledges nothing for 13.287 s (#2)"),
    ],
)
def test_a_server_that_says_nothing_and_a_path_that_takes_nothing(run: Run, name: str, kind: str, what: str) -> None:
    told = json.loads(run("stats", CAPTURES / "stories" / name, "--timeline", "--json", "-q").out)
    assert any(what in each["what"] for each in told["events"] if each["kind"] == kind)


def test_a_filter_and_times_choose(run: Run) -> None:
    story = ("stats", CAPTURES / "nats/02-auth.pcap", "--timeline", "--json", "-q")
    one = json.loads(run(*story, "-Y", "tcp.stream == 2").out)["events"]
    assert {each["connection"] for each in one} == {2}
    late = json.loads(run(*story, "--from", "0.1").out)["events"]
    assert late
    assert min(each["seconds"] for each in late) >= 0.1


def test_check_has_it_below_the_problems(run: Run) -> None:
    story = CAPTURES / "stories/slow-consumer.pcap.zst"
    problems = run("check", story).out
    both = run("check", story, "--timeline").out
    assert both.startswith(problems)
    assert both.removeprefix(problems) == run("stats", story, "--timeline", "-q").out
    objects = [json.loads(line) for line in run("check", story, "--json", "--timeline").lines]
    assert "events" in objects[-1]
    assert "verdict" in objects[-2]
    assert all("code" in each for each in objects[:-2])


def test_it_is_no_table(run: Run) -> None:
    assert run("stats", STORY, "--timeline", "--csv").code == 2
    assert run("stats", STORY, "--timeline", "--table", "frames").code == 2


def test_types_of_changes_are_existing_types() -> None:
    names = {one.name: set(one.type_names()) for one in protocols()}
    names |= {one.name: set(one.type_names()) for host in protocols() for one in carried_by(host.name)}
    for name, checks in offers():
        assert set(checks.changes) <= names[name], name


def test_of_too_many_events_the_most_severe_are_kept() -> None:
    events = [
        TimelineEvent(number * 1_000_000_000, kind, f"{kind} {number}", str(number))
        for number, kind in enumerate(WEIGHTS)
    ]
    kept, left = condense(events, 13_000_000_000, most=5)
    assert left == len(events) - 5
    assert all(WEIGHTS[each.kind] == 4 for each in kept)


def test_a_quiet_time_divides_and_combined_events_have_a_range() -> None:
    """Issue 63: 5 connections that closed and 15 that closed 13 s later were "20 connections"."""
    second = 10**9
    events = [
        TimelineEvent(at, "closed", f"#{at}", "by client FIN")
        for at in (*range(5), *(13 * second + n for n in range(15)))
    ]
    events += [TimelineEvent(20 * second + n * 10_000_000, "term", f"term {n}") for n in range(5)]
    events += [TimelineEvent(n * second, "leader", f"a leads, term {n}") for n in range(40)]
    kept, left = condense(sorted(events, key=lambda each: each.time_ns), 40 * second, most=10)
    assert [each.count for each in kept if each.kind == "closed"] == [5, 15]
    assert left == 33 and len(kept) == 10
    assert [ranged_text(each, 0) for each in kept if each.kind == "term"] == ["until 20.040 s: term 0 and 4 more"]


def test_the_rows_that_matter_stay_where_there_is_little_room() -> None:
    """One leader changes often at the beginning; the change after a long quiet time is shown."""
    second = 10**9
    events = [TimelineEvent(n * second, "leader", f"a leads, term {n}") for n in range(0, 60, 2)]
    events += [
        TimelineEvent(99 * second, "leader", "b leads"),
        TimelineEvent(50 * second, "closed", "#1", "by client RST"),
    ]
    kept, _ = condense(sorted(events, key=lambda each: each.time_ns), 100 * second, most=5)
    assert kept[-1].text == "b leads" and "closed" in {each.kind for each in kept}


def test_rows_give_way_and_not_their_texts() -> None:
    """Where each of 30 changes needs two rows of a screen, fewer are shown, and each is whole."""
    timeline, second = Timeline(), 10**9
    timeline.last_ns = 100 * second
    for n in range(30):
        text = f"lb-b reports that lb-c does not lead the partition orders-of-a-long-name[{n}]"
        timeline.events.append(TimelineEvent(n * 3 * second, "leader", text, text))
    shown = list(lines(timeline, timeline.finish(0)))[3:]
    assert len(shown) == 19 and not any(row.endswith("…") for row in shown)
    assert sum("does not lead" in row for row in shown) == 9 and shown[-1].strip().startswith("and 21 more")


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_plots_fill_the_width_and_the_highest_bar_is_the_highest_rate(width: int) -> None:
    timeline = Timeline()
    timeline.first_ns, second = 10**18, 10**9
    for place, size in enumerate((100, 800, 0, 400)):
        timeline.bins.add(timeline.first_ns + place * second, 0, size)
    timeline.last_ns = timeline.first_ns + 3 * second
    shown = list(plots(timeline, width))
    assert all(len(line) <= width for line in shown) and len(shown[-2]) == len(shown[-1]) == width
    (clients, _), bin_seconds = throughput(timeline, width - 20)
    assert f"clients {amount(800 / bin_seconds) + '/s':>10} │" in shown[0] and sum(clients) == 1300
    top, bottom = (line.partition("│")[2] for line in shown[:2])
    assert set(top) == {" ", "█"} and set(bottom) == {" ", "▂", "█"}, "an eighth, the whole, nothing, half of it"
    assert not shown[2].partition("│")[2] and shown[-1].endswith(" s")


def test_lines_are_as_wide_as_the_terminal() -> None:
    timeline = Timeline()
    timeline.first_ns, timeline.last_ns = 10**18, 10**18 + 10**9
    long = TimelineEvent(10**18, "stream", "word " * 60)
    for width in (80, 120, 200):
        shown = list(lines(timeline, [long], os.terminal_size((width, 24))))
        assert width - 6 < max(map(len, shown)) <= width
    assert max(map(len, lines(timeline, [long]))) <= 80
