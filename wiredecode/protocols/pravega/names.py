"""Names of the numbers on the wire (Pravega, WireCommandType and the pages on its wire protocol)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from wiredecode.protocols.shared.data import data_of, numbered

NAMES = data_of("pravega", "names.toml")
TYPES = numbered(NAMES["types"])
"""Every code a release ever used with this meaning; 13, 14, 22-27, 54, 72 and 73 are given up today."""

TYPES_2016_07 = numbered(NAMES["types-2016-07"])
"""Codes that meant something else from July to November 2016."""

SUCCESSES: Mapping[str, str] = NAMES["successes"]
"""The reply that means yes, for the requests that are paired by their request id."""

APPENDS = frozenset({"AppendBlockEnd", "ConditionalAppend", "ConditionalBlockEnd"})
"""Messages that DataAppended acknowledges."""

FAILURES = frozenset(
    {
        *("WrongHost", "SegmentIsSealed", "SegmentAlreadyExists", "NoSuchSegment", "NoSuchTransaction"),
        *("InvalidEventNumber", "SegmentIsTruncated", "OperationUnsupported", "AuthTokenCheckFailed", "ErrorMessage"),
        *("TableSegmentNotEmpty", "TableKeyDoesNotExist", "TableKeyBadVersion", "ConditionalCheckFailed"),
    }
)
"""Replies that refuse any request."""

CLIENT_TYPES = (
    frozenset(SUCCESSES) | APPENDS | {"AppendBlock", "ReadSegment", "BeginAppendBlock", "EndAppendBlock", "Event"}
)
SERVER_TYPES = frozenset(SUCCESSES.values()) | FAILURES | {"DataAppended", "SegmentRead"}
"""Messages that only one side sends; Hello, KeepAlive and Partial Message do not count."""

SCALE_TYPES = {0: "no scaling", 1: "throughput", 2: "event rate"}
UPDATE_TYPES = {0: "none", 1: "replace", 2: "replace if greater", 3: "accumulate", 4: "replace if equal"}
AUTH_ERRORS = {-1: "UNSPECIFIED", 0: "TOKEN_CHECK_FAILED", 1: "TOKEN_EXPIRED"}
ERRORS = {-1: "UNSPECIFIED", 0: "ILLEGAL_ARGUMENT_EXCEPTION"}

PARTS = {0: "Begin", 1: "Middle", 2: "End"}
SEGMENT_READ_FLAGS = {
    0x80: "at tail",
    0x40: "end of segment",
    0x01: "at tail (low bits)",
    0x02: "end of segment (low bits)",
}

WIRE = "wire"
PROPOSAL = "proposal"
PROPOSALS: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        name: {
            -2: "PartialMessage",
            0: "Event",
            1: "SetupAppend",
            2: "AppendSetup",
            3: "BeginAppendBlock",
            4: "EndAppendBlock",
            acknowledged: "DataAppended",
            read: "ReadSegment",
            answer: "SegmentRead",
            100: "KeepAlive",
        }
        for name, acknowledged, read, answer in (
            (PROPOSAL, 7, 9, 10),
            ("proposal-2016-07", 5, 6, 7),
            ("proposal-2016-06", 5, 8, 9),
        )
    }
)
"""The proposal gives no codes: the assignments of the code of its time, by dialect."""
