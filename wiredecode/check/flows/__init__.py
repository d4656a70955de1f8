"""Problems of the way of messages: every request succeeds, and the messages do not arrive, or not as they should.

Each is an asymmetry ("X while Y"), never a level: what a consumer got before and does not get now, what one group gets
twice, what a client does now and did not do before.
"""

from wiredecode.check.flows import (
    behind,
    choice,
    contents,
    missing,
    passing,
    queues,
    repeated,
    shared,
    starved,
    unread,
    work,
)
from wiredecode.check.flows.view import FEW, FlowView, space_of, total
from wiredecode.dataclasses import dataclass, field
from wiredecode.flows import Flows, Party, by_messages, numbered
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.problems import Checks, Rule

__all__ = ["FlowRule", "space_of", "types_of"]

MAX_SILENT = 10_000
"""Connections without a flow that are remembered."""
BEFORE = (
    unread.moved,
    unread.never_began,
    unread.unread,
    choice.churn,
    shared.group_changes,
    starved.not_resumed,
)
OF_TOPIC = (
    starved.nothing_since,
    starved.hungry,
    starved.stopped,
    starved.sated,
    starved.left_alone,
    starved.beyond,
    shared.mixed,
    shared.subscribed_twice,
    shared.now_shared,
    behind.uneven,
    behind.idle,
    behind.one_behind,
    unread.left_behind,
    unread.added,
    repeated.read_again,
    repeated.last_again,
    repeated.stuck,
    repeated.replayed,
    missing.left_out,
    missing.missed,
    missing.missed_alone,
    missing.too_late,
    missing.lost,
    missing.given_to_others,
)
OF_CONTENTS = (
    contents.emptied,
    contents.sent_again,
    contents.sent_by_both,
    contents.keys_apart,
    contents.circling,
    contents.keys_gone,
    queues.undelivered,
    queues.parked,
)
AFTER = (
    missing.dropped,
    repeated.set_back,
    repeated.misplaced,
    unread.loops,
    shared.strangers,
    shared.shared_positions,
    shared.not_competing,
    behind.hoards,
    choice.waits,
    choice.fetches,
    choice.polls,
    choice.commits,
    passing.not_passed_on,
    passing.publishes_no_more,
    work.judge,
)
"""Rules that look at all topics, at one topic, at one with samples of its messages, and again at all; each adds its
problems to the report."""


def followed_by_messages(checks: Checks) -> bool:
    """Whether :class:`FlowRule` needs the messages of a protocol: segments of Pravega end, so that readers move on."""
    return by_messages(checks) and numbered(checks)


def types_of(checks: Checks) -> frozenset[str]:
    """The types of frames of a protocol that :class:`FlowRule` gets, if it does not need all."""
    return frozenset() if by_messages(checks) else frozenset().union(*(reader.types for reader in checks.flows))


@dataclass(eq=False)
class FlowRule(Rule):
    """Follows the messages of all protocols."""

    flows: Flows = field(default_factory=Flows)
    """Gets the frames."""
    silent: list[Party] = field(default_factory=list)
    """The first named clients whose connections are over without a flow."""

    def ended(self, connection: Connection) -> None:
        named = connection.identity.get("name") and connection.closed is not None
        if named and connection.number not in self.flows.connections and len(self.silent) < MAX_SILENT:
            self.silent.append(self.flows.party(connection))

    def finish(self) -> None:
        view = FlowView(self.flows, self.report, self.silent)
        for rule in BEFORE:
            rule(view)
        for topic in view.topics:
            sides = *topic.publishers, *topic.consumers
            if total(sides) < FEW and all(each.flow.limit <= 1 for each in sides):
                continue  # too few to be meant
            sampled = sum(len(each.flow.samples) for each in topic.publishers) >= FEW
            for of_topic in (*OF_TOPIC, *OF_CONTENTS) if sampled else OF_TOPIC:
                of_topic(view, topic)
        for rule in AFTER:
            rule(view)
