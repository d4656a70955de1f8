"""Codes of what goes wrong between TANK clients and brokers."""

from __future__ import annotations

from wiredecode.protocols.shared.problems import CAUSE, DEED, Code

REDIRECT = Code(
    "tank.redirect",
    "note",
    "another node leads a partition",
    "The broker that was asked does not lead the partition, and says which node does: the client repeats its request "
    "there. It is a warning when the same place is redirected again and again.",
    ("the leader changed", "a client that does not remember where a redirect led it"),
    "Expected once per client after a change of leader. When it goes on, look whether nodes disagree on who leads.",
    "",
)
NO_LEADER = Code(
    "tank.no-leader",
    "warning",
    "a partition has no leader",
    "Nobody leads the partition: nothing can be produced or consumed until a leader is elected.",
    ("the node that led it is gone", "too few nodes of the cluster are up"),
    "See which nodes of the cluster are up, and what they say in their logs at that time.",
    "",
    CAUSE,
)
BOUNDARY = Code(
    "tank.boundary",
    "warning",
    "a consumer asked for messages that are not there",
    "The sequence number is below the first message that the broker still has, or above its newest one.",
    ("a consumer that is slower than the retention", "a position of another topic, or of a log that was deleted"),
    "Compare the position of the consumer with first_available and high_water_mark of the answer.",
    "tank/tank_12_consume_errors.pcap",
    DEED,
)
GAP = Code(
    "tank.gap",
    "warning",
    "messages are missing between two that were consumed",
    "The first message of an answer is not the one that was asked for, and the bundle does not say that it is sparse.",
    ("a log that lost segments", "a producer that set sequence numbers itself, with gaps"),
    "See who produced these numbers; compare with another replica.",
    "",
    DEED,
)
NOT_STORED = Code(
    "tank.not-stored",
    "warning",
    "messages were not stored",
    "The broker refused messages of a Produce.",
    ("the topic or partition does not exist", "sequence numbers that are not above the last", "too few replicas"),
    "Read the reason; publish again what matters.",
    "tank/tank_07_produce_multi_errors.pcap",
    DEED,
)
NOT_READ = Code(
    "tank.not-read",
    "warning",
    "partitions could not be read",
    "The broker refused to read partitions of a Consume.",
    ("the topic or partition does not exist", "a broker that cannot read its disk"),
    "Read the reason; check the names of topics and the numbers of partitions.",
    "tank/tank_12_consume_errors.pcap",
    DEED,
)
ALL = (REDIRECT, NO_LEADER, BOUNDARY, GAP, NOT_STORED, NOT_READ)
