"""Liftbridge in a capture of NATS, which carries it: envelopes, and messages of the metadata group without them."""

from collections.abc import Container, Mapping

import crc32c

from wiredecode.fields import compiler, printable
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import MALFORMED, NOT_ASKED, OK, Frame
from wiredecode.frames.message import Messages
from wiredecode.protocols.liftbridge import NAME, names
from wiredecode.protocols.liftbridge import layers_raft as raft
from wiredecode.protocols.liftbridge.conversation_memory import (
    MAX_KEY_CHARACTERS,
    NAMESPACE_BEFORE,
    NO_FACTS,
    LiftbridgeMemory,
    SubjectFacts,
    ack_namespace,
)
from wiredecode.protocols.liftbridge.conversation_raft_streams import LIMIT, PART, UNALIGNED, RpcPiece
from wiredecode.protocols.liftbridge.layers import LAYERS, Unknown
from wiredecode.protocols.liftbridge.layers_operations import ActivityStreamEvent, Cursor
from wiredecode.protocols.liftbridge.layers_reading import CarriedLayer, number_in, read
from wiredecode.protocols.liftbridge.layers_replication import (
    CHECKED_FROM,
    CRC_FLAG,
    ENTRY_HEADER,
    LONG_HEADER,
    MESSAGE_MAGIC,
    SHORT_HEADER,
    BadMessage,
    verify,
)
from wiredecode.protocols.liftbridge.names import RAFT_MARK, entries_text
from wiredecode.protocols.shared.carried import CarriedMessage
from wiredecode.protocols.shared.pairing import Request, link

MAX_BAD_MESSAGES = 8
"""Damaged stored messages that one frame names; others are counted."""

REPLICATION_HEADER = 16
"""Epoch and high watermark, in front of the entries."""

USUAL_HEADERS = (bytes([0, SHORT_HEADER, 0]), bytes([0, LONG_HEADER, CRC_FLAG]))
"""Version, header length and flags."""


def check_header(frame: Frame, data: bytes, start: int) -> None:
    """Report headers that upstream's servers would reject or ignore; ``data`` has a whole header, which is unusual."""
    version, header_length, flags, message_type = data[4:SHORT_HEADER]
    if version != 0:
        message = f"version {version} is not known: the payload is not decoded"
        frame.find("warning", "protocol", "unknown-version", message, f"{NAME}.version", (start + 4, start + 5))
    elif message_type not in names.MESSAGE_TYPES:
        message = f"message type {message_type} is not known: the payload is not decoded"
        where = (start + 7, start + 8)
        frame.find("warning", "protocol", "unknown-type", message, f"{NAME}.message_type", where)
    if flags & ~CRC_FLAG:
        message = f"flags {flags & ~CRC_FLAG:#04x} are not assigned: servers ignore them"
        frame.find("note", "protocol", "unknown-flags", message, f"{NAME}.flags", (start + 6, start + 7))
    if header_length in (SHORT_HEADER, LONG_HEADER) and (header_length == LONG_HEADER) == bool(flags & CRC_FLAG):
        return
    where = (start + 5, start + 6)
    if header_length < SHORT_HEADER:
        message = f"header length {header_length} is below {SHORT_HEADER}: decoded as if it were {SHORT_HEADER}"
        frame.find("warning", "malformed", "header-length", message, f"{NAME}.header_length", where)
    elif header_length > len(data) and not frame.is_partial:
        message = f"header length {header_length} reaches beyond the {len(data)} bytes of the payload"
        frame.find("error", "malformed", "header-length", message, f"{NAME}.header_length", where)
    elif flags & CRC_FLAG:
        message = f"the CRC flag goes with header length {LONG_HEADER}, not {header_length}: servers reject it"
        frame.find("warning", "malformed", "header-length", message, f"{NAME}.header_length", where)
    else:
        message = f"{header_length - SHORT_HEADER} header bytes of unknown meaning: servers ignore them"
        severity = "note" if header_length == LONG_HEADER else "warning"
        where = (
            start + SHORT_HEADER,
            min(start + header_length, frame.length),
        )  # the payload may be truncated, and shorter
        frame.find(severity, "protocol", "header-extension", message, f"{NAME}.extension", where)


