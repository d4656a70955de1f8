"""Recognising Pravega, cutting it into messages, and finding the next message after a gap."""

from collections.abc import Iterable

from wiredecode.fields.layer import Layer
from wiredecode.frames.splitter import LengthPrefix, Number
from wiredecode.protocols.base import Start, generated_of
from wiredecode.protocols.pravega import NAME, PORTS, evidence, names
from wiredecode.protocols.pravega.conversation import PravegaConversation
from wiredecode.protocols.pravega.layers import HEADER, Unknown
from wiredecode.protocols.pravega.layers_older import OLDER, proposal
from wiredecode.protocols.shared.proxy import LAYERS as PROXY_LAYERS
from wiredecode.protocols.shared.proxy import BehindProxy
from wiredecode.protocols.shared.redaction import Disguises, read_rules

GENERATED = generated_of("pravega")


class Pravega(BehindProxy):
    """Pravega's wire protocol, as released and as once proposed."""

    name = NAME
    title = "Pravega"
    ports = PORTS
    seeker = evidence.SEEKER
    dialects = (names.WIRE, *names.PROPOSALS)
    framing = LengthPrefix(
        Number(4, 4, 0, evidence.MAX_BODY, "a length of {value} is above {most}"),
        after=HEADER.size,
        header=HEADER.size,
        held=(Number(0, 4, -evidence.MAX_TYPE, evidence.MAX_TYPE, "{value} is no message type", signed=True),),
    )
    requests = {"pravega": frozenset({*names.SUCCESSES, *names.APPENDS, "SetupAppend", "ReadSegment"})}
    summary_keys = ("segment", "segment_name", "target", "source", "event_number", "offset", "num_events")
    generated = GENERATED

    def disguises(self) -> Disguises:
        return {**super().disguises(), **read_rules(NAME)}

    def conversation(self, start: Start) -> PravegaConversation:
        return PravegaConversation(start)

    def layers(self) -> Iterable[type[Layer]]:
        current: list[type[Layer]] = [*evidence.CURRENT.values(), Unknown]
        current += [layer for table in (evidence.EAGER, OLDER) for older in table.values() for layer in older]
        return [*current, *proposal(names.PROPOSAL).values(), *PROXY_LAYERS]

    def type_names(self) -> Iterable[str]:
        return [*super().type_names(), *(name for codes in names.PROPOSALS.values() for name in codes.values())]


PROTOCOL = Pravega
