"""The operations of the NATS protocol: those of clients first, then those between servers.

Source: docs.nats.io, "Client Protocol" and "NATS Cluster Protocol", and nats-server where they and the wire disagree:
see docs/protocols/nats.md. An operation is a line of text; where its last field is a size, a body follows::

    operation blanks field blanks field ... blanks [CR] LF
    [header block of header_size bytes] payload CR LF

The number of fields shows which optional ones are there.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from wiredecode.fields import Array, Binary, Kind, LengthOf, Malformed, Optional, Struct, Truncated, When, take
from wiredecode.fields.credentials import is_secret_pair
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.jsonfields import JsonObject, Member, members, rename_fields
from wiredecode.fields.layer import Added, Layer, Range
from wiredecode.fields.textfields import Decimal, LineEnd, LineText, Mark, Piece, TextLayer, Token, Tokens, Until, Word
from wiredecode.protocols.shared.data import data_of

VERSION = b"NATS/1.0"
BLOCK = re.compile(rb"NATS/1\.0[^\r\n]*+\r\n(?:[^:\r\n]*+:[^\r\n]*+\r\n)*+\r\n")
"""A header block: version line, header lines, empty line."""
STATUS = re.compile(rb"[ \t]*([0-9]{3})(?![^ \t\r\n])")
COUNT, BLOCK_END = "header_size", "block end"
TOO_SMALL = "the total size is smaller than that of the header block"


def block_end(position: int, layer: Layer) -> int:
    """Where the header block ends, when the version line begins at ``position``."""
    return int(position + layer.fields[COUNT])


def block_next(data: bytes, position: int, end: int, size: int) -> bool:
    """Whether a header block in the usual form comes next."""
    stop = position + size
    return size > 0 and stop <= end and BLOCK.fullmatch(data, position, stop) is not None


HAS_BLOCK = When(f"block_next({COUNT})", block_next=block_next)
HAS_OTHER_BLOCK = When(f"not has(version) and {COUNT} > 0")
HAS_STATUS = When(f"has(version) and matches({STATUS.pattern!r})")
HAS_DESCRIPTION = When(r"has(version) and matches(rb'[^\r]*?[^\r \t]')")


class Version(Piece):
    """The version that begins a header block; what follows reads up to the end of the block."""

    def scan(self, data: bytes, position: int, end: int, layer: Any) -> tuple[int, int, int]:
        stop = position + len(VERSION)
        return position, stop, stop

    def emit(self, em: Emitter) -> str:
        stop = em.variable("h")
        em.line(f"{stop} = p + {em.reference(COUNT)}")
        em.scopes[-1].variables[BLOCK_END] = stop
        return super().emit(em)


class Status(Decimal):
    """Three digits, with or without blanks before them."""

    def pattern(self, blanks: bytes) -> re.Pattern[bytes]:
        return STATUS

    def mismatch(self, data: bytes, position: int, end: int, blanks: bytes) -> Truncated:
        return Malformed(self.name, "no status of three digits", position)

    def encode(self, value: Any) -> bytes:
        return b"%03d" % value


class Header(TextLayer):
    """``name: value CRLF``"""

    fields_desc = [
        Until("key", "name; case counts", stop=b":"),
        Until("value", "value, without the blanks before it", stop=b"\r\n", skip=b" \t", before=b" ", named_by="key"),
    ]

    def secret_ranges(self) -> Iterator[Range]:
        if "value" in self.ranges and is_secret_pair(self.fields["key"], self.fields["value"]):
            stop = self.ranges["value"][1] - len(b"\r\n")
            yield stop - len(self.fields["value"].encode("utf-8", "surrogateescape")), stop


class Headers(Array):
    """The header lines of the block that the version line began."""

    def __init__(self, name: str, doc: str = "", **kw: Any) -> None:
        super().__init__(name, Header, doc, count=None, **kw)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[list[Any], int]:
        # The empty line that ends the block is a separate field.
        return super().read(data, position, block_end(layer.ranges["version"][0], layer) - 2, layer)

    def emit(self, em: Emitter) -> str:
        em.flush()
        with em.limit_to(f"{em.scopes[-1].variables[BLOCK_END]} - 2"):
            return super().emit(em)


class Remainder(Binary):
    """The payload of an operation with headers: what the header block leaves of the total."""

    def __init__(self, name: str, doc: str = "", **kw: Any) -> None:
        super().__init__(name, doc, length="size", **kw)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        size = layer.fields["size"] - layer.fields[COUNT]
        if size < 0:
            raise Malformed(self.name, TOO_SMALL, position)
        stop = take(self.name, position, size, end)
        return data[position:stop], stop

    def emit(self, em: Emitter) -> str:
        value, count = em.variable(self.name), em.variable("c")
        em.line(f"{count} = {em.reference('size')} - {em.reference(COUNT)}")
        em.line(f"if {count} < 0: raise DecodeError")
        self.emit_value(em, value, count)
        return value


HEADER_FIELDS = ("version", "status", "description", "version_end", "headers", "headers_end", "header_block")


class Operation(TextLayer):
    """Base of all operations."""

    filter_name = "nats"
    added = Added.NOTHING
    by_record = ("headers",)
    verbatim = ("subject",)

    def self_build(self) -> bytes:
        """Encode the fields; a header block has its line ends, too."""
        if "version" in self.fields:
            self.fields.setdefault("version_end", b"\r\n")
            self.fields.setdefault("headers", [])
            self.fields.setdefault("headers_end", b"\r\n")
        return super().self_build()


MORE_ON_LINE = When("(peek(1) != 0x0D or peek(2) != 0x0D0A) and matches(rb'[ \\t\\r]*[^ \\t\\r\\n]')")
"""Something other than blanks: the first half quickly excludes most line ends."""


def total_size(layer: Layer, following: Mapping[str, bytes]) -> int:
    size = layer.getfieldval("header_size")
    if size is None:
        size = LengthOf(*HEADER_FIELDS)(layer, following)
    return int(size) + len(following["data"])


def body() -> list[Kind]:
    """A size, the end of the line, and as many bytes."""
    return [
        Decimal("size", "bytes of the payload", unit="bytes"),
        LineEnd(),
        Binary("data", "the payload", length="size"),
        Mark("end", b"\r\n"),
    ]


def body_with_headers() -> list[Kind]:
    """Two sizes, a header block and the payload."""
    return [
        Decimal("header_size", "bytes of the header block", unit="bytes", fill=LengthOf(*HEADER_FIELDS)),
        Decimal("size", "bytes of header block and payload", unit="bytes", fill=total_size),
        LineEnd(),
        Optional(Version("version", "begins a header block", default="NATS/1.0"), HAS_BLOCK),
        Optional(Status("status", "status of the server's own answer", digits=3), HAS_STATUS),
        Optional(LineText("description", "what the status means", free=True), HAS_DESCRIPTION),
        Optional(LineEnd("version_end"), When("has(version)")),
        Optional(Headers("headers", "headers in the order of the wire"), When("has(version)")),
        Optional(Mark("headers_end", b"\r\n"), When("has(version)")),
        Optional(
            Binary("header_block", "header bytes in another form", length="header_size", secret=True), HAS_OTHER_BLOCK
        ),
        Remainder("data", "the payload"),
        Mark("end", b"\r\n"),
    ]


# The grammar of lines.

FACTS = frozenset({"origin", "account", "subject", "sid", "reply", "queue", "weight", "queues", "max_messages", "size"})
"""Fields that a one-line summary shows."""
PUBLISHED_ON, INTEREST = "subject the message is published on", "subject of interest"


def verb(name: str) -> Kind:
    return Word("operation", name, "name of the operation, in upper case")


def argument(name: str, following: int, docs: Mapping[str, str]) -> list[Kind]:
    """The fields of an argument as a line names it, optional ones in brackets; ``following`` arguments follow it."""
    alone = When(f"tokens == {following + 1}")
    match name:
        case "account":
            return [Token("account", "account: $G is the default one, $SYS the system's")]
        case "origin":
            return [Token("origin", "cluster of the leaf node that it is from")]
        case "subject":
            return [Token("subject", docs["subject"])]
        case "sid":
            return [Token("sid", f"{docs.get('sid', 'subscription of this connection')}, chosen by the client")]
        case "[reply]":
            return [Optional(Token("reply", "subject for answers"), alone)]
        case "[queue]":
            return [Optional(Token("queue", docs.get("queue", "queue group")), alone)]
        case "[queue weight]":
            queue = Optional(Token("queue", "queue group"), When(f"tokens == {following + 2}"))
            return [queue, Optional(Decimal("weight", "subscribers at that server"), When("has(queue)"))]
        case "[max]":
            doc = "ends after this many deliveries since SUB; 0: immediately"
            return [Optional(Decimal("max_messages", doc), alone)]
        case "header_size":
            return body_with_headers()
        case "size":
            return body()
    marker = Token("marker", "+ reply and queues follow, | queues only")
    reply = When(f"marker == '+' or not has(marker) and tokens == {following + 1}")
    return [  # between servers
        Optional(marker, When("token in (b'+', b'|')")),
        Optional(Token("reply", "subject for answers"), reply),
        Optional(Tokens("queues", "queue groups that get the message", leave=following), When("has(marker)")),
    ]


def operation(
    name: str,
    line: str,
    more: str = "",
    *,
    facts: tuple[str, ...] = (),
    blanks: bytes = Operation.blanks,
    **docs: str,
) -> type[Operation]:
    """The layer of an operation with this line; ``more`` of its description, and the meaning of arguments."""
    word, *arguments = re.findall(r"\[[^]]*\]|\S+", line)
    sized = "size" in arguments
    docs = {"subject": PUBLISHED_ON if sized else INTEREST, **docs}
    kinds = [verb(word)]
    if not arguments:  # servers skip text after the name
        kinds.append(Optional(LineText("junk", "ignored bytes after the name", secret=True), MORE_ON_LINE))
    for at, each in enumerate(arguments, 1):
        kinds += argument(each, len(arguments) - at, docs)
        if each == "header_size":
            break
    if not sized:
        kinds.append(LineEnd())
    facts = facts or tuple(kind.name for kind in kinds if kind.name in FACTS)
    return Operation.declare(name, *kinds, doc=f"``{line}``{more}", facts=facts, blanks=blanks)


# Client operations.

OPTIONS = {
    name: members(*(Member(member, **said) for member, said in table.items()))
    for name, table in data_of("nats", "names_options.toml").items()
}
"""The members of INFO and CONNECT."""


@rename_fields
class InfoOptions(JsonObject):
    """A server's facts about itself. Missing booleans are false, missing strings empty."""

    filter_name = "nats.options"
    fields_desc = OPTIONS["info"]


