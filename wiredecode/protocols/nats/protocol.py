"""Recognising NATS, cutting it into operations, and finding the next operation after a gap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from wiredecode.fields.jsonfields import parse
from wiredecode.fields.layer import Layer
from wiredecode.protocols.base import Found, Generated, Rejected, Split, Start, Undecided, Verdict, generated_of
from wiredecode.protocols.nats import NAME, PORTS, REPLY_TOPICS, evidence, transport
from wiredecode.protocols.nats import transport_s2 as s2
from wiredecode.protocols.nats import transport_websocket as websocket
from wiredecode.protocols.nats.conversation import TRANSPORT_TITLES, NatsConversation
from wiredecode.protocols.nats.conversation_memory import NatsMemory
from wiredecode.protocols.nats.layers_decoders import GRAMMARS, LAYERS
from wiredecode.protocols.nats.names import LINKS, NAMES
from wiredecode.protocols.registry import carried_by
from wiredecode.protocols.shared import tls
from wiredecode.protocols.shared.proxy import LAYERS as PROXY_LAYERS
from wiredecode.protocols.shared.proxy import BehindProxy
from wiredecode.protocols.shared.seeking import BAD, SHORT

if TYPE_CHECKING:
    from wiredecode.frames.block import Bulk

IDENTIFY_BYTES = 256 * 1024
"""A direction that starts late and shows no operation within this many bytes is another protocol."""
GREETING = re.compile(rb"(INFO|CONNECT)[ \t]*\{", re.IGNORECASE)
MARKS = {operation.encode(): frozenset(members) for operation, members in NAMES["marks"].items()}
"""Members that identify NATS, and the number of them needed."""
NEEDED = {b"INFO": 2, b"CONNECT": 1}

Answer = Verdict | Undecided | Rejected


class Nats(BehindProxy):
    """The protocol of NATS clients, and of the links between NATS servers."""

    name = NAME
    title = "NATS"
    ports = PORTS
    dialects = LINKS
    may_upgrade = True
    requests = {"nats": frozenset({"PING"})} | {
        name: types for each in carried_by("nats") for name, types in each.requests.items()
    }
    reply_topics = REPLY_TOPICS
    summary_keys = ("error", "status", "subject", "queue", "server_name", "name", "server")
    generated = {**generated_of("nats"), **tls.GENERATED}
    column_types = {"nats.account": "string"}

    def __init__(self) -> None:
        self.memory = NatsMemory()

    def new_session(self) -> Nats:
        """The protocol for one capture: its connections know of each other's requests."""
        return Nats()

    def bulk(self) -> Bulk:
        from wiredecode.protocols.nats.bulk import NatsBulk

        return NatsBulk()

    def recognise_inner(self, data: bytes, *, started: bool, final: bool, port: bool) -> Answer:
        return self._judge_start(data, final, port) if started else self._late(data, final, port)

    def _judge_start(self, data: bytes, final: bool, port: bool) -> Answer:
        """The first bytes of the connection in their direction."""
        greeting = GREETING.match(data)
        if greeting is not None:
            line = data.find(b"\n", 0, evidence.MAX_JSON_LINE)
            if line < 0:
                long = len(data) > evidence.MAX_JSON_LINE
                return Rejected() if long or (final and not port) else Verdict(0) if final else Undecided()
            if tells(greeting[1].upper(), data[greeting.end() - 1 : line]) or port:
                return Verdict(0, client=greeting[1].upper() == b"CONNECT")
            return Rejected()
        http = any(start.startswith(data[: len(start)]) for start in (b"GET /", b"HTTP/1.1 "))
        if websocket.is_http(data, 0) or (not final and http):
            return self._websocket(data, final)
        names, ends, *_ = evidence.chain(data, 0)
        names = [name for name in names if name in evidence.NAMES]
        if is_believed(names, ends, port, final):
            return Verdict(0, client=evidence.role(names))
        waits = ends == SHORT and not final and len(data) < IDENTIFY_BYTES
        another = bool(data) and transport.layer_at(data, 0) is not None  # TLS and the like are no evidence of NATS
        return Undecided() if waits and not another else Rejected()

    def _websocket(self, data: bytes, final: bool) -> Answer:
        """NATS in a WebSocket: only the first frame of the server shows it."""
        head = data.find(b"\r\n\r\n", 0, websocket.MAX_HTTP_HEAD)
        if head < 0:
            return Undecided() if not final and len(data) < websocket.MAX_HTTP_HEAD else Rejected()
        if not websocket.opens(data, 0, head + 4):
            return Rejected()
        if not data.startswith(b"HTTP/1.1 101 "):  # only the server's side shows it
            return Undecided() if not final and len(data) < IDENTIFY_BYTES else Rejected()
        front = evidence.front(data[head + 4 :])
        if front.names[:1] == ["INFO"]:
            return Verdict(0, client=False)
        waits = front.ends != BAD and not front.names and not final and len(data) < IDENTIFY_BYTES
        return Undecided() if waits else Rejected()

    def _late(self, data: bytes, final: bool, port: bool) -> Answer:
        """The first bytes seen of a direction that began before."""
        plain = transport.s2_plain(data)
        if isinstance(plain, int) and data and not final and len(data) < IDENTIFY_BYTES:
            return Undecided(need=min(plain, IDENTIFY_BYTES))
        if isinstance(plain, bytes):
            names = [name for name in evidence.chain(plain, 0).names if name in evidence.NAMES]
            if names or port:
                return Verdict(0, client=evidence.role(names))
        if (verdict := self._late_websocket(data, final)) is not None:
            return verdict
        for match in evidence.LINE_CANDIDATE.finditer(data):
            position = match.start()
            names, ends, _, stop = evidence.chain(data, position)
            if any(name not in evidence.NAMES for name in names):
                continue
            if is_believed(names, ends, port, final):
                return Verdict(position, client=evidence.role(names))
            if ends == SHORT and not final and len(data) - position < evidence.SEARCH_BYTES:
                keep, need = evidence.kept(position, stop)
                return Undecided(keep, need=need)
        return self._late_chunk(data, final, evidence.keep_from(data), port)

    def _late_websocket(self, data: bytes, final: bool) -> Answer | None:
        """Judge bytes that begin with a WebSocket frame; None: undecided."""
        head = websocket.head_stop(data, 0) if websocket.is_http(data, 0) else 0
        if head is None or isinstance(head, str) or (head and not websocket.opens(data, 0, head)):
            return None
        if not head and not websocket.begins(data):
            return None
        front = evidence.front(data[head:])
        if is_believed(front.names, front.ends, True, final):
            return Verdict(0, front.masked, None, evidence.WEBSOCKET)
        waits = front.ends != BAD and not final and len(data) < IDENTIFY_BYTES
        return Undecided() if waits else None

    def _late_chunk(self, data: bytes, final: bool, keep: int, port: bool) -> Answer:
        """On a port of NATS bytes may begin in the middle of an S2 chunk: the CRC of another one shows it."""
        found = evidence.search(data, final=final) if port else None
        if found and found.found and transport.layer_at(data, found.position) is transport.S2Chunk:
            return Verdict(found.position)
        return Rejected() if final else Undecided(min(keep, found.position) if found else keep)

    def split_inner(self, data: bytes) -> Split:
        return evidence.split(data)

    def search(self, data: bytes, *, final: bool) -> Found:
        return evidence.search(data, final=final)

    def begin(self, data: bytes, *, final: bool) -> Found:
        """A compressed link is identified by the CRC of its first chunk, or by the beginning of every S2 stream."""
        compressed = data.startswith(s2.IDENTIFIER) or isinstance(transport.s2_plain(data), bytes)
        return Found(0, True) if compressed else self.search(data, final=final)

    def conversation(self, start: Start) -> NatsConversation:
        return NatsConversation(start, self, self.memory)

    def generated_fields(self) -> Mapping[str, Generated]:
        return self.generated | {name: field for one in carried_by(self.name) for name, field in one.generated.items()}

    def layers(self) -> Iterable[type[Layer]]:
        carried = (layer for each in carried_by(self.name) for layer in each.layers())
        return [*LAYERS, *transport.LAYERS, *PROXY_LAYERS, *carried]

    def type_names(self) -> Iterable[str]:
        operations = (name for grammar in GRAMMARS.values() for name in grammar)
        inside = (name for each in carried_by(self.name) for name in each.type_names())
        return [*operations, *TRANSPORT_TITLES.values(), *tls.TYPES, "Unknown", *inside]


def tells(word: bytes, line: bytes) -> bool:
    """Whether the JSON object of a greeting has members that only NATS has."""
    try:
        options = parse(line)
    except ValueError:
        return False
    return isinstance(options, dict) and len(MARKS[word] & options.keys()) >= NEEDED[word]


def is_believed(names: list[str], ends: int, port: bool, final: bool) -> bool:
    """Whether a chain of operations is NATS: on an unknown port two, of which one is not of other protocols too."""
    strong = [name for name in names if name in evidence.STRONG]
    if port:
        return bool(strong) or len(names) > 1 or bool(names and final and ends != BAD)
    if ends == BAD:
        return False
    return (len(names) > 1 and bool(strong)) or len([name for name in names if name not in evidence.WEAK]) > 2


PROTOCOL = Nats