def check_crc(reading: CarriedLayer, start: int) -> None:
    """Verify the CRC-32C of the envelope, which covers the payload."""
    stored, actual = reading.fields["crc"], crc32c.crc32c(reading.data[reading.data[5] :])
    reading.generate("crc_status", "good" if actual == stored else "bad")
    if actual != stored:
        message = f"CRC-32C of the payload is {actual:#010x}, the header says {stored:#010x}: servers reject it"
        reading.frame.find("error", "checksum", "envelope-crc", message, f"{NAME}.crc", (start + 8, start + 12))


def check_entries(reading: CarriedLayer, start: int) -> None:
    """Verify the CRC-32C and the format of each stored message of a ReplicationResponse."""
    frame, data = reading.frame, reading.data
    shown = reading.fields.get("entries") if reading.style is not None else None
    count, bad = verify(data, max(data[5], SHORT_HEADER) + REPLICATION_HEADER, len(data))
    for entry in shown[:count] if shown else ():
        entry["crc_status"] = "good"
    bad_crcs = [message for message in bad if message.stored != message.actual]
    if bad and not reading.unusual and shown is None:  # the fast decoder skipped the entries by their sizes
        reading.problem = compiler.careful(reading.layer, data, 0, len(data)).problem
        reading.find_problem()
    for message in bad_crcs:
        if shown is not None and message.number < len(shown):
            shown[message.number]["crc_status"] = "bad"
    for message in bad[:MAX_BAD_MESSAGES]:
        _report_bad(frame, message, start)
    if count:
        reading.generate("messages_crc_status", "bad" if bad_crcs else "good")
    if len(bad) > MAX_BAD_MESSAGES:
        text = f"{len(bad_crcs)} of {count} stored messages have a bad CRC"
        frame.find("error", "checksum", "message-crc", text, f"{NAME}.entries")
    if "surplus" in reading.fields and reading.problem is None:
        text = "bytes after the last entry are too few for another one: followers ignore them"
        frame.find("note", "protocol", "surplus-bytes", text, f"{NAME}.surplus")


def _report_bad(frame: Frame, message: BadMessage, start: int) -> None:
    field, at = f"{NAME}.entries[{message.number}]", start + message.position + ENTRY_HEADER
    if message.stored != message.actual:
        text = f"CRC-32C of stored message {message.number} is {message.actual:#010x}, it says {message.stored:#010x}"
        frame.find("error", "checksum", "message-crc", text, f"{field}.crc", (at, at + CHECKED_FROM))
    if message.magic_byte != MESSAGE_MAGIC:
        text = f"stored message {message.number} is of format {message.magic_byte}, not {MESSAGE_MAGIC}"
        where = (at + CHECKED_FROM, at + CHECKED_FROM + 1)
        frame.find("warning", "malformed", "message-magic", text, f"{field}.magic_byte", where)


CHECKED_TYPES = (names.ACK, names.RAFT_JOIN_RESPONSE, names.PROPAGATED_REQUEST, names.PROPAGATED_RESPONSE)
"""Types whose contents :func:`check_contents` checks."""


