"""Evidence that bytes are a request or a response of Kafka."""

from __future__ import annotations

import struct

from wiredecode.protocols.kafka.layers_table import REQUESTS
from wiredecode.protocols.shared.framing import BAD, CUT, GOOD, WEAK, Chain, Evidence

REQUEST = struct.Struct(">ihhih")
"""Size, key, version, correlation id and length of the client id."""
RESPONSE = struct.Struct(">ii")
MOST_BYTES = 256 * 1024 * 1024
MOST_CLIENT_ID = 300
MOST_STEP = 1000
"""Between the correlation ids of responses that follow each other."""
VERSIONS = {key: message.versions for key, message in REQUESTS.items()}
NEWER = 3
"""Versions above the last known one that a request may have."""


def judge_request(data: bytes, position: int) -> Evidence:
    """A request names its API, a version and a client: few other bytes do."""
    if len(data) - position < REQUEST.size:
        front = data[position : position + 8]
        short = len(front) < 8
        return Evidence(CUT if short or _is_known(*struct.unpack(">ihh", front)) else BAD)
    size, key, version, correlation, length = REQUEST.unpack_from(data, position)
    if not _is_known(size, key, version) or correlation < 0:
        return Evidence(BAD)
    end, start = position + 4 + size, position + REQUEST.size
    if key == 7 and version == 0:
        return Evidence(WEAK, end, True)
    if not -1 <= length <= min(MOST_CLIENT_ID, size - 10):
        return Evidence(BAD)
    name = data[start : start + max(length, 0)]
    if not all(32 <= byte < 127 for byte in name):
        return Evidence(BAD)
    return Evidence(GOOD if length > 2 and len(name) == length else WEAK, end, True)


def _is_known(size: int, key: int, version: int) -> bool:
    first, last = VERSIONS.get(key, (0, -1))
    return 8 <= size <= MOST_BYTES and first <= version <= last + (NEWER if last >= 0 else 0)


class RequestChain(Chain):
    """Requests in a row."""

    most = 3

    def judge(self, data: bytes, position: int) -> Evidence:
        return judge_request(data, position)

    def enough(self) -> bool:
        return self.best >= GOOD


class ResponseChain(Chain):
    """Responses in a row: their correlation ids go up."""

    most = 4

    def __init__(self, data: bytes, position: int) -> None:
        self.before: int | None = None
        super().__init__(data, position)

    def judge(self, data: bytes, position: int) -> Evidence:
        if len(data) - position < RESPONSE.size:
            return Evidence(CUT)
        size, correlation = RESPONSE.unpack_from(data, position)
        if not 4 <= size <= MOST_BYTES or correlation < 0:
            return Evidence(BAD)
        before, self.before = self.before, correlation
        if before is not None and not 0 < correlation - before <= MOST_STEP:
            return Evidence(BAD)
        return Evidence(WEAK, position + 4 + size, False)

    def enough(self) -> bool:
        return self.whole >= 3
