"""What the connections of one capture know together: which requests wait for answers, and where.

A request is a message with a reply subject, its answers are the messages on that subject. Both pass several
connections: from the requester to a server, perhaps between servers, and on to the one that answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crc32c import crc32c

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.conversation_copies import Copies
from wiredecode.protocols.registry import carried_by
from wiredecode.protocols.shared.carried import CarriedSessions
from wiredecode.protocols.shared.pairing import Newest, link

MAX_REQUESTS = 20_000
"""Reply subjects remembered; beyond it the oldest is forgotten."""
MAX_HOPS = 16
"""Connections on which one request was seen."""
REQUEST_SECONDS = 30
"""So long after a request a message on its reply subject is an answer."""
DELIVERED, STORED, MAX_STORED_BYTES = "$JS.ACK.", b'{"stream":', 512
"""How the reply subject of a delivery of JetStream begins, and the answer to a publish, which is short."""
PLACE = re.compile(r"\$JS\.ACK\.(?:[^.]+\.[^.]+\.)?([^.]+)\.[^.]+\.\d+\.(\d{1,19})(?:\.\d+){3}(?:\.[^.]*)?\Z", re.ASCII)
"""Stream and number in it: ADR-15, with and without domain and account."""
GATEWAY_PREFIX = re.compile(r"_GR_\.[^.]{6}\.[^.]{6}\.|\$GR\.[^.]{4}\.")
"""What gateways put before reply subjects, in the new and the old form."""


@dataclass(slots=True)
class Hop:
    """One passage of a request: in which frame, on which connection, sent by which side."""

    frame: int
    time_ns: int
    connection: int
    side: int


@dataclass(slots=True)
class Request:
    """A request and the connections on which it was seen."""

    subject: str
    digest: int
    """CRC of the content: the same in every process, where state goes on in another one."""
    hops: list[Hop]
    answer: tuple[int, int] | None = None
    """First frame and digest of the last answer."""


def plain_subject(subject: str) -> str:
    """The subject without what a gateway put before it."""
    if subject.startswith(("_GR_.", "$GR.")):
        return GATEWAY_PREFIX.sub("", subject, count=1)
    return subject


@dataclass(slots=True)
class Memory:
    """Shared by all connections of a capture; bounded."""

    requests: Newest[str, Request] = field(default_factory=lambda: Newest(MAX_REQUESTS))
    copies: Copies = field(default_factory=Copies)
    stored: Newest[tuple[str, int], Request] = field(default_factory=lambda: Newest(MAX_REQUESTS))
    """Publishes by the stream of JetStream that keeps them and their number there."""
    carried: CarriedSessions = field(default_factory=lambda: CarriedSessions(carried_by("nats")))
    """What the protocols inside payloads remember."""

    def ask(self, frame: Frame, values: Mapping[str, Any], *, first: bool) -> None:
        """Take a message with a reply subject. ``first``: it comes from a client, so it is no copy of another."""
        reply, digest = plain_subject(values["reply"]), crc32c(values.get("data") or b"")
        hop = Hop(frame.id, frame.time_ns, frame.connection.number, frame.side)
        frame.expects_response = True
        if reply.startswith(DELIVERED):
            self._delivered(frame, reply, values["subject"], digest)
        known = self.requests.get(reply)
        same = known is not None and known.subject == values["subject"] and known.digest == digest
        if same and known is not None and self.copies.lossy:  # of the same again the publish may be lost
            same = not any((each.connection, each.side) == (hop.connection, hop.side) for each in known.hops)
        if known is not None and same and not first and recent(known.hops[-1], frame):
            if "copy_of" not in frame.generated:
                frame.generate("copy_of", known.hops[0].frame)
            if len(known.hops) < MAX_HOPS:
                known.hops.append(hop)
            return
        self.requests.put(reply, Request(values["subject"], digest, [hop]))

    def _delivered(self, frame: Frame, reply: str, subject: str, digest: int) -> None:
        """A consumer of JetStream gets what a publish stored: its reply subject tells where."""
        place = PLACE.match(reply)
        stored = self.stored.get((place[1], int(place[2]))) if place else None
        if stored is not None and (stored.subject, stored.digest) == (subject, digest):
            frame.generate("copy_of", stored.hops[0].frame)

    def _store(self, known: Request, data: bytes) -> None:
        """The answer to a publish says where JetStream stored it."""
        try:
            said = json.loads(data)
        except ValueError:
            return
        stream, place = said.get("stream"), said.get("seq")
        if isinstance(stream, str) and isinstance(place, int) and not said.get("duplicate"):
            self.stored.put((stream, place), known)

    def answered(self, frame: Frame, values: Mapping[str, Any], *, first: bool, between: bool = False) -> None:
        """Take a message; if it answers a request, link them. ``between``: it passes from server to server."""
        subject = values["subject"]
        known = self.requests.get(subject) or self.requests.get(plain_subject(subject))
        if known is None:
            return
        hop = best_hop(known, frame)
        if frame.time_ns < hop.time_ns or not recent(hop, frame):
            return  # where packets were lost, an older request may wait behind a hole
        if values.get("status") == names.NO_RESPONDERS:
            frame.generate("request_subject", printable(known.subject))
        data = values.get("data") or b""
        digest = crc32c(data)
        if data.startswith(STORED) and len(data) < MAX_STORED_BYTES:
            self._store(known, data)
        if first or known.answer is None or known.answer[1] != digest:
            known.answer = frame.id, digest
        else:
            frame.generate("copy_of", known.answer[0])
            if between and hop.connection != frame.connection.number:
                return  # on its way: the request will be linked to what its sender gets
        link(frame, hop)


def recent(hop: Hop, frame: Frame) -> bool:
    return frame.time_ns - hop.time_ns <= REQUEST_SECONDS * 1_000_000_000


def best_hop(request: Request, frame: Frame) -> Hop:
    """The passage that an answer belongs to: on its own connection from the other side, else the first one."""
    number, side = frame.connection.number, frame.side
    for hop in reversed(request.hops):
        if hop.connection == number and hop.side != side:
            return hop
    return request.hops[0]
