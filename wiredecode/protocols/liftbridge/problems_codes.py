"""Codes of what goes wrong among Liftbridge servers."""

from __future__ import annotations

from wiredecode.protocols.shared.problems import CAUSE, DEED, Code

LEADER_LOST = Code(
    "liftbridge.leader-lost",
    "error",
    "the leader of partitions went away",
    "Replicas reported to the metadata leader that the leader of a partition does not answer; another replica takes "
    "over. Until then nothing is stored, and publishes get no ack. It is a warning while all publishes have their ack.",
    ("the server was stopped or crashed", "it was too busy, or paused", "the network to it was cut"),
    "Look at the server that was reported, at that time; publish again what has no ack.",
    "stories/leader-killed.pcap.gz",
    CAUSE,
)
NO_ACK = Code(
    "liftbridge.no-ack",
    "error",
    "publishes got no ack",
    "The publisher asked for an ack and none came: the message may be stored, or lost. It is a warning where the "
    "capture ends within the five seconds that clients wait.",
    ("the leader of the partition had ended", "too few replicas in sync for the ack policy ALL"),
    "Publish again what matters, with the same correlation id; see whether a leader was lost at that time.",
    "stories/leader-killed.pcap.gz",
    DEED,
)
ISR = Code(
    "liftbridge.isr-shrink",
    "warning",
    "a replica fell out of sync",
    "The leader of a partition removed a replica from the replicas in sync: fewer copies are safe, and with too few, "
    "publishes with the ack policy ALL wait.",
    ("the replica was stopped, paused or too slow", "the network between both was cut"),
    "Look at the replica at that time; it comes back by itself once it has caught up.",
    "stories/leader-killed.pcap.gz",
    DEED,
)
ELECTION = Code(
    "liftbridge.election",
    "note",
    "the metadata leader was elected",
    "A server asked for votes, in a new term. It is a warning when another server took the lead over: meanwhile no "
    "stream could be created, and no lost leader of a partition replaced.",
    ("the metadata leader went away or was too slow", "the cluster was started"),
    "Elections without a reason point to a network or servers that are too slow for their timeouts.",
    "stories/leader-killed.pcap.gz",
)
LEADER_CHANGE = Code(
    "liftbridge.leader-change",
    "note",
    "a partition has another leader",
    "The metadata leader chose another replica as leader of a partition.",
    ("the leader was reported as gone", "the server that led it was stopped"),
    "Expected after a leader went away; see who was reported, and why.",
    "stories/leader-killed.pcap.gz",
)
REPLICA_LAG = Code(
    "liftbridge.replica-lag",
    "warning",
    "a replica lags behind",
    "A replica asked for messages that the partition had had for seconds. While it is in sync, publishes with the ack "
    "policy ALL wait for it; after replica.max.lag.time it is removed from the replicas in sync.",
    ("the replica was stopped, restarted or paused", "its disk or the network is too slow"),
    "Look at the replica at that time. A server that was restarted catches up by itself.",
    "stories/leader-killed.pcap.gz",
)
REFUSED = Code(
    "liftbridge.refused",
    "note",
    "an operation was refused",
    "The metadata leader, or the leader of a partition, refused what it was asked for.",
    (
        "the stream exists already, or does not exist",
        "a report about a leader that was replaced meanwhile",
        "an expected offset that is no longer the next one",
    ),
    "Read the reason; refusals of reports and of optimistic publishes are part of normal work.",
    "stories/leader-killed.pcap.gz",
)
SILENT = Code(
    "liftbridge.server-silent",
    "warning",
    "a server went silent",
    "Requests were delivered to a server, its connections stayed open, and it sent nothing at all.",
    ("the process was paused (debugger, virtual machine, garbage collection)", "its machine was overloaded"),
    "Look at that server at that time: CPU, memory, disk, hypervisor.",
    "stories/leader-killed.pcap.gz",
    CAUSE,
)
