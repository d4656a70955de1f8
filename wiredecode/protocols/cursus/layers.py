"""The frames of Cursus: a length, then one of several bodies that are told apart by their first bytes.

Source: the broker's and the clients' source, and captures of both. All integers are big-endian. Every frame is::

    length uint32 | body (length bytes)

The body is a batch (``BA 7C``), a text command of the client, raw or in an envelope (uint16 length and topic in front),
a text or JSON reply of the broker, or any of these compressed as a whole. Nothing in a frame numbers it: replies come in the
order of the commands.
"""

from __future__ import annotations

import re
import struct
from functools import cache
from typing import Any, ClassVar

from wiredecode.fields import Binary, Kind, Optional, Rest, Text, UInt16, UInt32
from wiredecode.layer import Layer
from wiredecode.protocols.cursus.kinds import Next, Pieces, SecretStretch, Stretch, Tells
from wiredecode.protocols.cursus.names import COMMANDS, DISCOVERY, PAYLOAD_COMMANDS

BLANKS = rb"[ \t\r\n\v\f]+"
REST = rb".*"
WORD = rb"\S*"
QUOTED = rb'"[^"\\]*(?:\\.[^"\\]*)*"?|\S*'
REPLY_VALUE = (
    rb"(?<=\sassignments=)\[[^\]]*\]|(?<=\s)\[[^\]]*\]|(?<=\ssnapshot=).*|(?<=\ssnapshots=).*|(?<=\sbrokers=).*"
    rb"|(?<=\scluster=).*|\S*"
)
"""Values of an OK reply: lists in brackets hold blanks, JSON goes on to the end."""

_NAMES = b"|".join(name.encode() for name in sorted(COMMANDS, key=len, reverse=True))
RAW_COMMAND = rb"[ \t\r\n]*(?i:" + _NAMES + rb")(?=[ \t\r\n]|\Z)"
"""A command without envelope; its first byte is a letter or a blank, that of an envelope is 0 for every legal topic."""
ENVELOPE_COMMAND = rb"[\0 \t\r\n]*(?i:" + _NAMES + rb")(?=[ \t\r\n]|\Z)"
DISCOVERY_COMMAND = rb"(?:AUTH +\S+ +)?(?:" + "|".join(DISCOVERY).encode() + rb")(?=[ \t\r\n]|\Z)"


class Message(Layer):
    """Base of all frames: fills in ``length`` when building."""

    filter_name: ClassVar[str] = "cursus"
    facts: ClassVar[tuple[str, ...]] = ()
    """The fields that a one-line summary shows."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.length is None:
            pkt = struct.pack(">I", len(pkt) + len(pay) - 4) + pkt[4:]
        return pkt + pay


def length() -> Kind:
    return UInt32("length", "bytes of the body", unit="bytes", default=None)


class Body(Layer):
    """Base of bodies without their length: what a compressed frame or a command holds."""

    filter_name: ClassVar[str] = "cursus"
    facts: ClassVar[tuple[str, ...]] = ()


@cache
def body_of(layer: type[Message], filter_name: str = "cursus") -> type[Body]:
    """The same declaration without the length."""
    members = {"fields_desc": layer.fields_desc[1:], "filter_name": filter_name, "__doc__": layer.__doc__}
    return type(f"{layer.__name__}Body", (Body,), members)


# Text commands of the client.


def blanks(name: str, doc: str = "white space") -> Kind:
    return Optional(Stretch(name, BLANKS, doc), Next(BLANKS))


def value(pattern: bytes, doc: str, name: str = "value", secret: str = "secret") -> list[Kind]:
    """Text as far as the pattern goes; under another name, and hidden, where it is or holds a token."""
    return [
        Optional(SecretStretch(secret, pattern, f"{doc}, which is or holds a token"), Tells(pattern, True)),
        Optional(Stretch(name, pattern, doc), Tells(pattern, False)),
    ]


def piece(pattern: bytes) -> list[Kind]:
    """``key=value`` or a bare value, after white space."""
    has_key = rb"[^=\s]*="
    return [
        blanks("gap"),
        Optional(Stretch("key", rb"[^=\s]*", "name of the parameter"), Next(has_key)),
        Optional(Stretch("equals", b"="), Next(b"=")),
        *value(pattern, "value of the parameter"),
    ]


class Piece(Layer):
    """An element of a list of pieces: never empty, since the list ends before white space at its end."""

    @classmethod
    def minimum(cls) -> int:
        return 1


class Argument(Piece):
    """A parameter of a command: cut at the first ``=``, never quoted, in any order."""

    fields_desc = piece(WORD)


class Word(Piece):
    """A word of a positional command."""

    fields_desc = [blanks("gap"), *value(WORD, "the word")]


def trimmed(data: bytes, position: int, end: int) -> int:
    """Where the text ends but for white space."""
    while end > position and data[end - 1] in b" \t\r\n\v\f":
        end -= 1
    return end


def before(tag: bytes) -> Any:
    """The list ends before the first ``tag``, wherever that stands."""

    def bound(data: bytes, position: int, end: int) -> int:
        found = data.find(tag, position, end)
        return trimmed(data, position, end if found < 0 else found)

    return bound


def command_fields(*arguments: Kind) -> list[Kind]:
    return [
        length(),
        Optional(
            Text("envelope_topic", "topic of the envelope; brokers ignore it for commands"),
            Next(b"(?!" + RAW_COMMAND + b")"),
        ),
        Optional(Stretch("pad", rb"[\0 \t\r\n]+", "bytes that the broker skips"), Next(rb"[\0 \t\r\n]")),
        Stretch("command_name", rb"[A-Za-z0-9_]+", "the command, in any case"),
        *arguments,
        blanks("end", "white space at the end"),
    ]


def tail(name: str, doc: str) -> list[Kind]:
    """``name=`` and everything after it."""
    tag = name.encode() + b"="
    return [
        blanks("tail_gap"),
        Optional(Stretch("tail_name", tag, "what takes the rest of the text"), Next(tag)),
        Optional(Stretch("tail_start", BLANKS, "white space"), Next(b"(?<=" + tag + b")" + BLANKS)),
        *(
            Optional(kind.kind, Both(kind.when, tag))  # type: ignore[attr-defined]
            for kind in value(UNTRIMMED, doc, name, f"secret_{name}")
        ),
    ]
