"""The frames of Cursus: a length, then one of several bodies that are told apart by their first bytes.

Source: the broker's and the clients' source, and captures of both. All integers are big-endian. Every frame is::

    length uint32 | body (length bytes)

The body is a batch (``BA 7C``), a text command of the client, raw or in an envelope (uint16 length and topic in front),
a text or JSON reply of the broker, or any of these compressed as a whole. Nothing in a frame numbers it: replies come
in the order of the commands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

from wiredecode.fields import Kind, LengthOf, Optional, Rest, Struct, Text, UInt32, When
from wiredecode.fields.layer import Layer
from wiredecode.protocols.cursus.layers_kinds import (
    Reach,
    SecretStretch,
    Stretch,
    TextList,
    comes,
    holds_token,
    token_ahead,
)
from wiredecode.protocols.cursus.names import COMMANDS, DISCOVERY

BLANKS = rb"[ \t\r\n\v\f]+"
REST = rb".*"
WORD = rb"\S*"
HARMLESS = rb"(?:(?<=\sprincipal=)|(?<=\suser=)|(?<=\susername=)|(?<=\smechanism=))"
QUOTED = rb'"[^"\\]*(?:\\.[^"\\]*)*"?|\S*'
REPLY_VALUE = (
    rb"(?<=\sassignments=)\[[^\[\]]*\]|(?<=\s)\[[^\[\]]*\]|(?<=\ssnapshot=).*|(?<=\ssnapshots=).*|(?<=\sbrokers=).*"
    rb"|(?<=\scluster=).*|\S*"
)
"""Values of an OK reply: lists in brackets hold blanks, JSON goes on to the end."""

_NAMES = b"|".join(name.encode() for name in sorted(COMMANDS, key=lambda name: (-len(name), name)))
RAW_COMMAND = rb"[ \t\r\n]*+(?i:" + _NAMES + rb")(?=[ \t\r\n]|\Z)"
"""A command without envelope; its first byte is a letter or a blank, that of an envelope is 0 for every legal topic."""
ENVELOPE_COMMAND = rb"[\0 \t\r\n]*+(?i:" + _NAMES + rb")(?=[ \t\r\n]|\Z)"
DISCOVERY_COMMAND = rb"(?:AUTH \S+ +)?(?:" + "|".join(DISCOVERY).encode() + rb")(?=[ \t\r\n]|\Z)"


class CursusFrame(Layer):
    """Base of all frames: fills in ``length`` when building."""

    filter_name: ClassVar[str] = "cursus"
    facts: ClassVar[tuple[str, ...]] = ()
    """The fields that a one-line summary shows."""


def length() -> Kind:
    return UInt32("length", "bytes of the body", unit="bytes", fill=LengthOf())


class Body(Layer):
    """Base of bodies without their length: what a compressed frame or a command holds."""

    filter_name: ClassVar[str] = "cursus"
    facts: ClassVar[tuple[str, ...]] = ()


@cache
def body_of(layer: type[Layer], filter_name: str, /) -> type[Body]:
    """The same declaration without the length."""
    members = {"fields_desc": layer.fields_desc[1:], "filter_name": filter_name, "facts": layer.facts}
    members |= {"__module__": __name__, "__doc__": layer.__doc__, "remade": (body_of, (layer, filter_name))}
    return type(f"{layer.__name__}Body", (Body,), members)


# Text commands of the client.


def blanks(name: str, doc: str = "white space") -> Kind:
    return Optional(Stretch(name, BLANKS, doc), comes(BLANKS))


def value(
    pattern: bytes | Reach,
    doc: str,
    name: str = "value",
    secret: str = "secret",
    when: Callable[[bytes | Reach], When] = token_ahead,
) -> list[Any]:
    """Text as far as the pattern goes; under another name, and hidden, where it is or holds a token."""
    return [
        Optional(SecretStretch(secret, pattern, f"{doc}, which is or holds a token"), when(pattern)),
        Optional(Stretch(name, pattern, doc), When(f"not has({secret})")),
    ]


def piece(pattern: bytes) -> list[Any]:
    """``key=value`` or a bare value, after white space."""
    has_key = rb"[^=\s]*="
    return [
        blanks("gap"),
        Optional(Stretch("key", rb"[^=\s]*", "name of the parameter"), comes(has_key)),
        Optional(Stretch("equals", b"="), comes(b"=")),
        *value(pattern, "value of the parameter"),
    ]


class ListElement(Layer):
    """An element of a list of pieces: never empty, since the list ends before white space at its end."""

    @classmethod
    def minimum(cls) -> int:
        return 1


class Argument(ListElement):
    """A parameter of a command: cut at the first ``=``, never quoted, in any order."""

    fields_desc = piece(WORD)


class Credential(ListElement):
    """A parameter or word of AUTH: it is a secret, unless its name says who logs in, and how."""

    fields_desc = [
        blanks("gap"),
        Optional(Stretch("key", rb"[A-Za-z_]{1,32}", "name of the parameter"), comes(rb"[A-Za-z_]{1,32}=(?=\S)")),
        Optional(Stretch("equals", b"="), comes(b"=")),
        Optional(Stretch("value", WORD, "value of the parameter"), comes(HARMLESS)),
        Optional(SecretStretch("secret", WORD, "value of the parameter"), When("not has(value)")),
    ]


class Word(ListElement):
    """A word of a positional command."""

    fields_desc = [blanks("gap"), *value(WORD, "the word")]


def trimmed(data: bytes, position: int, end: int) -> int:
    """Where the text ends but for white space."""
    while end > position and data[end - 1] in b" \t\r\n\v\f":
        end -= 1
    return end


class Before:
    """The end of a list before the first ``tag``, wherever that stands."""

    def __init__(self, tag: bytes) -> None:
        self.tag = tag

    def __call__(self, data: bytes, position: int, end: int) -> int:
        found = data.find(self.tag, position, end)
        return trimmed(data, position, end if found < 0 else found)


def command_fields(*arguments: Kind) -> list[Any]:
    return [
        length(),
        Optional(
            Text("envelope_topic", "topic of the envelope; brokers ignore it for commands"),
            comes(b"(?!" + RAW_COMMAND + b")"),
        ),
        Optional(Stretch("pad", rb"[\0 \t\r\n]+", "bytes that the broker skips"), comes(rb"[\0 \t\r\n]")),
        Stretch("command_name", rb"[A-Za-z0-9_]+", "the command, in any case"),
        *arguments,
        blanks("end", "white space at the end"),
    ]


class MessageTail(Layer):
    """``message=`` and everything after it, white space around it not counted."""

    fields_desc = [
        Stretch("tail_name", rb"message=", default="message="),
        blanks("lead"),
        *value(trimmed, "the message: the rest of the text", "message", "secret_message", holds_token),
    ]


class PayloadTail(Layer):
    """``payload=`` and the JSON after it."""

    fields_desc = [
        Stretch("tail_name", rb"payload=", default="payload="),
        blanks("lead"),
        *value(trimmed, "JSON: the rest of the text", "json_text", "secret_json"),
    ]


def key_values(tail: type[Layer], tag: bytes) -> list[Any]:
    return command_fields(
        TextList("arguments", Argument, Before(tag), "parameters in the order of the wire"),
        blanks("gap"),
        Optional(Struct("tail", tail, "what takes the rest of the text"), comes(tag)),
    )


class Command(CursusFrame):
    """A command with ``key=value`` parameters.

    Pieces without ``=`` are ignored by brokers, except for the list of offsets (``P0:3,P1:7``) at the end of two
    commands. The first ``message=``, even inside another value, takes the rest::

        [0000 | uint16 + topic] NAME key=value key=value ... [message=rest]
    """

    fields_desc = key_values(MessageTail, b"message=")


class PayloadCommand(CursusFrame):
    """A command between brokers: ``payload=`` takes the rest of the text."""

    fields_desc = key_values(PayloadTail, b"payload=")


class AuthCommand(CursusFrame):
    """``AUTH`` and credentials in any form."""

    fields_desc = command_fields(TextList("arguments", Credential, trimmed, "credentials in the order of the wire"))


class PositionalCommand(CursusFrame):
    """A command of the older document: words in a fixed order."""

    fields_desc = command_fields(TextList("words", Word, trimmed, "words in the order of the wire"))


class DiscoveryCommand(CursusFrame):
    """A command of the discovery port: ``[AUTH token ]NAME json`` in an envelope with topic ``cluster``."""

    fields_desc = [
        length(),
        Text("envelope_topic", "topic of the envelope: cluster", default="cluster"),
        Optional(Stretch("auth", rb"AUTH ", "a token follows"), comes(rb"AUTH ")),
        Optional(SecretStretch("token", WORD, "token of the cluster"), comes(rb"(?<=AUTH )")),
        blanks("gap"),
        Stretch("command_name", WORD, "the command"),
        blanks("json_gap"),
        *value(REST, "JSON object", "json_text", "secret_json"),
    ]


class Envelope(CursusFrame):
    """An envelope without a known command: a publish in 2025-11, refused today."""

    fields_desc = [
        length(),
        Text("envelope_topic", "topic of the envelope"),
        *value(REST, "what the envelope holds", "text", "secret_text"),
    ]
    facts = ("envelope_topic",)


# Replies of the broker.


class ReplyField(ListElement):
    """A field of an OK reply: unquoted, lists in brackets, JSON to the end."""

    fields_desc = piece(REPLY_VALUE)


class Detail(ListElement):
    """A field or word of an error: values may be quoted as in Go."""

    fields_desc = piece(QUOTED)


class Success(CursusFrame):
    """``OK``, or ``OK`` and fields."""

    fields_desc = [
        length(),
        blanks("pad"),
        Stretch("outcome", rb"OK", default="OK"),
        TextList("reply_fields", ReplyField, trimmed, "fields in the order of the wire"),
        blanks("end"),
    ]


class Failure(CursusFrame):
    """``ERROR: code`` and details, each ``key=value`` or a bare word."""

    fields_desc = [
        length(),
        blanks("pad"),
        Stretch("outcome", rb"ERROR:?", default="ERROR:"),
        blanks("gap"),
        Stretch("error_code", WORD, "what went wrong"),
        TextList("details", Detail, trimmed, "details in the order of the wire"),
        blanks("end"),
    ]
    facts = ("error_code",)


class StreamControl(CursusFrame):
    """``STREAM_CONTROL type=CLOSE reason=... offset=...``: the end of a stream."""

    fields_desc = [
        length(),
        blanks("pad"),
        Stretch("outcome", rb"STREAM_CONTROL", default="STREAM_CONTROL"),
        TextList("details", Detail, trimmed, "fields in the order of the wire"),
        blanks("end"),
    ]


class JsonReply(CursusFrame):
    """A reply that is a JSON object or array."""

    fields_desc = [length(), *value(REST, "JSON text", "json_text", "secret_json")]


class TextReply(CursusFrame):
    """Free text, as brokers answered until 2026-07."""

    fields_desc = [length(), *value(REST, "the reply", "text", "secret_text")]


class Empty(CursusFrame):
    """Length 0: a keep-alive on a stream."""

    fields_desc = [length()]


# Everything else.


class Compressed(CursusFrame):
    """A body that is compressed as a whole; what it holds is the next layer."""

    filter_name = "cursus_compressed"
    fields_desc = [length(), Rest("data", "the compressed body")]


class CompressedSecret(CursusFrame):
    """The same, where what it holds has a token in it."""

    filter_name = "cursus_compressed"
    fields_desc = [length(), Rest("data", "the compressed body, which holds a token", secret=True)]


class Unknown(CursusFrame):
    """Nothing that is known: the length still delimits it."""

    fields_desc = [
        length(),
        Rest("secret_data", "the body, which may hold a token", secret=True),
    ]


TEXT_LAYERS: tuple[type[CursusFrame], ...] = (
    *(Command, PayloadCommand, AuthCommand, PositionalCommand, DiscoveryCommand, Envelope),
    *(Success, Failure, StreamControl, JsonReply, TextReply, Empty, Compressed, CompressedSecret, Unknown),
)
