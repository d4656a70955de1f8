"""Recognising Kafka, cutting it into frames, and finding the next frame after a gap."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from wiredecode.fields.layer import Layer
from wiredecode.frames.splitter import BAD, GOOD, Allowance, LengthPrefix, Number
from wiredecode.protocols.base import Found, Generated, Rejected, Start, Undecided, Verdict, generated_of
from wiredecode.protocols.kafka import NAME, PORTS, names
from wiredecode.protocols.kafka.conversation import KafkaConversation
from wiredecode.protocols.kafka.conversation_values import Produced
from wiredecode.protocols.kafka.evidence import FIRST_IDS, MAX_BYTES, RequestChain, ResponseChain
from wiredecode.protocols.kafka.layers import OTHERS, versions
from wiredecode.protocols.kafka.layers_records import Batch, Message
from wiredecode.protocols.kafka.layers_table import REQUESTS, RESPONSES
from wiredecode.protocols.reading import generated_inside
from wiredecode.protocols.shared.pairing import Newest, Request
from wiredecode.protocols.shared.proxy import LAYERS as PROXY_LAYERS
from wiredecode.protocols.shared.proxy import BehindProxy


def generated_fields() -> Iterator[tuple[str, Generated]]:
    """All fields that no layer declares."""
    yield from generated_of(NAME).items()
    inside: dict[str, list[type[Layer]]] = {path: [Message, Batch] for path in names.BATCHES}
    inside |= {path: versions(names.MEMBER_DATA[path.rpartition(".")[2]]).layers() for path in names.MEMBERS}
    for path, layers in inside.items():
        for layer in layers:
            yield from generated_inside(layer, path)


EVERY = (*REQUESTS.values(), *RESPONSES.values())
SEARCH_BYTES = 256 * 1024
"""While searching, no frame is waited for that is longer."""
MIN_BYTES = 16
"""Least bytes of two responses."""
FRONT = re.compile(
    rb"""(?=
    (?!\x00\x00\x00[\x00-\x07]) [\x00-\x0f].{3} \x00[\x00-\x60] \x00[\x00-\x18] [\x00-\x7f].{3}
    (?: \xff\xff | \x00[\x00-\x02] | (?P<named> (?:\x00[\x03-\xff] | \x01[\x00-\x2c]) [\x20-\x7e]))
    | (?!\x00\x00\x00[\x00-\x07]) [\x00-\x0f].{3} \x00\x07 \x00\x00
    | (?!\x00\x00\x00[\x00-\x03]) \x00.{3} (?!\x00{4}) [\x00-\x7f].{3}
    )""",
    re.DOTALL | re.VERBOSE,
)
"""Headers of requests, with a client's name or with none, and of responses; few other bytes look like one."""


class Kafka(BehindProxy):
    """Apache Kafka: clients, brokers and controllers speak the same protocol."""

    name = NAME
    title = "Apache Kafka"
    ports = PORTS
    header_bytes = 8
    framing = LengthPrefix(Number(0, 4, 0, MAX_BYTES), after=4, header=4)
    requests = {"kafka": frozenset(message.name for key, message in REQUESTS.items() if key)}
    summary_keys = ("error", "topics_named", "api_version", "group_id")
    generated = dict(generated_fields())
    column_types = dict.fromkeys(names.BATCHES, "list<struct>") | dict.fromkeys(names.MEMBERS, "json")

    def __init__(self) -> None:
        self.topics: Newest[bytes, str] = Newest()
        self.topics.put(names.METADATA_ID, names.METADATA_TOPIC)
        self.produced: Newest[Produced, Request] = Newest()

    def new_session(self) -> "Kafka":
        """Metadata on one connection names the topics of others, which copy what it produced."""
        return Kafka()

    def recognise_inner(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        """A request shows its protocol; responses do so on the protocol's port only."""
        requests = RequestChain(data, 0)
        good = requests.best >= GOOD and (started or port or requests.is_certain())
        if good or (started and requests.whole and (port or requests.whole >= RequestChain.most)):
            return Verdict(0, client=True)
        if started and requests.last.level != BAD and not final:
            return Undecided()
        if started and not port:
            return Rejected()
        if port:
            answered = ResponseChain(data, 0)
            ends = answered.end == len(data) and (final or not started)
            first = started and answered.before in FIRST_IDS
            if first or answered.is_likely(len(data)) or (answered.whole and ends):
                return Verdict(0, client=False)
        found = self.search(data, final=final)
        chain = RequestChain(data, found.position)
        if found.found and (port or chain.is_certain()):
            return Verdict(found.position, client=chain.best >= GOOD)
        return Rejected() if final else Undecided(found.position)

    def begin(self, data: bytes, *, final: bool) -> Found:
        """A segment that ends where a response does."""
        chain = ResponseChain(data, 0)
        return Found(0, True) if chain.whole and chain.end == len(data) else self.search(data, final=final)

    def search(self, data: bytes, *, final: bool) -> Found:
        """Find a request that may be whole, or responses with rising correlation ids; rejected bytes are passed."""
        behind, allowance = max(0, len(data) - MIN_BYTES), Allowance(data)
        for match in FRONT.finditer(data):
            position = match.start()
            if position >= behind:
                break
            chains = RequestChain(data, position), ResponseChain(data, position)
            for chain in chains:
                if chain.is_likely(len(data)):
                    return Found(position, True)
                if not final and chain.may_become_so(len(data)) and chain.last.end - position < SEARCH_BYTES:
                    return Found(position, False, min(each.need for each in chains if each.last.level != BAD))
            if not allowance.spend(chains[0].read):
                break
        return Found(behind, False)

    def conversation(self, start: Start) -> KafkaConversation:
        return KafkaConversation(start, self.topics, self.produced)

    def layers(self) -> Iterable[type[Layer]]:
        return [*(layer for message in EVERY for layer in versions(message.name).layers()), *OTHERS, *PROXY_LAYERS]

    def type_names(self) -> Iterable[str]:
        return (*(message.name for message in EVERY), "Request", "Response", "SaslToken")


PROTOCOL: Any = Kafka
