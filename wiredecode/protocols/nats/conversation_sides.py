"""What is remembered of a connection: its subscriptions, and what each end said."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wiredecode.protocols.nats.conversation_copies import Publisher, Receiver
from wiredecode.protocols.shared.pairing import Newest, Request

MAX_WAITING = 1_024
"""PINGs and, on verbose connections, operations that wait for their answer."""
MAX_RECEIVERS = 1_024
"""Subscriptions whose beginning was not captured."""


@dataclass(slots=True)
class Subscription:
    """What a sid stands for; ``generated`` are fields of its messages."""

    subject: str
    queue: str | None
    generated: dict[str, Any]
    most: int = 0
    """Ends after so many deliveries; 0: never."""
    delivered: int = 0
    ended: bool = False
    receiver: Receiver = field(default_factory=Receiver, compare=False)


@dataclass(slots=True)
class Side:
    """What one end said."""

    reached: int = 0
    """Stream offset behind its last frame."""
    whole: bool = True
    """No byte of it was lost so far."""
    upgraded: bool = False
    """It sent the HTTP head behind which WebSocket frames come."""
    pings: deque[Request] = field(default_factory=lambda: deque(maxlen=MAX_WAITING))
    publisher: Publisher = field(default_factory=Publisher, compare=False)
    receivers: Newest[str | None, Receiver] = field(default_factory=lambda: Newest(MAX_RECEIVERS), compare=False)
    """By sid, of subscriptions that were not captured; None: the server at the other end."""
    said: dict[str, Any] = field(default_factory=dict)
    """The members of its INFO and CONNECT, the last ones of each name."""

    def receiver(self, sid: str | None, subscriptions: Mapping[str, Subscription]) -> Receiver:
        """Who gets what it sends: a subscription, or, without ``sid``, the server at the other end."""
        known = subscriptions.get(sid) if sid is not None else None
        if known is not None:
            return known.receiver
        found = self.receivers.get(sid)
        if found is None:
            found = Receiver(hands_on=self.publisher if sid is None else None)
            self.receivers.put(sid, found)
        return found
