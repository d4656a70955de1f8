"""What summaries tell of runs of plain messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wiredecode.bulk.run import Run, RunFacts, RunLayer
from wiredecode.frame import NOTHING
from wiredecode.protocols.nats.bulk import AT, distinct
from wiredecode.protocols.nats.kernels import BODY, MSG, PUB, SID, SUBJECT
from wiredecode.protocols.nats.layers import Msg, Pub

if TYPE_CHECKING:
    from wiredecode.protocols.nats.conversation import NatsConversation


def facts(conversation: NatsConversation, run: Run) -> list[RunFacts]:
    """See :meth:`Bulk.facts`."""
    told = []
    for kind, layer in ((PUB, Pub), (MSG, Msg)):
        rows = np.flatnonzero(run.kinds == kind)
        if not len(rows):
            continue
        at = run.parts[AT][rows]
        columns: dict[str, list[Any]] = {"subject": texts(run.buffer, at, SUBJECT)}
        generated: list[Mapping[str, Any]] = [NOTHING] * len(rows)
        if kind == MSG:
            columns["sid"] = texts(run.buffer, at, SID)
            known = {sid: subscription.told for sid, subscription in conversation.subscriptions.items()}
            generated = [known.get(sid, NOTHING) for sid in columns["sid"]]
        columns["size"] = (run.stops[rows] - 2 - at[:, BODY]).tolist()
        told.append(RunFacts(layer, rows, columns, generated))
    return told


def run_layers(conversation: NatsConversation, run: Run) -> list[RunLayer]:
    """See :meth:`Bulk.layers`."""
    told = []
    for kind, layer in ((PUB, Pub), (MSG, Msg)):
        rows = np.flatnonzero(run.kinds == kind)
        codes, generated = np.zeros(len(rows), np.int64), [NOTHING]
        if kind == MSG and len(rows):
            at = run.parts[AT][rows]
            codes, sids = distinct(run.buffer, at[:, SID], at[:, SID + 1])
            known = [conversation.subscriptions.get(sid) for sid in sids]
            generated = [NOTHING if each is None else each.told for each in known]
        if len(rows):
            told.append(RunLayer(layer, rows, codes, generated))
    return told


def texts(buffer: bytes, at: Any, column: int) -> list[str]:
    """The texts whose places stand in two columns of ``at``."""
    spans = zip(at[:, column].tolist(), at[:, column + 1].tolist(), strict=True)
    return [buffer[start:stop].decode("ascii") for start, stop in spans]