def check_contents(message_type: int, reading: CarriedLayer) -> None:
    """Report refusals, operations without message, and unknown fields of :data:`CHECKED_TYPES` and unusual messages."""
    frame, fields = reading.frame, reading.fields
    if message_type == names.ACK and "ack_error" in fields and reading.number("ack_error"):
        name = names.ACK_ERRORS.get(reading.number("ack_error"), "an unknown error")
        frame.refuse(f"the message was refused: {name}", f"{NAME}.ack_error")
    elif message_type == names.RAFT_JOIN_RESPONSE and fields.get("error"):
        message = f"the server may not join: {printable(fields['error'])}"
        frame.refuse(message, f"{NAME}.error")
    elif message_type == names.PROPAGATED_RESPONSE and "error" in fields:
        number = number_in(fields["error"], "code")
        code = names.GRPC_CODES.get(number, number)
        message = f"the operation was refused: {code}: {printable(fields['error'].get('msg', ''))}"
        frame.refuse(message, f"{NAME}.error")
    elif message_type == names.PROPAGATED_REQUEST and reading.problem is None:
        op = reading.number("op")
        if f"{names.OPS.get(op, '').lower()}_op" not in fields:
            name = names.OPS.get(op, f"operation {op}")
            frame.find("warning", "protocol", "op-mismatch", f"{name} comes without its message", f"{NAME}.op")
    whole = reading.problem is None and not frame.is_partial and frame.status != MALFORMED
    if reading.unusual and whole and _holds_unknown(fields):
        message = "fields that are not known, repeated, or of another type"
        frame.find("note", "protocol", "unknown-fields", message, f"{NAME}.unknown_fields")


def _holds_unknown(value: object) -> bool:
    if isinstance(value, dict):
        return "unknown_fields" in value or any(_holds_unknown(inner) for inner in value.values())
    return isinstance(value, list) and any(_holds_unknown(inner) for inner in value)


def decode_envelope(frame: Frame, message: CarriedMessage, style: Style | None, memory: LiftbridgeMemory) -> None:
    """See :meth:`CarriedSession.decode`; the payload begins with the magic number."""
    data, start, whole = message.payload, message.start, not frame.is_partial
    frame.protocol = NAME
    if len(data) < SHORT_HEADER:
        reading = read(frame, Unknown, data, start, style, truncated=True)
        frame.type = None
        reading.carry()
        if whole:
            frame.status = MALFORMED
            text = f"the envelope's header of {SHORT_HEADER} bytes is truncated after {len(data)}"
            frame.find("error", "malformed", "truncated-envelope", text, NAME, (start, reading.stop))
        return
    code = data[7]
    layer = LAYERS.get(code, Unknown) if data[4] == 0 else Unknown
    frame.type, frame.code = names.MESSAGE_TYPES.get(code), code
    reading = read(frame, layer, data, start, style, truncated=not whole)
    reading.carry()
    if data[4:7] not in USUAL_HEADERS or layer is Unknown:
        check_header(frame, data, start)
    if reading.problem is not None:
        reading.find_problem()
    if whole and "crc" in reading.fields:
        check_crc(reading, start)
    if layer is not Unknown:
        if whole and code == names.REPLICATION_RESPONSE:
            check_entries(reading, start)
        if code in CHECKED_TYPES or reading.unusual:
            check_contents(code, reading)
        if message.subject is not None and (shape := NAMESPACE_BEFORE.get(code)) is not None:
            memory.learn_from(frame, shape, message.subject)
        of_subject = memory.subject_facts(message.subject)
        _link(message, code, reading, memory, of_subject)
        if code == names.PUBLISH and of_subject.tail:
            _decode_stored_value(of_subject, start, reading)


