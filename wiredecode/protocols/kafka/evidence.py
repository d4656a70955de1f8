"""Evidence that bytes are a request or a response of Kafka."""

import re
import struct

from wiredecode.protocols.kafka.layers import layer_of
from wiredecode.protocols.kafka.layers_table import REQUESTS
from wiredecode.protocols.shared import seeking
from wiredecode.protocols.shared.seeking import BAD, GOOD, SHORT, SURE, WEAK, Chain, Evidence, layer_end

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
FIRST_IDS = 0, 1
"""Correlation ids with which clients begin."""
MIN_SURE = 16
"""Bytes of fields after the client id that fit exactly: no chance."""
MAX_REST = 4
"""Bytes after the last field: librdkafka sends some, and brokers ignore them."""

MIN_BYTES = 16
"""Least bytes of two responses."""
FRONT = re.compile(
    rb"""(?=
    (?!\x00\x00\x00[\x00-\x07]) [\x00-\x0f].{3} \x00[\x00-\x60] \x00[\x00-\x18] [\x00-\x7f].{3}
    (?: \xff\xff | \x00[\x00-\x02] | (?P<named> (?:\x00[\x03-\xff] | \x01[\x00-\x2c]) [\x20-\x7e]))
    | (?!\x00\x00\x00[\x00-\x07]) [\x00-\x0f].{3} \x00\x07 \x00\x00
    | (?!\x00\x00\x00[\x00-\x03]) \x00.{3} (?!\x00{4}) [\x00-\x7f].{3}
    )""",
    re.DOTALL | re.VERBOSE,
)
"""Headers of requests, with a client's name or with none, and of responses; few other bytes look like one."""


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
    stop = layer_end(layer_of(REQUESTS[key].name, version), data, position, end)
    if stop is None or not end - MAX_REST <= stop <= end:
        return Evidence(BAD, end)
    sure = named and stop == end and end - start - length >= MIN_SURE
    return Evidence(SURE if sure else GOOD if named else WEAK, end, True)


def _is_known(size: int, key: int, version: int) -> bool:
    first, last = VERSIONS.get(key, (0, -1))
    return 8 <= size <= MAX_BYTES and first <= version <= last + (NEWER if last >= 0 else 0)


class RequestChain(Chain):
    """Requests in a row: they name one client."""

    needed = {
        seeking.START: {GOOD: 1, WEAK: 4},
        seeking.START_HOME: {WEAK: 1},
        seeking.LATE: {SURE: 1, GOOD: 3},
        seeking.LATE_HOME: {GOOD: 1},
        seeking.KNOWN: {SURE: 1, GOOD: 2},
    }
    named: bytes | None = None

    def judge(self, data: bytes, position: int) -> Evidence:
        seen, start = judge_request(data, position), position + REQUEST.size
        if seen.level < GOOD:
            return seen
        if seen.end > len(data) and seen.end - position > seeking.SEARCH_BYTES and self.place == seeking.KNOWN:
            return Evidence(WEAK, seen.end, True)  # a header alone does not show a frame of this size
        name = data[start : start + REQUEST.unpack_from(data, position)[-1]]
        if self.named not in (None, name):
            return Evidence(BAD)
        self.named = name
        return seen


class ResponseChain(Chain):
    """Responses in a row: their correlation ids go up."""

    needed = {seeking.START_HOME: {WEAK: 3, SURE: 1}, seeking.LATE_HOME: {WEAK: 3}, seeking.KNOWN: {WEAK: 3}}
    fills, looks = 1, RESPONSE.size
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
        first = self.place == seeking.START_HOME and correlation in FIRST_IDS
        return Evidence(SURE if first else WEAK, position + 4 + size, False)


SEEKER = seeking.Seeker(FRONT, MIN_BYTES, (RequestChain, ResponseChain))
