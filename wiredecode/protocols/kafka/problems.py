"""Problems between Kafka clients and brokers."""

from __future__ import annotations

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.kafka.conversation_values import errors_in
from wiredecode.protocols.kafka.layers_table import ERRORS
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.problems import Checks, Publishing, Rule

CODES = codes_of("kafka")
NOT_LEADER = frozenset({5, 6, 74, 75})
"""No leader, another leader, and leader epochs that are too old or too new."""

WAITS = frozenset({"FetchRequest", "ShareFetchRequest", "JoinGroupRequest", "SyncGroupRequest"})
"""Requests that the broker answers when there is something to say."""


class Authentication(Rule):
    """SASL exchanges that failed."""

    types = frozenset({"SaslAuthenticateResponse", "SaslHandshakeResponse"})

    def frame(self, frame: Frame) -> None:
        error = frame.values.get("error", 0)
        if error:
            name = frame.connection.who.get("name", "a client")
            message = printable(frame.values.get("error_message") or ERRORS.get(error, str(error)))
            self.report.add(CODES["sasl-failed"], f"{name} could not log in: {message}", (name, message), frame=frame)


class Leadership(Rule):
    """Requests for partitions to a broker that does not lead them."""

    types = frozenset({"ProduceResponse", "FetchResponse", "ListOffsetsResponse"})

    def frame(self, frame: Frame) -> None:
        count = sum(code in NOT_LEADER for code in errors_in(frame.values))
        if count:
            server = frame.source
            topics = frame.generated.get("topics_named", "partitions")
            what = f"{server} does not lead {topics}"
            self.report.add(CODES["not-leader"], what, (server, topics), frame=frame)


CHECKS = Checks(
    codes=CODES,
    rules=(Authentication, Leadership),
    waits=WAITS,
    publishes={"ProduceRequest": Publishing(("topics_named",))},
)
