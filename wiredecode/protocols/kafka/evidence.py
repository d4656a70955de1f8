"""Evidence that bytes are a request or a response of Kafka."""

import struct

from wiredecode.fields import compiler
from wiredecode.frames.splitter import BAD, GOOD, SHORT, SURE, WEAK, Chain, Evidence
from wiredecode.protocols.kafka.layers import layer_of
from wiredecode.protocols.kafka.layers_table import REQUESTS

REQUEST = struct.Struct(">ihhih")
"""Size, key, version, correlation id and length of the client id."""
RESPONSE = struct.Struct(">ii")
MAX_BYTES = 256 * 1024 * 1024
MAX_CLIENT_ID = 300
MAX_STEP = 100
"""Between the correlation ids of responses that follow each other: requests with acks=0 have none."""
VERSIONS = {key: message.versions for key, message in REQUESTS.items()}
NEWER = 3
"""Versions above the last known one that a request may have."""
MIN_SURE = 16
"""Bytes of fields after the client id that fit exactly: no chance."""
MAX_REST = 3
"""Bytes after the last field: librdkafka sends some, and brokers ignore them."""


def judge_request(data: bytes, position: int) -> Evidence:
    """A request names its API, a version and a client, and its fields fill it: few other bytes do.

    Requests of RabbitMQ Stream have the same header, and a text in place of the client.
    """
    if len(data) - position < REQUEST.size:
        front = data[position : position + 8]
        return Evidence(SHORT if len(front) < 8 or _is_known(*struct.unpack(">ihh", front)) else BAD)
    size, key, version, correlation, length = REQUEST.unpack_from(data, position)
    if not _is_known(size, key, version) or correlation < 0:
        return Evidence(BAD)
    end, start = position + 4 + size, position + REQUEST.size
    if key == 7 and version == 0:
        return Evidence(WEAK, end, True)
    if not -1 <= length <= min(MAX_CLIENT_ID, size - 10):
        return Evidence(BAD)
    name = data[start : start + max(length, 0)]
    if not all(32 <= byte < 127 for byte in name):
        return Evidence(BAD)
    named = length > 2 and len(name) == length
    if end > len(data) or version > VERSIONS[key][1]:
        return Evidence(GOOD if named else WEAK, end, True)
    try:
        rest = end - compiler.walk(layer_of(REQUESTS[key].name, version), data, position, end)[1]
    except compiler.FAILED:
        return Evidence(BAD, end)
    if not 0 <= rest <= MAX_REST:
        return Evidence(BAD, end)
    sure = named and not rest and end - start - length >= MIN_SURE
    return Evidence(SURE if sure else GOOD if named else WEAK, end, True)


def _is_known(size: int, key: int, version: int) -> bool:
    first, last = VERSIONS.get(key, (0, -1))
    return 8 <= size <= MAX_BYTES and first <= version <= last + (NEWER if last >= 0 else 0)


class RequestChain(Chain):
    """Requests in a row: they name one client."""

    most = 3
    named: bytes | None = None

    def judge(self, data: bytes, position: int) -> Evidence:
        seen, start = judge_request(data, position), position + REQUEST.size
        if seen.level < GOOD:
            return seen
        name = data[start : start + REQUEST.unpack_from(data, position)[-1]]
        if self.named not in (None, name):
            return Evidence(BAD)
        self.named = name
        return seen

    def enough(self) -> bool:
        return self.best >= GOOD and self.whole > 1

    def is_certain(self) -> bool:
        """Whether a request is sure, or followed by another one: bytes of other protocols look like a short one."""
        return self.best == SURE or self.enough()

    def is_likely(self, size: int) -> bool:
        """Whether ``size`` bytes are enough to believe it."""
        return self.may_become_so(size) and self.whole > 0

    def may_become_so(self, size: int) -> bool:
        return self.best >= GOOD


FIRST_IDS = 0, 1
"""Correlation ids with which clients begin."""


class ResponseChain(Chain):
    """Responses in a row: their correlation ids go up."""

    most = 4
    before: int | None = None

    def judge(self, data: bytes, position: int) -> Evidence:
        if len(data) - position < RESPONSE.size:
            return Evidence(SHORT)
        size, correlation = RESPONSE.unpack_from(data, position)
        if not 4 <= size <= MAX_BYTES or correlation < bool(position):  # 0 further on: mostly the front of an offset
            return Evidence(BAD)
        before, self.before = self.before, correlation
        if before is not None and not 0 < correlation - before <= MAX_STEP:
            return Evidence(BAD)
        return Evidence(WEAK, position + 4 + size, False)

    def enough(self) -> bool:
        return self.whole >= 3

    def is_likely(self, size: int) -> bool:
        return self.enough() or (self.whole >= 2 and self.end == size)

    def may_become_so(self, size: int) -> bool:
        return self.last.level == SHORT or self.last.end > size
