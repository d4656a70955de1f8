"""What goes wrong between Pravega clients and servers."""

from __future__ import annotations

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.pravega.changes import CHANGES
from wiredecode.protocols.pravega.names import AUTH_ERRORS
from wiredecode.protocols.shared.checking import CAUSE, Checks, Code, Rule

AUTHENTICATION = Code(
    "pravega.authentication",
    "error",
    "a delegation token was refused",
    "The segment store did not accept the delegation token of a request: it expired, or does not allow this.",
    (
        "the token expired and the client did not fetch a new one",
        "the clocks of controller and store differ",
        "wrong key",
    ),
    "Look at the lifetime of tokens and at both clocks; see whether the client asks the controller for a new token.",
    "pravega/errors.pcap",
    CAUSE,
)


class Tokens(Rule):
    """Tokens that were refused."""

    types = frozenset({"AuthTokenCheckFailed"})

    def frame(self, frame: Frame) -> None:
        code = frame.values.get("error_code", -1)
        trace = printable(frame.values.get("server_stack_trace", "")).split("\n")[0]
        who = self.report.names.short(frame.connection)
        why = AUTH_ERRORS.get(code, f"code {code}")
        what = f"the token of {who} was refused: {why}{f' ({trace})' if trace else ''}"
        self.report.add(AUTHENTICATION, what, (frame.connection.number, code), frame=frame)


CHECKS = Checks(
    changes=CHANGES,
    codes=(AUTHENTICATION,),
    rules=(Tokens,),
    waits=frozenset({"ReadSegment"}),
)
