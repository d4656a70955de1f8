"""The state of one Cursus connection: who is who, which commands wait for a reply, whether it became a stream."""

import re
from collections.abc import Mapping
from typing import Any

from wiredecode.dataclasses import dataclass
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import NOT_ASKED, Frame
from wiredecode.frames.message import Messages
from wiredecode.protocols.base import Conversation, Start
from wiredecode.protocols.cursus import NAME, layers, names, names_texts
from wiredecode.protocols.cursus.conversation_bodies import BATCH, read
from wiredecode.protocols.cursus.messages import add_batch, add_delivered, add_envelope, add_published
from wiredecode.protocols.shared import proxy
from wiredecode.protocols.shared.pairing import Losses, Outstanding, Request, link, note_unlinked

CLIENT_LAYERS = frozenset({layers.Command, layers.PayloadCommand, layers.PositionalCommand, layers.DiscoveryCommand})
SERVER_LAYERS = frozenset({layers.Success, layers.Failure, layers.StreamControl, layers.JsonReply, layers.TextReply})
PUSHED = names.REPLIES["STREAM"]
"""Replies with which a stream is accepted."""
PUBLISHING = frozenset({"PUBLISH", "TXN_PUBLISH", "APPEND_STREAM", "PUBLISH_IDEMPOTENT"})
"""Commands that publish a message each."""
WITHOUT_COMMAND = frozenset({"Unknown", "Compressed"})
"""Types of partial frames whose command was not captured."""
REFUSALS = frozenset({"ERROR", "JsonError"})

ANSWERED = re.compile(r"(?:PUBLISH|IDEMPOTENT):(?!0:)")
"""Publishes of 2025-11, bare in an envelope, that were answered."""
FACT_NAME = re.compile(r"[\w.-]{1,64}")


@dataclass(slots=True)
class CommandRequest(Request):
    """A command that waits for its reply; the key is its frame, replies come in order."""

    type: str
    facts: Mapping[str, Any]
    """Its generated fields."""
    topic: Any = None
    partition: Any = None
    count: int | None = None
    """READ_STREAM: its first reply came and announced this many messages in the second one."""
    silent: bool = False
    """A publish of 2025-11 that asked for no reply; a broker of today refuses it."""


