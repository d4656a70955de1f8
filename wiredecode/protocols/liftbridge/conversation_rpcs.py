"""Decoding what the metadata group says on its subjects: bootstrap, dials, and the RPCs of Raft streams."""

from __future__ import annotations

from wiredecode.fields import printable
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.protocols.liftbridge import NAME
from wiredecode.protocols.liftbridge import layers_raft as raft
from wiredecode.protocols.liftbridge.conversation_memory import MAX_KEY_CHARACTERS, Memory
from wiredecode.protocols.liftbridge.conversation_raft_streams import LIMIT, PART, UNALIGNED, RpcPiece
from wiredecode.protocols.liftbridge.layers_reading import ReadLayer, carry, find_problem, generate, read
from wiredecode.protocols.liftbridge.names import RAFT_MARK
from wiredecode.protocols.liftbridge.names_operations import entries_spelled
from wiredecode.protocols.shared.carried import CarriedMessage
from wiredecode.protocols.shared.pairing import Request, link

NO_TYPE = -1
"""Of a dial, which has no envelope."""


def decode(frame: Frame, message: CarriedMessage, style: Style | None, memory: Memory) -> int | None:
    """Payloads without an envelope on the subjects of the metadata group."""
    subject, data, start = message.subject or "", message.payload, message.start
    _, mark, rest = subject.partition(RAFT_MARK)
    if mark:
        memory.meaning(subject)  # learns the namespace
    if not mark:
        _dialled(frame, subject, data, start, style, memory)
    elif rest in ("bootstrap", "bootstrap.reply"):
        _claim(frame, "RaftBootstrap", read(raft.RaftBootstrap, data, style), data, start, style)
    elif rest.endswith(".accept"):
        request = raft.RaftConnectRequest(data)
        inbox = request.fields.get("inbox")
        if request.problem is None and isinstance(inbox, str) and len(inbox) <= MAX_KEY_CHARACTERS:
            _claim(frame, "RaftConnectRequest", read(raft.RaftConnectRequest, data, style), data, start, style)
            reply = message.reply
            if reply:
                frame.expects_response = True
                memory.raft.dial(reply, inbox)
                memory.ask(("reply", reply), frame, NO_TYPE, {})
    elif ".request._INBOX." in rest and not frame.is_cut:
        _stream(frame, subject, data, start, style, memory)
    return memory.copy_of(frame, message) if frame.protocol == NAME else None


def _claim(
    frame: Frame, name: str | None, reading: ReadLayer, data: bytes, start: int | None, style: Style | None
) -> None:
    frame.protocol, frame.type = NAME, name
    carry(frame, reading, data, start, style)


def _dialled(frame: Frame, subject: str, data: bytes, start: int, style: Style | None, memory: Memory) -> None:
    """The callee's answer to a dial."""
    response = raft.RaftConnectResponse(data)
    inbox = response.fields.get("inbox")
    if response.problem is not None or not isinstance(inbox, str) or len(inbox) > MAX_KEY_CHARACTERS:
        return
    _claim(frame, "RaftConnectResponse", read(raft.RaftConnectResponse, data, style), data, start, style)
    memory.raft.accept(subject, inbox)
    hop = memory.answer(("reply", subject), frame)
    if hop is not None and frame.request is None:
        link(frame, hop)


REMARKS = {
    PART: ("note", "protocol", "raft-part", "a part of an RPC or a snapshot that spans several messages"),
    UNALIGNED: ("warning", "undecoded", "raft-unaligned", "no RPC begins here: the stream was not seen from its start"),
    LIMIT: ("warning", "limit", "raft-rpc", "the RPC or snapshot is too large to be put together"),
}


def _stream(frame: Frame, subject: str, data: bytes, start: int, style: Style | None, memory: Memory) -> None:
    key = subject, frame.connection.number, frame.side
    pieces = memory.raft.feed(key, data) or [RpcPiece(raft.RaftBytes, data, 0)]
    for index, piece in enumerate(pieces):
        at = None if piece.start is None else start + piece.start
        reading = read(piece.layer, piece.data, style)
        if index == 0:
            frame.protocol, frame.type = NAME, _type_of(piece)
            entries = entries_spelled(reading.fields.get("entries") or ()) if piece.layer is raft.AppendEntries else ""
            if entries:
                generate(frame, reading, style, "operations", entries)
        carry(frame, reading, piece.data, at, style)
        find_problem(frame, reading, at, len(piece.data))
        if piece.remark is not None:
            severity, group, code, message = REMARKS[piece.remark]
            where = None if at is None else (at, at + len(piece.data))
            frame.find(severity, group, code, message, raft.NAME, where)
        elif issubclass(piece.layer, raft.Rpc):
            frame.code = piece.data[0] if frame.code is None else frame.code
            if memory.raft.sent(key, Request(frame.id, frame.time_ns)):
                frame.expects_response = True
        elif issubclass(piece.layer, raft.Answer):
            rpc = memory.raft.answered(key)
            if rpc is not None and frame.request is None:
                link(frame, rpc)
            if reading.fields.get("error"):
                message = f"the RPC failed: {printable(reading.fields['error'])}"
                frame.find("note", "response", "refused", message, f"{raft.NAME}.error", None)


def _type_of(piece: RpcPiece) -> str:
    if piece.layer is raft.Snapshot:
        return "RaftSnapshot"
    return "RaftEnd" if not piece.data else piece.layer.__name__
