"""Decoding envelopes: their message is read and checked, and tied to what it answers."""

from __future__ import annotations

from wiredecode.fields import compiler
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import MALFORMED, NOT_ASKED, OK, Frame
from wiredecode.protocols.liftbridge import NAME, names
from wiredecode.protocols.liftbridge.conversation_checks import (
    CHECKED_TYPES,
    USUAL_HEADERS,
    check_contents,
    check_crc,
    check_entries,
    check_header,
)
from wiredecode.protocols.liftbridge.conversation_memory import NO_FACTS, Meaning, Memory, ack_key
from wiredecode.protocols.liftbridge.layers import LAYERS, Unknown
from wiredecode.protocols.liftbridge.layers_kinds import SHORT_HEADER
from wiredecode.protocols.liftbridge.layers_operations import ActivityStreamEvent, Cursor
from wiredecode.protocols.liftbridge.layers_reading import ReadLayer, carry, find_problem, generate, read
from wiredecode.protocols.shared.carried import CarriedMessage
from wiredecode.protocols.shared.pairing import link


def decode(frame: Frame, message: CarriedMessage, style: Style | None, memory: Memory) -> int | None:
    """See :meth:`CarriedSession.decode`; the payload begins with the magic number."""
    data, start = message.payload, message.start
    frame.protocol = NAME
    if len(data) < SHORT_HEADER:
        _decode_cut(frame, data, start, style)
        return None
    code, whole = data[7], not frame.is_cut
    layer = LAYERS.get(code, Unknown) if data[4] == 0 else Unknown
    frame.type, frame.code = names.MESSAGE_TYPES.get(code), code
    reading = read(layer, data, style, cut=not whole)
    carry(frame, reading, data, start, style)
    if data[4:7] not in USUAL_HEADERS or layer is Unknown:
        check_header(frame, data, start)
    if reading.problem is not None:
        find_problem(frame, reading, start, len(data))
    if whole and "crc" in reading.fields:
        check_crc(frame, reading, data, start, style)
    if layer is not Unknown:
        if whole and code == names.REPLICATION_RESPONSE:
            check_entries(frame, reading, data, start, style)
        if code in CHECKED_TYPES or reading.unusual:
            check_contents(frame, code, reading)
        meaning = memory.meaning(message.subject)
        _relate(frame, message, code, reading, style, memory, meaning)
        if code == names.PUBLISH and meaning.tail:
            _stored(frame, meaning, data, start, reading, style)
    return memory.copy_of(frame, message)


def _decode_cut(frame: Frame, data: bytes, start: int, style: Style | None) -> None:
    """An envelope whose header is not whole."""
    frame.type = None
    carry(frame, read(Unknown, data, style, cut=True), data, start, style)
    if not frame.is_cut:
        frame.status = MALFORMED
        message = f"the envelope's header of {SHORT_HEADER} bytes is cut after {len(data)}"
        frame.find("error", "malformed", "truncated-envelope", message, NAME, (start, start + len(data)))


def _relate(
    frame: Frame,
    message: CarriedMessage,
    code: int,
    reading: ReadLayer,
    style: Style | None,
    memory: Memory,
    meaning: Meaning,
) -> None:
    """Tie responses to requests and acks to publishes; compare the type with what subject and request say."""
    fields, facts, expected = reading.fields, meaning.facts, meaning.message_type
    subject, hop = message.subject, None
    if code == names.PUBLISH:
        if not meaning.numbered and "partition" not in fields and frame.status == OK:
            facts = FIRST_PARTITION
        inbox = fields.get("ack_inbox")
        if inbox and reading.number("ack_policy") != names.NO_ACK:
            frame.expects_response = True
            memory.ask(ack_key(inbox, fields.get("correlation_id", "")), frame, code, NO_FACTS)
        elif frame.status == OK and not frame.expects_response:
            frame.outcome = NOT_ASKED
    elif code == names.ACK:
        inbox = fields.get("ack_inbox") or subject or ""
        hop = memory.ack(ack_key(inbox, fields.get("correlation_id", "")), frame)
    elif code in names.REQUESTS and (reply := message.reply):
        frame.expects_response = True
        facts = dict(facts)
        if code == names.PARTITION_STATUS_REQUEST and "stream" in fields and frame.status == OK:
            facts |= {"stream": fields["stream"], "partition": fields.get("partition", 0)}
        elif "replica_id" in fields:
            facts["replica_id"] = fields["replica_id"]
        memory.ask(("reply", memory.plain_subject(reply)), frame, code, facts)
    elif subject is not None and code in RESPONSES:
        hop = memory.answer(("reply", memory.plain_subject(subject)), frame)
        if hop is not None:
            facts, expected = hop.facts, names.REQUESTS.get(hop.message_type)
    if hop is not None and frame.request is None:
        link(frame, hop)
    for name, value in facts.items():
        if not fields.get(name):
            generate(frame, reading, style, name, value)
    if expected is not None and expected != code:
        because = "the subject" if hop is None else "the request"
        what = f"{because} asks for {names.MESSAGE_TYPES[expected]}: servers reject {names.MESSAGE_TYPES[code]}"
        frame.find("warning", "protocol", "unexpected-type", what, f"{NAME}.message_type")


FIRST_PARTITION = {"partition": 0}
RESPONSES = frozenset(names.REQUESTS.values())


def _stored(frame: Frame, meaning: Meaning, data: bytes, start: int, reading: ReadLayer, style: Style | None) -> None:
    """The value of a message for one of Liftbridge's own streams."""
    kind = meaning.tail.partition(".")[0]
    layer = {"activity": ActivityStreamEvent, "cursors": Cursor}.get(kind)
    if layer is None or "value" not in reading.fields:
        return
    decoded = compiler.careful(reading.layer, data, 0, len(data))
    value = decoded.values["value"]
    inner = read(layer, value, style)
    if inner.problem is None:
        carry(frame, inner, value, start + decoded.ranges["value"][1] - len(value), style)
