"""Names of the numbers on the wire (Pravega, WireCommandType and the pages on its wire protocol)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

TYPES = {
    -127: "Hello",
    -6: "StorageChunksListed",
    -5: "ListStorageChunks",
    -4: "StorageFlushed",
    -3: "FlushToStorage",
    -2: "PartialEvent",
    -1: "Padding",
    0: "Event",
    1: "SetupAppend",
    2: "AppendSetup",
    3: "AppendBlock",
    4: "AppendBlockEnd",
    5: "ConditionalAppend",
    7: "DataAppended",
    8: "ConditionalCheckFailed",
    9: "ReadSegment",
    10: "SegmentRead",
    11: "GetStreamSegmentInfo",
    12: "StreamSegmentInfo",
    13: "GetTransactionInfo",
    14: "TransactionInfo",
    20: "CreateSegment",
    21: "SegmentCreated",
    22: "CreateTransaction",
    23: "TransactionCreated",
    24: "CommitTransaction",
    25: "TransactionCommitted",
    26: "AbortTransaction",
    27: "TransactionAborted",
    28: "SealSegment",
    29: "SegmentSealed",
    30: "DeleteSegment",
    31: "SegmentDeleted",
    32: "UpdateSegmentPolicy",
    33: "SegmentPolicyUpdated",
    34: "GetSegmentAttribute",
    35: "SegmentAttribute",
    36: "UpdateSegmentAttribute",
    37: "SegmentAttributeUpdated",
    38: "TruncateSegment",
    39: "SegmentTruncated",
    40: "CreateTransientSegment",
    41: "LocateOffset",
    42: "OffsetLocated",
    50: "WrongHost",
    51: "SegmentIsSealed",
    52: "SegmentAlreadyExists",
    53: "NoSuchSegment",
    54: "NoSuchTransaction",
    55: "InvalidEventNumber",
    56: "SegmentIsTruncated",
    57: "OperationUnsupported",
    58: "MergeSegments",
    59: "SegmentsMerged",
    60: "AuthTokenCheckFailed",
    61: "ErrorMessage",
    68: "GetTableSegmentInfo",
    69: "TableSegmentInfo",
    70: "CreateTableSegment",
    71: "DeleteTableSegment",
    72: "MergeTableSegments",
    73: "SealTableSegment",
    74: "UpdateTableEntries",
    75: "TableEntriesUpdated",
    76: "RemoveTableKeys",
    77: "TableKeysRemoved",
    78: "ReadTable",
    79: "TableRead",
    80: "TableSegmentNotEmpty",
    81: "TableKeyDoesNotExist",
    82: "TableKeyBadVersion",
    83: "ReadTableKeys",
    84: "TableKeysRead",
    85: "ReadTableEntries",
    86: "TableEntriesRead",
    87: "TableEntriesDeltaRead",
    88: "ReadTableEntriesDelta",
    89: "ConditionalBlockEnd",
    90: "MergeSegmentsBatch",
    91: "SegmentsBatchMerged",
    100: "KeepAlive",
}
"""Every code a release ever used with this meaning; 13, 14, 22-27, 54, 72 and 73 are given up today."""

TYPES_2016_07 = {
    5: "DataAppended",
    6: "ReadSegment",
    7: "SegmentRead",
    8: "GetStreamSegmentInfo",
    9: "StreamSegmentInfo",
}
"""Codes that meant something else from July to November 2016."""

SUCCESSES: Mapping[str, str] = MappingProxyType(
    {
        "SetupAppend": "AppendSetup",
        "GetStreamSegmentInfo": "StreamSegmentInfo",
        "GetTransactionInfo": "TransactionInfo",
        "CreateSegment": "SegmentCreated",
        "CreateTableSegment": "SegmentCreated",
        "CreateTransientSegment": "SegmentCreated",
        "CreateTransaction": "TransactionCreated",
        "CommitTransaction": "TransactionCommitted",
        "AbortTransaction": "TransactionAborted",
        "SealSegment": "SegmentSealed",
        "SealTableSegment": "SegmentSealed",
        "DeleteSegment": "SegmentDeleted",
        "DeleteTableSegment": "SegmentDeleted",
        "UpdateSegmentPolicy": "SegmentPolicyUpdated",
        "GetSegmentAttribute": "SegmentAttribute",
        "UpdateSegmentAttribute": "SegmentAttributeUpdated",
        "TruncateSegment": "SegmentTruncated",
        "LocateOffset": "OffsetLocated",
        "MergeSegments": "SegmentsMerged",
        "MergeTableSegments": "SegmentsMerged",
        "MergeSegmentsBatch": "SegmentsBatchMerged",
        "GetTableSegmentInfo": "TableSegmentInfo",
        "UpdateTableEntries": "TableEntriesUpdated",
        "RemoveTableKeys": "TableKeysRemoved",
        "ReadTable": "TableRead",
        "ReadTableKeys": "TableKeysRead",
        "ReadTableEntries": "TableEntriesRead",
        "ReadTableEntriesDelta": "TableEntriesDeltaRead",
        "FlushToStorage": "StorageFlushed",
        "ListStorageChunks": "StorageChunksListed",
    }
)
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
