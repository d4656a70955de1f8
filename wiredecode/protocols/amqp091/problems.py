"""Problems between AMQP 0-9-1 clients and servers: what was closed, came back, was not taken, or waits."""

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.net.types import Connection
from wiredecode.protocols.amqp091 import names
from wiredecode.protocols.amqp091.flows import QueueFlows
from wiredecode.protocols.amqp091.messages import topic_of
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import Checks, FrameRef, Publishing, Rule, ref_of

CODES = codes_of("amqp091")
FULL_NS = 5_000_000_000
"""A consumer that takes this long for what its prefetch allows holds up its queue."""
CONTENTS = ("ContentHeader", "ContentBody")
Place = tuple[int, int, str]
"""Connection, channel and consumer tag."""


@dataclass(eq=False)
class ClosedChannels(Rule):
    """Servers close a channel, or the connection, because of an error."""

    types = frozenset({"ChannelClose", "ConnectionClose"})

    def frame(self, frame: Frame) -> None:
        code = frame.values.get("reply_code", 200)
        if frame.sender != "server" or code < 300:
            return
        what = "channel" if frame.type == "ChannelClose" else "connection"
        cause, who = frame.generated.get("cause"), short(frame.connection)
        title = f"the server closed a {what} of {who}: {names.outcome(code)}"
        title += f", caused by {cause}" if cause else ""
        key = frame.connection.number, code, cause
        code_of = CODES["channel-closed"] if what == "channel" else CODES["connection-closed"]
        problem = self.report.add(code_of, title, key, frame=frame)
        text = printable(frame.values.get("reply_text", ""))
        problem.detail(f"the server says: {text}")
        problem.likely, problem.alike = problem.code.cause_of(f"{code} {text}"), names.outcome(code)


@dataclass(eq=False)
class Returned(Rule):
    """Servers send messages back that no queue takes."""

    types = frozenset({"BasicReturn"})

    def frame(self, frame: Frame) -> None:
        topic, code = topic_of(frame.values), frame.values.get("reply_code", 0)
        title = f"messages that {short(frame.connection)} published to {topic} came back: {names.outcome(code)}"
        problem = self.report.add(CODES["returned"], title, (frame.connection.number, topic, code), frame=frame)
        problem.alike = topic


@dataclass(eq=False)
class Nacked(Rule):
    """Servers do not take published messages."""

    types = frozenset({"BasicNack"})

    def frame(self, frame: Frame) -> None:
        if frame.sender == "server":
            count = len(frame.confirmations) or 1
            title = f"the server did not take messages that {short(frame.connection)} published"
            self.report.add(CODES["nacked"], title, frame.connection.number, frame=frame, count=count)


@dataclass(eq=False)
class BlockedPublishers(Rule):
    """Servers stop reading from those that publish."""

    types = frozenset({"ConnectionBlocked", "ConnectionUnblocked"})
    _since: Newest[int, FrameRef] = field(default_factory=Newest)
    """By connection."""
    _reasons: Newest[int, str] = field(default_factory=Newest)

    def frame(self, frame: Frame) -> None:
        number = frame.connection.number
        if frame.type == "ConnectionBlocked":
            self._since.put(number, ref_of(frame))
            self._reasons.put(number, printable(frame.values.get("reason", "")))
        elif number in self._since:
            self._report(number, frame.time_ns, "")

    def _report(self, number: int, until_ns: int, end: str) -> None:
        ref, reason = self._since.pop(number), self._reasons.pop(number, "")
        seconds = (until_ns - ref.time_ns) / 1e9
        title = f"the server blocked {short(ref.connection)} for {seconds:.1f} s{end}: {reason}"
        problem = self.report.add(CODES["blocked"], title, number, frame=ref, until_ns=until_ns)
        problem.alike = reason

    def finish(self) -> None:
        for number in list(self._since):
            self._report(number, max(self.report.last_ns, self._since[number].time_ns), ", until the end")


