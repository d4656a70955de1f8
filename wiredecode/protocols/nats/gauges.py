"""How far consumers of JetStream are, by the subjects for acks that the server makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.gauges import LAG, POSITION, Gauge, Reading

ACK = "$JS.ACK."
OLD_TOKENS, DOMAIN_TOKENS = 9, 11
"""Of ``$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>``; newer servers put the
domain and the hash of the account before the stream, and may add a token."""
NOT_DONE = (b"-NAK", b"+WPI")


class Acknowledged(NamedTuple):
    """What such a subject tells of a message that was delivered."""

    consumer: str
    """With its stream, printable."""
    delivered: int
    """How often, this time included."""
    sequence: int
    """In the stream."""
    pending: int


def acknowledged(subject: str) -> Acknowledged | None:
    """None: it is no subject for acks."""
    if not subject.startswith(ACK):
        return None
    tokens = subject.split(".")
    if len(tokens) >= DOMAIN_TOKENS:
        del tokens[2:4]
    if len(tokens) < OLD_TOKENS or not all(map(str.isdecimal, tokens[4:OLD_TOKENS])):
        return None
    _, _, stream, consumer, delivered, sequence, _, _, pending = tokens[:OLD_TOKENS]
    of = f"{printable(stream)}, consumer {printable(consumer)}"
    return Acknowledged(of, int(delivered), int(sequence), int(pending))


class Consumers(Gauge):
    """Messages that are left when one is delivered; the sequence in the stream that was acknowledged last."""

    types = frozenset({"MSG", "HMSG", "PUB", "HPUB"})

    def read(self, frame: Frame) -> Iterator[Reading]:
        values, delivered = frame.values, frame.sender == "server"
        told = acknowledged(values.get("reply" if delivered else "subject", ""))
        if told is None:
            return
        if delivered:
            yield Reading(LAG, told.consumer, told.pending)
        elif "copy_of" not in frame.generated and not bytes(values.get("data", b"")).startswith(NOT_DONE):
            yield Reading(POSITION, told.consumer, told.sequence)


GAUGES = (Consumers,)
