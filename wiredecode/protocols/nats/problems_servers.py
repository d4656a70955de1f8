"""Servers that leave a cluster, as the others say in INFO."""

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.advertised import host_of
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.facts import ENDED, MOVES, REFUSED, Fact, Kind, party_of
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import MAX_PROBLEMS, FrameRef, Rule, ref_of

CODES = codes_of("nats")
AROUND_NS = 3_000_000_000
"""A server's connections end this long before or after the others drop it, at most."""


@dataclass(slots=True)
class Lost:
    """Addresses that an INFO no longer has: those of one server."""

    refs: list[FrameRef] = field(default_factory=list)
    by: dict[str, None] = field(default_factory=dict)
    """The servers that say so."""
    back_ns: int = 0
    """When an INFO had one of them again."""


@dataclass(eq=False)
class Servers(Rule):
    """Compares the addresses (``connect_urls``) in the INFOs of a server."""

    types = frozenset({"INFO"})
    _urls: Newest[str, frozenset[str]] = field(default_factory=Newest)
    """By endpoint: the addresses in its last INFO."""
    _names: Newest[str, str] = field(default_factory=Newest)
    """By endpoint: the server's name."""
    _lost: dict[frozenset[str], Lost] = field(default_factory=dict)

    def frame(self, frame: Frame) -> None:
        said, server = frame.values.get("options") or {}, frame.source
        urls = said.get("connect_urls")
        if frame.sender != "server" or not isinstance(urls, list) or "client_id" not in said:
            return  # to other servers it names its own addresses only
        name = printable(str(said.get("server_name") or server))
        self._names.put(server, name)
        now, before = frozenset(map(str, urls)), self._urls.get(server, frozenset())
        self._urls.put(server, now)
        for addresses, lost in self._lost.items():
            if addresses & now:
                lost.back_ns = lost.back_ns or frame.time_ns
        if (gone := before - now) and (gone in self._lost or len(self._lost) < MAX_PROBLEMS):
            lost = self._lost.setdefault(gone, Lost())
            lost.back_ns = 0
            lost.by[name] = None
            if len(lost.refs) < MAX_PROBLEMS:
                lost.refs.append(ref_of(frame))

    def finish(self) -> None:
        for addresses, lost in self._lost.items():
            self._report(sorted(addresses), lost)

    def _report(self, addresses: list[str], lost: Lost) -> None:
        at_ns, facts = lost.refs[0].time_ns, self.report.facts
        ended = [each for each in self._about(ENDED, addresses) if self._is_near(each, at_ns)]
        refused = [each for each in self._about(REFUSED, addresses) if each.until_ns >= at_ns - AROUND_NS]
        seen = [each.of[0] for each in (*ended, *refused)]
        shown, name = (seen or addresses)[0], next((self._names[of] for of in addresses if of in self._names), "")
        more = f" and {counted(len(addresses) - 1, 'more address', 'es')}" if len(addresses) > 1 else ""
        who = f"server {name} ({shown}{more})" if name else f"the server at {printable(shown)}{more}"
        did = "went down" if seen else "left the cluster, or went down"
        title = f"{who} {did} at {self.report.seconds(at_ns)}"
        total, again = sum(each.times for each in ended), sum(each.times for each in refused)
        parts = [f"{counted(total, 'connection')} ended"] * (total > 0) + [f"{again:,} were refused"] * (again > 0)
        title += f": {', '.join(parts)}" if parts else ""
        planned = any(facts.of(MOVES, of) for of in addresses)
        severity, until_ns = "note" if planned else None, lost.back_ns or self.report.last_ns
        key = tuple(addresses)
        problem = self.report.about(CODES["server-down"], title, key, lost.refs, until_ns=until_ns, severity=severity)
        problem.to_end, problem.is_over = not lost.back_ns, bool(lost.back_ns)
        problem.servers = {*addresses, *seen}
        for fact in (*ended, *refused):
            for place in fact.places:
                self.report.concerns(problem, place.connection)
        for ref in lost.refs:
            problem.users |= party_of(ref.connection).users
        problem.detail(f"{' and '.join([*lost.by][:3])} no longer named it to their clients")
        if lost.back_ns:
            problem.detail(f"it was named again from {self.report.seconds(lost.back_ns)} on")

    def _about(self, kind: Kind, addresses: list[str]) -> list[Fact]:
        """Facts about a server: about its addresses, and other ports of a host that no other server has."""
        hosts: dict[str, set[str]] = {}
        for of, name in self._names.items():
            hosts.setdefault(host_of(of), set()).add(name)
        own = {host_of(of) for of in addresses}
        own = {host for host in own if len(hosts.get(host, ())) <= 1 and len(own) == 1}
        return [each for each in self.report.facts.each(kind) if each.of[0] in addresses or host_of(each.of[0]) in own]

    @staticmethod
    def _is_near(fact: Fact, at_ns: int) -> bool:
        return fact.since_ns - AROUND_NS <= at_ns <= fact.until_ns + AROUND_NS
