"""Recognising Kafka, cutting it into frames, and finding the next frame after a gap."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from wiredecode.fields.layer import Layer
from wiredecode.frames.identity import IdentityReader, texts
from wiredecode.frames.splitter import LengthPrefix, Number
from wiredecode.protocols.base import Generated, Start, generated_of
from wiredecode.protocols.kafka import NAME, PORTS, names
from wiredecode.protocols.kafka.conversation import KafkaConversation
from wiredecode.protocols.kafka.conversation_values import Produced
from wiredecode.protocols.kafka.evidence import MAX_BYTES, SEEKER
from wiredecode.protocols.kafka.layers import OTHERS, versions
from wiredecode.protocols.kafka.layers_records import Batch, Message
from wiredecode.protocols.kafka.layers_table import REQUESTS, RESPONSES
from wiredecode.protocols.reading import generated_inside
from wiredecode.protocols.shared.pairing import Newest, Request
from wiredecode.protocols.shared.proxy import LAYERS as PROXY_LAYERS
from wiredecode.protocols.shared.proxy import BehindProxy
from wiredecode.protocols.shared.redaction import Disguises, read_rules


def generated_fields() -> Iterator[tuple[str, Generated]]:
    """All fields that no layer declares."""
    yield from generated_of(NAME).items()
    inside: dict[str, list[type[Layer]]] = {path: [Message, Batch] for path in names.BATCHES}
    inside |= {path: versions(names.MEMBER_DATA[path.rpartition(".")[2]]).layers() for path in names.MEMBERS}
    for path, layers in inside.items():
        for layer in layers:
            yield from generated_inside(layer, path)


EVERY = (*REQUESTS.values(), *RESPONSES.values())


class Kafka(BehindProxy):
    """Apache Kafka: clients, brokers and controllers speak the same protocol."""

    name = NAME
    title = "Apache Kafka"
    ports = PORTS
    header_bytes = 8
    seeker = SEEKER
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

    def identities(self) -> Mapping[str | None, IdentityReader]:
        return dict.fromkeys(names.TYPES["identities"], partial(texts, names.NAMES["identity"]))

    def disguises(self) -> Disguises:
        return {**super().disguises(), **read_rules(NAME)}

    def conversation(self, start: Start) -> KafkaConversation:
        return KafkaConversation(start, self.topics, self.produced)

    def layers(self) -> Iterable[type[Layer]]:
        return [*(layer for message in EVERY for layer in versions(message.name).layers()), *OTHERS, *PROXY_LAYERS]

    def type_names(self) -> Iterable[str]:
        return (*(message.name for message in EVERY), "Request", "Response", "SaslToken")


PROTOCOL: Any = Kafka
