"""The way of messages into streams. Replication and Raft are the servers' own business."""

from collections.abc import Sequence

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared import flows
from wiredecode.protocols.shared.flows import FlowReader, PublishedContent, Sampler, Step
from wiredecode.protocols.shared.problems import inner_values


class EnvelopeFlows(FlowReader):
    """Steps of publishes, by subject, and of their acknowledgments, with the offset in the stream."""

    types = frozenset({"Publish", "Ack"})

    def __init__(self) -> None:
        self._sampler = Sampler()

    def read(self, frame: Frame) -> Sequence[Step]:
        values = inner_values(frame)
        if frame.type == "Publish":
            what = flows.PUBLISH if frame.sender == "client" else flows.DELIVER
            step = Step(what, printable(frame.values["subject"]), None, "", None, 1, frame.values["size"])
            if what == flows.PUBLISH and self._sampler.wants(frame):
                content = PublishedContent(values.get("key"), values.get("value"), "")
                step = step._replace(samples=self._sampler.take(frame, 1, (content,)))
            return (step,)
        if frame.sender == "client":
            return ()  # the server publishes it
        what = flows.REFUSE if values.get("ack_error") else flows.CONFIRM
        stream, subject = printable(values["stream"]), printable(values["msg_subject"])
        return (Step(what, subject, None, "", values.get("offset", 0), log=stream),)
