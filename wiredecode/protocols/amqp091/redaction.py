"""Rules of AMQP 0-9-1 for ``wiredecode anonymize``."""

from collections.abc import Iterator

from wiredecode.protocols.amqp091 import NAME
from wiredecode.protocols.amqp091.layers_tables import BYTES, STRING, pieces, problem_of
from wiredecode.protocols.shared.redaction import Disguises, read_rules


def parts(raw: bytes) -> Iterator[tuple[int, int, bool]]:
    """The texts and bytes of a field table; all of what is none."""
    if problem_of(raw):
        yield 0, len(raw), False
        return
    for each in pieces(raw, 0, len(raw)):
        if each.letter in (0, STRING, BYTES):
            yield each.start, each.stop, each.letter != BYTES


TABLES = ("arguments", "client_properties", "server_properties", "headers")
DISGUISES: Disguises = read_rules(NAME, amqp091={"parts": dict.fromkeys(TABLES, parts)})
