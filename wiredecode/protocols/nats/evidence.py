"""Cutting a NATS byte stream into operations or WebSocket frames, and judging what might be one."""

import re
from typing import ClassVar, NamedTuple

from wiredecode.fields.textfields import MAX_DIGITS
from wiredecode.frames.splitter import Allowance
from wiredecode.protocols.base import Found, Split
from wiredecode.protocols.nats import NAME, transport
from wiredecode.protocols.nats import transport_websocket as websocket
from wiredecode.protocols.nats.names import CLIENT_SENDS, COUNTED, OPERATIONS, SERVER_SENDS
from wiredecode.protocols.shared.seeking import BAD, GOOD, SHORT

MAX_CONTROL_LINE = 64 * 1024
"""Longest plausible line; servers accept 4 KiB from clients by default."""
MAX_JSON_LINE = 1024 * 1024
"""The same for INFO and CONNECT: lists of servers and signed claims are long."""
MAX_BODY_BYTES = 64 * 1024 * 1024
"""Largest plausible counted body; servers accept 1 MiB by default and are advised to stay below 8 MiB."""
SEARCH_BYTES = MAX_BODY_BYTES // 64 + MAX_CONTROL_LINE
"""While searching, an operation is believed only if it and the next one can be seen within this many bytes."""
CHAIN = 3
"""Good operations in a row that are believed after a gap."""

CR, BLANK = 0x0D, 0x20
SIZED_STARTS = frozenset((b"MSG ", b"PUB ", b"HPUB", b"HMSG", b"RMSG", b"LMSG"))
LINE_STARTS = frozenset((b"SUB ", b"PING", b"PONG", b"+OK\r", b"RS+ ", b"RS- ", b"LS+ ", b"LS- "))
"""Beginnings of most operations, as all known programs write them; others take the long way."""

OPERATION_NAME = re.compile(
    rb"(CONNECT|INFO|PING|PONG|\+OK|-ERR)|(H?PUB|SUB|UNSUB|[HRL]?MSG|[RL]S[+-]|A[+-])(?=[ \t])", re.IGNORECASE
)
"""The name of an operation; those of the second kind need a blank after them."""
TOKEN = rb"[ \t]+[^ \t\r\n]+"
BEHEADED = rb"(?i:PUB%s|MSG%s%s)[ \t]+\d{1,9}[ \t]+\d{1,9}[ \t]*\r?\n" % (TOKEN, TOKEN, TOKEN)
"""HPUB and HMSG without their first letter: the size of their headers would be the reply subject."""
LINE_START = rb"(?:\A(?!" + BEHEADED + rb")|(?<=\n))"
OPERATION_START = LINE_START + rb"(?i:CONNECT|INFO|PING|PONG|\+OK|-ERR|H?PUB|SUB|UNSUB|[HRL]?MSG|[RL]S[+-]|A[+-])"
LINE_CANDIDATE = re.compile(OPERATION_START)
"""Lines that begin like an operation."""
CANDIDATE = re.compile(
    OPERATION_START
    + rb"|[\x14-\x17]\x03[\x00-\x04]"
    + rb"|[\x00\x01](?![\x00-\x03]\x00\x00)[\x00-\xff]{2}[\x00-\x04](?=[\x00-\xff]{4})"
)
"""Where to look at while searching: lines that begin like an operation, TLS records, S2 chunks with room for a CRC."""
START_BYTES = 8
"""Bytes needed to decide whether a position is a candidate."""
TEXT = re.compile(rb"[\t -~\x80-\xff]*\r?\n")
LINES = {
    "PUB": re.compile(rb"PUB%s(?:%s)?[ \t]+(\d{1,9})[ \t]*\r?\n" % (TOKEN, TOKEN), re.IGNORECASE),
    "HPUB": re.compile(rb"HPUB%s(?:%s)?[ \t]+\d{1,9}[ \t]+(\d{1,9})[ \t]*\r?\n" % (TOKEN, TOKEN), re.IGNORECASE),
    "MSG": re.compile(rb"MSG%s%s(?:%s)?[ \t]+(\d{1,9})[ \t]*\r?\n" % (TOKEN, TOKEN, TOKEN), re.IGNORECASE),
    "HMSG": re.compile(rb"HMSG(?:%s){1,64}[ \t]+\d{1,9}[ \t]+(\d{1,9})[ \t]*\r?\n" % TOKEN, re.IGNORECASE),
    "RMSG": re.compile(rb"RMSG(?:%s){1,64}[ \t]+(\d{1,9})[ \t]*\r?\n" % TOKEN, re.IGNORECASE),
    "LMSG": re.compile(rb"LMSG(?:%s){1,64}[ \t]+(\d{1,9})[ \t]*\r?\n" % TOKEN, re.IGNORECASE),
    "SUB": re.compile(rb"SUB%s(?:%s)?%s[ \t]*\r?\n" % (TOKEN, TOKEN, TOKEN), re.IGNORECASE),
    "UNSUB": re.compile(rb"UNSUB%s(?:[ \t]+\d{1,9})?[ \t]*\r?\n" % TOKEN, re.IGNORECASE),
    "INFO": re.compile(rb"INFO[ \t]*\{[^\n]*\}[ \t]*\r?\n", re.IGNORECASE),
    "CONNECT": re.compile(rb"CONNECT[ \t]*\{[^\n]*\}[ \t]*\r?\n", re.IGNORECASE),
    "-ERR": re.compile(rb"-ERR[ \t]+'[^\n]*'[ \t]*\r?\n", re.IGNORECASE),
    "A+": re.compile(rb"A\+%s[ \t]*\r?\n" % TOKEN, re.IGNORECASE),
    "A-": re.compile(rb"A-%s[ \t]*\r?\n" % TOKEN, re.IGNORECASE),
}
"""Lines as they should be, for judging; the group is the size of the body."""
OTHER_LINE = re.compile(rb"(?:[RL]S[+-](?:%s){1,5}|PING|PONG|\+OK)[ \t]*\r?\n" % TOKEN, re.IGNORECASE)
WEAK = frozenset({"PING", "PONG", "+OK", "-ERR"})
"""Other protocols have them too."""
NAMES = frozenset(OPERATIONS)
STARTS = tuple(name.encode() for name in OPERATIONS)
STRONG = COUNTED | {"INFO", "CONNECT"}


