"""What becomes of what RabbitMQ Stream clients publish: no answer, or a refusal."""

from __future__ import annotations

from wiredecode.frames.frame import Frame
from wiredecode.protocols.rabbitmq_stream import names
from wiredecode.protocols.shared.checking import DEED, REMARK, Code, Report, Rule, values_of

REFUSED = Code(
    "rabbitmq_stream.publish-error",
    "error",
    "published messages were refused",
    "The broker answered PublishError: these messages are not in the stream.",
    (
        "the publisher was deleted, or its stream was, or the leader of the stream moved (MetadataUpdate)",
        "no permission to write",
        "the broker could not read the messages, or had an internal error",
    ),
    "Declare the publisher again, on the leader that Metadata names, and publish again what was refused; clients must "
    "react to MetadataUpdate.",
    "stories/stream-deleted.pcap",
    DEED,
)
DUPLICATES = Code(
    "rabbitmq_stream.duplicate-ids",
    "note",
    "publishing ids that the broker knows already",
    "A publisher with a name published ids that are not above its last one: the broker drops these messages, and "
    "confirms them all the same. So it is to be after a reconnection; otherwise messages are lost without a word.",
    (
        "the publisher sends again what was not confirmed before it reconnected",
        "the application numbers its messages from the start again, under the same name",
        "two publishers use one name",
    ),
    "Begin behind what QueryPublisherSequence tells; give each publisher a name of its own.",
    "rabbitmq-stream/c43_dedup.pcap",
    REMARK,
)
MOST_LOOKED = 10_000
"""Publish frames whose ids are read: that takes time."""
MOST_NAMES = 1000


class PublishErrors(Rule):
    """Messages that were refused, by stream and reason."""

    types = frozenset({"PublishError"})

    def frame(self, frame: Frame) -> None:
        stream = frame.generated.get("stream")
        codes = [error.get("response_code", 0) for error in frame.values.get("errors") or ()]
        for code in dict.fromkeys(codes):
            who = self.report.names.short(frame.connection)
            to = f"to {stream}" if stream else f"as publisher {frame.values.get('publisher_id')}"
            what = f"messages that {who} published {to} were refused: {names.RESPONSE_CODES.get(code, f'code {code}')}"
            key = (frame.connection.number, to, code)
            problem = self.report.add(REFUSED, what, key, frame=frame, count=codes.count(code))
            if problem is not None:
                problem.weight = problem.count
                for finding in frame.findings:
                    if finding.code in ("ended", "not-declared"):
                        problem.detail(finding.message)


class DuplicateIds(Rule):
    """Publishing ids of publishers with a name that do not go up."""

    types = frozenset({"Publish"})

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._highest: dict[tuple[str, str], int] = {}
        self._looked = 0

    def frame(self, frame: Frame) -> None:
        name = frame.generated.get("reference")
        if name is None or self._looked >= MOST_LOOKED:
            return
        self._looked += 1
        key = frame.generated["stream"], name
        ids = [each["publishing_id"] for each in values_of(frame).get("messages", ()) if "publishing_id" in each]
        highest = self._highest.get(key, -1)
        again = [each for each in ids if each <= highest]
        if ids and (key in self._highest or len(self._highest) < MOST_NAMES):
            self._highest[key] = max(highest, *ids)
        if again:
            what = f"{name} published ids to {key[0]} again, {again[0]:,} first: they were up to {highest:,} already"
            self.report.add(DUPLICATES, what, key, frame=frame, count=len(again))
