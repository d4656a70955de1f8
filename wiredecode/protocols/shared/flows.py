"""The way of messages as frames show it: from publishers to a topic, and to consumers.

A protocol offers :class:`FlowReader` classes (``Checks.flows``); :mod:`wiredecode.flows` adds up what they read. The
state of a reader has to be bounded, and to concern one connection at a time: flows of two halves of the connections are
added.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from sys import intern
from typing import Any, ClassVar, NamedTuple

import orjson
from crc32c import crc32c

from wiredecode.fields import printable
from wiredecode.fields.credentials import is_secret_name
from wiredecode.frames.frame import DAMAGED, Frame
from wiredecode.patterns import pattern
from wiredecode.protocols.shared.pairing import Newest

PUBLISH, CONFIRM, REFUSE, DELIVER = "publish", "confirm", "refuse", "deliver"
"""Messages go to a broker, which takes or refuses them, and on to a consumer."""
STORE = "store"
"""A consumer says up to where it is done: it acknowledges, commits, or stores an offset."""
LOOKUP = "lookup"
"""It asks for the position that it has stored."""
STALL = "stall"
"""The server delivers nothing until the client answers."""
LEAVE = "leave"
"""A consumer wants no more: from now on, or after :attr:`Step.messages`, which it has got now."""
SUBSCRIBE, PULL, EMPTY = "subscribe", "pull", "empty"
"""A consumer asks for messages from now on, once, or in vain."""
PASS = "pass"
"""A client publishes a message that it got, on the topic :attr:`Step.group`; ``messages``: how often it did so quickly,
``again``: it passes this one on for the second time."""
DONE = "done"
"""It acknowledges a message that has no position, :attr:`Step.waited_ns` after it came."""
REJECT = "reject"
"""A consumer says that it does not do a message, and does not want it again; the topic may be empty."""
SAMPLE = "sample"
"""A message that was counted before shows its contents."""
GOT = "got"
"""The same of a message that came to a consumer."""
SPACE = "space"
"""The topics of a connection are those of an account (``topic``); or of a server, ``log``, those of a cluster."""
MEMBER = "member"
"""A client says on this connection who it is, or which group it is in; its messages may come on another one."""
SETTING = "setting"
"""A choice of the client, as the connection shows it: its name (``topic``) and value (``start``)."""
FIRST, LATEST = "first", "latest"
"""Where a consumer begins."""
MAX_KNOWN = 65_536
"""Subscriptions, requests and the like that a reader remembers."""
SAMPLES, SLOW, MAX_SLOW, MAX_SAMPLES = 256, 100, 4096, 20_000
"""Messages whose contents are compared: of a connection; of one with at most 100 per second; of a capture."""
MAX_BODY, MAX_FIELDS, MAX_VALUE = 1024, 8, 64
"""Bytes of a body that is kept, fields of one that are known again, and bytes of their values."""
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
    body: bytes = b""
    """Empty if it is long."""
    headers: Sequence[tuple[str, str | bytes]] = ()


class PublishedContent(NamedTuple):
    """A message that is published."""

    key: bytes | None
    body: bytes | None
    once: str
    """The id by which its server knows it; empty: it has none."""
    headers: Sequence[tuple[str, str | bytes]] = ()


class Sampler:
    """Takes samples of the first messages of each connection."""

    def __init__(self) -> None:
        self._taken: Newest[int, tuple[int, int]] = Newest(MAX_KNOWN)
        """By connection: number of messages, and time of the first."""
        self._samples = 0

    def wants(self, frame: Frame) -> bool:
        if self._samples >= MAX_SAMPLES:
            return False
        taken, since_ns = self._taken.get(frame.connection.number, (0, 0))
        return taken < SAMPLES or taken < min(MAX_SLOW, (frame.time_ns - since_ns) * SLOW // 1_000_000_000)

    def take(self, frame: Frame, count: int, messages: Iterable[PublishedContent]) -> Sequence[MessageSample]:
        """Samples of ``count`` messages."""
        connection, time_ns = frame.connection.number, frame.time_ns
        taken, since_ns = self._taken.get(connection, (0, time_ns))
        self._taken.put(connection, (taken + count, since_ns))
        samples = [sample_of(each, time_ns, frame.number) for each in islice(messages, SAMPLES)]
        self._samples += len(samples)
        return samples


def sample_of(message: PublishedContent, time_ns: int, frame: int) -> MessageSample:
    key, body, once, headers = message
    number, body = None if key is None else crc32c(key), body or b""
    content, known = crc32c(body, number or 0), crc32c(once.encode()) if once else None
    kept = body if len(body) <= MAX_BODY else b""
    return MessageSample(number, content, not body, known, time_ns, frame, kept, tuple(headers[:MAX_FIELDS]))


def fields_of(sample: MessageSample) -> Sequence[tuple[str, int]]:
    """The names of values by which messages differ, and their numbers, or checksums of texts.

    Of the first members of a JSON object and of those inside it (``order.id``), of the words of another body, of the
    headers and the key. Times of the message and credentials are left out.
    """
    fields = [] if sample.key is None else [(KEY, STRING + sample.key)]
    for name, value in sample.headers:
        text = value if isinstance(value, bytes) else value.encode()
        if 0 < len(text) <= MAX_VALUE:
            fields.append((f"header {name}", number_of(text)))
    fields += members_of(sample.body)
    return [each for each in fields if not is_clock(each[1], sample.time_ns) and not names_secret(each[0])]


def text_of(sample: MessageSample, name: str) -> str:
    """The value of a field, by its name in :func:`fields_of`; empty: it is not there."""
    for header, value in sample.headers:
        if name == f"header {header}":
            return printable(value if isinstance(value, str) else value.decode(errors="replace"))
    if name in NAMES:
        return next((word.decode() for word in islice(words_of(sample.body), NAMES.index(name), None)), "")
    member: Any = orjson.loads(sample.body) if sample.body.startswith(b"{") else {}
    for part in name.split("."):
        member = member.get(part, "") if isinstance(member, dict) else ""
    return printable(str(member))


names_secret = lru_cache(maxsize=4096)(is_secret_name)


def number_of(text: bytes) -> int:
    return int(text) if text.isdigit() else STRING + crc32c(text)


KEY, COUNT = "key", " (number)"
"""Name of the key; end of the name of a list's length."""
DAY_NS = 86_400_000_000_000
DATE = pattern(r"\d{4}-\d\d-\d\d[T ]\d\d:")


def is_clock(value: int, time_ns: int) -> bool:
    """Whether a number is the time of its message, in s, ms, us or ns."""
    return value > 1_000_000_000 and any(abs(value * unit - time_ns) < DAY_NS for unit in (10**9, 10**6, 1000, 1))


def members_of(body: bytes) -> Sequence[tuple[str, int]]:
    try:
        if body.startswith(b"{"):
            return [*islice(numbered(orjson.loads(body).items()), MAX_FIELDS)]
    except orjson.JSONDecodeError:
        pass
    return [(NAMES[at], number_of(word)) for at, word in enumerate(islice(words_of(body), MAX_FIELDS))]


def words_of(body: bytes) -> Iterator[bytes]:
    """The words of a body that is no JSON; of a binary one those that are long enough to be meant."""
    return (match[0] for match in (WORD if body.isascii() else LONG_WORD).finditer(body))


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
        elif isinstance(value, list):
            yield intern(f"{before}{name}{COUNT}"), len(value)


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
    counts: ClassVar[bool] = True
    """Whether it reads publishes and deliveries; else they are the messages of the frames."""
    numbered: ClassVar[bool] = True
    """Whether offsets count messages, and not bytes."""

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