@rename_fields
class ConnectOptions(JsonObject):
    """Options of the dialing side. Verbose, pedantic and echo are true when they are missing."""

    filter_name = "nats.options"
    hides_others = True
    fields_desc = OPTIONS["connect"]


class Info(Operation):
    """``INFO {JSON}``: what the server is; the first line of a connection, and again when something changes."""

    fields_desc = [verb("INFO"), Struct("options", InfoOptions, "members of the JSON object"), LineEnd()]
    facts = ("options.server_name", "options.version", "options.cluster", "options.gateway")


class Connect(Operation):
    """``CONNECT {JSON}``: what the dialing side wants, and its credentials."""

    fields_desc = [verb("CONNECT"), Struct("options", ConnectOptions, "members of the JSON object"), LineEnd()]
    facts = ("options.name", "options.lang", "options.version")


Pub = operation("Pub", "PUB subject [reply] size", blanks=b" \t")
HPub = operation(
    "HPub", "HPUB subject [reply] header_size size", blanks=b" \t", facts=("subject", "reply", "size", "headers")
)
Sub = operation(
    "Sub",
    "SUB subject [queue] sid",
    subject="what to subscribe to; * matches one token, > the rest",
    queue="queue group: one of its members gets each message",
    sid="name of the subscription",
)
Unsub = operation("Unsub", "UNSUB sid [max]")
Msg = operation("Msg", "MSG subject sid [reply] size")
HMsg = operation(
    "HMsg",
    "HMSG subject sid [reply] header_size size",
    facts=("subject", "sid", "reply", "status", "description", "size"),
)
Ping = operation("Ping", "PING")
Pong = operation("Pong", "PONG")
Ok = operation("Ok", "+OK", ": the operation was accepted; only on verbose connections.")