class CursusConversation(Conversation):
    """Decodes the frames of one connection in the order in which they were complete."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.forced = self.dialect = start.dialect
        self.outstanding: Outstanding[int, CommandRequest] = Outstanding()
        self.is_streaming = False
        """The broker accepted STREAM: from then on it answers nothing else."""
        self.stream: int | None = None
        """The frame of that STREAM; None where frames were lost, so that the first answer may be another's."""
        self.losses = Losses()
        self.named: dict[str, Any] = {}
        """Fields of the frame just decoded."""
        self.uncertain = not self.whole
        """Frames may have been lost: a reply need not belong to the oldest command that waits."""
        self.next_offset: list[int | None] = [0, 0] if self.whole else [None, None]

    def decode(self, frame: Frame, style: Style | None) -> None:
        frame.protocol = NAME
        self.named = {}
        self._note_lost(frame)
        if not frame.offset and proxy.decode(self, frame, style):
            return
        if frame.stop - frame.start < 4:
            self.decode_headless(frame, style)
            return
        frame.sender = self.sender(frame)
        named = self.named = read(frame, style, self.forced, self.dialect)
        if self.client is None:
            self._learn_sides(frame)
        self.dialect = frame.dialect = frame.dialect or self.dialect
        stated = ("topic", "partition") if frame.type == BATCH else ()  # in the batch itself
        facts = {name: value for name, value in named.items() if _is_fact(name, value) and name not in stated}
        if frame.type in names.OFFSET_COMMANDS and isinstance(offsets := named.get("offsets"), list):
            facts["commits"] = names_texts.spell_offsets(offsets)
        frame.generated = {**facts, **frame.generated}
        if frame.sender == "client":
            self._add_request(frame, named)
        elif frame.sender == "server":
            self._answer(frame, named)

    def messages(self, frame: Frame, out: Messages) -> None:
        named, asked = self.named, frame.asked
        if frame.type in (BATCH, "INTERNAL_BATCH"):
            add_batch(frame, named.get("compression"), out)
        elif frame.type in PUBLISHING:
            add_published(frame, named, out)
        elif frame.type == "Envelope":
            add_envelope(frame, named, out)
        elif frame.type == "Text" and asked is not None and asked.type == "CONSUME":
            add_delivered(frame, named, asked.topic, asked.partition, out)

    def decode_headless(self, frame: Frame, style: Style | None) -> None:
        """Decode a frame without its whole length; that is known where more of the frame was sent."""
        super().decode_headless(frame, style)
        frame.values = {"length": frame.length - 4} if frame.missing else {}
        if frame.layers is not None:
            frame.layers[NAME] |= frame.values

    # Identities.

    def _learn_sides(self, frame: Frame) -> None:
        layer = frame.inner[0].layer if frame.inner else frame.layer
        if layer in CLIENT_LAYERS:
            self.client = frame.side
        elif layer in SERVER_LAYERS:
            self.client = 1 - frame.side
        frame.sender = self.sender(frame)

    def _note_lost(self, frame: Frame) -> None:
        """Frames before this one are lost, in its direction or of the other side: pairing starts anew."""
        expected = self.next_offset[frame.side]
        self.next_offset[frame.side] = frame.offset + frame.length
        if not frame.offset and not frame.connection.directions[frame.side].started:
            self.uncertain = True  # what this side said first may be lost, with its SYN
        if (expected is not None and frame.offset != expected) or self.losses.any_before(frame):
            self.outstanding.clear()
            self.uncertain = True
        if frame.is_partial and frame.offset == expected:
            self.losses.inside(frame)

    # Requests and responses.

    def _add_request(self, frame: Frame, named: dict[str, Any]) -> None:
        """A command: remember it until the broker's next reply that is not yet taken."""
        if self.is_streaming:
            frame.find("note", "protocol", "not-read", "sent on a stream: brokers do not read it")
            return
        topic = named.get("topic", frame.values.get("topic"))
        partition = named.get("partition", frame.values.get("partition"))
        silent = frame.type == "Envelope" and not ANSWERED.match(str(named.get("text", "")))
        name = "" if frame.is_partial and frame.type in WITHOUT_COMMAND else frame.type or ""
        request = CommandRequest(frame.id, frame.time_ns, name, frame.generated, topic, partition, silent=silent)
        self.outstanding.add(frame, frame.id, request)
        if silent:
            frame.outcome = NOT_ASKED

    def _answer(self, frame: Frame, named: dict[str, Any]) -> None:
        """A reply: it belongs to the oldest command that waits, or to the stream."""
        if self.is_streaming:
            frame.request = self.stream
            return
        while len(self.outstanding) > 1 and next(iter(self.outstanding)).silent and frame.type != "ERROR":
            self.outstanding.pop_oldest()
        request = next(iter(self.outstanding), None)
        if request is None:
            self.uncertain = True  # its command was not captured, or comes too late: then the next reply is not its own
            return
        unlinked = self.uncertain or frame.overtakes
        if unlinked:
            note_unlinked(frame)
        if self.uncertain and not plausible(request.type, frame.type or ""):
            return
        if unlinked:
            frame.find("note", "protocol", "after-gap", "frames were lost: which command it answers is not known")
        else:
            link(frame, request)
            self._report_request(frame, request, named)
        if not request.type and frame.type in PUSHED:
            self.outstanding.clear()  # it may have been STREAM
            self.uncertain = True
            return
        if request.type == "STREAM" and frame.type in PUSHED:
            self.is_streaming, self.stream = True, frame.request
            self.outstanding.clear()
        elif request.type == "READ_STREAM" and request.count is None and frame.type not in REFUSALS:
            count = named.get("count")
            request.count = count if isinstance(count, int) else -1
        elif request.type != "CONSUME" or frame.type != "Text":  # in 2025-11 each message came as a frame of text
            if frame.request is not None:
                self._check_second(frame, request)
            self.outstanding.pop_oldest()
        self.uncertain = self.uncertain and bool(self.outstanding)

    def _report_request(self, frame: Frame, request: CommandRequest, named: dict[str, Any]) -> None:
        added: dict[str, Any] = {"in_reply_to": request.type or None}
        if frame.type in ("AckResponse", "OK", "JsonError", "ERROR"):
            added.update(topic=request.topic, partition=request.partition)
        record = frame.layers.get(NAME, {}) if frame.layers else {}
        for name, value in added.items():
            if value is not None and name not in named:
                frame.generate(name, value)
                record.setdefault(name, value)
        if frame.type == "KeepAlive" and request.type not in ("STREAM", "READ_STREAM") and frame.all_seen():
            message = f"an empty frame answers {request.type}: only streams have them"
            frame.find("warning", "protocol", "empty-reply", message, "length")

    def _check_second(self, frame: Frame, request: CommandRequest) -> None:
        """The second reply to READ_STREAM is a batch with the number of messages that the first announced."""
        if request.count is None or not frame.all_seen():
            return
        count = frame.values.get("messages")
        if frame.type != BATCH:
            if frame.type != "KeepAlive":
                message = f"the second reply to READ_STREAM is {frame.type}, not a batch"
                frame.find("warning", "protocol", "second-reply", message)
        elif count != request.count and request.count >= 0 and not frame.is_partial and isinstance(count, int):
            message = f"{count} messages, the first reply announced {request.count}"
            frame.find("warning", "protocol", "count", message, "messages")


def _is_fact(name: str, value: Any) -> bool:
    """Whether a member, whose name may be any text, is fit for one line."""
    return value is not None and value != "" and not isinstance(value, list | dict) and bool(FACT_NAME.fullmatch(name))


def plausible(request: str, reply: str) -> bool:
    """Whether a command can have such a reply at all: where frames were lost, order alone proves nothing."""
    replies = names.REPLIES
    return not request or reply in replies["any"] or reply in replies.get(request, replies["other"])