def split(data: bytes) -> Split:
    """Cut ``data``, which starts at an operation."""
    ends: list[int] = []
    seen: list[tuple[int, int]] = []
    position, end = 0, len(data)
    find, rfind = data.find, data.rfind
    while position < end:
        start = data[position : position + 4]
        if start in SIZED_STARTS and (start[3] == BLANK or data[position + 4 : position + 5] == b" "):
            line = find(b"\n", position, end)
            size = data[rfind(b" ", position, line) + 1 : line - 1] if line > 0 else b""
            if size.isdigit() and len(size) <= MAX_DIGITS and data[line - 1] == CR:
                stop = line + 3 + int(size)
                if data[stop - 2 : stop] == b"\r\n":
                    ends.append(stop)
                    position = stop
                    continue
        elif start in LINE_STARTS:
            line = find(b"\n", position, end)
            if line > 0:
                position = line + 1
                ends.append(position)
                continue
        reach = stop_of(data, position)
        if reach is None:
            return Split(ends, known_at=seen)
        if isinstance(reach, str):
            return Split(ends, known_at=seen, bad=reach)
        if reach > end:
            return Split(ends, known_at=seen, need=reach - position)
        if websocket.opens(data, position, reach):
            return Split([*ends, reach], known_at=seen, then=WEBSOCKET)
        if (reached := sized_stop(data, position)) > reach:
            seen.append((len(ends), reached))
        ends.append(reach)
        position = reach
    return Split(ends, known_at=seen)


def stop_of(data: bytes, position: int) -> int | str | None:
    """Where the operation at ``position`` ends; None: needs more bytes; a text: why it can be nothing."""
    layer = transport.layer_at(data, position)
    if layer is not None:
        return transport.stop_of(layer, data, position)
    line = data.find(b"\n", position, position + MAX_JSON_LINE)
    match = OPERATION_NAME.match(data, position)
    if line < 0:
        limit = MAX_JSON_LINE if match and match[0].upper() in (b"INFO", b"CONNECT") else MAX_CONTROL_LINE
        return None if len(data) - position <= limit else f"a line of more than {limit} bytes"
    if match is None:
        if TEXT.match(data, position, line + 1) is None:
            return "these bytes are no operation"
        return line + 1
    if match[0].upper().decode() in COUNTED:
        return body_stop(data, position, line + 1, match[0].upper().decode())
    return line + 1


