"""The drawing of flows: widths, colours and links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.check.support import CAPTURES
from tests.report.support import Page, report, undrawn
from wiredecode.flows import Flow, FlowKey, Flows, Party
from wiredecode.report.flows import MOST, TALLEST, Drawing


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    undrawn(monkeypatch)
    return report(tmp_path / "report.html", CAPTURES / "flows/n-wrong-account.pcap.zst")


def test_messages_that_arrive_nowhere_are_red_and_links_lead_to_connections(drawn: Page) -> None:
    section = drawn.html[drawn.html.index('id="flows"') : drawn.html.index('id="plots"')]
    lost = re.findall(r'class="lost"[^>]*><title>([^<]*)', section)
    assert lost == ["orders-api → ord5.new (BIL): 200 messages", "ord5.new (BIL)"]
    assert "Red: nothing arrives" in drawn.text["flows"]
    links = re.findall(r'href="#([^"]*)"', section)
    assert len(links) > 5
    assert set(links) <= set(drawn.ids)


def test_a_capture_without_messages_has_no_drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undrawn(monkeypatch)
    page = report(tmp_path / "report.html", CAPTURES / "nats/03-pubsub.pcap", "-Y", 'frame.type == "PING"')
    assert "No messages are decoded" in page.text["flows"]


def many(topics: int, *, delivers: bool) -> Flows:
    """A publisher of each topic, and one consumer."""
    flows = Flows()
    for number in range(topics):
        party = Party(number, "nats", f"client-{number:03}", "h", "", "", "", "s", "", 1, 2, True, True)
        flows._parties[number] = party
        flow = Flow(FlowKey(number, False, f"topic-{number:03}", None, ""), messages=1000 - number, first_ns=1)
        flows.flows[flow.key] = flow
        if delivers:
            got = Flow(FlowKey(0, True, f"topic-{number:03}", None, ""), messages=1, first_ns=1)
            flows.flows[got.key] = got
    return flows


def test_many_names_are_few_and_no_message_is_left_out() -> None:
    shown = Drawing(many(100, delivers=True), {}).shown()
    assert shown is not None
    left = [each for each in shown["nodes"] if each["anchor"] == "end"]
    topics = [each for each in shown["nodes"] if each["anchor"] == "middle"]
    assert (len(left), len(topics)) == (MOST, MOST + 1)
    assert left[-1]["name"] == f"{100 - MOST + 1} others"
    total = sum(1000 - number for number in range(100))
    assert sum(int(each["count"].replace(",", "")) for each in left) == total
    assert sum(int(each["count"].replace(",", "")) for each in topics) == total
    assert max(sum(each["height"] for each in column) for column in (left, topics)) == pytest.approx(TALLEST, rel=0.01)


def test_one_captured_end_is_not_red() -> None:
    shown = Drawing(many(3, delivers=False), {}).shown()
    assert shown is not None
    assert not shown["is_lost"]
