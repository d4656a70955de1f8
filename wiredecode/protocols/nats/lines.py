"""What summaries tell of runs of plain messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import NOTHING
from wiredecode.frames.run import Int64s, Run, RunFacts, RunLayer
from wiredecode.protocols.nats.bulk import AT, distinct
from wiredecode.protocols.nats.kernels import ACK, BLOCK, MSG, OPERATIONS, PUB, SID, SUBJECT
from wiredecode.protocols.nats.layers import Msg, Pub

if TYPE_CHECKING:
    from wiredecode.protocols.nats.conversation import NatsConversation

LINKS = "links"
"""As Liftbridge calls what ties its frames together."""


def facts(conversation: NatsConversation, run: Run) -> list[RunFacts]:
    """See :meth:`Bulk.facts`."""
    told = []
    for kind in np.unique(run.kinds).tolist():
        envelope, operation = divmod(kind - 1, OPERATIONS)
        for rows, inner in groups(run, np.flatnonzero(run.kinds == kind), envelope):
            layer, columns, generated = operations(conversation, run, rows, operation + 1)
            each = RunFacts([(layer, columns), *inner], rows, generated)
            if envelope:
                each.links = run.parts[LINKS][rows].tolist()
            told.append(each)
    return told


Inner = list[tuple[type[Layer], dict[str, list[Any]]]]


def groups(run: Run, rows: Int64s, envelope: int) -> Iterator[tuple[Int64s, Inner]]:
    """Frames with the same layers and fields, and what they carry."""
    if not envelope:
        yield rows, []
        return
    from wiredecode.protocols.liftbridge import lines

    for same, layer, columns in lines.facts(run, rows, ack=envelope == ACK):
        yield same, [(layer, columns)]


def operations(
    conversation: NatsConversation, run: Run, rows: Int64s, kind: int
) -> tuple[type[Layer], dict[str, list[Any]], list[Mapping[str, Any]]]:
    """The layer of some operations, its facts, and what other frames tell about each."""
    at = run.parts[AT][rows]
    columns: dict[str, list[Any]] = {"subject": texts(run.buffer, at, SUBJECT)}
    generated: list[Mapping[str, Any]] = [NOTHING] * len(rows)
    if kind == MSG:
        columns["sid"] = texts(run.buffer, at, SID)
        known = {sid: subscription.told for sid, subscription in conversation.subscriptions.items()}
        generated = [known.get(sid, NOTHING) for sid in columns["sid"]]
    columns["size"] = (run.stops[rows] - 2 - at[:, BLOCK]).tolist()
    return Msg if kind == MSG else Pub, columns, generated


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