def sized_stop(data: bytes, position: int) -> int:
    """Where an operation with a counted body would end with it and its CRLF; 0: it has no size that can be."""
    match = OPERATION_NAME.match(data, position)
    if match is None or match[0].upper().decode() not in COUNTED:
        return 0  # before its line is looked for: S2 chunks have none
    body = data.find(b"\n", position) + 1
    size = data[position:body].split()[-1]
    if not size.isdigit() or len(size) > MAX_DIGITS or int(size) > MAX_BODY_BYTES:
        return 0
    return body + int(size) + 2


def body_stop(data: bytes, position: int, body: int, name: str) -> int:
    """End of an operation with a counted body; of its line if the size is invalid or no CRLF follows the body."""
    stop = sized_stop(data, position)
    if len(data) < stop or data[stop - 2 : stop] == b"\r\n":
        return stop
    sound = stop and LINES[name].match(data, position) is not None
    return stop - 2 if sound else body


# Judging.


def judge(data: bytes, position: int) -> tuple[int, int, str]:
    """Judge what may be an operation: (GOOD, SHORT or BAD; its end as far as known; its name)."""
    if position >= len(data):
        return SHORT, position, ""
    layer = transport.layer_at(data, position)
    if layer is not None:
        stop = transport.stop_of(layer, data, position)
        if stop is None or isinstance(stop, str):
            return (SHORT if stop is None else BAD), position, ""
        return (GOOD if stop <= len(data) else SHORT), stop, layer.filter_name
    line = data.find(b"\n", position, position + MAX_CONTROL_LINE)
    match = OPERATION_NAME.match(data, position)
    if match is None:
        start = data[position : position + 8].upper()
        begun = line < 0 and any(name.startswith(start) for name in STARTS)
        return (SHORT if begun else BAD), position, ""
    name = match[0].upper().decode()
    if line < 0:
        return (SHORT if len(data) - position < MAX_CONTROL_LINE else BAD), position, name
    matched = LINES.get(name, OTHER_LINE).match(data, position, line + 1)
    if matched is None:
        return BAD, position, name
    if name not in COUNTED:
        return GOOD, matched.end(), name
    stop = matched.end() + int(matched[1]) + 2
    if stop - position > SEARCH_BYTES:
        return BAD, position, name
    if not b"\r\n".startswith(data[stop - 2 : stop]):
        return BAD, position, name
    return (GOOD if stop <= len(data) else SHORT), stop, name


class Operations(NamedTuple):
    """Operations that follow each other."""

    names: list[str]
    """Those of the good ones."""
    ends: int
    """GOOD: there are enough; SHORT, BAD: as what follows them was judged, ..."""
    cut: str = ""
    """... its name, ..."""
    stop: int = 0
    """... and its end as far as known."""


def chain(data: bytes, position: int) -> Operations:
    """Follow operations from ``position`` on."""
    names: list[str] = []
    while len(names) <= CHAIN:
        verdict, stop, name = judge(data, position)
        if verdict != GOOD:
            return Operations(names, verdict, name, stop)
        names.append(name)
        position = stop
    return Operations(names, GOOD)


def search(data: bytes, *, final: bool) -> Found:
    """Find the next operation: one that others follow.

    Payloads may hold whole operations, but after them the chain breaks.
    """
    allowance = Allowance(data)
    for match in CANDIDATE.finditer(data):
        position = match.start()
        names, ends, cut, stop = chain(data, position)
        strong = not STRONG.isdisjoint(names)
        if names and names[0] == transport.S2Chunk.filter_name:
            if transport.crc_is_good(data, position, allowance):
                return Found(position, True)
            continue
        if len(names) > CHAIN or (strong and len(names) == CHAIN):
            return Found(position, True)
        if ends == SHORT and final:
            if names or cut in STRONG:
                return Found(position, True)
        elif ends == SHORT and len(data) - position < SEARCH_BYTES:
            keep, need = kept(position, stop)
            return Found(keep, False, need)
    return Found(keep_from(data), False)


def kept(position: int, stop: int) -> tuple[int, int]:
    """From where on a search keeps the bytes of an operation that is not whole, and how many it needs.

    The byte before stays, so that the candidate is found again at a place where a line begins. The one before its end
    may show that it is none.
    """
    keep = max(0, position - 1)
    return keep, min(stop - 1, position + SEARCH_BYTES) - keep


