"""A conversation in the protocol that releases speak: requests and replies, versions, reads; appends are the base."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from wiredecode.frames.frame import Frame
from wiredecode.protocols.pravega import names
from wiredecode.protocols.pravega.conversation_appends import Appends, group
from wiredecode.protocols.pravega.conversation_pairing import Key, SegmentRequest
from wiredecode.protocols.pravega.layers_kinds import escape_surrogates
from wiredecode.protocols.shared.pairing import link

ECHO_VERSION = 11
"""From this wire version on a server answers KeepAlive."""
REFUSED_IF_ZERO = {
    "SegmentAttributeUpdated": ("success", "the conditions on attributes did not hold"),  # also of a MergeSegments
    "StreamSegmentInfo": ("exists", "there is no such segment"),
}
"""Replies that refuse by a field: its name, and the reason."""


class Shipped(Appends):
    """The state of one connection. ``handle`` is called with every frame, in the order of completion."""

    def __init__(self, whole: bool) -> None:
        super().__init__(whole)
        self.hellos: dict[int, tuple[int, int, SegmentRequest]] = {}
        """Newest and oldest version of each side, and its Hello."""
        self.keepalives: deque[SegmentRequest] = deque(maxlen=64)

    def handle(self, frame: Frame, name: str, lost: bool) -> None:
        """Take the next frame; ``lost``: bytes of its direction were lost before it."""
        self.events, self.single, self.raw = None, None, None
        if lost and frame.sender != "server":
            self.block, self.blind = None, True
        news, damaged = self.losses.any_before(frame), lost or frame.is_partial
        self.damage[frame.side] += damaged
        self.damage[1 - frame.side] += news
        if news or damaged or frame.overtakes:
            self.outstanding.forget_repeatable()
            self.keepalives.clear()
        if self.block is not None and frame.sender != "server" and name != "AppendBlockEnd":
            self._report_open_block(frame, name)
        if name in names.FAILURES:
            self._refuse(frame, name)
        handler = self.HANDLERS.get(name)
        if handler is not None:
            handler(self, frame)
        elif name in names.SUCCESSES:
            self._add_request(frame, name)
        elif name in names.SERVER_TYPES and name not in names.FAILURES:
            self._answer(frame, name)

    # Requests and replies.

    def _add_request(self, frame: Frame, name: str) -> None:
        request = self._request(frame, name)
        self.outstanding.add(frame, reply_key(frame, names.SUCCESSES[name], request), request)

    def _answer(self, frame: Frame, name: str) -> None:
        self.link(frame, self.outstanding.pop(reply_key(frame, name, self._request(frame, name))))
        field, message = REFUSED_IF_ZERO.get(name, ("", ""))
        if frame.values.get(field) == 0:
            frame.refuse(message, field)

    def _refuse(self, frame: Frame, name: str) -> None:
        """A reply that refuses a request."""
        values = frame.values
        frame.refuse(refusal(name, values))
        writer = values.get("writer_id")
        if writer is not None and "event_number" in values:
            self._resolve_writer(frame)
            self.link(frame, self.outstanding.pop(("append", writer, values["event_number"])))
            return
        segment = values.get("segment")
        request = self.outstanding.pop(("id", group(values, segment)))
        if request is None:
            request = self.outstanding.find_refused(group(values, segment), segment, values.get("offset"))
        if request is None and name == "AuthTokenCheckFailed":
            request = self._refused_read(frame)
        if request is not None and name == "SegmentIsSealed" and request.type in names.APPENDS:
            self._seal(frame, request)
        elif request is not None or not any(each.sealed and each.segment == segment for each in self.writers.values()):
            self.link(frame, request)

    def _refused_read(self, frame: Frame) -> SegmentRequest | None:
        """Servers put the offset of a refused read where the request id belongs."""
        request = self.outstanding.read_at(frame.values.get("request_id"))
        if request is not None:
            frame.find("note", "protocol", "offset-as-id", "the request id is the offset of the read", "request_id")
        return request

    # Connection.

    def _hello(self, frame: Frame) -> None:
        values = frame.values
        if "low_version" not in values:
            return
        request = SegmentRequest(frame.id, frame.time_ns, "Hello", None, None, None)
        self.hellos[frame.side] = values["high_version"], values["low_version"], request
        peer = self.hellos.get(1 - frame.side)
        if peer is None:
            frame.expects_response = frame.sender == "client"
            return
        if frame.sender == "server":
            link(frame, peer[2])
        frame.generate("session_version", min(values["high_version"], peer[0]))
        if peer[1] > values["high_version"] or peer[0] < values["low_version"]:
            ours = f"{values['low_version']} to {values['high_version']}"
            message = f"versions {ours} and {peer[1]} to {peer[0]} have none in common"
            frame.find("warning", "protocol", "versions", message)

    def _keepalive(self, frame: Frame) -> None:
        if frame.values.get("data"):
            size = len(frame.values["data"])
            frame.find("note", "protocol", "keepalive-data", f"{size} bytes that readers ignore", "data")
        server = self.hellos.get(1 - frame.side)
        if frame.sender == "client" and server is not None and server[0] >= ECHO_VERSION:
            frame.expects_response = True
            self.keepalives.append(self._request(frame, "KeepAlive"))
        elif frame.sender == "server" and self.keepalives:
            link(frame, self.keepalives.popleft())

    # Reads.

    def _read(self, frame: Frame) -> None:
        values = frame.values
        if "suggested_length" not in values:
            return
        request = self._request(frame, "ReadSegment", values["offset"])
        self.outstanding.add(frame, ("read", request.group, request.segment, values["offset"]), request)

    def _segment_read(self, frame: Frame) -> None:
        values = frame.values
        if "data" not in values or frame.is_partial:
            return
        who = group(values, values["segment"])
        request = self.outstanding.read(who, values["segment"], values["offset"], len(values["data"]))
        if request is None and "request_id" not in values:
            request = self.outstanding.read_at(values["offset"], values["segment"])
        self.link(frame, request)
        if values["data"]:
            reader, piece = self.reads.feed((values["segment"], who), values["offset"], values["data"])
            self._report_segment_piece(frame, reader, piece)

    HANDLERS: ClassVar[dict[str, Callable[[Shipped, Frame], None]]] = {
        "Hello": _hello,
        "KeepAlive": _keepalive,
        "SetupAppend": Appends._setup,
        "AppendSetup": Appends._setup_reply,
        "AppendBlock": Appends._begin_block,
        "AppendBlockEnd": Appends._end_block,
        "ConditionalAppend": Appends._conditional_append,
        "ConditionalBlockEnd": Appends._conditional_block,
        "DataAppended": Appends._appended,
        "ReadSegment": _read,
        "SegmentRead": _segment_read,
    }


def reply_key(frame: Frame, reply: str, request: SegmentRequest) -> Key:
    """Common key of a request and its reply."""
    return ("id", request.group) if "request_id" in frame.values else ("named", reply, request.group)


def refusal(name: str, values: Mapping[str, Any]) -> str:
    """A refusal in words."""
    segment = values.get("segment")
    about = f": {escape_surrogates(segment)}" if segment else ""
    if name == "ErrorMessage":
        about += f": {escape_surrogates(values.get('message', ''))}"
    if name == "AuthTokenCheckFailed":
        about += f": {names.AUTH_ERRORS.get(values.get('error_code', -1), 'TOKEN_CHECK_FAILED')}"
    return f"the request was refused: {name}{about}"
