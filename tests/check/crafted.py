"""Conversations that raise a code of check, and such near it that must not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.check.support import check
from tests.net import craft
from tests.view.frames import CLIENT, HANDSHAKE, SERVER, packets
from wiredecode.capture import PacketBatch
from wiredecode.fields.layer import Layer
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.protocols.rabbitmq_stream.layers import Property
from wiredecode.protocols.rabbitmq_stream.layers_chunk import Chunk, ChunkEntry
from wiredecode.protocols.shared.problems import Problem

Said = tuple[int, Layer | bytes]

PATIENCE = 5.0
"""Seconds from the last message to the end of the capture."""


HEARTBEAT: Said = (CLIENT, layers.Heartbeat())


def rabbitmq(messages: Iterable[Said], later: float = PATIENCE, last: Said = HEARTBEAT) -> list[Problem]:
    """Problems of one connection; the capture ends with ``last``, ``later`` seconds after the last message."""
    *before, end = packets([*messages, last])
    return check(craft.batches([*before, (len(before) / 1000 + later, end)]))


def answer(key: int, correlation: int) -> Said:
    return SERVER, layers.LAYERS[key | 0x8000, 1](correlation_id=correlation, response_code=1)


def subscribed(number: int, name: str = "") -> list[Said]:
    correlation = 0x01020300 + number
    told = [Property(key="name", value=name)] if name else []
    asked = layers.Subscribe(
        correlation_id=correlation, subscription_id=number, stream="orders", credit=10, properties=told
    )
    return [(CLIENT, asked), answer(7, correlation)]


# Chunks.


def deliver(chunk_id: int, entries: list[ChunkEntry], **fields: int) -> Said:
    chunk = Chunk(chunk_id=chunk_id, timestamp=craft.START_NS // 1_000_000, entries=entries, **fields)
    return SERVER, layers.Deliver(subscription_id=1, chunk=chunk)


def damaged_chunk(*, damaged: bool) -> list[Problem]:
    fields = {"crc": 0x01020304} if damaged else {}
    return rabbitmq([*subscribed(1), deliver(0, [ChunkEntry(data=b"body")], **fields)])


def active_consumers(turns: Iterable[int]) -> list[Problem]:
    """Subscriptions of one name become active, in this order."""
    numbers = list(turns)
    said = [each for number in sorted(set(numbers)) for each in subscribed(number, "billing")]
    for place, number in enumerate(numbers):
        correlation = 0x0A0B0C00 + place
        said += [
            (SERVER, layers.ConsumerUpdate(correlation_id=correlation, subscription_id=number, active=True)),
            (CLIENT, layers.LAYERS[0x801A, 1](correlation_id=correlation, response_code=1, offset_type=1)),
        ]
    return rabbitmq(said)


# Segments.


def sent_again(end: bytes) -> list[Problem]:
    """A Subscribe comes twice, the second time with another end."""
    *before, subscribe, answer, heartbeat = packets([*subscribed(1), (CLIENT, layers.Heartbeat())])
    return check(craft.batches([*before, subscribe, answer, subscribe[: -len(end)] + end, heartbeat]))


# Sizes.


def large_publish(frame_max: int) -> list[Problem]:
    """6000 bytes of messages, with a limit that was negotiated."""
    tunes = [(side, layers.Tune(frame_max=frame_max, heartbeat=60)) for side in (SERVER, CLIENT)]
    publish = layers.Publish(publisher_id=7, messages=[layers.PublishedMessage(publishing_id=1, data=bytes(6000))])
    declare = layers.DeclarePublisher(correlation_id=3, publisher_id=7, stream="orders")
    confirm = layers.PublishConfirm(publisher_id=7, publishing_ids=[1])
    opened = [(CLIENT, layers.Open(correlation_id=2, virtual_host="/")), answer(21, 2)]
    return rabbitmq([*tunes, *opened, (CLIENT, declare), answer(1, 3), (CLIENT, publish), (SERVER, confirm)], later=1.5)


# Publishers.


def published_twice(again: bytes, first: bytes = b"body") -> list[Problem]:
    """A publisher with a name publishes one id twice: ``first``, then ``again``."""
    declare = layers.DeclarePublisher(correlation_id=3, publisher_id=7, publisher_reference="orders", stream="orders")
    said: list[Said] = [(CLIENT, declare), answer(1, 3)]
    for body in (first, again):
        message = layers.PublishedMessage(publishing_id=17, data=body)
        said.append((CLIENT, layers.Publish(publisher_id=7, messages=[message])))
        said.append((SERVER, layers.PublishConfirm(publisher_id=7, publishing_ids=[17])))
    return rabbitmq(said)


def reset_inside_a_publish() -> list[Problem]:
    """2,000 of 5,133 bytes were sent."""
    talk = craft.Talk()
    made: list[bytes | tuple[float, bytes]] = [*talk.handshake()]
    declare = layers.DeclarePublisher(correlation_id=3, publisher_id=7, stream="orders")
    for side, layer in (*HANDSHAKE, (CLIENT, declare), answer(1, 3)):
        made += talk.send(side, bytes(layer))
    message = layers.PublishedMessage(publishing_id=1, data=bytes(5112))
    publish = bytes(layers.Publish(publisher_id=7, messages=[message]))
    reset = talk.packet(CLIENT, flags=craft.RST | craft.ACK)
    made += [*talk.send(CLIENT, publish[:2000]), talk.ack(SERVER), (0.5, reset)]
    return check(craft.batches(made))


# Cursus: texts.


def cursus(*turns: str) -> list[Problem]:
    """Commands and replies in turns."""
    talk = craft.Talk(server=("10.0.0.2", 9000))
    made = talk.handshake()
    for place, text in enumerate(turns):
        body = text.encode() if place % 2 else b"\0\0" + text.encode()
        made += talk.send(SERVER if place % 2 else CLIENT, len(body).to_bytes(4, "big") + body)
    return check(craft.batches(made))


# TLS: a ClientHello with one cipher, and an alert.


def tls(level: int, alert: int) -> list[Problem]:
    talk = craft.Talk(server=("10.0.0.2", 5551))
    hello = b"\x03\x03" + bytes(range(32)) + b"\0\0\x02\x13\x01\x01\0"
    hello = b"\x01" + len(hello).to_bytes(3) + hello
    made = talk.handshake() + talk.send(CLIENT, b"\x16\x03\x01" + len(hello).to_bytes(2) + hello)
    return check(craft.batches(made + talk.send(SERVER, bytes([21, 3, 3, 0, 2, level, alert]))))


# The clock.


def stamped(talk: craft.Talk, side: int, payload: bytes, ticks: int) -> bytes:
    """A packet with the TCP timestamp ``ticks``."""
    (packet,) = talk.send(side, payload)
    ip, header, body = packet[14:34], packet[34:54], packet[54:]
    options = b"\x01\x01\x08\x0a" + ticks.to_bytes(4, "big") + bytes(4)
    header = header[:12] + bytes([8 << 4]) + header[13:] + options
    total = (len(ip) + len(header) + len(body)).to_bytes(2, "big")
    return packet[:14] + ip[:2] + total + ip[4:] + header + body


def pause(seconds: float, ticks: int) -> list[Problem]:
    """Messages of both sides around a pause; their clocks count ``ticks`` meanwhile."""
    return check(_paused(seconds, ticks))


def _paused(seconds: float, ticks: int) -> Iterator[PacketBatch]:
    talk = craft.Talk()
    made: list[bytes | tuple[float, bytes]] = [*talk.handshake()]
    for place, (side, layer) in enumerate(HANDSHAKE):
        made.append(stamped(talk, side, bytes(layer), 0x01020304 + place))
    for place in range(6):
        beat = stamped(talk, place % 2, bytes(layers.Heartbeat()), 0x01020304 + ticks + place)
        made.append((0.1 + seconds + place / 1000, beat))
    return craft.batches(made)


# NATS: a publisher and a subscriber.


def subjects(*said: tuple[float, str, int, bytes]) -> list[Problem]:
    """Conversations with a NATS server: ``(time, client, direction, text)``; 0 is from the client."""
    names = [*dict.fromkeys(name for _, name, *_ in said)]
    talks = {name: craft.Talk((f"10.0.0.{3 + at}", 40003 + at), ("10.0.0.9", 4222)) for at, name in enumerate(names)}
    made: list[tuple[float, bytes]] = []
    for name, talk in talks.items():
        made += [(0.1, each) for each in talk.handshake()]
        hello = f'CONNECT {{"verbose":false,"lang":"go","version":"1.0","name":"{name}"}}\r\nPING\r\n'
        info = b'INFO {"server_id":"A","version":"2.10.0","max_payload":1048576}\r\n'
        made += [(0.1, each) for each in talk.send(1, info)]
        made += [(0.2, each) for each in (*talk.send(0, hello.encode()), *talk.send(1, b"PONG\r\n"))]
    for at, name, direction, text in said:
        made += [(at, each) for each in (*talks[name].send(direction, text), talks[name].packet(1 - direction))]
    return [each for each in check(craft.batches(made)) if each.severity != "note"]


def rounds(
    count: int, *, every: float = 0.01, to: str = "orders.new", ahead: int = 0, reply: str = ""
) -> list[Problem]:
    """A client publishes each message that it gets; ``ahead``: it publishes that many before it gets the first one."""
    said: list[tuple[float, str, int, bytes]] = [(0.3, "relay", 0, b"SUB orders.> 1\r\n")]
    for number in range(count + ahead):
        at = 1 + number * every
        if number < count:
            said.append((at + ahead * every, "relay", 1, b'MSG orders.new 1 9\r\n{"id":17}\r\n'))
        said.append((at + every / 2, "relay", 0, f"PUB {to} {reply}9\r\n".encode() + b'{"id":17}\r\n'))
    return subjects(*sorted(said, key=lambda each: each[0]))


def begins_anew(lives: int, *, known: bool = False, more: int = 4) -> list[Problem]:
    """A client publishes the same messages to a stream in each life, and ``more`` each time; ``known``: with ids."""
    said: list[tuple[float, bytes]] = []
    for life in range(lives):
        talk = craft.Talk(("10.0.0.3", 40003 + life), ("10.0.0.9", 4222))
        info = talk.send(1, b'INFO {"server_id":"A","version":"2.10.0","max_payload":1048576}\r\n')
        hello = b'CONNECT {"verbose":false,"lang":"go","version":"1.0","name":"importer"}\r\nPING\r\n'
        hello += f"SUB _INBOX.{life}.* 1\r\n".encode()
        begin, sequence = life * 5.0, 1000 * life
        said += [(begin, each) for each in (*talk.handshake(), *info, *talk.send(0, hello), *talk.send(1, b"PONG\r\n"))]
        for number in range(12 + more * life):
            head = f"NATS/1.0\r\nNats-Msg-Id: {number}\r\n\r\n".encode() if known else b"NATS/1.0\r\n\r\n"
            body = f"line {number}".encode()
            verb = f"HPUB lines _INBOX.{life}.{number} {len(head)} {len(head) + len(body)}\r\n".encode()
            at = begin + 0.2 + number / 10
            ack = f'{{"stream":"LINES","seq":{sequence + number + 1}}}'.encode()
            answer = f"MSG _INBOX.{life}.{number} 1 {len(ack)}\r\n".encode() + ack + b"\r\n"
            said += [(at, each) for each in (*talk.send(0, verb + head + body + b"\r\n"), *talk.send(1, answer))]
        said += [(begin + 3, talk.packet(side, flags=craft.FIN | craft.ACK)) for side in (0, 1)]
    return [each for each in check(craft.batches(said)) if each.name == "flow.sent-again"]


def apart(published: str, subscribed: str, count: int = 12) -> list[Problem]:
    """One client publishes to a subject, another one subscribes to a subject and gets nothing."""
    writer, reader = (craft.Talk((f"10.0.0.{each}", 40000 + each), ("10.0.0.9", 4222)) for each in (3, 4))
    said: list[tuple[float, bytes]] = []
    for talk, name in ((reader, "worker"), (writer, "orders-api")):
        said += [(0.1, each) for each in talk.handshake()]
        said += [
            (0.1, each) for each in talk.send(1, b'INFO {"server_id":"A","version":"2.10.0","max_payload":1048576}\r\n')
        ]
        hello = f'CONNECT {{"verbose":false,"lang":"go","version":"1.0","name":"{name}"}}\r\nPING\r\n'
        said += [(0.2, each) for each in (*talk.send(0, hello.encode()), *talk.send(1, b"PONG\r\n"))]
    said += [(0.3, each) for each in (*reader.send(0, f"SUB {subscribed} 1\r\n".encode()), reader.packet(1))]
    for number in range(count):
        for each in (*writer.send(0, f"PUB {published} 3\r\nabc\r\n".encode()), writer.packet(1)):
            said.append((1.0 + number / 4, each))
    return [each for each in check(craft.batches(said)) if each.severity != "note"]
