"""How far consumers of JetStream are, by the subjects for acks that the server makes."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.gauges import LAG, POSITION, Gauge, Reading

ACK = "$JS.ACK."
OLD_TOKENS, DOMAIN_TOKENS = 9, 11
"""Of ``$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>``; newer servers put the
domain and the hash of the account before the stream, and may add a token."""
NOT_DONE = (b"-NAK", b"+WPI")


class Consumers(Gauge):
    """Messages that are left when one is delivered; the sequence in the stream that was acknowledged last."""

    types = frozenset({"MSG", "HMSG", "PUB", "HPUB"})

    def read(self, frame: Frame) -> Iterator[Reading]:
        values, delivered = frame.values, frame.sender == "server"
        subject = values.get("reply" if delivered else "subject", "")
        if not subject.startswith(ACK) or "copy_of" in frame.generated:
            return
        tokens = subject.split(".")
        if len(tokens) >= DOMAIN_TOKENS:
            del tokens[2:4]
        _, _, stream, consumer, _, sequence, _, _, pending = tokens[:OLD_TOKENS]
        of = f"{printable(stream)}, consumer {printable(consumer)}"
        if delivered:
            yield Reading(LAG, of, int(pending))
        elif not bytes(values.get("data", b"")).startswith(NOT_DONE):
            yield Reading(POSITION, of, int(sequence))


GAUGES = (Consumers,)
