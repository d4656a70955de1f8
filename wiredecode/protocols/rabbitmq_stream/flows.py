"""The way of messages in streams: publishes, confirms, chunks, subscriptions and stored offsets."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wiredecode.fields import printable
from wiredecode.frames.frame import ALL, Frame
from wiredecode.protocols.reading import values_of
from wiredecode.protocols.shared import flows
from wiredecode.protocols.shared.flows import MAX_KNOWN, FlowReader, MessageSample, PublishedContent, Sampler, Step
from wiredecode.protocols.shared.pairing import Newest

STARTS = {1: flows.FIRST, 2: flows.LATEST, 3: flows.LATEST, 5: "time"}
"""Types of offsets; 2 begins with the last chunk, 3 after it. The type 4 names an offset."""
OFFSET, USER_CHUNK = 4, 0


class SubscribedStream(NamedTuple):
    stream: str
    group: str
    offset: int
    """Chunks may begin before it; the client leaves those messages out."""


class StreamFlows(FlowReader):
    """Steps of one capture."""

    types = frozenset(
        {
            *("Open", "Publish", "PublishConfirm", "PublishError", "StoreOffset"),
            *("Subscribe", "Deliver", "Unsubscribe", "QueryOffset"),
        }
    )

    def __init__(self) -> None:
        self._subscriptions: Newest[tuple[int, int], SubscribedStream] = Newest(MAX_KNOWN)
        self._published: Newest[int, tuple[str, int]] = Newest(MAX_KNOWN)
        self._sampler = Sampler()

    def read(self, frame: Frame) -> Iterator[Step]:
        values, stream = frame.values, frame.generated.get("stream", "")
        if frame.type == "Publish":
            count = values["messages"] if isinstance(values["messages"], int) else len(values["messages"])
            self._published.put(frame.id, (stream, count))
            samples: Sequence[MessageSample] = ()
            if self._sampler.wants(frame):
                samples = self._sampler.take(frame, count, contents_of(frame))
            yield Step(flows.PUBLISH, stream, messages=count, size=frame.length, samples=samples)
        elif frame.type in ("PublishConfirm", "PublishError"):
            yield from self._answered(frame)
        elif frame.type == "Subscribe":
            yield self._subscribe(frame)
        elif frame.type == "Unsubscribe":
            known = self._subscriptions.get((frame.connection.number, values["subscription_id"]))
            if known is not None:
                yield Step(flows.LEAVE, known.stream, group=known.group)
        elif frame.type == "Open":
            yield Step(flows.MEMBER, "")
        elif frame.type == "StoreOffset":
            group, stream = printable(values["reference"]), printable(values["stream"])
            yield Step(flows.STORE, stream, group=group, first=values["offset"])
        elif frame.type == "QueryOffset":
            yield Step(flows.LOOKUP, printable(values["stream"]), group=printable(values["reference"]))
        elif frame.type == "Deliver" and values["chunk"]["chunk_type"] == USER_CHUNK:
            yield from self._delivered(frame, stream)

    def _answered(self, frame: Frame) -> Iterator[Step]:
        for each in frame.confirmations:
            stream, count = self._published.get(each.request, ("", 0))
            if stream:
                what = flows.CONFIRM if each.refusal is None else flows.REFUSE
                yield Step(what, stream, messages=count if each.length == ALL else each.length)

    def _subscribe(self, frame: Frame) -> Step:
        values = frame.values
        kind, named = values["offset_type"], {each.get("key"): each.get("value") for each in values["properties"]}
        offset = values.get("offset", 0) if kind == OFFSET else 0
        known = SubscribedStream(printable(values["stream"]), printable(str(named.get("name") or "")), offset)
        self._subscriptions.put((frame.connection.number, values["subscription_id"]), known)
        start = STARTS.get(kind) or f"offset {offset}"
        return Step(flows.SUBSCRIBE, known.stream, group=known.group, start=start)

    def _delivered(self, frame: Frame, stream: str) -> Iterator[Step]:
        chunk, key = frame.values["chunk"], (frame.connection.number, frame.values["subscription_id"])
        known = self._subscriptions.get(key) or SubscribedStream(stream, "", 0)
        if chunk["chunk_id"] + chunk["num_records"] <= known.offset:  # the stream is shorter: it began at its end
            known = known._replace(offset=0)
            self._subscriptions.put(key, known)
        first = max(chunk["chunk_id"], known.offset)
        count = chunk["num_records"] - (first - chunk["chunk_id"])
        if known.stream and count > 0:
            yield Step(flows.DELIVER, known.stream, group=known.group, first=first, messages=count, size=frame.length)


def contents_of(frame: Frame) -> Iterator[PublishedContent]:
    """The simple messages; they have an id if the publisher has a name."""
    name = frame.generated.get("reference", "")
    for each in values_of(frame).get("messages", ()):
        if "data" in each:
            yield PublishedContent(None, each["data"], f"{name} {each['publishing_id']}" if name else "")