class Err(Operation):
    """``-ERR 'text'``"""

    fields_desc = [verb("-ERR"), LineText("error", "what is wrong", quote="'"), LineEnd()]
    facts = ("error",)


# Between servers. With a mark, queues are named: + if a reply subject comes first, | if there is none.

ON_DEDICATED, ON_LEAFS = " on the route of one account.", " on leaf links."

RouteSub = operation("RouteSub", "RS+ account subject [queue weight]", ": interest of the sending server.")
DedicatedSub = operation("DedicatedSub", "RS+ subject [queue weight]", ON_DEDICATED)
RouteUnsub = operation("RouteUnsub", "RS- account subject [queue]")
DedicatedUnsub = operation("DedicatedUnsub", "RS- subject [queue]", ON_DEDICATED)
OriginSub = operation("OriginSub", "LS+ origin account subject [queue weight]", " on routes: interest of a leaf node.")
DedicatedOriginSub = operation("DedicatedOriginSub", "LS+ origin subject [queue weight]", ON_DEDICATED)
OriginUnsub = operation(
    "OriginUnsub", "LS- origin account subject [queue]", " on routes whose ends both announced ``lnocu``."
)
DedicatedOriginUnsub = operation("DedicatedOriginUnsub", "LS- origin subject [queue]", ON_DEDICATED)
OldOriginUnsub = operation("OldOriginUnsub", "LS- account subject [queue]", " on routes without ``lnocu``.")
DedicatedOldOriginUnsub = operation(
    "DedicatedOldOriginUnsub", "LS- subject [queue]", " on the route of one account, without ``lnocu``."
)
LeafSub = operation("LeafSub", "LS+ subject [queue weight]", ON_LEAFS)
LeafUnsub = operation("LeafUnsub", "LS- subject [queue]", ON_LEAFS)
AccountSub = operation("AccountSub", "A+ account", " on gateways: there is interest again.")
AccountUnsub = operation("AccountUnsub", "A- account", " on gateways: no interest left.")
RouteMsg = operation("RouteMsg", 'RMSG account subject [reply | + reply queues | "|" queues] size')
DedicatedMsg = operation("DedicatedMsg", "RMSG subject ... size", ON_DEDICATED)
RouteHMsg = operation("RouteHMsg", "HMSG account subject ... header_size size", " on routes and gateways.")
DedicatedHMsg = operation(
    "DedicatedHMsg", "HMSG subject ... header_size size", " on the route of one account, and on leaf links."
)
OriginMsg = operation(
    "OriginMsg",
    "LMSG origin account subject ... header_size size",
    " on routes: always with a header size, which may be 0.",
)
DedicatedOriginMsg = operation("DedicatedOriginMsg", "LMSG origin subject ... header_size size", ON_DEDICATED)
LeafMsg = operation("LeafMsg", "LMSG subject ... size", ON_LEAFS)


class Unknown(Operation):
    """A line that is no operation."""

    fields_desc = [
        LineText("line", "the line: what is left of a CONNECT, perhaps", before=b"", secret=True),
        LineEnd(),
    ]
    facts = ("line",)
