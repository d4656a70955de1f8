"""Which frames want an answer, where their type tells: of these, statistics count those that got none.

Of others (a NATS message with a reply subject, a Cursus batch, which may want no acknowledgement) the table of frames
does not tell whether somebody waits.
"""

from __future__ import annotations

from functools import cache


@cache
def request_types() -> dict[str, frozenset[str]]:
    """Protocol to those types of its frames that are always requests."""
    from wiredecode.protocols.cursus.names import COMMANDS
    from wiredecode.protocols.liftbridge import names as liftbridge
    from wiredecode.protocols.pravega.names import SUCCESSES
    from wiredecode.protocols.rabbitmq_stream import names as rabbitmq
    from wiredecode.protocols.tank.names import MESSAGES, PING

    return {
        "cursus": COMMANDS,
        "liftbridge": frozenset(liftbridge.MESSAGE_TYPES[code] for code in liftbridge.REQUESTS),
        "nats": frozenset({"PING"}),
        "pravega": frozenset(SUCCESSES) | {"SetupAppend", "ReadSegment"},
        "rabbitmq_stream": frozenset(rabbitmq.COMMANDS[code] for code in rabbitmq.CORRELATED),
        "tank": frozenset(name for code, name in MESSAGES.items() if code != PING),
    }
