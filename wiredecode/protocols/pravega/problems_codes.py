"""Codes of what goes wrong between Pravega clients and servers."""

from __future__ import annotations

from wiredecode.protocols.shared.problems import CAUSE, DEED, Code

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
WRONG_HOST = Code(
    "pravega.wrong-host",
    "warning",
    "a segment is on another host",
    "The segment store does not own the container of the segment: the client asks the controller again, and connects "
    "to the owner. Until then it neither writes nor reads that segment.",
    ("containers moved to another store, after a failure or a rolling restart", "a client with an old list of hosts"),
    "Expected for seconds after a store was lost; when it goes on, compare what the controller says with the stores.",
    "pravega/errors.pcap",
    CAUSE,
)
SETUP_UNANSWERED = Code(
    "pravega.setup-unanswered",
    "warning",
    "a writer was not set up",
    "SetupAppend got neither AppendSetup nor a refusal: all that this writer appends to the segment waits for it.",
    ("the segment store is stuck or starting", "its container recovers", "the connection was cut"),
    "Look at the log of the segment store at that time.",
    "",
    DEED,
)
SLOW_READ = Code(
    "pravega.slow-read",
    "warning",
    "reads were slow while data was there",
    "SegmentRead came more than a second after both the request and the data that it brings were there. Reads that "
    "wait at the tail of a segment for new data are not meant: they may take as long as nobody writes.",
    ("old data that has to come from long-term storage", "a segment store that is overloaded"),
    "Look at the cache and at the long-term storage of the segment store.",
    "",
    DEED,
)
TRUNCATED = Code(
    "pravega.segment-truncated",
    "note",
    "a reader came too late for its data",
    "It asked for an offset in front of the beginning of the segment: what stood there was truncated (retention, or by "
    "a program), and this reader never gets it. It is a warning from the second time on.",
    ("a reader that is slower than the retention", "a position that was stored long ago"),
    "Compare the retention of the stream with how far behind its readers are.",
    "pravega/read_cuts.pcap",
    DEED,
)
SEALED = Code(
    "pravega.segment-sealed",
    "note",
    "a segment is sealed",
    "Nothing can be appended to the segment any more, and readers have come to its end.",
    ("the stream was scaled: clients go on with the successors of the segment", "the stream was sealed"),
    "Expected when a stream is scaled or sealed.",
    "pravega/errors.pcap",
)
CONDITIONAL = Code(
    "pravega.conditional-refused",
    "note",
    "conditional appends were refused",
    "The segment had grown since the writer read it: somebody else wrote first. It reads again, and tries anew.",
    ("several writers of one revisioned stream, or several readers of one group",),
    "Many of them mean that many clients contend for one state (reader group, revisioned stream).",
    "",
)
ABORTED = Code(
    "pravega.transaction-aborted",
    "note",
    "transactions were aborted",
    "Segments of a transaction were deleted instead of merged: its events are gone.",
    ("the program aborted it", "its lease ran out"),
    "Ask the program; a lease that runs out is too short, or is not renewed.",
    "",
)
NOT_MERGED = Code(
    "pravega.transaction-open",
    "warning",
    "events of a transaction were never merged",
    "Events were written into segments of a transaction, which was neither committed (merged) nor aborted (deleted) as "
    "long as the capture lasts: no reader has seen them.",
    ("the program forgot to commit", "the program ended, and the lease runs", "the controller is stuck"),
    "Look at what the program did after its last event, and at the log of the controller.",
    "",
    DEED,
)
REFUSED = Code(
    "pravega.refused",
    "note",
    "requests were refused",
    "The segment store answered that it will not do what was asked.",
    ("what was asked for does not exist, or exists already", "somebody else changed it first"),
    "Read the reason; the controller asks first for many segments that need not exist.",
    "pravega/errors.pcap",
)
ALL = (
    *(AUTHENTICATION, WRONG_HOST, SETUP_UNANSWERED, SLOW_READ, TRUNCATED, SEALED, CONDITIONAL),
    *(ABORTED, NOT_MERGED, REFUSED),
)
