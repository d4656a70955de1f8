"""Recognises TANK, divides it into frames, and finds the next frame after a gap."""

from collections.abc import Iterable, Mapping
from functools import partial

from wiredecode.fields.layer import Layer
from wiredecode.frames.identity import IdentityReader, texts
from wiredecode.frames.splitter import LengthPrefix, Number
from wiredecode.protocols.base import Split, Start, generated_of
from wiredecode.protocols.shared.proxy import LAYERS as PROXY_LAYERS
from wiredecode.protocols.shared.proxy import BehindProxy
from wiredecode.protocols.shared.redaction import Disguises, Rules
from wiredecode.protocols.tank import NAME, PORTS
from wiredecode.protocols.tank.conversation import TankConversation
from wiredecode.protocols.tank.evidence import MAX_PAYLOAD_BYTES, SEEKER
from wiredecode.protocols.tank.layers import HEADER, REQUESTS, RESPONSES, Unknown
from wiredecode.protocols.tank.names import CODEC_MASK, MESSAGES, PING

GENERATED = generated_of("tank")


def is_compressed(owner: Layer, name: str) -> bool:
    """Message sets of bundles with a codec, and fields that cannot be distinguished from them."""
    return name in ("message_set", "undecided") and bool(owner.fields.get("flags", 0) & (CODEC_MASK | 0x80))


class Tank(BehindProxy):
    """TANK, the broker of phaistos-networks; clients and replicas speak the same protocol."""

    name = NAME
    title = "TANK"
    ports = PORTS
    seeker = SEEKER
    framing = LengthPrefix(
        Number(1, 4, 0, MAX_PAYLOAD_BYTES, "a payload of {value} bytes is above the limit of {most}", little=True),
        after=HEADER.size,
        header=HEADER.size,
    )
    requests = {"tank": frozenset(name for code, name in MESSAGES.items() if code != PING)}
    summary_keys = ("topic", "partition", "error", "request_id")
    generated = GENERATED
    column_types = {"tank.topic": "string", "tank.partition": "uint16"}  # generated in messages without these fields

    def split_inner(self, data: bytes) -> Split:
        """A header whose length is out of bounds is a frame: brokers close the connection then."""
        split = self.framing.split(data)
        if split.bad is not None:
            split.ends.append((split.ends[-1] if split.ends else 0) + HEADER.size)
        return split

    def disguises(self) -> Disguises:
        return {**super().disguises(), NAME: Rules(addresses=frozenset({"endpoint"}), compressed=is_compressed)}

    def identities(self) -> Mapping[str | None, IdentityReader]:
        return dict.fromkeys(("Consume", "Produce", "DiscoverPartitions"), partial(texts, {"name": "client_id"}))

    def conversation(self, start: Start) -> TankConversation:
        return TankConversation(start, self.ports)

    def layers(self) -> Iterable[type[Layer]]:
        return [*dict.fromkeys([*REQUESTS.values(), *RESPONSES.values()]), Unknown, *PROXY_LAYERS]


PROTOCOL = Tank
