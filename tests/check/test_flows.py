"""Messages without a consumer from the first to the last packet: names that were mixed up, unread partitions."""

import pytest

from tests.check import crafted
from tests.check.support import CAPTURES
from wiredecode.capture import open_capture
from wiredecode.check.flows import FlowRule
from wiredecode.dissect.dissector import ANALYSED, Dissector
from wiredecode.flows import Flows
from wiredecode.protocols.shared.problems import Report


@pytest.mark.parametrize(
    ("published", "subscribed", "how"),
    [
        ("order.new", "orders.new", "order was written for orders, or the other way round"),
        ("order.new", "orders.>", "order was written for orders, or the other way round"),
        ("orders.new", "Orders.New", "the names differ in capital letters"),
        ("orders.created.eu", "orders.create.*", "created was written for create, or the other way round"),
    ],
)
def test_a_name_that_was_misspelt_from_the_beginning(published: str, subscribed: str, how: str) -> None:
    (found,) = crafted.apart(published, subscribed)
    assert (found.name, found.likely) == ("flow.never-began", how)
    assert (
        found.title
        == f"worker waits for {subscribed} and gets nothing, while 12 messages of orders-api go to {published}"
    )


@pytest.mark.parametrize(
    ("published", "subscribed"),
    [
        pytest.param("orders.1", "orders.2", id="parts of one service"),
        pytest.param("orders.eu", "orders.us", id="other regions"),
        pytest.param("orders.new", "orders.new.eu", id="another depth"),
        pytest.param("cpu.load", "gpu.load", id="short words"),
        pytest.param("orders.new", "billing.new", id="other services"),
        pytest.param("order.old", "orders.new", id="two words differ"),
    ],
)
def test_names_that_differ_on_purpose(published: str, subscribed: str) -> None:
    assert crafted.apart(published, subscribed) == []


def without(partition: int, *, readers: bool) -> list[str]:
    """Titles of ``flow.unread`` of a capture in which a partition, or all of them, have no consumer."""
    flows, rule = Flows(), FlowRule(Report())
    for frame in Dissector(ANALYSED).frames(open_capture([str(CAPTURES / "flows/k-hot-partition.pcap.zst")])):
        flows.frame(frame)
    for key in [*flows.flows]:
        if key.delivers and (key.partition == partition or not readers):
            del flows.flows[key]
    rule.flows = flows
    rule.finish()
    return [each.title for each in rule.report.problems.values() if each.name == "flow.unread"]


def test_a_partition_that_nobody_reads_though_its_siblings_are_read() -> None:
    (title,) = without(1, readers=True)
    assert title.startswith("no consumer reads hp-orders[1]: 769 messages of orders-api lie there, and ")
    assert "reads hp-orders[" in title


def test_partitions_of_which_no_consumer_was_captured_are_not_unread() -> None:
    assert without(1, readers=False) == []
