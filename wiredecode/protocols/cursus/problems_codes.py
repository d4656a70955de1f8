"""Codes of what goes wrong between Cursus clients and brokers."""

from __future__ import annotations

from wiredecode.protocols.shared.problems import CAUSE, DEED, Code

REBALANCE = Code(
    "cursus.rebalance",
    "note",
    "a group of consumers was rebalanced",
    "A member joined or left: partitions were assigned anew, in a new generation. Meanwhile nobody reads those that "
    "change hands. It is a warning when it happens again and again.",
    ("consumers were started or stopped", "members that time out and join again"),
    "Expected at starts and stops. When it goes on, see which members join again and again, and why.",
    "cursus/group.pcap",
)
STALE_GENERATION = Code(
    "cursus.stale-generation",
    "note",
    "a member works with an old generation",
    "The group was rebalanced, and the member goes on as before: its heartbeats and commits are refused (GEN_MISMATCH, "
    "NOT_OWNER). It is a warning when it does not join again after several refusals: others read its messages once "
    "more.",
    ("a rebalance that the client has not noticed yet", "a client that does not join again on GEN_MISMATCH"),
    "Let the client join the group again when it is refused.",
    "cursus/group.pcap",
    DEED,
)
EXPIRED = Code(
    "cursus.session-timeout",
    "warning",
    "a member of a group timed out",
    "The broker does not know the member any more, which had joined and not left: no heartbeat came in time, and its "
    "partitions went to others.",
    ("the program was stopped, or busy with a message for too long", "its heartbeats were refused or got lost"),
    "Look at what the program did before; send heartbeats from a thread of their own.",
    "",
    CAUSE,
)
NO_ACKS = Code(
    "cursus.acks-none",
    "note",
    "messages were published without acks",
    "The producer asked for no acknowledgement (acks=0): when the broker does not store a message, nobody notices.",
    ("a producer that was set up so",),
    "Use acks=1 or all where messages may not be lost.",
    "cursus/produce.pcap",
)
NOT_LEADER = Code(
    "cursus.not-leader",
    "note",
    "another broker leads",
    "The broker that was asked neither leads the partition nor coordinates the group, and says who does. It is a "
    "warning when the same client is told again and again.",
    ("the leader changed", "a client that does not look up the leader again"),
    "Expected once per client after a change of leader.",
    "",
)
AUTHENTICATION = Code(
    "cursus.authentication",
    "error",
    "a client was not let in",
    "The broker refused the principal or its token, or wanted one and got none.",
    ("a wrong or old token", "a client that does not log in where the broker wants it to"),
    "Compare the principal and its token with the broker's configuration; AUTH comes before other commands.",
    "",
    CAUSE,
)
AUTHORIZATION = Code(
    "cursus.authorization",
    "warning",
    "a client may not do what it asked for",
    "The principal is known, but the policy of the topic, its lists or the broker do not allow the command.",
    ("the topic's auth_policy, read_acl or write_acl do not name the principal", "a command for brokers only"),
    "Look at the topic's policy (DESCRIBE), and at the principal that the client logs in as.",
    "",
    DEED,
)
ALL = (AUTHENTICATION, AUTHORIZATION, EXPIRED, STALE_GENERATION, REBALANCE, NOT_LEADER, NO_ACKS)