def _link(
    message: CarriedMessage, code: int, reading: CarriedLayer, memory: LiftbridgeMemory, of_subject: SubjectFacts
) -> None:
    """Link responses to requests and acks to publishes; compare the type with the one that subject and request need."""
    frame, fields, facts, expected = reading.frame, reading.fields, of_subject.facts, of_subject.message_type
    subject, hop, namespace = message.subject, None, of_subject.namespace
    if code == names.PUBLISH:
        if not of_subject.numbered and "partition" not in fields and frame.status == OK:
            facts = FIRST_PARTITION
        inbox = fields.get("ack_inbox")
        namespace = memory.servers.get(frame.connection.number) or namespace or (inbox and ack_namespace(inbox)) or None
        if inbox and reading.number("ack_policy") != names.NO_ACK:
            frame.expects_response = True
            memory.ask(("ack", inbox, fields.get("correlation_id", "")), frame, code, NO_FACTS)
        elif frame.status == OK and not frame.expects_response:
            frame.outcome = NOT_ASKED
    elif code == names.ACK:
        inbox = fields.get("ack_inbox") or subject or ""
        hop = memory.answer(("ack", inbox, fields.get("correlation_id", "")), frame)
    elif code in names.REQUESTS and (reply := message.reply):
        frame.expects_response = True
        facts = dict(facts)
        if namespace is not None:
            facts["namespace"] = namespace
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
    if "namespace" not in facts:
        namespace = namespace or memory.servers.get(frame.connection.number)
        facts = facts if namespace is None else {"namespace": namespace, **facts}
    if facts:
        reading.generate_missing(facts)
    if expected is not None and expected != code:
        because = "the subject" if hop is None else "the request"
        message_text = f"{because} asks for {names.MESSAGE_TYPES[expected]}: servers reject {names.MESSAGE_TYPES[code]}"
        frame.find("warning", "protocol", "unexpected-type", message_text, f"{NAME}.message_type")


FIRST_PARTITION = {"partition": 0}
RESPONSES = frozenset(names.REQUESTS.values())


def _decode_stored_value(of_subject: SubjectFacts, start: int, reading: CarriedLayer) -> None:
    """The value of a message for one of Liftbridge's own streams."""
    layer = {"activity": ActivityStreamEvent, "cursors": Cursor}.get(of_subject.tail.partition(".")[0])
    if layer is None or "value" not in reading.fields:
        return
    decoded = compiler.careful(reading.layer, reading.data, 0, len(reading.data))
    value = decoded.values["value"]
    inner = read(reading.frame, layer, value, start + decoded.ranges["value"][1] - len(value), reading.style)
    if inner.problem is None:
        inner.carry()


# The metadata group: bootstrap, dials, and the RPCs of Raft streams.

NO_TYPE = -1
"""Type of a dial, which has no envelope."""


def decode_metadata(frame: Frame, message: CarriedMessage, style: Style | None, memory: LiftbridgeMemory) -> None:
    """Payloads without an envelope on the subjects of the metadata group."""
    subject, data, start = message.subject or "", message.payload, message.start
    _, mark, rest = subject.partition(RAFT_MARK)
    namespace = memory.subject_facts(subject).namespace
    if not mark:
        _dial_response(frame, subject, data, start, style, memory)
    elif rest in ("bootstrap", "bootstrap.reply"):
        _claim(read(frame, raft.RaftBootstrap, data, start, style), namespace)
    elif rest.endswith(".accept"):
        request = raft.RaftConnectRequest(data)
        inbox = request.fields.get("inbox")
        if request.problem is None and isinstance(inbox, str) and len(inbox) <= MAX_KEY_CHARACTERS:
            _claim(read(frame, raft.RaftConnectRequest, data, start, style), namespace)
            reply = message.reply
            if reply:
                frame.expects_response = True
                memory.raft.dials.put(reply, inbox)
                memory.ask(("reply", reply), frame, NO_TYPE, {"namespace": namespace})
    elif ".request._INBOX." in rest and not frame.is_partial:
        _raft_stream(frame, subject, data, start, style, memory, namespace)


def _claim(reading: CarriedLayer, namespace: str | None) -> None:
    """Make the frame one of Liftbridge, of the type of this layer."""
    reading.frame.protocol, reading.frame.type = NAME, reading.layer.__name__
    reading.carry()
    if namespace is not None:
        reading.generate("namespace", namespace)


