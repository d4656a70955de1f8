"""The way of messages into streams. Replication and Raft are the servers' own business."""

from collections.abc import Sequence

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared import flows
from wiredecode.protocols.shared.flows import FlowReader, Step
from wiredecode.protocols.shared.problems import inner_values


class EnvelopeFlows(FlowReader):
    """Steps of publishes, by subject, and of their acknowledgments, with the offset in the stream."""

    types = frozenset({"Publish", "Ack"})

    def read(self, frame: Frame) -> Sequence[Step]:
        values = inner_values(frame)
        if frame.type == "Publish":
            what = flows.PUBLISH if frame.sender == "client" else flows.DELIVER
            return (Step(what, printable(frame.values["subject"]), None, "", None, 1, frame.values["size"]),)
        if frame.sender == "client":
            return ()  # the server publishes it
        what = flows.REFUSE if values.get("ack_error") else flows.CONFIRM
        stream, subject = printable(values["stream"]), printable(values["msg_subject"])
        return (Step(what, subject, None, "", values.get("offset", 0), log=stream),)
