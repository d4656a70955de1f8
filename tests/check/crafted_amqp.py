"""Conversations of AMQP 0-9-1 with a problem, and near ones without."""

from __future__ import annotations

from tests.check.support import talk
from tests.protocols.test_amqp091_parity import message, method, publish
from wiredecode.protocols.amqp091.layers import Heartbeat
from wiredecode.protocols.amqp091.names import GREETING
from wiredecode.protocols.shared.problems import Problem

Said = tuple[float, int, bytes]


def deliver(tag: int, body: bytes, *, redelivered: bool = False, split: int = 1 << 20, **properties: object) -> bytes:
    """The server's frames of a message of the queue ``jobs``."""
    values = {"consumer_tag": "c1", "delivery_tag": tag, "routing_key": "jobs", "redelivered": redelivered}
    return method("BasicDeliver", **values) + message(body, split=split, **properties)


def consume(*, prefetch: int = 0, global_scope: int = 0) -> list[Said]:
    """A client asks for the messages of a queue."""
    qos = method("BasicQos", prefetch_count=prefetch, global_scope=global_scope)
    asked = GREETING + qos + method("BasicConsume", queue="jobs", consumer_tag="c1")
    return [(0.1, 0, asked), (0.2, 1, method("BasicQosOk") + method("BasicConsumeOk", consumer_tag="c1"))]


def channels(count: int, messages: int) -> list[Problem]:
    """A client opens channels, and publishes some messages on each."""
    said: list[Said] = []
    for number in range(1, count + 1):
        asked = GREETING * (number == 1) + method("ChannelOpen", number)
        said += [(number, 0, asked), (number + 0.1, 1, method("ChannelOpenOk", number))]
        said.append((number + 0.2, 0, publish(b"x", number, exchange="events") * messages))
    return talk(5672, *said)


def beats(*times: float) -> list[Problem]:
    """Two sides that agree on a heartbeat of 2 s; the server sends them each second, the client at these times."""
    said = [(0.1, 0, GREETING), (0.2, 1, method("ConnectionTune", 0, heartbeat=2))]
    said += [(0.3, 0, method("ConnectionTuneOk", 0, heartbeat=2))]
    said += [(float(second), 1, bytes(Heartbeat())) for second in range(1, 12)]
    said += [(second, 0, bytes(Heartbeat())) for second in times]
    return talk(5672, *sorted(said))


def full(after: float, *, prefetch: int = 2, global_scope: int = 0) -> list[Problem]:
    """A consumer acknowledges two messages some time after it got them."""
    got = (1.0, 1, deliver(1, b"one") + deliver(2, b"two"))
    acks = method("BasicAck", delivery_tag=2, multiple=1)
    return talk(5672, *consume(prefetch=prefetch, global_scope=global_scope), got, (1.0 + after, 0, acks))


def long_jobs(*lengths: float) -> list[Problem]:
    """A consumer with a prefetch of one works on each message for so many seconds."""
    said, at = consume(prefetch=1), 1.0
    for tag, seconds in enumerate(lengths, 1):
        said += [(at, 1, deliver(tag, b"job")), (at + seconds, 0, method("BasicAck", delivery_tag=tag))]
        at += seconds + 0.1
    return talk(5672, *said)


def returned(again: str) -> list[Problem]:
    """A publisher gets a message back, and publishes it with the routing key ``again``."""
    back = method("BasicReturn", reply_code=312, exchange="x", routing_key="user.3") + message(b"hello")
    return talk(
        5672,
        (0.1, 0, GREETING + publish(b"hello", exchange="x", routing_key="user.3", mandatory=1)),
        (0.2, 1, back),
        (0.3, 0, publish(b"hello", routing_key=again, exchange="x" if again == "user.3" else "")),
    )


def comes_back(times: int, *, requeue: int = 1, body: bytes = b"poison") -> list[Problem]:
    """A consumer puts a message back again and again; or rejects as many equal ones that come again once."""
    said = consume()
    for tag in range(1, times + 1):
        said.append((tag, 1, deliver(tag, body, redelivered=tag > 1)))
        said.append((tag + 0.1, 0, method("BasicNack", delivery_tag=tag, requeue=requeue)))
    return talk(5672, *said)


def died(count: int, reason: bytes = b"rejected") -> list[Problem]:
    """A message comes with what RabbitMQ counts in x-death."""
    entry = b"\5countl" + count.to_bytes(8) + b"\6reasonS" + len(reason).to_bytes(4) + reason
    item = b"F" + len(entry).to_bytes(4) + entry
    headers = b"\7x-deathA" + len(item).to_bytes(4) + item
    return talk(5672, *consume(), (1.0, 1, deliver(1, b"x", headers=headers)))


def closed(side: int, code: int) -> list[Problem]:
    """A side closes the channel on which a queue was to be declared."""
    asked = GREETING + method("ChannelOpen") + method("QueueDeclare", queue="jobs", passive=1)
    close = method("ChannelClose", reply_code=code, cause_class_id=50, cause_method_id=10)
    ends = [(0.3, side, close), (0.4, 1 - side, method("ChannelCloseOk"))]
    return talk(5672, (0.1, 0, asked), (0.2, 1, method("ChannelOpenOk")), *ends)


def alarm(begin: bool = True) -> list[Problem]:
    """A server blocks a connection, which publishes nevertheless; not ``begin``: it did so before the capture."""
    told = method("ConfirmSelectOk") + begin * method("ConnectionBlocked", 0, reason="low on memory")
    said = [(0.1, 0, GREETING + method("ConfirmSelect") + publish(b"x")), (0.2, 1, told)]
    said += [(0.3, 0, publish(b"y")), (3.0, 1, method("ConnectionUnblocked", 0))]
    return talk(5672, *said, (3.1, 1, method("BasicAck", delivery_tag=2, multiple=1)))


def timed_out(text: str) -> list[Problem]:
    """A server closes the channel of a consumer that got a message."""
    close = method("ChannelClose", reply_code=406, reply_text=f"PRECONDITION_FAILED - {text}")
    return talk(5672, *consume(), (1.0, 1, deliver(1, b"x")), (31.0, 1, close), (31.1, 0, method("ChannelCloseOk")))


def routed(kind: str, pattern: str, key: str, mandatory: int = 0) -> list[Problem]:
    """A client declares an exchange with one binding, and publishes."""
    asked = GREETING + method("ExchangeDeclare", exchange="x", exchange_type=kind)
    asked += method("QueueDeclare", queue="q") + method("QueueBind", queue="q", exchange="x", routing_key=pattern)
    told = method("ExchangeDeclareOk") + method("QueueDeclareOk", queue="q") + method("QueueBindOk")
    return talk(
        5672,
        (0.1, 0, asked),
        (0.2, 1, told),
        (0.3, 0, publish(b"x", exchange="x", routing_key=key, mandatory=mandatory)),
    )


def behind(each: int, *, others: int = 0) -> list[Problem]:
    """A queue gets a hundred messages a second; its consumer acknowledges ``each`` of them in that time.

    ``others``: consumers on connections that were not captured.
    """
    said, tag = consume(), 0
    said += [(0.3, 0, method("QueueDeclare", queue="jobs"))]
    said += [(0.4, 1, method("QueueDeclareOk", queue="jobs", consumer_count=1 + others))]
    for second in range(1, 7):
        said.append((second, 0, publish(b"job", routing_key="jobs") * 100))
        for _ in range(each):
            tag += 1
            said.append((second + 0.1, 1, deliver(tag, b"job")))
        said.append((second + 0.2, 0, method("BasicAck", delivery_tag=tag, multiple=1)))
    return talk(5672, *said)
