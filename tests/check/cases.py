"""For each code a case that raises it and a near one that does not: a capture of ``captures/``, or a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import chain

from tests.check import crafted, crafted_amqp
from tests.check.support import CAPTURES, check, talk
from tests.net import craft
from tests.protocols.test_amqp091_parity import method, publish
from tests.protocols.test_tank_surprises import PING, message, plain, produce, produced
from tests.view.frames import SERVER
from wiredecode.protocols.amqp091.names import GREETING
from wiredecode.protocols.kafka.layers import layer_of as kafka_layer
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.protocols.shared.problems import Problem
from wiredecode.testing import build

Case = str | Callable[[], list[Problem]]


@cache
def found(case: Case) -> set[str]:
    """The codes that a case raises, of any severity."""
    return {problem.code.code for problem in (check(CAPTURES / case) if isinstance(case, str) else case())}


def syn(*, answered: bool) -> list[Problem]:
    talk = craft.Talk()
    first, *rest = talk.handshake()
    return check(craft.batches([first, *(rest if answered else [first])]))


def confirmed(answer: str) -> list[Problem]:
    """A publish over AMQP 0-9-1, and what the server answers."""
    asked = GREETING + method("ConfirmSelect") + publish(b"hello", exchange="x")
    told = method("ConfirmSelectOk") + method(answer, delivery_tag=1)
    return talk(5672, (0.1, 0, asked), (0.2, 1, told))


AUTH = "AUTH principal=alice token=0a1b2c3d"
LET_IN = "OK principal=alice authenticated=true"
FORBIDDEN = "PUBLISH topic=orders acks=1 producerId=p1 message=hello", "ERROR: NOT_AUTHORIZED_FOR_TOPIC topic=orders"


def tank(*turns: bytes) -> list[Problem]:
    """A broker's Ping, then request and answer in turns."""
    made = ((1.0 + number / 10, number % 2, data) for number, data in enumerate(turns))
    return talk(11011, (0.1, 1, PING), *made)


def produce_answered(result: bytes) -> list[Problem]:
    return tank(produce((b"orders", [(3, plain(message()))])), produced(1, result))


def kafka(error: int, times: int = 1) -> list[Problem]:
    """A Produce each second, and its answer for one partition."""
    asked = {"topic": "orders", "partition_data": [{"index": 3, "batches": b""}]}
    told = {"topic": "orders", "partition_responses": [{"index": 3, "error": error, "base_offset": -1}]}
    request = build(
        kafka_layer("ProduceRequest", 8), {"api_version": 8, "acks": 1, "client_id": "app-1", "topic_data": [asked]}
    )
    answer = build(kafka_layer("ProduceResponse", 8), {"responses": [told]})
    turns = [((i + 0.1, 0, bytes(request)), (i + 0.2, 1, bytes(answer))) for i in range(times)]
    return talk(9092, *chain.from_iterable(turns))


ARRIVALS = CAPTURES.parent / "tests/check/arrivals"


def kafka_commit(error: int) -> list[Problem]:
    """An OffsetCommit of a member, and its answer for one partition."""
    layers = kafka_layer("OffsetCommitRequest", 7), kafka_layer("OffsetCommitResponse", 7)
    asked = {"api_version": 7, "client_id": "app-1", "group_id": "billing", "generation_id": 3, "member_id": "app-1-x"}
    told = {"topics": [{"topic": "orders", "partitions": [{"partition_index": 3, "error": error}]}]}
    return talk(9092, (0.1, 0, bytes(build(layers[0], asked))), (0.2, 1, bytes(build(layers[1], told))))


