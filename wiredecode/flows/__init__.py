"""Flows: messages of each publisher to a topic, and of a topic to each consumer, in all protocols.

    map, one connection alone     frames ▶ steps (protocols/*/flows.py) ▶ flows of the connection
    reduce                        flows ▶ rows (wiredecode.flows.table), problems (wiredecode.check.flows)

Flows are values of bounded size: those of two halves of the connections are added (``a + b``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log10
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from wiredecode.dataclasses import dataclass, field, replace
from wiredecode.fields import printable
from wiredecode.flows.intervals import Intervals
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import client_side
from wiredecode.frames.message import DELIVER, PUBLISH, FrameMessages, Messages
from wiredecode.net.types import Connection
from wiredecode.protocols.checks import ByProtocol, by_type
from wiredecode.protocols.shared import flows
from wiredecode.protocols.shared.flows import FlowReader, Step, read_steps
from wiredecode.protocols.shared.pairing import Newest

if TYPE_CHECKING:
    from wiredecode.dissect.dissector import Demand
    from wiredecode.protocols.shared.problems import Checks

__all__ = ["OTHERS", "Flow", "FlowKey", "Flows", "Intervals", "Party"]

MAX_FLOWS = 20_000
"""Flows that are kept separately; those of further topics of these connections are one, of the topic :data:`OTHERS`."""
MAX_UNNUMBERED = 64
"""Publishes without an offset whose times are kept: how many came later than a time is known to some per cent."""
MAX_STORES = 512
"""Positions of a consumer that are kept with their times, evenly over its life."""
MAX_TIMES = 2048
"""Messages of a flow whose times are kept, evenly over its life: for the time from publish to delivery."""
MAX_SENT = 65_536
"""Publishes that wait for their copies."""
MAX_NEWEST, MAX_SAMPLES = 4096, 2048
OTHERS = "(others)"


class Party(NamedTuple):
    """A client, as its connection shows it."""

    connection: int
    protocol: str
    name: str
    host: str
    user: str
    space: str
    """Virtual host, account or cluster: topics of different ones are different."""
    group: str
    server: str
    product: str
    since_ns: int
    until_ns: int
    is_open: bool
    """Whether it was open when the capture ended."""
    is_whole: bool
    """Whether both directions were captured, without loss."""
    settings: Mapping[str, str] = MappingProxyType({})
    """Its choices, such as ``acks``; ``batch``: about how many messages it publishes at a time."""

    @property
    def label(self) -> str:
        return self.name or self.user or self.host


class FlowKey(NamedTuple):
    """Subject of a flow."""

    connection: int
    delivers: bool
    """Whether messages come to the client."""
    topic: str
    partition: int | None
    group: str


class OffsetTimes:
    """``(offset, messages, time)`` of some messages, evenly over time."""

    __slots__ = ("_every", "_most", "_seen", "entries")

    def __init__(self, most: int = MAX_TIMES) -> None:
        self.entries: list[tuple[int, int, int]] = []
        self._most, self._every, self._seen = most, 1, 0

    def add(self, first: int, count: int, time_ns: int) -> None:
        self._seen += 1
        if self._seen % self._every:
            return
        self.entries.append((first, count, time_ns))
        if len(self.entries) >= 2 * self._most:
            self._thin_out()

    def _thin_out(self) -> None:
        while len(self.entries) >= 2 * self._most:
            del self.entries[::2]
            self._every *= 2

    def __add__(self, other: OffsetTimes) -> OffsetTimes:
        both = OffsetTimes(self._most)
        both._every = max(self._every, other._every)
        both.entries = sorted((*self.entries, *other.entries))
        both._thin_out()
        return both


@dataclass(slots=True, eq=False)
class Flow:
    """Messages of one connection to or from one topic."""

    key: FlowKey
    by_second: bool = False
    began: int = 0
    """Number of the first frame about it."""
    log: str = ""
    """The log that offsets count in, if that is not the topic."""
    messages: int = 0
    size: int = 0
    confirmed: int = 0
    refused: int = 0
    again: int = 0
    """Messages that the broker says to deliver once more, or that this flow had before."""
    next: int = 0
    """The offset after the latest message."""
    rewound: tuple[int, int] = -1, 0
    """The offset that it went back to the last time, and how often in a row."""
    stuck: tuple[int, int] = 0, -1
    """The most times that it went back to one offset in a row; and the offset."""
    first_ns: int = 0
    last_ns: int = 0
    offsets: Intervals = field(default_factory=Intervals)
    """Those that were confirmed, or delivered."""
    numbers: Intervals = field(default_factory=Intervals)
    """Of deliveries, at their consumer."""
    stored: int = -1
    """Offset up to which the consumer is done, as it said last."""
    done: OffsetTimes = field(default_factory=lambda: OffsetTimes(MAX_STORES))
    """The positions, or the messages that are done, over time."""
    held: OffsetTimes = field(default_factory=lambda: OffsetTimes(MAX_STORES))
    """Of messages without a position: time from delivery to ack, ns, in place of the offset."""
    lookups: int = 0
    """Times that its client asked for the position that it had stored."""
    stores: int = 0
    set_back: int = 0
    """Times that it said so with a lower offset than before."""
    rejected: int = 0
    """Messages that the client said it does not do."""
    stalled: int = 0
    """Times that the server said that it waits for an answer of the client."""
    pulls: int = 0
    empty: int = 0
    """Times that it asked, and that there was nothing."""
    starts: list[tuple[int, str]] = field(default_factory=list)
    """When it subscribed, and from where on."""
    left_ns: int = 0
    """When it unsubscribed, the last time."""
    limit: int = 0
    """The messages that it had asked for; 1: it unsubscribed by itself."""
    passed: int = 0
    circling: int = 0
    """Messages that its client got and published again; different ones that it passed on more than once."""
    rounds: int = 0
    """Times that it passed one message on quickly, at most."""
    lag: int = 0
    worst_lag: int = 0
    worst_ns: int = 0
    waited_ns: int = 0
    """Longest time that a message waited in its client for others."""
    waits: int = 0
    """Frames whose first message waited for :data:`LONG_NS` or more, of all :attr:`batches`."""
    batches: int = 0
    samples: list[flows.MessageSample] = field(default_factory=list)
    """Its first messages."""
    times: OffsetTimes = field(default_factory=OffsetTimes)
    unnumbered: OffsetTimes = field(default_factory=lambda: OffsetTimes(MAX_UNNUMBERED))
    """Of publishes, which have no offset yet."""
    latencies: list[int] = field(default_factory=list)
    """From publish to delivery, ns, of copies; at most :data:`MAX_TIMES`."""
    seconds: dict[int, int] = field(default_factory=dict)
    """Messages by second since the epoch, if these are wanted."""
    frames: list[int] = field(default_factory=list)
    """Its first frames, and the last."""

    def note(self, step: Step, frame: Frame) -> None:
        """Note a step of the flow that carries no messages."""
        what, time_ns = step.what, frame.time_ns
        self.log = step.log or self.log
        if what == flows.CONFIRM:
            self.confirmed += step.messages
            if step.first is not None:
                self.offsets.add(step.first, step.first + step.messages)
                self.times.add(step.first, step.messages, time_ns - (frame.latency_ns or 0))
        elif what == flows.REFUSE:
            self.refused += step.messages
        elif what == flows.STORE:
            self.set_back += (step.first or 0) < self.stored and not step.log  # acks of one message come in any order
            self.stored = max(self.stored, step.first or 0)
            self.stores += 1
            self.done.add(step.first or 0, 0, time_ns)
        elif what == flows.STALL:
            self.stalled += 1
        elif what == flows.LOOKUP:
            self.lookups += 1
        elif what == flows.DONE:
            self.held.add(step.waited_ns or 0, 1, time_ns)
        elif what == flows.REJECT:
            self.rejected += step.messages
        elif what == flows.SAMPLE or what == flows.GOT:
            self.samples += step.samples
        elif what == flows.LEAVE:
            self.left_ns = time_ns
            self.limit = step.messages
        elif what == flows.PASS:
            self.passed, self.rounds = self.passed + 1, max(self.rounds, step.messages)
            self.circling += step.again
        elif what == flows.PULL:
            self.pulls += 1
        elif what == flows.EMPTY:
            self.empty += 1
        elif what == flows.SUBSCRIBE and len(self.starts) < MAX_STARTS:
            self.starts.append((time_ns, step.start))

    def count(self, step: Step, frame: Frame) -> None:
        """Count the messages of a step."""
        what, _, _, _, first, messages, size, log, _, waited_ns, lag, is_again, samples, number = step
        time_ns = frame.time_ns
        if not self.first_ns:
            self.first_ns = time_ns
        if time_ns > self.last_ns:
            self.last_ns = time_ns
        self.messages += messages
        self.size += size
        batches = self.batches = self.batches + 1
        if batches <= MAX_FRAMES:
            self.frames.append(frame.number)
        else:
            self.frames[-1] = frame.number
        if log:
            self.log = log
        if self.by_second:
            second = time_ns // 1_000_000_000
            self.seconds[second] = self.seconds.get(second, 0) + messages
        if waited_ns:
            self.waited_ns = max(self.waited_ns, waited_ns)
            self.waits += waited_ns >= LONG_NS
        if first is not None:
            had = self.offsets.add(first, first + messages)
            self.again += had if had or not is_again else messages
            if first < self.next:
                at, times = self.rewound
                self.rewound = first, times + 1 if first == at else 1
                self.stuck = max(self.stuck, self.rewound[::-1])
            self.next = first + messages
            self.times.add(first, messages, time_ns)
        elif what == flows.PUBLISH:
            self.unnumbered.add(0, messages, time_ns)
        elif is_again:
            self.again += messages
        if samples:
            self.samples += samples
        if number is not None:
            self.numbers.add(number, number + 1)
        if lag is not None:
            self.lag = lag
            if lag > self.worst_lag:
                self.worst_lag, self.worst_ns = lag, time_ns

    def __add__(self, other: Flow) -> Flow:
        """Both as one: what two parts of one capture show of a flow."""
        began = min(filter(None, (self.began, other.began)), default=0)
        both = Flow(self.key, self.by_second, began, self.log or other.log)
        for name in SUMS:
            setattr(both, name, getattr(self, name) + getattr(other, name))
        both.first_ns = min(filter(None, (self.first_ns, other.first_ns)), default=0)
        for name in ("last_ns", "stored", "waited_ns", "left_ns", "limit", "rounds", "stuck", "next", "rewound"):
            setattr(both, name, max(getattr(self, name), getattr(other, name)))
        both.offsets.update(self.offsets).update(other.offsets)
        both.numbers.update(self.numbers).update(other.numbers)
        both.starts = sorted((*self.starts, *other.starts))[:MAX_STARTS]
        both.lag = (self if self.last_ns >= other.last_ns else other).lag
        both.worst_lag, both.worst_ns = max((self.worst_lag, self.worst_ns), (other.worst_lag, other.worst_ns))
        both.unnumbered, both.done = self.unnumbered + other.unnumbered, self.done + other.done
        both.held = self.held + other.held
        both.times, both.latencies = self.times + other.times, [*self.latencies, *other.latencies][:MAX_TIMES]
        both.samples = [*self.samples, *other.samples][:MAX_SAMPLES]
        both.seconds = dict(Counter(self.seconds) + Counter(other.seconds))
        both.frames = sorted({*self.frames, *other.frames})[:MAX_FRAMES]
        return both


SUMS = (
    "messages",
    "size",
    "confirmed",
    "refused",
    "again",
    "lookups",
    "stores",
    "set_back",
    "pulls",
    "empty",
    "waits",
    "batches",
    "stalled",
    "rejected",
    "passed",
    "circling",
)
LONG_NS = 500_000_000
MIN_BATCHES = 3
"""Publishes that show how many messages a client sends at a time."""
MAX_STARTS, MAX_FRAMES = 32, 8


class Flows:
    """Receives the frames of a capture; then :attr:`flows` and :meth:`parties`.

    ``by_second``: count by second, too. ``copies``: measure the time from publish to delivery also by copies, which the
    dissector has to find. ``shares``: other processes have other connections, see :meth:`share`.
    """

    def __init__(self, *, by_second: bool = False, copies: bool = False, shares: bool = False) -> None:
        self._by_second, self._copies, self._shares = by_second, copies, shares
        self._newest: dict[tuple[int, bool, str, int | None, str], Flow] = {}
        """Some flows, by the subject of a step."""
        self.flows: dict[FlowKey, Flow] = {}
        self.spaces: dict[str, tuple[int, str]] = {}
        """By endpoint of a server: when its cluster was named last, and the cluster."""
        self.omitted = 0
        """Flows beyond :data:`MAX_FLOWS`, counted each time that they are met."""
        self._readers, self._by_messages = ByProtocol(readers_of), ByProtocol(by_messages)
        self._numbered = ByProtocol(numbered)
        self.connections: dict[int, Connection] = {}
        """Those with flows, by number."""
        self._parties: dict[int, Party] = {}
        self._servers: dict[int, str] = {}
        self._virtual_hosts: dict[str, frozenset[str]] = {}
        """Of other processes: clients and endpoints of servers by connection; virtual hosts by name of the server."""
        self._accounts: dict[int, str] = {}
        self._settings: dict[int, dict[str, str]] = {}
        """By connection: what its client chose, such as ``acks``, at first."""
        self._sent: Newest[int, int] = Newest(MAX_SENT)
        self._times: tuple[list[tuple[int, int]], list[tuple[FlowKey, int, int]]] = [], []
        """Publishes and copies that were not shared yet: ids and times, of copies with the flow."""
        self._latencies: dict[FlowKey, list[int]] = {}
        """Of the flows of all processes."""
        self._published: Newest[int, list[tuple[str, int | None, int]]] = Newest(MAX_SENT)
        """By frame, the same: topic, partition and number of messages that wait for an answer."""

    def __deepcopy__(self, _: object) -> Flows:
        """Itself: rules that look at it change nothing."""
        return self

    def demand(self, demand: Demand, messages: Messages) -> Demand:
        """A demand with what is followed here; ``messages``: the dissector fills them."""
        return replace(demand, link_responses=False, copies=self._copies, analyse=True, messages=messages)

    def frame(self, frame: Frame, parts: Sequence[FrameMessages] = ()) -> None:
        """Take the next frame. ``parts``: its messages, for protocols that have no reader."""
        readers = self._readers[frame.protocol]
        for reader in readers.get(frame.type, ()):
            if steps := read_steps(reader, frame):
                self._take(steps, frame)
        if self._by_messages[frame.protocol] and (parts or frame.request is not None):
            self._take(self._steps(frame, parts), frame)

    def _steps(self, frame: Frame, parts: Sequence[FrameMessages]) -> Iterator[Step]:
        """Steps of the messages of a frame, and of the answers to publishes."""
        for part in parts:
            topic, offsets = printable(part.topic or ""), [each for each in part.offsets or () if each is not None]
            if part.operation == PUBLISH and not frame.is_copy:
                self._published.get_or_make(frame.id, list).append((topic, part.partition, part.count))
                yield Step(flows.PUBLISH, topic, part.partition, messages=part.count, size=part.size)
            elif part.operation == DELIVER:
                first = min(offsets, default=None) if self._numbered[frame.protocol] else None
                yield Step(flows.DELIVER, topic, part.partition, "", first, part.count, part.size)
        what = flows.CONFIRM if frame.refusal is None else flows.REFUSE
        for request in {each.request for each in frame.confirmations} | {frame.request}:
            for topic, partition, count in self._published.pop(request or 0, ()):
                yield Step(what, topic, partition, messages=count)

    def _take(self, steps: Iterable[Step], frame: Frame) -> None:
        number = frame.connection.number
        for step in steps:
            what, topic, partition, group = step[:4]
            flow = self._newest.get((number, what in TO_BROKER, topic, partition, group))
            if flow is None:
                if what in ABOUT_CLIENTS:
                    self._learn(step, frame)
                    continue
                flow = self._flow(step, frame)
                if flow is None:
                    continue
            if what == flows.PUBLISH or what == flows.DELIVER:
                flow.count(step, frame)
                if self._copies:
                    self._measure(what, flow, frame)
            else:
                flow.note(step, frame)

    def _measure(self, what: str, flow: Flow, frame: Frame) -> None:
        """The time from publish to delivery, of copies."""
        sent, copies = self._times
        if what == flows.PUBLISH:
            if self._shares:
                sent.append((frame.id, frame.time_ns))
            else:
                self._sent.put(frame.id, frame.time_ns)
        elif "copy_of" not in frame.generated:
            return
        elif self._shares:
            copies.append(
                (flow.key._replace(connection=frame.connection.id), frame.generated["copy_of"], frame.time_ns)
            )
        else:
            self._pair(flow.latencies, frame.generated["copy_of"], frame.time_ns)

    def _pair(self, latencies: list[int], publish: int, time_ns: int) -> None:
        sent_ns = self._sent.get(publish) if len(latencies) < MAX_TIMES else None
        if sent_ns is not None:
            latencies.append(time_ns - sent_ns)

    def share(self, gather: Callable[[Any], list[Any]], *, last: bool) -> bool:
        """Give the first process what is new, at ``last`` all; return whether these are now the flows of all.

        ``gather``: sends to the first process, which gets what all of them sent.
        """
        own, self._times = self._times, ([], [])
        every = gather((own, self.portable() if last else None))
        for (sent, _), _ in every:
            for publish, time_ns in sent:
                self._sent.put(publish, time_ns)
        for (_, copies), _ in every:
            for key, publish, time_ns in copies:
                self._pair(self._latencies.setdefault(key, []), publish, time_ns)
        if not last or not every:
            return False
        whole: Flows = sum((part for _, part in every[1:]), every[0][1])
        for key, latencies in self._latencies.items():
            whole.flows[key].latencies = latencies
        self.flows = dict(sorted(whole.flows.items(), key=lambda each: each[1].began))
        self.connections, self.spaces, self.omitted = {}, whole.spaces, whole.omitted
        self._parties, self._servers, self._virtual_hosts = whole._parties, whole._servers, whole._virtual_hosts
        return True

    def _learn(self, step: Step, frame: Frame) -> None:
        connection = frame.connection
        if step.what == flows.MEMBER:
            if len(self.connections) < MAX_FLOWS:
                self.connections[connection.number] = connection
        elif step.what == flows.SETTING:
            if len(self._settings) < MAX_FLOWS:
                self._settings.setdefault(connection.number, {}).setdefault(step.topic, step.start)
        elif step.log:
            self.spaces[step.log] = max(self.spaces.get(step.log, (0, "")), (frame.time_ns, step.topic))
        else:
            self._accounts[connection.number] = step.topic

    def _flow(self, step: Step, frame: Frame) -> Flow | None:
        connection = frame.connection
        key = FlowKey(connection.number, step.what not in TO_BROKER, step.topic, step.partition, step.group)
        flow = self.flows.get(key)
        if flow is None:
            if len(self.flows) >= MAX_FLOWS:
                self.omitted += 1
                if connection.number not in self.connections:
                    return None
                key = key._replace(topic=OTHERS, partition=None, group="")
            self.connections[connection.number] = connection
            flow = self.flows.setdefault(key, Flow(key, self._by_second, frame.number))
        if len(self._newest) >= MAX_NEWEST:
            self._newest.clear()
        self._newest[connection.number, step.what in TO_BROKER, step.topic, step.partition, step.group] = flow
        return flow

    def parties(self) -> dict[int, Party]:
        """The clients, by connection."""
        clients, servers, virtual_hosts = self._found()
        sizes = self._batch_sizes()

        def space(number: int, server: str) -> str:
            hosts = virtual_hosts.get(server, ())
            cluster = self._cluster(servers.get(number, server)) or self._cluster(server)
            return cluster or (next(iter(hosts)) if len(hosts) == 1 else "")

        return {
            number: each._replace(
                space=each.space or space(number, each.server), settings={**each.settings, **sizes.get(number, {})}
            )
            for number, each in clients.items()
        }

    def _found(self) -> tuple[dict[int, Party], dict[int, str], dict[str, frozenset[str]]]:
        """Clients and servers by connection, and virtual hosts by server, of this process and of others."""
        clients, servers, virtual_hosts = dict(self._parties), dict(self._servers), dict(self._virtual_hosts)
        for number, each in self.connections.items():
            clients[number] = self.party(each)._replace(space=self._own_space(each))
            servers[number] = each.endpoints[1 - client_side(each)]
            if virtual_host := each.identity.get("virtual_host"):
                server = clients[number].server
                virtual_hosts[server] = virtual_hosts.get(server, frozenset()) | {virtual_host}
        return clients, servers, virtual_hosts

    def _batch_sizes(self) -> dict[int, dict[str, str]]:
        """The setting ``batch`` of publishers, by connection: messages at a time, as a power of ten."""
        counts: dict[int, tuple[int, int]] = {}
        for key, flow in self.flows.items():
            if not key.delivers:
                messages, batches = counts.get(key.connection, (0, 0))
                counts[key.connection] = messages + flow.messages, batches + flow.batches
        usual = ((number, *both) for number, both in counts.items() if both[1] >= MIN_BATCHES)
        return {number: {"batch": f"{10 ** round(log10(most / some)):,}"} for number, most, some in usual}

    def space_of(self, connection: Connection) -> str:
        """The account, virtual host or cluster of a connection; empty: it is not known."""
        return self._own_space(connection) or self._cluster(connection.endpoints[1 - client_side(connection)])

    def _own_space(self, connection: Connection) -> str:
        return self._accounts.get(connection.number) or connection.identity.get("virtual_host") or ""

    def _cluster(self, server: str) -> str:
        return self.spaces.get(server, (0, ""))[1]

    def party(self, connection: Connection) -> Party:
        """The client of a connection."""
        client, who, health = client_side(connection), connection.identity, connection.health
        last_ns = max(connection.first_ns, health.last_ns if health is not None else 0)
        return Party(
            connection.number,
            next(iter(connection.protocols), ""),
            who.get("name", ""),
            connection.named_endpoints[client].rpartition(":")[0],
            who.get("user", ""),
            self.space_of(connection),
            who.get("group", ""),
            connection.named_endpoints[1 - client],
            who.get("product", ""),
            connection.first_ns,
            last_ns,
            connection.closed is None,
            all(side.captured and not side.lossy for side in connection.directions),
            self._settings.get(connection.number, {}),
        )

    def portable(self) -> Flows:
        """The same without samples, for other processes: it can be pickled, and connections have ids, not numbers."""
        made, ids = Flows(), {number: each.id for number, each in self.connections.items()}
        for key, flow in self.flows.items():
            named = key._replace(connection=ids.get(key.connection, key.connection))
            made.flows[named] = replace(flow, key=named, samples=[])
        clients, servers, made._virtual_hosts = self._found()
        sizes = self._batch_sizes()
        for number, client in clients.items():
            label, settings = ids.get(number, number), {**client.settings, **sizes.get(number, {})}
            made._parties[label] = client._replace(connection=label, settings=settings)
            made._servers[label] = servers[number]
        made.spaces, made.omitted = self.spaces, self.omitted
        return made

    def __add__(self, other: Flows) -> Flows:
        both = Flows()
        both.flows = dict(self.flows)
        for key, flow in other.flows.items():
            both.flows[key] = both.flows[key] + flow if key in both.flows else flow
        both.spaces = {
            server: max(self.spaces.get(server, (0, "")), other.spaces.get(server, (0, "")))
            for server in self.spaces | other.spaces
        }
        both.connections = self.connections | other.connections
        both._accounts = self._accounts | other._accounts
        both._settings = self._settings | other._settings
        (mine, my_servers, my_hosts), (clients, servers, hosts) = self._found(), other._found()
        both._parties, both._servers = mine | clients, my_servers | servers
        both._virtual_hosts = {
            server: my_hosts.get(server, frozenset()) | hosts.get(server, frozenset()) for server in my_hosts | hosts
        }
        both.omitted = self.omitted + other.omitted
        return both


TO_BROKER = frozenset({flows.PUBLISH, flows.CONFIRM, flows.REFUSE, flows.PASS, flows.SAMPLE})
ABOUT_CLIENTS = frozenset({flows.SPACE, flows.MEMBER, flows.SETTING})


def numbered(checks: Checks) -> bool:
    """Whether offsets count messages."""
    return all(reader.numbered for reader in checks.flows)


def by_messages(checks: Checks) -> bool:
    """Whether the flows of a protocol are read off its messages: none of its readers counts them."""
    return not any(reader.counts for reader in checks.flows)


def readers_of(checks: Checks) -> dict[str | None, list[FlowReader]]:
    """New readers of a protocol, by the types of frames that they read."""
    return by_type(checks.flows)