def _dial_response(
    frame: Frame, subject: str, data: bytes, start: int, style: Style | None, memory: LiftbridgeMemory
) -> None:
    """The callee's answer to a dial."""
    response = raft.RaftConnectResponse(data)
    inbox = response.fields.get("inbox")
    if response.problem is not None or not isinstance(inbox, str) or len(inbox) > MAX_KEY_CHARACTERS:
        return
    hop = memory.answer(("reply", subject), frame)
    namespace = None if hop is None else hop.facts["namespace"]
    _claim(read(frame, raft.RaftConnectResponse, data, start, style), namespace)
    memory.raft.accept(subject, inbox)
    if hop is not None and frame.request is None:
        link(frame, hop)


REMARKS = {
    PART: ("note", "protocol", "raft-part", "a part of an RPC or a snapshot that spans several messages"),
    UNALIGNED: ("warning", "undecoded", "raft-unaligned", "no RPC begins here: the stream was not seen from its start"),
    LIMIT: ("warning", "limit", "raft-rpc", "the RPC or snapshot is too large to be put together"),
}


def _raft_stream(
    frame: Frame,
    subject: str,
    data: bytes,
    start: int,
    style: Style | None,
    memory: LiftbridgeMemory,
    namespace: str | None,
) -> None:
    key = subject, frame.connection.number, frame.side
    pieces = memory.raft.feed(key, data) or [RpcPiece(raft.RaftBytes, data, 0)]
    for index, piece in enumerate(pieces):
        at = None if piece.start is None else start + piece.start
        reading = read(frame, piece.layer, piece.data, at, style)
        if index == 0:
            frame.protocol, frame.type = NAME, _type_of(piece)
            if namespace is not None:
                reading.generate("namespace", namespace)
            entries = entries_text(reading.fields.get("entries") or ()) if piece.layer is raft.AppendEntries else ""
            if entries:
                reading.generate("operations", entries)
        reading.carry()
        reading.find_problem()
        if piece.remark is not None:
            severity, group, code, message = REMARKS[piece.remark]
            where = None if at is None else (at, reading.stop)
            frame.find(severity, group, code, message, raft.NAME, where)
        elif issubclass(piece.layer, raft.Rpc):
            frame.code = piece.data[0] if frame.code is None else frame.code
            if memory.raft.remember(key, Request(frame.id, frame.time_ns)):
                frame.expects_response = True
        elif issubclass(piece.layer, raft.RpcResponse):
            rpc = memory.raft.take(key, frame.time_ns)
            if rpc is not None and frame.request is None:
                link(frame, rpc)
            if reading.fields.get("error"):
                message = f"the RPC failed: {printable(reading.fields['error'])}"
                frame.refuse(message, f"{raft.NAME}.error")


def _type_of(piece: RpcPiece) -> str:
    if piece.layer is raft.Snapshot:
        return "RaftSnapshot"
    return "RaftEnd" if not piece.data else piece.layer.__name__


class LiftbridgeSession(LiftbridgeMemory):
    """Decodes the messages of one capture."""

    @property
    def subjects(self) -> Container[str]:  # type: ignore[override]
        return self.raft.dials

    def decode(self, frame: Frame, message: CarriedMessage, style: Style | None) -> None:
        if message.payload[:4] == names.MAGIC:
            decode_envelope(frame, message, style, self)
        elif message.subject is not None:
            decode_metadata(frame, message, style, self)

    def client_named(self, name: str, connection: int) -> Mapping[str, str]:
        """``LIFT.<namespace>.<server>.<purpose>`` of Liftbridge's servers."""
        parts = name.split(".")
        if len(parts) < 4:
            return {}
        namespace = ".".join(parts[1:-2])
        self.learn_namespace(namespace)
        self.servers.put(connection, namespace)
        return {"namespace": namespace, "server": parts[-2], "purpose": parts[-1]}

    def interrupt(self, connection: int, side: int, time_ns: int) -> None:
        self.raft.interrupt(connection, side, time_ns)

    def messages(self, frame: Frame, operation: str, subject: str, out: Messages) -> bool:
        from wiredecode.protocols.liftbridge.messages import add_messages

        return bool(frame.inner) and add_messages(frame, operation, subject, out)