CRAFTED: Mapping[str, Case] = {
    "kafka.invalid-request": partial(kafka, 42),
    "kafka.out-of-order": partial(kafka, 45),
    "kafka.kicked-out": partial(kafka_commit, 25),
    "kafka.not-leader": partial(kafka, 6),
    "kafka.not-enough-replicas": partial(kafka, 7),
    "kafka.storage-failed": partial(kafka, 56),
    "kafka.no-coordinator": partial(kafka_commit, 15),
    "rabbitmq_stream.stream-unavailable": partial(
        crafted.rabbitmq, [(SERVER, layers.MetadataUpdate(response_code=6, stream="orders"))]
    ),
    "publish.incomplete": crafted.reset_inside_a_publish,
    "tcp.no-answer": partial(syn, answered=False),
    "tcp.overlap-differs": partial(crafted.sent_again, b"changed"),
    "tcp.nothing-said": partial(check, CAPTURES.parent / "tests/check/outages/on_http.pcap.zst"),
    "capture.clock": partial(crafted.pause, -90.0, 200),
    "frame.checksum": partial(crafted.damaged_chunk, damaged=True),
    "frame.security": partial(crafted.cursus, "LIST", "ERROR: invalid_token token=0a1b2c3d"),
    "cursus.authentication": partial(crafted.cursus, AUTH, "ERROR: authentication_failed principal=alice"),
    "cursus.authorization": partial(crafted.cursus, AUTH, LET_IN, *FORBIDDEN),
    "flow.loop": partial(crafted.rounds, 30),
    "flow.never-began": partial(crafted.apart, "order.new", "orders.new"),
    "amqp091.nacked": partial(confirmed, "BasicNack"),
    "amqp091.channel-churn": partial(crafted_amqp.channels, 30, 1),
    "tank.no-leader": partial(produce_answered, b"\xfd"),
    "frame.limit": partial(crafted.cursus, "CREATE topic=orders " + "a " * 70_000, "OK"),
    "frame.tls": partial(crafted.tls, 2, 48),
    "frame.too-large": partial(crafted.large_publish, 5000),
    "rabbitmq_stream.duplicate-ids": partial(crafted.published_twice, b"body"),
    "rabbitmq_stream.active-consumer-flapping": partial(crafted.active_consumers, (1, 2, 1, 2, 1)),
}
"""Codes that no capture of the repository has, and that no other test of this folder raises."""

