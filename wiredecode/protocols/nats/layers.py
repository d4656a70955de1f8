"""The operations of the NATS protocol: those of clients first, then those between servers.

Source: docs.nats.io, "Client Protocol" and "NATS Cluster Protocol", and nats-server where they and the wire disagree:
see docs/protocols/nats.md. An operation is a line of text; where its last field is a size, a body follows::

    operation blanks field blanks field ... blanks [CR] LF
    [header block of header_size bytes] payload CR LF

Only the number of fields tells which optional ones are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import Binary, Kind, LengthOf, Optional, Struct, When
from wiredecode.fields.layer import Added, Layer
from wiredecode.fields.textfields import Decimal, LineEnd, LineText, Mark, TextLayer, Token, Tokens, Word
from wiredecode.protocols.nats.layers_kinds import (
    HAS_BLOCK,
    HAS_DESCRIPTION,
    HAS_OTHER_BLOCK,
    HAS_STATUS,
    Headers,
    Remainder,
    Status,
    Version,
)
from wiredecode.protocols.nats.layers_options import ConnectOptions, InfoOptions

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


def operation(name: str) -> Kind:
    return Word("operation", name, "name of the operation, in upper case")


def subject(doc: str = "subject the message is published on") -> Kind:
    return Token("subject", doc)


def sid(doc: str = "subscription of this connection") -> Kind:
    return Token("sid", f"{doc}, chosen by the client")


MORE_ON_LINE = When("(peek(1) != 0x0D or peek(2) != 0x0D0A) and matches(rb'[ \\t\\r]*[^ \\t\\r\\n]')")
"""Something other than blanks: the first half tells it apart from most line ends at a glance."""


def reply(when: When) -> Kind:
    return Optional(Token("reply", "subject for answers"), when)


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


# Client operations.


class Info(Operation):
    """``INFO {JSON}``: what the server is; the first line of a connection, and again when something changes."""

    fields_desc = [operation("INFO"), Struct("options", InfoOptions, "members of the JSON object"), LineEnd()]
    facts = ("options.server_name", "options.version", "options.cluster", "options.gateway")


class Connect(Operation):
    """``CONNECT {JSON}``: what the dialing side wants, and its credentials."""

    fields_desc = [operation("CONNECT"), Struct("options", ConnectOptions, "members of the JSON object"), LineEnd()]
    facts = ("options.name", "options.lang", "options.version")


class Pub(Operation):
    """``PUB subject [reply] size``"""

    blanks = b" \t"
    fields_desc = [operation("PUB"), subject(), reply(When("tokens == 2")), *body()]
    facts = ("subject", "reply", "size")


class HPub(Operation):
    """``HPUB subject [reply] header_size size``"""

    blanks = b" \t"
    fields_desc = [operation("HPUB"), subject(), reply(When("tokens == 3")), *body_with_headers()]
    facts = ("subject", "reply", "size", "headers")


class Sub(Operation):
    """``SUB subject [queue] sid``"""

    fields_desc = [
        operation("SUB"),
        subject("what to subscribe to; * stands for one token, > for the rest"),
        Optional(Token("queue", "queue group: one of its members gets each message"), When("tokens == 2")),
        sid("name of the subscription"),
        LineEnd(),
    ]
    facts = ("subject", "queue", "sid")


class Unsub(Operation):
    """``UNSUB sid [max]``"""

    fields_desc = [
        operation("UNSUB"),
        sid(),
        Optional(Decimal("max_messages", "ends after so many deliveries since SUB; 0: at once"), When("tokens == 1")),
        LineEnd(),
    ]
    facts = ("sid", "max_messages")


class Msg(Operation):
    """``MSG subject sid [reply] size``"""

    fields_desc = [operation("MSG"), subject(), sid(), reply(When("tokens == 2")), *body()]
    facts = ("subject", "sid", "reply", "size")


class HMsg(Operation):
    """``HMSG subject sid [reply] header_size size``"""

    fields_desc = [operation("HMSG"), subject(), sid(), reply(When("tokens == 3")), *body_with_headers()]
    facts = ("subject", "sid", "reply", "status", "description", "size")


def bare(name: str) -> list[Any]:
    """An operation without fields; what stands after its name is skipped by servers."""
    junk = LineText("junk", "ignored bytes after the name", secret=True)
    return [operation(name), Optional(junk, MORE_ON_LINE), LineEnd()]


class Ping(Operation):
    """``PING``"""

    fields_desc = bare("PING")


class Pong(Operation):
    """``PONG``"""

    fields_desc = bare("PONG")


class Ok(Operation):
    """``+OK``: the operation was accepted; only on verbose connections."""

    fields_desc = bare("+OK")


class Err(Operation):
    """``-ERR 'text'``"""

    fields_desc = [operation("-ERR"), LineText("error", "what is wrong", quote="'"), LineEnd()]
    facts = ("error",)


# Between servers. With a mark, queues are named: + if a reply subject comes first, | if there is none.


def account() -> Kind:
    return Token("account", "account: $G is the default one, $SYS the system's")


def queue_weight(left: int) -> list[Kind]:
    return [
        Optional(Token("queue", "queue group"), When(f"tokens == {left}")),
        Optional(Decimal("weight", "subscribers behind that server"), When("has(queue)")),
    ]


def routed(sizes: int) -> list[Kind]:
    """Subject, reply and queues before ``sizes`` numbers."""
    return [
        subject(),
        Optional(Token("marker", "+ reply and queues follow, | queues only"), When("token in (b'+', b'|')")),
        reply(When(f"marker == '+' or not has(marker) and tokens == {sizes + 1}")),
        Optional(Tokens("queues", "queue groups that get the message", leave=sizes), When("has(marker)")),
    ]


class RouteSub(Operation):
    """``RS+ account subject [queue weight]``: interest of the sending server."""

    fields_desc = [operation("RS+"), account(), subject("subject of interest"), *queue_weight(2), LineEnd()]
    facts = ("account", "subject", "queue", "weight")


class DedicatedSub(Operation):
    """``RS+ subject [queue weight]`` on the route of one account."""

    fields_desc = [operation("RS+"), subject("subject of interest"), *queue_weight(2), LineEnd()]
    facts = ("subject", "queue", "weight")


class RouteUnsub(Operation):
    """``RS- account subject [queue]``"""

    fields_desc = [
        operation("RS-"),
        account(),
        subject("subject of interest"),
        Optional(Token("queue", "queue group"), When("tokens == 1")),
        LineEnd(),
    ]
    facts = ("account", "subject", "queue")


class DedicatedUnsub(Operation):
    """``RS- subject [queue]`` on the route of one account."""

    fields_desc = [
        operation("RS-"),
        subject("subject of interest"),
        Optional(Token("queue", "queue group"), When("tokens == 1")),
        LineEnd(),
    ]
    facts = ("subject", "queue")


def origin() -> Kind:
    return Token("origin", "cluster of the leaf node that it is from")


class OriginSub(Operation):
    """``LS+ origin account subject [queue weight]`` on routes: interest of a leaf node."""

    fields_desc = [operation("LS+"), origin(), *RouteSub.fields_desc[1:]]
    facts = ("origin", "account", "subject", "queue", "weight")


class DedicatedOriginSub(Operation):
    """``LS+ origin subject [queue weight]`` on the route of one account."""

    fields_desc = [operation("LS+"), origin(), *DedicatedSub.fields_desc[1:]]
    facts = ("origin", "subject", "queue", "weight")


class OriginUnsub(Operation):
    """``LS- origin account subject [queue]`` on routes whose ends both announced ``lnocu``."""

    fields_desc = [operation("LS-"), origin(), *RouteUnsub.fields_desc[1:]]
    facts = ("origin", "account", "subject", "queue")


class DedicatedOriginUnsub(Operation):
    """``LS- origin subject [queue]`` on the route of one account."""

    fields_desc = [operation("LS-"), origin(), *DedicatedUnsub.fields_desc[1:]]
    facts = ("origin", "subject", "queue")


class OldOriginUnsub(Operation):
    """``LS- account subject [queue]`` on routes without ``lnocu``."""

    fields_desc = [operation("LS-"), *RouteUnsub.fields_desc[1:]]
    facts = ("account", "subject", "queue")


class DedicatedOldOriginUnsub(Operation):
    """``LS- subject [queue]`` on the route of one account, without ``lnocu``."""

    fields_desc = [operation("LS-"), *DedicatedUnsub.fields_desc[1:]]
    facts = ("subject", "queue")


class LeafSub(Operation):
    """``LS+ subject [queue weight]`` on leaf links."""

    fields_desc = [operation("LS+"), *DedicatedSub.fields_desc[1:]]
    facts = ("subject", "queue", "weight")


class LeafUnsub(Operation):
    """``LS- subject [queue]`` on leaf links."""

    fields_desc = [operation("LS-"), *DedicatedUnsub.fields_desc[1:]]
    facts = ("subject", "queue")


class AccountSub(Operation):
    """``A+ account`` on gateways: there is interest again."""

    fields_desc = [operation("A+"), account(), LineEnd()]
    facts = ("account",)


class AccountUnsub(Operation):
    """``A- account`` on gateways: no interest left."""

    fields_desc = [operation("A-"), account(), LineEnd()]
    facts = ("account",)


class RouteMsg(Operation):
    """``RMSG account subject [reply | + reply queues | "|" queues] size``"""

    fields_desc = [operation("RMSG"), account(), *routed(1), *body()]
    facts = ("account", "subject", "reply", "queues", "size")


class DedicatedMsg(Operation):
    """``RMSG subject ... size`` on the route of one account."""

    fields_desc = [operation("RMSG"), *routed(1), *body()]
    facts = ("subject", "reply", "queues", "size")


class RouteHMsg(Operation):
    """``HMSG account subject ... header_size size`` on routes and gateways."""

    fields_desc = [operation("HMSG"), account(), *routed(2), *body_with_headers()]
    facts = ("account", "subject", "reply", "queues", "size")


class DedicatedHMsg(Operation):
    """``HMSG subject ... header_size size`` on the route of one account, and on leaf links."""

    fields_desc = [operation("HMSG"), *routed(2), *body_with_headers()]
    facts = ("subject", "reply", "queues", "size")


class OriginMsg(Operation):
    """``LMSG origin account subject ... header_size size`` on routes: always with a header size, which may be 0."""

    fields_desc = [operation("LMSG"), origin(), account(), *routed(2), *body_with_headers()]
    facts = ("origin", "account", "subject", "reply", "queues", "size")


class DedicatedOriginMsg(Operation):
    """``LMSG origin subject ... header_size size`` on the route of one account."""

    fields_desc = [operation("LMSG"), origin(), *routed(2), *body_with_headers()]
    facts = ("origin", "subject", "reply", "queues", "size")


class LeafMsg(Operation):
    """``LMSG subject ... size`` on leaf links."""

    fields_desc = [operation("LMSG"), *routed(1), *body()]
    facts = ("subject", "reply", "queues", "size")


class Unknown(Operation):
    """A line that is no operation."""

    fields_desc = [
        LineText("line", "the line: what is left of a CONNECT, perhaps", before=b"", secret=True),
        LineEnd(),
    ]
    facts = ("line",)
