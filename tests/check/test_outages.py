"""Outages of real servers: the first problem names the cause, and no other accuses; clients logged what happened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.check import crafted
from tests.check.support import CAPTURES, shown_of, worse
from tests.cli.conftest import Run, run
from tests.view.frames import CLIENT, SERVER
from wiredecode.capture import open_capture
from wiredecode.check import Problem
from wiredecode.check.text import when
from wiredecode.protocols.rabbitmq_stream import layers

__all__ = ["run"]

OUTAGES = Path(__file__).parent / "outages"


class Outage(NamedTuple):
    capture: str
    code: str
    says: tuple[str, ...]
    """Parts of the title, the evidence and the likely cause."""
    others: tuple[str, ...] = ()
    """Other problems, after the first."""


TABLE = (
    Outage("o_heal.pcap", "tcp.no-ack", ("path or host down", "6.454 s"), ("publish.unconfirmed",)),
    Outage(
        "o_cut.pcap",  # the consumer's connection between the same hosts continued
        *("tcp.no-ack", ("for 14.868 s, while its host answers other connections", "of this port or connection")),
        ("publish.unconfirmed",),
    ),
    Outage(
        "kafka_mtu.pcap",
        *("tcp.no-ack", ("for 13.100 s: segments of full size are lost", "a smaller MTU")),
        ("publish.unconfirmed",),
    ),
    Outage(
        "kafka_one_broker_cut.pcap",
        *(
            "tcp.no-ack",
            ("10.79.0.1:9392 stopped acknowledging for 13.765 s, while", "on 1 other connection meanwhile"),
        ),
        ("publish.unconfirmed",),
    ),
    Outage("o_firewall.pcap", "tcp.no-handshake", ("no ACK", "the SYN-ACKs do not reach the client")),
    Outage("o_tls.pcap", "protocol.mismatch", ("speaks TLS to 10.77.0.1:5552",), ("protocol.mismatch",)),
    Outage("http_to_nats.pcap", "protocol.mismatch", ("speaks HTTP to 127.0.0.1:4302, the NATS port",)),
    Outage("o_wrongport.pcap", "protocol.mismatch", ("speaks AMQP", r"b'AMQP\x00"), ("protocol.mismatch",)),
    Outage("o_alarm.pcap", "server.stalled", ("stalled for 6.0", "an alarm (disk, memory)")),
    Outage("on_stop.pcapng", "server.stalled", ("stalled for 3.0", "delivered late", "paused, stopped or blocked")),
    Outage("stopped_equal_messages.pcap", "server.stalled", ("stalled for 4.2", "delivered late")),
    Outage("o_deleted.pcap", "rabbitmq_stream.stream-deleted", ("topology-admin (#1) deleted stream o5", "frame 545")),
    Outage("o_dup.pcap", "rabbitmq_stream.messages-dropped", ("300 new messages", "confirmed and dropped")),
    Outage("crash_at_offset.pcap", "rabbitmq_stream.consumer-crash-loop", ("crasher", "offset 32 5 times")),
    Outage("nats_crash_loop.pcap", "nats.crash-loop", ("enricher ended 5 times", "without acknowledging it")),
    Outage("nats_stopped.pcap", "server.ended", ("127.0.0.1:4222 ended all its 3 connections",)),
    Outage("nats_restarted.pcap", "tcp.refused", ("127.0.0.1:4222 went down", "refused 12", "ended 3 connections")),
    Outage("nats_ids_again.pcap", "nats.messages-dropped", ("60 new messages of order-api (#1) to stream ORD",)),
    Outage("nats_no_stream.pcap", "nats.not-stored", ("order-api (#1) to ord.x", "no stream takes the subject")),
    Outage("nats_stream_deleted.pcap", "nats.not-stored", ("admin-tool (#2) deleted stream ORD", "frame 133")),
    Outage("nats_no_jetstream.pcap", "nats.no-jetstream", ("requests of order-api (#1)", "$JS.API.STREAM.CREATE.ORD")),
    Outage("nats_wrong_sequence.pcap", "publish.refused", ("25 of 50 messages", "wrong last sequence: 1", "is old")),
    Outage("nats_service_paused.pcap", "nats.service-silent", ("calc (#1) answered nothing for 4.956 s", "36 others")),
    Outage("nats_consumer_deleted.pcap", "nats.consumer-gone", ("enricher (#2) pulls", "admin-tool (#3) deleted")),
    Outage("nats_tls_required.pcap", "nats.tls-required", ("3 connections speak without TLS",)),
    Outage(
        "nats_cut.pcap", "tcp.no-ack", ("stopped acknowledging for 7.185 s", "orders-api (#1) sent 122 bytes again")
    ),
    Outage("nats_heal.pcap", "tcp.no-ack", ("stopped acknowledging for 7.192 s",)),
    Outage("nats_svc_killed.pcap", "nats.no-responders", ("calc (#1) answered them", "ended at 3.365 s")),
    Outage("nats_svc_blocked.pcap", "nats.slow-consumer", ("slowsub (#1)", "its window was closed for 9.691 s")),
    Outage("nats_too_many.pcap", "nats.limit", ("maximum connections exceeded",)),
    Outage(
        "rabbit_cut.pcap",
        *("tcp.no-ack", ("stopped acknowledging for 14.308 s", "neither heard the other")),
        ("publish.unconfirmed",),
    ),
    Outage("rabbit_no_permission.pcap", "rabbitmq_stream.not-started", ("DeclarePublisher to s", "Access refused")),
    Outage("pravega_heal.pcap", "tcp.no-ack", ("stopped acknowledging for 7.724 s", "path or host down")),
    Outage(
        "pravega_kill9.pcap",
        *("tcp.refused", ("127.0.0.1:6000 went down: it refused 39", "ended 13 connections")),
        ("publish.unconfirmed",),
    ),
    Outage(
        "cursus_term.pcap",
        *("tcp.refused", ("127.0.0.1:9000 went down: it refused 33", "ended 5 connections")),
        ("publish.unconfirmed",),
    ),
    Outage("cursus_stop.pcap", "server.stalled", ("stalled for 2.985 s", "its host acknowledged meanwhile")),
    Outage(
        "cursus_maxconn.pcap",
        *("server.stalled", ("accepted 5 connections and answered nothing", "limit of connections", "continued to")),
        ("publish.unconfirmed",),
    ),
    Outage("cursus_wrong_token.pcap", "cursus.authentication", ("principal alice was refused: authentication_failed",)),
    Outage("cursus_too_many_streams.pcap", "cursus.stream-limit", ("refused STREAM: maximum connections (1) reached",)),
    Outage(
        "cursus_tls_required.pcap",
        *("tcp.nothing-said", ("21 connections to 10.81.0.1:9000", "TLS, another protocol")),
        ("publish.unconfirmed",),
    ),
    Outage("cursus_localhost.pcap", "cursus.advertised-host", ("to localhost:9000", "its own machine")),
    Outage(
        "cursus_crash_loop.pcap",
        "cursus.rebalance",
        ("orders[0] began 3 times at offset 0", "crashes before it commits"),
    ),
    Outage(
        "kafka_hanging_transaction.pcap", "kafka.transaction-open", ("at offset 0 for 10.701 s", "stuck-writer (#6)")
    ),
    Outage(
        "cursus_crash_loop_few.pcap",
        *("cursus.rebalance", ("poison[0] began 3 times at offset 0", "crashes before it commits")),
    ),
    Outage("nats_service_frozen.pcap", "nats.service-silent", ("app (#1) answered nothing for 4.911 s",)),
    Outage("kafka_port_of_rabbit.pcap", "request.unanswered", ("5552 is the port of RabbitMQ Stream",)),
    Outage("tank_boundary_again.pcap", "tank.boundary", ("9 clients asked for messages of foo/0",)),
    Outage("pravega_sealed.pcap", "pravega.stream-sealed", ("cannot write to s/st0-9462: it is sealed",)),
    Outage("kafka_one_topic_refuses.pcap", "kafka.too-large", ("for tiny: MESSAGE_TOO_LARGE",)),
    Outage("kafka_no_sasl.pcap", "kafka.sasl-failed", ("billing could not log in", "the listener has no SASL")),
    Outage("kafka_no_mechanism.pcap", "kafka.sasl-failed", ("does not offer the mechanism of the client",)),
    Outage("kafka_other_assignor.pcap", "kafka.group-refused", ("new-pod was refused", "shares no assignor")),
    Outage("kafka_session_timeout.pcap", "kafka.group-refused", ("impatient was refused", "session.timeout.ms")),
    Outage(
        "kafka_too_many_connections.pcap",
        *("tcp.nothing-said", ("82 connections to", "a limit of connections")),
        ("tcp.nothing-said",),  # those that use the limit up
    ),
    Outage("kafka_transaction_timeout.pcap", "kafka.fenced", ("biller (#4) was fenced",)),
    Outage("kafka_clock_skew.pcap", "kafka.invalid-records", ("for t3: INVALID_TIMESTAMP", "clock of the producer")),
    Outage("kafka_commit_refused.pcap", "kafka.commit-refused", ("offsets of t1: OFFSET_METADATA_TOO_LARGE",)),
    Outage("kafka_topic_refused.pcap", "kafka.topic-refused", ("new3: INVALID_REPLICATION_FACTOR", "than there are")),
    Outage("kafka_transaction_refused.pcap", "kafka.transaction-refused", ("payer: INVALID_TRANSACTION_TIMEOUT",)),
    Outage(
        "kafka_huge_request.pcap",
        *(
            "publish.incomplete",
            ("10.90.0.1:9092 ended the connection of writer (#2)", "larger than the server allows"),
        ),
    ),
    Outage("nats_max_waiting.pcap", "nats.pull-refused", ("3 clients pull in vain: Exceeded MaxWaiting",)),
    Outage("nats_message_size.pcap", "publish.refused", ("message size exceeds", "(max_msg_size)")),
    Outage("nats_certificate_expired.pcap", "tls.not-finished", ("4 TLS handshakes", "do not accept the certificate")),
    Outage("nats_leaf_cut.pcap", "tcp.no-ack", ("for 6.824 s, while its host", "leaf (#1) sent 24 bytes again")),
    Outage("rabbit_offset_gone.pcap", "rabbitmq_stream.offset-gone", ("offset 5 of r", "begins at 3,337")),
    Outage("rabbit_client_paused.pcap", "rabbitmq_stream.heartbeat", ("2 connections", "12.5 s", "not the network")),
    Outage(
        "rabbit_consumer_paused.pcap",
        *("rabbitmq_stream.credit-starvation", ("gave no credit for s for 3.078 s", "stopped or busy")),
    ),
    Outage("rabbit_stopped.pcap", "tcp.refused", ("went down: it refused 9", "ended 3 connections")),
    Outage(
        "rabbit_deleted_and_made_again.pcap",
        *("rabbitmq_stream.stream-deleted", ("cleanup-job (#4) deleted stream s", "asked for it at 3.047 s, in vain")),
    ),
    Outage(
        "nats_http_port.pcap", "tcp.nothing-said", ("10.78.0.1:8222 accepted 3 connections", "closed it after 2.001 s")
    ),
    Outage("nats_no_quorum.pcap", "nats.server-down", ("2 servers left the cluster or went down", "10.78.0.1:4223")),
    Outage("nats_service_slow.pcap", "nats.service-silent", ("pricing (#1) falls behind", "1.501 s", "4.296 s")),
    Outage("nats_leader_killed.pcap", "nats.server-down", ("the server at 10.78.0.1:4222 left the cluster",)),
    Outage("nats_leader_paused.pcap", "publish.slow-confirm", ("confirmed publishes to ord.x late", "worst 6.004 s")),
    Outage("rabbit_closed_all.pcap", "rabbitmq_stream.no-close", ("3 connections without Close", "an operator")),
    Outage("rabbit_consumer_blocked.pcap", "rabbitmq_stream.credit-starvation", ("gave no credit for s1 for 3.494 s",)),
    Outage("rabbit_disk_alarm.pcap", "server.stalled", ("an alarm (disk, memory)",), ("publish.unconfirmed",)),
    Outage("rabbit_no_quorum.pcap", "server.stalled", ("replicas that do not answer",), ("publish.unconfirmed",)),
    Outage("rabbit_advertised_nowhere.pcap", "rabbitmq_stream.advertised-host", ("10.99.0.9:5552", "gets no answer")),
    Outage(
        "rabbit_stopped_app.pcap",
        *("rabbitmq_stream.stream-unavailable", ("said that stream s1 is unavailable, and no client found it again",)),
        ("publish.unconfirmed", "rabbitmq_stream.no-close"),
    ),
    Outage("rabbit_no_route.pcap", "rabbitmq_stream.no-route", ("sup has no stream for routing key gone",)),
    Outage(
        "rabbit_publisher_paused.pcap",
        "rabbitmq_stream.heartbeat",
        ("orders (#1) was silent", "not the network"),
        ("publish.unconfirmed",),
    ),
    Outage(
        "rabbit_hung_then_left.pcap", "rabbitmq_stream.consumer-stopped", ("billing", "no credit since"), ("tcp.reset",)
    ),
    Outage("rabbit_certificate_refused.pcap", "tls.not-finished", ("ended 3 TLS handshakes",)),  # some by the server
    Outage("rabbit_rejected.pcap", "tcp.refused", ("refused 14 connections",), ("publish.unconfirmed",)),
    Outage(
        "rabbit_syn_dropped.pcap", "tcp.no-answer", ("10.78.0.1:5552", "firewall drops new connections", "host is up")
    ),
    Outage("tank_beyond_the_end.pcap", "tank.boundary", ("message 5,000 of orders/0", "of another topic")),
    Outage(
        "liftbridge_replica_paused.pcap",
        *("liftbridge.isr-shrink", ("s2 of w3 fell out", "removed at", "back in sync at")),
        ("capture.loss",),
    ),
    Outage("o_crashloop.pcap", "rabbitmq_stream.consumer-crash-loop", ("poisoned", "offset 0 8 times")),
    Outage("nats_proxy_idle.pcap", "tcp.idle-closed", ("10.78.0.1:14222 ended 8 connections after 3.0 s",)),
    Outage(
        "nats_no_descriptors.pcap",  # INFO comes after the clients have left
        *("tcp.nothing-said", ("accepted 17 connections and sent nothing", "open files was reached")),
    ),
    Outage("nats_no_inbox.pcap", "nats.permissions", ("shop (#2), user shop", "it gets no answer to any request")),
    Outage("nats_may_not_answer.pcap", "nats.permissions", ("pricing (#1), user svc", "no allow_responses")),
    Outage("nats_step_down.pcap", "nats.not-stored", ("stream ORD is away", "stored the subject again from 6.332 s")),
    Outage(
        "nats_streams_limit.pcap", "nats.api-refused", ("for S3 in vain: maximum number of", "a limit of the server")
    ),
    Outage("nats_unknown_consumer.pcap", "nats.api-refused", ("billing (#8) asks", "ORD, consumer bil in vain")),
    Outage("nats_overlapping_filter.pcap", "nats.api-refused", ("audit (#7)", "filtered consumer not unique")),
    Outage(
        "nats_no_backend.pcap", "tcp.nothing-said", ("32 connections to 10.78.0.1:14222 ended at once", "load balancer")
    ),
    Outage("nats_proxy_header.pcap", "nats.server-error", ("Unknown Protocol Operation", "a PROXY header")),
    Outage("rabbit_proxy_header.pcap", "protocol.mismatch", ("closed 4 connections", "a PROXY header")),
    Outage(
        "rabbit_reset_by_a_firewall.pcap",
        *("server.ended", ("ended all its 2 connections", "a firewall or load balancer reset them"), ("tcp.reset",)),
    ),
    Outage("nats_killed_one_direction.pcap", "tcp.no-answer", ("26 connections to 10.78.0.1:4222 failed", "refused")),
    Outage("nats_may_not_acknowledge.pcap", "nats.permissions", ("user billing", "may not acknowledge")),
    Outage("nats_token_rotated.pcap", "nats.authentication", ("Authorization Violation",), ("tcp.refused",)),
    Outage("nats_mtu.pcap", "tcp.no-ack", ("full size are lost (MTU), or a firewall",)),
    Outage(
        "rabbit_syn_acks_lost.pcap",  # its short publishers do not wait for confirms
        *("publish.unconfirmed", ("6 publishers",), ("tcp.loss", "tcp.loss")),
    ),
    Outage("rabbit_stopped_before_the_capture.pcap", "server.stalled", ("10.81.0.1:5553 stalled for 6.368 s",)),
    Outage(
        "kafka_poison.pcap",
        *("kafka.rebalance-storm", ("reader ended 4 times", "began 3 times at offset 41", "reader crashes before")),
    ),
    Outage(
        "nats_no_client_certificate.pcap",
        *("tls.not-finished", ("ended 3 TLS handshakes of clients without a certificate", "mutual TLS")),
    ),
    Outage(
        "kafka_permission_revoked.pcap", "kafka.denied", ("4 kinds of requests had no permission: TOPIC_AUTHORIZATION",)
    ),
    Outage("kafka_quota.pcap", "kafka.throttled", ("throttled writer (#2)", "9.141 s in all"), ("kafka.throttled",)),
    Outage("kafka_pod_killed.pcap", "kafka.rebalance-storm", ("pod-bad ended 5 times without leaving group gtfl",)),
    Outage("nats_cut_seen_by_the_server.pcap", "tcp.no-ack", ("was not heard for 11.100 s", "its FIN did not arrive")),
    Outage("rabbit_new_ones_rejected.pcap", "tcp.no-answer", ("did not answer 3 connections", "its host is up")),
    Outage(
        "nats_new_ones_rejected.pcap",
        "tcp.refused",
        ("refused 6 connections", "firewall rejects new connections", "open ones continue"),
    ),
    Outage("nats_ack_wait.pcap", "nats.redelivered", ("ledger (#3)", "longer than ack_wait (0.5 s): 16 messages")),
    Outage("nats_refused_by_the_consumer.pcap", "nats.redelivered", ("refuses them (-NAK, 33 times)",)),
    Outage(
        "rabbit_killed_unconfirmed.pcap",
        *("rabbitmq_stream.no-close", ("the broker ended pay (#3)", "stopped or killed"), ("publish.unconfirmed",)),
    ),
    Outage(
        "rabbit_stopped_with_heartbeats.pcap",  # flow control does not hold back heartbeats
        *("server.stalled", ("stalled for 8.814 s", "the server's process was paused, stopped or blocked")),
    ),
    Outage("rabbit_crash_from_first.pcap", "rabbitmq_stream.consumer-crash-loop", ("worker", "offset 0 6 times")),
    Outage(
        "nats_short_stop.pcap",  # each client waits for its answer: all ask within 100 ms
        *("server.stalled", ("stalled for 1.531 s", "delivered late", "paused, stopped or blocked")),
    ),
    Outage("nats_lame_duck.pcap", "nats.lame-duck", ("n1 announced that it shuts down",)),
    Outage(
        "kafka_mtu_busy.pcap",  # a segment of the consumer's connection was sent again, too
        *("tcp.no-ack", ("for 13.252 s, while its host answers other", "segments of full size are lost (MTU), or")),
    ),
    Outage("pravega_sealed_gave_up.pcap", "pravega.stream-sealed", ("cannot write to lab/tosell: it is sealed",)),
    Outage(
        "rabbit_slow_path.pcap",  # 300 ms of round trip from the middle on
        *("request.slower", ("the path to 10.77.0.1:5552 became slow", "after 303 ms", "the server is not slower")),
    ),
    Outage(
        "rabbit_idle_forgotten.pcap",
        *("tcp.no-ack", ("path or host down, after 3.5 s without packets", "a firewall or NAT forgot the idle")),
        ("publish.unconfirmed",),
    ),
    Outage(
        "rabbit_policed.pcap",  # to 4 kB/s: what exceeds that is dropped
        *("tcp.no-ack", ("the path loses packets", "its bandwidth is limited")),
        ("publish.unconfirmed",),
    ),
    Outage(
        "rabbit_confirms_not_read.pcap",  # 17 bytes of its window are left
        *("publish.unconfirmed", ("1,593 of 2,920 messages that bulk-loader", "did not read its socket")),
        ("tcp.zero-window",),
    ),
    Outage("kafka_tls_slow.pcap", "server.stalled", ("answered 2 TLS handshakes late, after 2.500 s",)),
    Outage("kafka_leaked.pcap", "tcp.never-closed", ("report-job opened", "left 32 of 64 open")),
    Outage(
        "nats_consumer_deleted_by_another.pcap",  # its pulls share a reply subject
        *("nats.consumer-gone", ("ledger (#1) pulls from DPAY, consumer worker2", "cleanup (#3) deleted DPAY")),
    ),
    Outage("kafka_pod_lost.pcap", "kafka.no-member", ("ledger (#2) ended without leaving group gsw4, which has no",)),
    Outage(
        "kafka_brokers_stopped.pcap",  # and answer when the capture is nearly over
        *("server.stalled", ("9292 accepted 3 connections and answered nothing there", "paused, stopped or blocked")),
    ),
)


def problems(name: str) -> list[Problem]:
    """Those that `check` shows."""
    return [problem for problem in shown_of(OUTAGES / f"{name}.zst") if problem.severity != "note"]


@pytest.mark.parametrize("outage", TABLE, ids=lambda outage: outage.capture)
def test_the_first_problem_names_the_cause(outage: Outage) -> None:
    first, *others = problems(outage.capture)
    text = "\n".join((first.title, *first.details, first.likely))
    assert first.name == outage.code
    assert [part for part in outage.says if part not in text] == []
    assert tuple(worse(others)) == outage.others
    assert first.first_ns is not None and first.last_ns is not None and first.first_ns <= first.last_ns


@pytest.mark.parametrize(
    "name",
    [
        *("nats_healthy_kv.pcap", "nats_healthy_pull.pcap", "nats_late_start.pcap", "rabbit_healthy_late_reader.pcap"),
        *("kafka_healthy_admin.pcap", "kafka_healthy_new_topic.pcap", "kafka_healthy_long_transaction.pcap"),
        *("nats_healthy_resets.pcap", "rabbit_healthy_close.pcap", "kafka_healthy_late_reordered.pcap"),
        *("kafka_healthy_static_members.pcap", "kafka_healthy_deployment.pcap", "kafka_healthy_rolling_restart.pcap"),
        *("cursus_delivery_cut.pcap", "nats_healthy_slow_service_late.pcap"),
        *("nats_healthy_long_jobs.pcap", "nats_healthy_lame_duck.pcap", "nats_healthy_rolling_restart.pcap"),
        *("nats_healthy_snaplen_68.pcap", "liftbridge_healthy_late_start.pcap", "pravega_healthy_one_direction.pcap"),
    ],
)
def test_healthy_traffic_is_no_problem(name: str) -> None:
    assert problems(name) == []


@pytest.mark.parametrize(
    "name", ["nats_healthy_lost_packets.pcap", "nats_healthy_ring.pcap", "nats_healthy_probes_lost.pcap"]
)
def test_frames_that_a_gap_held_back_and_lost_answers_to_probes_accuse_no_server(name: str) -> None:
    assert worse(problems(name)) == ["capture.loss"]


@pytest.mark.parametrize(
    "name", ["nats_truncated.pcap", "rabbit_late_half.pcap", "cursus_late_half.pcap", "kafka_healthy_truncated.pcap"]
)
def test_truncated_packets_and_connections_that_began_before_accuse_no_server(name: str) -> None:
    assert {problem.name for problem in problems(name)} <= {"capture.loss"}


def test_members_that_never_committed_and_are_killed_are_not_said_to_fail_on_a_message() -> None:
    (found,) = problems("kafka_pod_killed.pcap")
    assert (found.likely, "nothing was committed" in found.details[0]) == ("", True)


def test_dropped_messages_last_until_the_last_of_them() -> None:
    (found,) = problems("nats_ids_again.pcap")
    assert found.first_ns is not None and found.last_ns is not None
    assert 2_600_000_000 < found.last_ns - found.first_ns < 2_700_000_000


def test_a_stream_that_stores_again_was_only_without_a_leader() -> None:
    (found,) = problems("nats_step_down.pcap")
    assert (found.severity, found.likely) == (
        "warning",
        "it had no leader for a moment: an election, a step-down or a restart",
    )


def test_messages_that_a_quota_held_back_are_a_consequence() -> None:
    first, *_ = problems("kafka_quota.pcap")
    assert first.severity == "error"
    assert {each.name for each in first.effects} >= {"publish.unconfirmed", "publish.incomplete", "server.stalled"}


def test_an_announced_shutdown_explains_refused_connections_and_is_a_note_if_all_left_in_order() -> None:
    (leaves,) = problems("nats_lame_duck.pcap")
    assert (leaves.severity, [each.name for each in leaves.effects]) == ("error", ["tcp.refused"])


def test_a_server_that_is_back_is_a_warning() -> None:
    (found,) = problems("nats_rolling.pcap")
    assert (found.name, found.severity) == ("tcp.refused", "warning")
    assert "it accepted connections again from 0.324 s on" in found.details


def test_a_cut_path_is_no_fault_of_a_process() -> None:
    for name in ("o_heal.pcap", "o_cut.pcap"):
        first, *_ = problems(name)
        texts = [text for each in (first, *first.effects) for text in (each.title, *each.details)]
        assert not [text for text in texts if "not the network" in text or "broker 10.77.0.1:5552 was silent" in text]


def test_a_server_that_never_answers_again_comes_before_what_it_did_not_confirm() -> None:
    declare = layers.DeclarePublisher(correlation_id=3, publisher_id=7, stream="orders")
    said: list[crafted.Said] = [(CLIENT, declare), crafted.answer(1, 3)]
    for number in range(4):
        message = layers.PublishedMessage(publishing_id=number, data=b"body")
        said.append((CLIENT, layers.Publish(publisher_id=7, messages=[message])))
    first, second = [each for each in crafted.rabbitmq(said) if each.severity == "error"]
    assert (first.name, first.to_end, second.name) == ("server.stalled", True, "publish.unconfirmed")
    assert first.title.startswith("10.0.0.2:5552 sent nothing for the last 5.0")
    assert "until the end of the capture" in when(first, 0)


def test_one_slow_request_is_no_stall() -> None:
    asked = layers.QueryOffset(correlation_id=3, reference="r", stream="orders")
    found = crafted.rabbitmq([(CLIENT, asked)])
    assert "server.stalled" not in {each.name for each in found}


@pytest.mark.parametrize(("seconds", "stalled"), [(2.5, False), (3.5, True)])
def test_one_publish_that_waits_long_while_nothing_else_comes_is_a_stall(seconds: float, stalled: bool) -> None:
    declare = layers.DeclarePublisher(correlation_id=3, publisher_id=7, stream="orders")
    message = layers.PublishedMessage(publishing_id=1, data=b"body")
    said: list[crafted.Said] = [(CLIENT, declare), crafted.answer(1, 3)]
    said.append((CLIENT, layers.Publish(publisher_id=7, messages=[message])))
    confirm = layers.PublishConfirm(publisher_id=7, publishing_ids=[1])
    found = crafted.rabbitmq(said, later=seconds, last=(SERVER, confirm))
    assert ("server.stalled" in {each.name for each in found}) is stalled


def test_http_and_tls_at_the_wrong_port_are_named() -> None:
    assert "HTTP" in problems("o_wrongport.pcap")[1].title
    tls, plain = problems("o_tls.pcap")
    assert plain.likely == "the client speaks RabbitMQ Stream without TLS to a port for TLS"
    assert {each.name for each in (*tls.effects, *plain.effects)} >= {"tls.alert", "rabbitmq_stream.not-a-frame"}


def test_a_stall_explains_slow_confirms_and_the_closed_window() -> None:
    (stalled,) = problems("o_alarm.pcap")
    assert {each.name for each in stalled.effects} >= {"publish.slow-confirm", "tcp.zero-window"}


def test_the_stall_lasts_as_long_as_the_server_was_stopped() -> None:
    (stalled,) = problems("on_stop.pcapng")
    assert stalled.first_ns is not None and stalled.last_ns is not None
    assert stalled.first_ns / 1e9 == pytest.approx(1795392553.582, abs=0.05)  # SIGSTOP, by the client's log
    assert stalled.last_ns / 1e9 == pytest.approx(1795392556.581, abs=0.05)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "on_http.pcap.zst",
            "1 problem. Nothing else could be judged: 3 connections carried no data (10.77.0.1:8080, 10.77.0.1:5552).",
        ),
        ("o_tls.pcap.zst", "2 problems in 4 messages on 2 connections (RabbitMQ Stream); 85 % of the bytes were not "),
        (
            "pravega_healthy_one_direction.pcap.zst",
            "No problems in 16 messages on 1 connection (Pravega), captured in one direction only.",
        ),
    ],
)
def test_a_capture_that_was_not_decoded_or_not_whole_is_no_all_clear(name: str, said: str, run: Run) -> None:
    result = run("check", OUTAGES / name)
    assert result.lines[-1].startswith(said)
    assert result.code == (3 if "Nothing" in said else 0)
    assert run("check", OUTAGES / name, "--fail-on", "undecoded").code == 3
    last = json.loads(run("check", OUTAGES / name, "--json").lines[-1])
    assert last["verdict"] == result.lines[-1]
    assert last["whole"] is False


def test_the_packets_of_all_evidence_are_written(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "ticket.pcapng"
    assert run("check", OUTAGES / "o_deleted.pcap.zst", "-w", out, "-q").code == 0
    problem = problems("o_deleted.pcap")[0]
    (batch,) = open_capture([str(out)])
    assert len(batch) >= len(problem.packets)
    assert set(problem.frames) == {545, 549, 552}


def test_a_connection_that_turns_to_tls_is_not_judged_by_its_first_frames(run: Run) -> None:
    said = run("check", CAPTURES / "nats/17-tls.pcap").lines[-1]
    assert said.startswith("1 problem in 5 messages on 3 connections (NATS); 98 % of the bytes were not decoded")
    assert "2 connections are TLS without keys (127.0.0.1:4222)" in said