NEAR: Mapping[str, Case] = {
    "kafka.corrupt-log": partial(kafka, 2),  # what a producer sent
    "kafka.server-failed": partial(kafka, 7),
    "kafka.invalid-request": partial(kafka, 7),
    "flow.loop": partial(crafted.rounds, 30, to="done.new"),
    "flow.never-began": partial(crafted.apart, "orders.eu", "orders.us"),
    "nats.ack-pending": partial(check, ARRIVALS / "nh_workqueue_deploy.pcap.zst"),
    "nats.consumer-churn": partial(check, ARRIVALS / "nh_replay.pcap.zst"),
    "nats.stored-twice": partial(check, ARRIVALS / "n_shared_durable.pcap.zst"),
    "rabbitmq_stream.clock": "flows/r-wrong-offset.pcap.zst",
    "rabbitmq_stream.offset-beyond": "flows/rh-deploy.pcap.zst",
    "kafka.clock": "flows/k-linger.pcap.zst",  # records that wait for seconds
    "flow.unread": "flows/k-dup-group.pcap.zst",
    "flow.no-consumer": "stories/healthy-tail.pcap.zst",
    "flow.nothing-since": "flows/nh-acknone.pcap.zst",
    "flow.read-again": "flows/rh-deploy.pcap.zst",  # it continues at its stored offset
    "flow.stuck": partial(check, ARRIVALS / "n_late_ack.pcap.zst"),  # a stream delivers again, nobody goes back
    "flow.emptied": "flows/k-dup-group.pcap.zst",
    "flow.set-back": "flows/rh-deploy.pcap.zst",  # it stores its position, and goes on there
    "flow.not-passed-on": partial(check, ARRIVALS / "r_pod_ref.pcap.zst"),  # it reads the same again in one go
    "flow.not-done": partial(check, ARRIVALS / "k_parallel_order.pcap.zst"),  # all is done, in another order
    "flow.out-of-order": partial(check, ARRIVALS / "k_commit_ahead.pcap.zst"),  # left out, the rest in order
    "flow.publishes-no-more": partial(check, ARRIVALS / "r_resend_file.pcap.zst"),  # it publishes each time
    "flow.misplaced": "flows/rh-deploy.pcap.zst",
    "flow.left-out": partial(check, ARRIVALS / "kh_txn_eos.pcap.zst"),  # markers of transactions lie between
    "kafka.aborted-reads": partial(check, ARRIVALS / "kh_txn_eos.pcap.zst"),  # readers of committed records only
    "flow.sent-again": partial(crafted.begins_anew, 3, known=True),
    "flow.keys-apart": partial(check, ARRIVALS / "k_partitions_added.pcap.zst"),  # one publisher, more partitions
    "flow.skipped": "flows/rh-deploy.pcap.zst",
    "flow.never-sent": partial(check, ARRIVALS / "nh_restart.pcap.zst"),  # publishers repeat what got no answer
    "flow.lost": "flows/k-dup-group.pcap.zst",
    "flow.undelivered": partial(check, ARRIVALS / "rh_jobs.pcap.zst"),  # a restart that all messages survive
    "tcp.gave-up": partial(check, ARRIVALS / "nh_restart.pcap.zst"),  # all clients come back
    "flow.done-twice": "flows/n-wrong-account.pcap.zst",
    "flow.shared-group": "kafka/groups.pcap.zst",
    "flow.uneven": "flows/k-dup-group.pcap.zst",
    "flow.waits": "flows/k-dup-group.pcap.zst",
    "flow.connection-each": "kafka/small.pcap",  # 57 connections of several clients
    "flow.busy-poll": "flows/nh-mirror.pcap.zst",
    "flow.commit-each": "flows/k-dup-group.pcap.zst",
    "kafka.one-address": "kafka/failover.pcap.zst",  # other brokers lead, and have addresses of their own
    "liftbridge.slow-server": "liftbridge/34-lb-replication.pcap.zst",
    "liftbridge.namespace": "liftbridge/34-lb-replication.pcap.zst",
    "frame.status": "nats/04-request-reply.pcap",
    "nats.server-down": "nats/13-jetstream.pcap",
    "cursus.sequence-gap": "cursus/produce.pcap",
    "cursus.fenced": "cursus/group.pcap",
    "kafka.fetch-sessions": "kafka/groups.pcap.zst",
    "request.refused": "kafka/failover.pcap.zst",  # refused, and then granted
    "rabbitmq_stream.no-active-consumer": partial(crafted.active_consumers, (1, 2, 3)),
    "kafka.not-leader": partial(kafka, 7),  # not stored, for another reason
    "kafka.no-leader": partial(kafka, 5),  # this broker does not lead it
    "kafka.sasl-failed": partial(kafka, 29),  # not allowed, but let in
    "kafka.too-large": partial(kafka, 7),
    "kafka.denied": partial(kafka, 7),
    "kafka.offset-out-of-range": partial(kafka, 7),
    "kafka.unknown-topic": partial(kafka, 7),
    "kafka.not-enough-replicas": partial(kafka, 46),
    "kafka.storage-failed": partial(kafka, 6),  # it moved to another broker
    "kafka.no-coordinator": partial(kafka_commit, 16),  # another broker is
    "kafka.out-of-order": partial(kafka, 46),  # stored before
    "kafka.kicked-out": partial(kafka_commit, 27),  # it is to join again
    "kafka.max-poll": "kafka/rebalance.pcap.zst",  # members that leave and close
    "kafka.rebalance-storm": "kafka/groups.pcap.zst",
    "kafka.no-member": "kafka/rebalance.pcap.zst",  # members that leave, and others that stay
    "kafka.fenced": "kafka/groups.pcap.zst",
    "kafka.commit-refused": partial(kafka_commit, 27),  # it is to join again
    "kafka.invalid-records": partial(kafka, 7),
    "kafka.topic-refused": "kafka/groups.pcap.zst",
    "kafka.transaction-refused": "kafka/groups.pcap.zst",
    "kafka.transaction-open": "kafka/groups.pcap.zst",  # readers of committed records, and transactions that end
    "kafka.throttled": "kafka/groups.pcap.zst",
    "kafka.group-refused": partial(kafka_commit, 27),  # it is to join again
    "kafka.coordinator-moved": "kafka/groups.pcap.zst",  # not known yet: the first group of a broker
    "kafka.unsupported-version": "kafka/groups.pcap.zst",
    "kafka.acks-none-lost": "kafka/groups.pcap.zst",  # acks=0, and all are stored
    "kafka.not-logged-in": "kafka/failover.pcap.zst",  # closed by a broker that stops
    "kafka.advertised-listener": "kafka/failover.pcap.zst",  # refused after it was reached
    "cursus.authentication": partial(crafted.cursus, AUTH, LET_IN, *FORBIDDEN),  # known, but not allowed
    "cursus.authorization": partial(crafted.cursus, AUTH, "ERROR: authentication_failed principal=alice"),
    "amqp091.nacked": partial(confirmed, "BasicAck"),
    "amqp091.channel-closed": partial(crafted_amqp.closed, 0, 404),  # by the client
    "amqp091.connection-closed": partial(crafted_amqp.closed, 1, 404),  # only its channel
    "amqp091.returned": partial(crafted_amqp.routed, "topic", "order.*", "order.new", 1),  # mandatory, and taken
    "amqp091.blocked": partial(crafted_amqp.alarm, False),  # it is over, and began before the capture
    "amqp091.prefetch": partial(crafted_amqp.full, 4.5),
    "amqp091.channel-churn": partial(crafted_amqp.channels, 30, 3),
    "amqp091.heartbeat": partial(crafted_amqp.beats, 2, 5.5, 9),  # late, but within two
    "amqp091.redelivery-loop": "amqp091/requeued-once.pcap.zst",
    "amqp091.ack-timeout": partial(crafted_amqp.timed_out, "unknown delivery tag 1"),
    "amqp091.dropped": partial(crafted_amqp.routed, "topic", "order.#", "order.eu.new"),
    "tank.no-leader": partial(produce_answered, b"\xfc\x0a\x00\x00\x09\x04\x2b"),  # another node leads
    "liftbridge.leader-change": "liftbridge/34-lb-replication.pcap.zst",  # leaders of streams that are new
    "nats.limit": "nats/02-auth.pcap",  # not let in, for another reason
    "check.internal": "rabbitmq-stream/c43_puberr.pcap",
    "tcp.refused": "stories/amqp-at-stream-port.pcap",  # accepted, and closed immediately
    "tcp.no-answer": partial(syn, answered=True),
    "tcp.no-ack": "stories/broker-paused.pcap.zst",  # stopped: its kernel acknowledges
    "tcp.reset": "rabbitmq-stream/c43_basic.pcap",  # FIN
    "tcp.loss": "cursus/produce.drop1pct.pcap",  # not captured, as no side sent it again
    "tcp.zero-window": "stories/consumer-stopped.pcap.zst",  # no credit, but the socket is read
    "request.unanswered": "rabbitmq-stream/c43_heartbeat.pcap",
    "capture.loss": "stories/broker-killed.pcap",
    "capture.late-start": "nats/03-pubsub.pcap",
    "capture.clock": partial(crafted.pause, 90.0, 90_000),  # all clocks saw the pause
    "protocol.mismatch": "nats/17-tls.pcap",
    "security.clear-text": "rabbitmq-stream/c43_tls.pcap",
    "frame.malformed": "rabbitmq-stream/c43_codecs_py.pcap",
    "frame.checksum": partial(crafted.damaged_chunk, damaged=False),
    "frame.sequence": "pravega/append_basic.pcap",
    "frame.refused": "rabbitmq-stream/c43_versions.pcap",
    "frame.security": partial(crafted.cursus, "LIST", "ERROR: invalid_name topic=0a1b2c3d"),
    "frame.limit": partial(crafted.cursus, "CREATE topic=orders " + "a " * 1000, "OK"),
    "frame.tls": partial(crafted.tls, 1, 0),
    "frame.protocol": "rabbitmq-stream/c43_multi.pcap",
    "frame.version": "rabbitmq-stream/c43_versions.pcap",
    "frame.too-large": partial(crafted.large_publish, 7000),
    "frame.codec-missing": "rabbitmq-stream/c43_codecs_py.pcap",
    "frame.other": "rabbitmq-stream/c43_basic.pcap",
    "publish.refused": "cursus/group.pcap",
    "rabbitmq_stream.no-stream": "rabbitmq-stream/c43_basic.pcap",  # created before it is asked for
    "publish.slow-confirm": "stories/healthy-tail.pcap.zst",
    "request.slower": "stories/broker-paused.pcap.zst",  # one pause
    "consumer.too-slow": "kafka/groups.pcap.zst",
    "liftbridge.refused": "liftbridge/34-lb-replication.pcap.zst",
    "liftbridge.server-silent": "liftbridge/34-lb-replication.pcap.zst",
    "liftbridge.isr-shrink": "liftbridge/34-lb-replication.pcap.zst",
    "liftbridge.leader-lost": "liftbridge/34-lb-replication.pcap.zst",
    "nats.missed-ping": "nats/10-split-writes.pcap",
    "nats.no-responders": "nats/08-pipelined-small.pcap",
    "nats.redelivered": "nats/08-pipelined-small.pcap",
    "nats.slow-consumer": "nats/08-pipelined-small.pcap",
    "nats.stale": "nats/04-request-reply.pcap",
    "nats.unanswered": "nats/13-jetstream.pcap",
    "rabbitmq_stream.advertised-host": "rabbitmq-stream/c310_basic.pcap",
    "rabbitmq_stream.guest-not-local": "rabbitmq-stream/c43_authfail.pcap",  # guest, with a wrong password
    "rabbitmq_stream.authentication": "stories/guest-not-local.pcap",  # a code of its own
    "rabbitmq_stream.messages-dropped": partial(crafted.published_twice, b"body"),  # a retry
    "rabbitmq_stream.duplicate-ids": partial(crafted.published_twice, b"other"),
    "rabbitmq_stream.stream-deleted": "rabbitmq-stream/c43_basic.pcap",
    "rabbitmq_stream.no-route": "rabbitmq-stream/c43_basic.pcap",
    "rabbitmq_stream.stream-unavailable": "rabbitmq-stream/c43_metaupdate.pcap",  # a client deleted it
    "rabbitmq_stream.consumer-crash-loop": "rabbitmq-stream/c43_offsets.pcap",
    "tcp.overlap-differs": partial(crafted.sent_again, b""),
    "tcp.nothing-said": partial(syn, answered=True),  # and not closed
    "tcp.no-handshake": "stories/advertised-refused.pcap",
    "kafka.group-topics": "kafka/groups.pcap.zst",  # two groups, each with its own topics
    "tcp.never-closed": "kafka/small.pcap",  # 57 connections, and most were used or closed
    "tcp.idle-closed": "cursus/stream-timeout.pcap",  # the server had never answered
    "server.stalled": "stories/healthy-tail.pcap.zst",
    "server.ended": "nats/17-tls.pcap",  # clients that turn to TLS, and end
    "publish.incomplete": "rabbitmq-stream/c43_basic.pcap",
    "rabbitmq_stream.not-started": "rabbitmq-stream/c43_metaupdate.pcap",
    "rabbitmq_stream.credit-starvation": "rabbitmq-stream/c43_credit.pcap",
    "rabbitmq_stream.consumer-stopped": "stories/consumer-lags.pcap.zst",  # slow, but it continues
    "rabbitmq_stream.early-credit": "stories/slow-consumer.pcap.zst",  # a window without credits: NATS
    "publish.unconfirmed": "stories/stream-deleted.pcap",  # refused, but answered
    "rabbitmq_stream.closed-by-server": "rabbitmq-stream/c43_basic.pcap",
    "rabbitmq_stream.no-close": "rabbitmq-stream/c43_connectonly.pcap",
    "rabbitmq_stream.heartbeat": "rabbitmq-stream/c43_heartbeat.pcap",
    "rabbitmq_stream.consumer-lag": "stories/healthy-tail.pcap.zst",
    "rabbitmq_stream.credit-refused": "rabbitmq-stream/c43_basic.pcap",
    "rabbitmq_stream.active-consumer-flapping": partial(crafted.active_consumers, (1, 2, 3, 4, 5)),
    "rabbitmq_stream.offset-gone": "rabbitmq-stream/c43_offsets.pcap",
}

PLAIN = {
    "cursus": "cursus/consume.pcap",
    "liftbridge": "liftbridge/30-lb-publish-ack.pcap",
    "nats": "nats/03-pubsub.pcap",
    "pravega": "pravega/append_basic.pcap",
    "tank": "tank/tank_04_produce_batches.pcap",
}
"""Cases near codes of a protocol that are not in NEAR."""


def near(code: str) -> Case:
    """The case that must not raise a code."""
    assert code in NEAR or code.partition(".")[0] in PLAIN, f"add a case to NEAR for {code}"
    return NEAR.get(code) or PLAIN[code.partition(".")[0]]