def keep_from(data: bytes) -> int:
    """Bytes without a good candidate that can be dropped: the rest must not look like the start of a line."""
    line = max(0, data.rfind(b"\n"))
    last = len(data) - START_BYTES
    tried = range(last, max(line, last - 64), -1)
    return next((at for at in tried if LINE_CANDIDATE.match(data[at:]) is None), line)


def role(names: list[str]) -> bool | None:
    """Whether the sender of operations is the client, by what only one side sends."""
    for name in names:
        if name in CLIENT_SENDS or name == "CONNECT":
            return True
        if name in SERVER_SENDS or name in ("INFO", "-ERR", "HMSG"):
            return False
    return None


# WebSocket frames.


class WebSocketStream:
    """Cuts a direction that switched to WebSocket frames."""

    name: ClassVar[str] = NAME

    def split(self, data: bytes) -> Split:
        """Cut ``data``, which starts at a frame; a server that declined may get another request."""
        ends: list[int] = []
        position, end = 0, len(data)
        while position < end:
            if data[position] in b"GH" and end - position < websocket.HTTP_BYTES:
                break
            find_stop = websocket.head_stop if websocket.is_http(data, position) else websocket.stop_of
            stop = find_stop(data, position)
            if stop is None:
                break
            if isinstance(stop, str):
                return Split(ends, bad=stop)
            if stop > end:
                return Split(ends, need=stop - position)
            ends.append(stop)
            position = stop
        return Split(ends)

    split_first = split

    def search(self, data: bytes, *, final: bool) -> Found:
        """The next frame that begins a message and that others of its sender follow, or that its content identifies."""
        allowance = Allowance(data)
        for match in websocket.CANDIDATE.finditer(data):
            position = match.start()
            count, cut, end = self._chain(data, position)
            enough = count >= websocket.CHAIN or (count > 1 and final and cut)
            if enough or (count and allowance.left > 0 and self._speaks(data, position, end, allowance)):
                return Found(position, True)
            if cut and not final and len(data) - position < websocket.WINDOW:
                return Found(position, False, min(end - position, websocket.WINDOW))
        return Found(len(data), False)

    begin = search

    def _speaks(self, data: bytes, position: int, end: int, allowance: Allowance) -> bool:
        """Whether the frames from ``position`` on, up to ``end``, hold operations."""
        stop = min(end, position + websocket.WINDOW)
        allowance.spend(stop - position)
        return bool(front(data[position:stop]).names)

    def _chain(self, data: bytes, position: int) -> tuple[int, bool, int]:
        """Frames that follow each other here: number, whether the end of the bytes ends them, end as far as known."""
        masked = data[position + 1 : position + 2] >= b"\x80"
        for count in range(websocket.CHAIN):
            head = websocket.header(data, position)
            if not isinstance(head, websocket.WebSocketHeader) or bool(head.key) != masked:
                return count, head is None, position
            position = head.stop
            if position > len(data):
                return count, True, position
        return websocket.CHAIN, True, position


WEBSOCKET = WebSocketStream()


class Front(NamedTuple):
    """Evidence of the frames at the front of bytes."""

    plain: bytes
    masked: bool
    """As clients' are."""
    ends: int
    """``GOOD``: with a frame; ``SHORT``: inside one; ``BAD``: at bytes that are none."""

    @property
    def names(self) -> list[str]:
        """The operations that their plain bytes begin with."""
        names = chain(self.plain, 0)[0] if self.plain else []
        return [name for name in names if name in NAMES]


def front(data: bytes) -> Front:
    """Evidence of the frames at the front of ``data``, whose beginning was not captured: no context is known."""
    messages, position, masked = websocket.WebSocketMessages(websocket.FRONT_BYTES), 0, data[1:2] >= b"\x80"
    plain, ends = bytearray(), GOOD
    while position < len(data):
        head = websocket.header(data, position)
        if isinstance(head, str) or (head and bool(head.key) != masked):
            ends = BAD
            break
        if head is None or head.stop > len(data):
            ends = SHORT
            break
        if len(plain) < SEARCH_BYTES:
            payload = data[head.body : head.stop]
            plain += messages.feed(head.first, websocket.unmask(payload, head.key) if masked else payload).data or b""
        position = head.stop
    return Front(bytes(plain), masked, ends)
