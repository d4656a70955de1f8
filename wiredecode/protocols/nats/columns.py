"""Conditions of NATS as columns."""

from __future__ import annotations

from wiredecode.fields.columns.presence import PRESENCES, Holds
from wiredecode.fields.columns.text import tokens
from wiredecode.protocols.nats import kinds


def reply_next(test: kinds.ReplyNext) -> Holds:
    """With a mark, queues may follow, which are not read here: such rows are not plain anyway."""
    return lambda rows, scope: ~scope.there["marker"] & (tokens(rows) == test.left)


PRESENCES[kinds.ReplyNext] = reply_next
