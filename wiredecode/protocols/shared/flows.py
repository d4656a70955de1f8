"""The way of messages as frames show it: from publishers to a topic, and to consumers.

A protocol offers :class:`FlowReader` classes (``Checks.flows``); :mod:`wiredecode.flows` adds up what they read. The
state of a reader has to be bounded, and to concern one connection at a time: flows of two halves of the connections are
added.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from sys import intern
from typing import Any, ClassVar, NamedTuple

import orjson
from crc32c import crc32c

from wiredecode.frames.frame import DAMAGED, Frame
from wiredecode.patterns import pattern
from wiredecode.protocols.shared.pairing import Newest

PUBLISH, CONFIRM, REFUSE, DELIVER = "publish", "confirm", "refuse", "deliver"
"""Messages go to a broker, which takes or refuses them, and on to a consumer."""
STORE = "store"
"""A consumer says up to where it is done: it acknowledges, commits, or stores an offset."""
STALL = "stall"
"""The server delivers nothing until the client answers."""
LEAVE = "leave"
"""A consumer wants no more: from now on, or after :attr:`Step.messages`, which it has got now."""
SUBSCRIBE, PULL, EMPTY = "subscribe", "pull", "empty"
"""A consumer asks for messages from now on, once, or in vain."""
PASS = "pass"
"""A client publishes a message that it got, on the topic :attr:`Step.group`; ``messages``: how often it did so quickly,
``again``: it passes this one on for the second time."""
SPACE = "space"
"""The topics of a connection are those of an account (``topic``); or of a server, ``log``, those of a cluster."""
MEMBER = "member"
"""A client says on this connection who it is, or which group it is in; its messages may come on another one."""
SETTING = "setting"
"""A choice of the client, as the connection shows it: its name (``topic``) and value (``start``)."""
FIRST, LATEST, STORED = "first", "latest", "stored"
"""Where a consumer begins."""
MAX_KNOWN = 65_536
"""Subscriptions, requests and the like that a reader remembers."""
SAMPLES, MAX_SAMPLES = 2048, 20_000
"""Messages of a connection and topic whose contents are compared, and of a capture."""
MAX_BODY, MAX_FIELDS, MAX_VALUE = 4096, 8, 64
"""Bytes of a body whose fields are read, fields of one that are known again, and bytes of their values."""
STRING = 1 << 64
"""Added to the checksums of texts: they are no numbers."""


class MessageSample(NamedTuple):
    """A message, known again by checksums."""

    key: int | None
    """None: it has no key."""
    content: int
    """Of key and body."""
    empty: bool
    """It has no body."""
    once: int | None = None
    """Of the id by which its server knows whether it has the message, and stores it once; None: it has no id."""
    time_ns: int = 0
    frame: int = 0
    fields: Sequence[tuple[str, int]] = ()
    """Of the first members of a JSON object, or words of a text, and of the key: names, numbers or checksums."""


class Sampler:
    """Takes samples of the first messages of each connection to a topic."""

    def __init__(self) -> None:
        self._taken: Newest[tuple[int, str], int] = Newest(MAX_KNOWN)
        """Messages by connection and topic, also those that no samples were taken of."""
        self._samples = 0

    def wants(self, connection: int, topic: str) -> bool:
        return self._samples < MAX_SAMPLES and self._taken.get((connection, topic), 0) < SAMPLES

    def take(
        self, frame: Frame, topic: str, count: int, messages: Iterable[tuple[bytes | None, bytes | None, str]]
    ) -> Sequence[MessageSample]:
        """Samples of ``count`` messages, of which each is a key, a body, and the id by which its server knows it."""
        key = frame.connection.number, topic
        self._taken.put(key, self._taken.get(key, 0) + count)
        samples = [sample_of(*each, frame.time_ns, frame.number) for each in islice(messages, SAMPLES)]
        self._samples += len(samples)
        return samples


def sample_of(key: bytes | None, body: bytes | None, once: str, time_ns: int, frame: int) -> MessageSample:
    number = None if key is None else crc32c(key)
    content, known = crc32c(body or b"", number or 0), crc32c(once.encode()) if once else None
    fields = [each for each in fields_of(body or b"") if not is_clock(each[1], time_ns)]
    if number is not None:
        fields.append((KEY, STRING + number))
    return MessageSample(number, content, not body, known, time_ns, frame, fields)


KEY = "key"
DAY_NS = 86_400_000_000_000
DATE = pattern(r"\d{4}-\d\d-\d\d[T ]\d\d:")


def is_clock(value: int, time_ns: int) -> bool:
    """Whether a number is the time of its message, in s, ms, us or ns."""
    return value > 1_000_000_000 and any(abs(value * unit - time_ns) < DAY_NS for unit in (10**9, 10**6, 1000, 1))


def fields_of(body: bytes) -> Sequence[tuple[str, int]]:
    """See :attr:`MessageSample.fields`; those of an object inside have its name and a dot before theirs."""
    if len(body) > MAX_BODY:
        return ()
    try:
        if body.startswith(b"{"):
            return [*islice(numbered(orjson.loads(body).items()), MAX_FIELDS)]
    except orjson.JSONDecodeError:
        pass
    words = WORD if body.isascii() else LONG_WORD
    texts = (match[0] for match in islice(words.finditer(body), MAX_FIELDS))
    return [(NAMES[at], int(text) if text.isdigit() else STRING + crc32c(text)) for at, text in enumerate(texts)]


WORD, LONG_WORD = pattern(rb"[\w.@:/-]{1,64}"), pattern(rb"[\w.@:/-]{8,64}")
NAMES = [f"word {number}" for number in range(1, MAX_FIELDS + 1)]


def numbered(members: Iterable[tuple[str, Any]], before: str = "") -> Iterator[tuple[str, int]]:
    """Numbers and checksums of texts, of values that say enough and are short enough to be an id."""
    for name, value in members:
        if isinstance(value, dict) and not before:
            yield from numbered(value.items(), f"{name}.")
        elif isinstance(value, str) and 0 < len(value) <= MAX_VALUE and not DATE.match(value):
            yield intern(f"{before}{name}"), STRING + crc32c(value.encode())
        elif isinstance(value, int) and not isinstance(value, bool):
            yield intern(f"{before}{name}"), value


class Step(NamedTuple):
    """One step of messages, at the time of the frame that shows it."""

    what: str
    topic: str
    """Stream, topic or subject, printable; of :data:`SUBSCRIBE` it may have wildcards."""
    partition: int | None = None
    group: str = ""
    """The sharers of a topic: a consumer group, a durable consumer, a queue group."""
    first: int | None = None
    """Offset of the first message; of :data:`STORE` that of the last one, or of the next, as the protocol has it."""
    messages: int = 1
    size: int = 0
    """Bytes of the messages, about."""
    log: str = ""
    """The log that the offsets count in, if that is not the topic: a stream that takes several subjects."""
    start: str = ""
    """Of :data:`SUBSCRIBE`: where the consumer begins."""
    waited_ns: int | None = None
    """Time that the first message waited in its client for the last one."""
    lag: int | None = None
    """Messages that the consumer has not got yet."""
    again: bool = False
    """The broker says that it delivered it before."""
    samples: Sequence[MessageSample] = ()
    """Some of the messages that are published, if the reader takes samples."""
    number: int | None = None
    """Number of the delivery at its consumer: holes were delivered to others, or not captured."""


class FlowReader:
    """Reads steps off frames."""

    types: ClassVar[frozenset[str]] = frozenset()
    """Message types that it reads, of its protocol."""

    def read(self, frame: Frame) -> Iterable[Step]:
        """The steps that a frame of :attr:`types` shows; frames come in order."""
        raise NotImplementedError


def read_steps(reader: FlowReader, frame: Frame) -> Iterable[Step]:
    """Steps of a frame; none if it is truncated, or has odd values."""
    try:
        steps = reader.read(frame)
        return steps if type(steps) is tuple else [*steps]
    except DAMAGED:
        return ()
