"""Problems of the way of messages: every request succeeds, and the messages do not arrive, or not as they should.

Each is an asymmetry ("X while Y"), never a level: what a consumer got before and does not get now, what one group gets
twice, what a client does now and did not do before.
"""

from wiredecode.check.flows import choice, contents, passing, repeated, shared, starved, unread
from wiredecode.check.flows.view import FlowView, space_of
from wiredecode.dataclasses import dataclass, field
from wiredecode.flows import Flows
from wiredecode.protocols.shared.problems import Checks, Rule

__all__ = ["FlowRule", "space_of", "types_of"]

BEFORE = unread.moved, unread.never_began, unread.unread, choice.churn, shared.group_changes, starved.not_resumed
OF_TOPIC = (
    *(starved.nothing_since, starved.hungry, starved.stopped, starved.sated, shared.mixed, starved.beyond),
    *(unread.left_behind, repeated.read_again, repeated.stuck, repeated.replayed, repeated.left_out, repeated.missed),
    *(starved.left_alone, repeated.lost, repeated.given_to_others, shared.uneven, shared.idle),
)
OF_CONTENTS = contents.emptied, contents.sent_again, contents.sent_by_both, contents.keys_apart, contents.circling
AFTER = (
    *(repeated.dropped, unread.loops, shared.strangers, shared.shared_positions, shared.not_competing),
    *(choice.waits, choice.fetches, choice.polls, choice.commits, passing.not_passed_on),
)
"""Rules that look at all topics, at one topic, at one with samples of its messages, and again at all; each adds its
problems to the report."""


def types_of(checks: Checks) -> frozenset[str]:
    """The types of frames of a protocol that :class:`FlowRule` gets."""
    return frozenset().union(*(reader.types for reader in checks.flows))


@dataclass(eq=False)
class FlowRule(Rule):
    """Follows the messages of all protocols."""

    flows: Flows = field(default_factory=Flows)
    """Gets the frames."""

    def finish(self) -> None:
        view = FlowView(self.flows, self.report)
        for rule in BEFORE:
            rule(view)
        for topic in view.topics:
            sampled = any(each.flow.samples for each in topic.publishers)
            for of_topic in (*OF_TOPIC, *OF_CONTENTS) if sampled else OF_TOPIC:
                of_topic(view, topic)
        for rule in AFTER:
            rule(view)
