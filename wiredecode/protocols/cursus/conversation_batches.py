"""What is wrong with a batch that can be read: its markers and its layout, as findings."""

from __future__ import annotations

from typing import Any

from wiredecode.fields import compiler
from wiredecode.frames.frame import MALFORMED, Frame
from wiredecode.protocols.cursus import names
from wiredecode.protocols.cursus.evidence_body import Body
from wiredecode.protocols.cursus.layers_batch import LABELS


def report_markers(frame: Frame, record: dict[str, Any] | None) -> None:
    """Transaction markers, ordinary messages on the wire: who ended which transaction."""
    count = 0
    if record is None and frame.layer is not None:
        record = compiler.careful(frame.layer, frame.buffer, frame.start, frame.stop, cut=frame.is_cut).values
    for message in (record or {}).get("messages", ()):
        producer = message.get("producer_id", "")
        if producer.startswith(names.MARKER_PREFIX) and producer.count(":") >= 2:
            transaction, _, outcome = producer.removeprefix(names.MARKER_PREFIX).rpartition(":")
            message.update(transaction_marker=outcome, transactional_id=transaction)
            count += 1
    if count:
        frame.find("note", "protocol", "transaction-marker", "holds markers of transactions", "messages")


def report_layout(frame: Frame, body: Body) -> None:
    """Which layout it is, and what speaks against it."""
    if body.ambiguous:
        message = f"fits today's layout and that of the older document: read as {body.dialect}"
        frame.find("note", "protocol", "ambiguous-layout", message, "partition")
    elif body.dialect not in ("cur", "seed", None):
        frame.find("note", "protocol", "historic-layout", LABELS[body.dialect], "messages")
    if frame.is_cut or frame.status == MALFORMED:
        return
    if not body.fits:
        frame.status = MALFORMED
        frame.find("error", "malformed", "batch", "the body fits no layout of a batch", "messages")
