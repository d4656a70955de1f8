"""Names of the numbers on the wire (Pravega, WireCommandType and the pages on its wire protocol)."""

from collections.abc import Mapping
from types import MappingProxyType

from wiredecode.protocols.shared.data import data_of, number_keys

NAMES = data_of("pravega", "names.toml")
TYPES = number_keys(NAMES["types"])
"""Every code a release ever used with this meaning; 13, 14, 22-27, 54, 72 and 73 are given up today."""

TYPES_2016_07 = number_keys(NAMES["types-2016-07"])
"""Codes that meant something else from July to November 2016."""

SUCCESSES: Mapping[str, str] = NAMES["successes"]
"""The reply that means yes, for the requests that are paired by their request id."""

APPENDS = frozenset({"AppendBlockEnd", "ConditionalAppend", "ConditionalBlockEnd"})
"""Messages that DataAppended acknowledges."""

FAILURES = frozenset(NAMES["failures"]["any-request"])
"""Replies that refuse any request."""

CLIENT_TYPES = frozenset(SUCCESSES).union(APPENDS, NAMES["evidence"]["client"])
SERVER_TYPES = frozenset(SUCCESSES.values()) | FAILURES | {"DataAppended", "SegmentRead"}
"""Messages that only one side sends; Hello, KeepAlive and Partial Message do not count."""

SCALE_TYPES = number_keys(NAMES["scale-types"])
UPDATE_TYPES = number_keys(NAMES["update-types"])
AUTH_ERRORS = number_keys(NAMES["auth-errors"])
ERRORS = number_keys(NAMES["errors"])

PARTS = number_keys(NAMES["parts"])
SEGMENT_READ_FLAGS = number_keys(NAMES["segment-read-flags"])

WIRE = "wire"
PROPOSAL = "proposal"
PROPOSALS: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {name: number_keys(codes) for name, codes in NAMES["proposals"].items()}
)
"""The proposal gives no codes: the assignments of the code of its time, by dialect."""
