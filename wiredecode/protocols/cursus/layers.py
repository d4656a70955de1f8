"""The frames of Cursus: a length, then one of several bodies that differ in their first bytes.

Source: the broker's and the clients' source, and captures of both. All integers are big-endian. Every frame is::

    length uint32 | body (length bytes)

The body is a batch (``BA 7C``), a text command of the client, raw or in an envelope (uint16 length and topic in front),
a text or JSON reply of the broker, or any of these compressed as a whole. Nothing in a frame numbers it: replies come
in the order of the commands.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar

from wiredecode.data import storable
from wiredecode.fields import Kind, LengthOf, Optional, Rest, Struct, Text, UInt32, When
from wiredecode.fields.credentials import PROVIDER
from wiredecode.fields.layer import Layer
from wiredecode.protocols.cursus.layers_kinds import (
    PatternText,
    Reach,
    SecretPattern,
    TextList,
    comes,
    holds_token,
    token_ahead,
)
from wiredecode.protocols.cursus.names import COMMANDS, DISCOVERY, PARAMETER_KEYS, REPLY_KEYS, TAIL_KEYS

BLANKS = rb"[ \t\r\n\v\f]+"
REST = rb".*"
WORD = rb"\S*"
HARMLESS = (
    rb"(?:(?<=\sprincipal=)|(?<=\suser=)|(?<=\susername=))[\w.@+-]{1,64}(?=\s|\Z)"
    rb"|(?<=\smechanism=)(?i:plain|token|external|anonymous|oauthbearer|scram-sha-\d{1,3})(?=\s|\Z)"
)
CODE = rb"(?:(?!" + PROVIDER.encode() + rb")[\w.-]+(?=[\s:,;]|\Z))?"
"""Code of an error: a word that is no credential."""
QUOTED = rb'"[^"\\]*(?:\\.[^"\\]*)*"?|\S*'
REPLY_VALUE = (
    rb"(?<=\sassignments=)\[[^\[\]]*\]|(?<=\s)\[[^\[\]]*\]|(?<=\ssnapshot=).*|(?<=\ssnapshots=).*|(?<=\sbrokers=).*"
    rb"|(?<=\scluster=).*|\S*"
)
"""Values of an OK reply: lists in brackets hold blanks, JSON reaches to the end."""

_NAMES = b"|".join(name.encode() for name in sorted(COMMANDS, key=lambda name: (-len(name), name)))
RAW_COMMAND = rb"[ \t\r\n]*+(?i:" + _NAMES + rb")(?=[ \t\r\n]|\Z)"
"""A command without envelope; its first byte is a letter or a blank, that of an envelope is 0 for every legal topic."""
ENVELOPE_COMMAND = rb"[\0 \t\r\n]*+(?i:" + _NAMES + rb")(?=[ \t\r\n]|\Z)"
DISCOVERY_COMMAND = rb"(?:AUTH \S+ +)?(?:" + "|".join(DISCOVERY).encode() + rb")(?=[ \t\r\n]|\Z)"


class CursusFrame(Layer):
    """Base of all frames: fills in ``length`` when building."""

    filter_name: ClassVar[str] = "cursus"

    @classmethod
    def record_paths(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for name, keys in (("arguments", PARAMETER_KEYS), ("reply_fields", REPLY_KEYS)):
            for index, piece in enumerate(values.get(name, ())):
                if (key := keys.get(piece.get("key"))) is not None:
                    yield key, f"{name}[{index}].{'secret' if 'secret' in piece else 'value'}"
        for field in values.get("tail") or ():
            if field in TAIL_KEYS:
                yield TAIL_KEYS[field], f"tail.{field}"


def length() -> Kind:
    return UInt32("length", "bytes of the body", unit="bytes", fill=LengthOf())


def frame(name: str, doc: str, *fields: Kind, **members: Any) -> type[CursusFrame]:
    """The layer of a kind of body."""
    return CursusFrame.declare(name, length(), *fields, doc=doc, **members)


class Body(Layer):
    """Base of bodies without their length: what a compressed frame or a command holds."""

    filter_name: ClassVar[str] = "cursus"


@storable
@cache
def body_of(layer: type[Layer], filter_name: str, /) -> type[Body]:
    """A layer without the length in front."""
    return Body.declare(
        f"{layer.__name__}Body",
        *layer.fields_desc[1:],
        doc=layer.__doc__,
        filter_name=filter_name,
        facts=layer.facts,
        remade=(body_of, (layer, filter_name)),
    )


# Text commands of the client.


def blanks(name: str, doc: str = "white space") -> Kind:
    return Optional(PatternText(name, BLANKS, doc), comes(BLANKS))


def value(
    pattern: bytes | Reach,
    doc: str,
    name: str = "value",
    secret: str = "secret",
    when: Callable[[bytes | Reach], When] = token_ahead,
) -> list[Any]:
    """Text as far as the pattern goes; under another name, and hidden, where it is or holds a token."""
    return [
        Optional(SecretPattern(secret, pattern, f"{doc}, which is or holds a token"), when(pattern)),
        Optional(PatternText(name, pattern, doc), When(f"not has({secret})")),
    ]


def key(pattern: bytes, ahead: bytes) -> list[Any]:
    """White space, and the name and the ``=`` in front of a value, if ``ahead`` matches."""
    return [
        blanks("gap"),
        Optional(PatternText("key", pattern, "name of the parameter"), comes(ahead)),
        Optional(PatternText("equals", b"="), comes(b"=")),
    ]


def piece(pattern: bytes) -> list[Any]:
    """``key=value`` or a bare value, after white space."""
    return [*key(rb"[^=\s]*", rb"[^=\s]*="), *value(pattern, "value of the parameter")]


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
        *key(rb"[A-Za-z_]{1,32}", rb"[A-Za-z_]{1,32}=(?=\S)"),
        Optional(PatternText("value", WORD, "value of the parameter"), comes(HARMLESS)),
        Optional(SecretPattern("secret", WORD, "value of the parameter"), When("not has(value)")),
    ]


class Word(ListElement):
    """A word of a positional command."""

    fields_desc = [blanks("gap"), *value(WORD, "the word")]


def trimmed_end(data: bytes, position: int, end: int) -> int:
    """Where the text ends but for white space."""
    while end > position and data[end - 1] in b" \t\r\n\v\f":
        end -= 1
    return end


class Before:
    """The end of a list before the first ``tag``, at any place."""

    def __init__(self, tag: bytes) -> None:
        self.tag = tag

    def __call__(self, data: bytes, position: int, end: int) -> int:
        tag = data.find(self.tag, position, end)
        return trimmed_end(data, position, end if tag < 0 else tag)


def command(name: str, doc: str, *arguments: Kind) -> type[CursusFrame]:
    return frame(
        name,
        doc,
        Optional(
            Text("envelope_topic", "topic of the envelope; brokers ignore it for commands", free=True),
            comes(b"(?!" + RAW_COMMAND + b")"),
        ),
        Optional(PatternText("pad", rb"[\0 \t\r\n]+", "bytes that the broker skips"), comes(rb"[\0 \t\r\n]")),
        PatternText("command_name", rb"[A-Za-z0-9_]+", "the command, in any case"),
        *arguments,
        blanks("end", "white space at the end"),
    )


class MessageTail(Layer):
    """``message=`` and everything after it, white space around it not counted."""

    fields_desc = [
        PatternText("tail_name", rb"message=", default="message="),
        blanks("lead"),
        *value(trimmed_end, "the message: the rest of the text", "message", "secret_message", holds_token),
    ]


class PayloadTail(Layer):
    """``payload=`` and the JSON after it."""

    fields_desc = [
        PatternText("tail_name", rb"payload=", default="payload="),
        blanks("lead"),
        *value(trimmed_end, "JSON: the rest of the text", "json_text", "secret_json"),
    ]


def key_values(tail: type[Layer], tag: bytes) -> list[Any]:
    return [
        TextList("arguments", Argument, Before(tag), "parameters in the order of the wire"),
        blanks("gap"),
        Optional(Struct("tail", tail, "what takes the rest of the text"), comes(tag)),
    ]


Command = command(
    "Command",
    """A command with ``key=value`` parameters.

    Pieces without ``=`` are ignored by brokers, except for the list of offsets (``P0:3,P1:7``) at the end of two
    commands. The first ``message=``, even inside another value, takes the rest::

        [0000 | uint16 + topic] NAME key=value key=value ... [message=rest]
    """,
    *key_values(MessageTail, b"message="),
)
PayloadCommand = command(
    "PayloadCommand",
    "A command between brokers: ``payload=`` takes the rest of the text.",
    *key_values(PayloadTail, b"payload="),
)
AuthCommand = command(
    "AuthCommand",
    "``AUTH`` and credentials in any form.",
    TextList("arguments", Credential, trimmed_end, "credentials in the order of the wire"),
)
PositionalCommand = command(
    "PositionalCommand",
    "A command of the older document: words in a fixed order.",
    TextList("words", Word, trimmed_end, "words in the order of the wire"),
)
DiscoveryCommand = frame(
    "DiscoveryCommand",
    "A command of the discovery port: ``[AUTH token ]NAME json`` in an envelope with topic ``cluster``.",
    Text("envelope_topic", "topic of the envelope: cluster", default="cluster", free=True),
    Optional(PatternText("auth", rb"AUTH ", "a token follows"), comes(rb"AUTH ")),
    Optional(SecretPattern("token", WORD, "token of the cluster"), comes(rb"(?<=AUTH )")),
    blanks("gap"),
    PatternText("command_name", WORD, "the command"),
    blanks("json_gap"),
    *value(REST, "JSON object", "json_text", "secret_json"),
)
Envelope = frame(
    "Envelope",
    "An envelope without a known command: a publish in 2025-11, refused today.",
    Text("envelope_topic", "topic of the envelope", free=True),
    *value(REST, "what the envelope holds", "text", "secret_text"),
    facts=("envelope_topic",),
)


# Replies of the broker.


class ReplyField(ListElement):
    """A field of an OK reply: unquoted, lists in brackets, JSON to the end."""

    fields_desc = piece(REPLY_VALUE)


class Detail(ListElement):
    """A field or word of an error: values may be quoted as in Go."""

    fields_desc = piece(QUOTED)


def outcome(word: str, pattern: bytes) -> list[Any]:
    return [blanks("pad"), PatternText("outcome", pattern, default=word)]


Success = frame(
    "Success",
    "``OK``, or ``OK`` and fields.",
    *outcome("OK", rb"OK"),
    TextList("reply_fields", ReplyField, trimmed_end, "fields in the order of the wire"),
    blanks("end"),
)
Failure = frame(
    "Failure",
    "``ERROR: code`` and details, each ``key=value`` or a bare word.",
    *outcome("ERROR:", rb"ERROR:?"),
    blanks("gap"),
    PatternText("error_code", CODE, "what went wrong"),
    TextList("details", Detail, trimmed_end, "details in the order of the wire"),
    blanks("end"),
    facts=("error_code",),
)
StreamControl = frame(
    "StreamControl",
    "``STREAM_CONTROL type=CLOSE reason=... offset=...``: the end of a stream.",
    *outcome("STREAM_CONTROL", rb"STREAM_CONTROL"),
    TextList("details", Detail, trimmed_end, "fields in the order of the wire"),
    blanks("end"),
)
JsonReply = frame(
    "JsonReply", "A reply that is a JSON object or array.", *value(REST, "JSON text", "json_text", "secret_json")
)
TextReply = frame(
    "TextReply", "Free text, as brokers answered until 2026-07.", *value(REST, "the reply", "text", "secret_text")
)
Empty = frame("Empty", "Length 0: a keep-alive on a stream.")


# Everything else.

Compressed = frame(
    "Compressed",
    "A body that is compressed as a whole; what it holds is the next layer.",
    Rest("data", "the compressed body"),
    filter_name="cursus_compressed",
)
CompressedSecret = frame(
    "CompressedSecret",
    "The same, where what it holds has a token in it.",
    Rest("data", "the compressed body, which holds a token", secret=True),
    filter_name="cursus_compressed",
)
Unknown = frame(
    "Unknown",
    "Nothing that is known: the length still delimits it.",
    Rest("secret_data", "the body, which may hold a token", secret=True),
)

TEXT_LAYERS: tuple[type[CursusFrame], ...] = (
    *(Command, PayloadCommand, AuthCommand, PositionalCommand, DiscoveryCommand, Envelope),
    *(Success, Failure, StreamControl, JsonReply, TextReply, Empty, Compressed, CompressedSecret, Unknown),
)