@dataclass(eq=False)
class Prefetch(Rule):
    """Consumers that have got all that their prefetch allows, and do not acknowledge it."""

    types = frozenset({*CONTENTS, "BasicQos", "BasicAck", "BasicNack", "BasicReject", "ChannelClose", "BasicRecover"})
    _limits: Newest[tuple[int, int], int] = field(default_factory=Newest)
    """``prefetch_count`` by connection and channel."""
    _waiting: Newest[Place, dict[int, FrameRef]] = field(default_factory=Newest)
    """Deliveries without an ack, by the id of their frame."""
    _full: Newest[Place, FrameRef] = field(default_factory=Newest)
    """The delivery that filled it."""

    def frame(self, frame: Frame) -> None:
        place = frame.connection.number, frame.values.get("channel", 0)
        if frame.type == "BasicQos":
            self._limits.put(place, frame.values.get("prefetch_count", 0))
        elif frame.type in CONTENTS:
            if frame.acks is not None and (tag := frame.generated.get("consumer_tag")) and self._limits.get(place):
                self._delivered(frame, (*place, tag), self._limits[place])
        elif frame.sender == "client" and frame.type != "ChannelClose":
            self._settled(frame, place)
        else:
            for each in [each for each in self._waiting if each[:2] == place]:
                self._drop(each)

    def _delivered(self, frame: Frame, place: Place, limit: int) -> None:
        waiting = self._waiting.get_or_make(place, dict)
        if len(waiting) < limit:
            waiting[frame.id] = ref_of(frame)
            if len(waiting) == limit:
                self._full.put(place, waiting[frame.id])

    def _settled(self, frame: Frame, channel: tuple[int, int]) -> None:
        settled = {each.request for each in frame.confirmations}
        for place in [each for each in self._waiting if each[:2] == channel]:
            waiting = self._waiting[place]
            mine = settled & waiting.keys()
            if mine and (full := self._full.pop(place, None)) is not None:
                self._judge(place, full, frame.time_ns, "")
            for each in mine:
                del waiting[each]

    def _judge(self, place: Place, full: FrameRef, until_ns: int, end: str) -> None:
        seconds, limit = (until_ns - full.time_ns) / 1e9, self._limits.get(place[:2], 0)
        if until_ns - full.time_ns >= FULL_NS:
            who = f"consumer {place[2]} of {short(full.connection)}"
            title = f"{who} had {limit} messages, all that its prefetch allows"
            title += f", and acknowledged none for {seconds:.1f} s{end}"
            self.report.add(CODES["prefetch"], title, place, frame=full, until_ns=until_ns)

    def _drop(self, place: Place) -> None:
        self._full.pop(place, None)
        del self._waiting[place]

    def ended(self, connection: Connection) -> None:
        end = connection.health.end if connection.health is not None else None
        for place in [each for each in self._waiting if each[0] == connection.number]:
            full = self._full.pop(place, None)
            if full is not None and end is not None and self.report.all_captured(connection, 1 - full.side):
                self._judge(place, full, end.time_ns, ", until it ended")
            self._drop(place)

    def finish(self) -> None:
        for place, full in list(self._full.items()):
            if self.report.all_captured(full.connection, 1 - full.side):
                self._judge(place, full, self.report.last_ns, ", until the end")


CHECKS = Checks(
    codes=CODES,
    rules=(ClosedChannels, Returned, Nacked, BlockedPublishers, Prefetch),
    answered=frozenset({"ConnectionClose", "ConnectionStart", "ConnectionSecure", "ConnectionTune"}),
    pushes=frozenset({"BasicDeliver"}),
    topic="queue",
    flows=(QueueFlows,),
    shares="rabbitmq_stream",
    space="virtual host",
    covered=frozenset({"closed", "returned", "nacked", "rejected"}),
    publishes=dict.fromkeys(
        CONTENTS, Publishing(("exchange", "routing_key"), numbered_by="publish_number", part="routing_key")
    ),
)
