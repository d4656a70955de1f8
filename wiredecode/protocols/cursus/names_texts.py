"""Fields from the pieces of a text: named, typed, and with secrets hidden. Everything here is JSON-ready."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from wiredecode.fields import printable, redact
from wiredecode.fields.jsonfields import present_json
from wiredecode.protocols.cursus import names
from wiredecode.protocols.cursus.layers_kinds import CREDENTIAL

Elements = Sequence[Mapping[str, Any]]

TOKEN_VALUE = re.compile(r'token=((?:[^\s"\\]|\\(?!"))+)')
"""A token inside other text, quoted or not."""
NUMBER = re.compile(r"-?[0-9]{1,20}\Z")
OFFSET_PAIR = re.compile(r"P?([0-9]{1,10}):([0-9]{1,20})\Z")
ASSIGNMENT = re.compile(r"-?[0-9]{1,10}")
PARTITION_OFFSETS = re.compile(r"P([0-9]{1,10})((?::[a-z_]+=-?[0-9]{1,20})*)\Z")
ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)

MAX_SPELLED = 8
"""Offsets of a list that lines show."""
MAX_OFFSETS = 65_536
"""Longest list of offsets that is taken apart."""

OTHER = "other_fields"
"""Keys that the protocol does not know."""
IGNORED = "ignored_words"
"""Words that brokers ignore."""


def hide_tokens(text: str, secrets: bool) -> str:
    """The text, tokens inside it hidden; ``secrets`` leaves them."""
    if secrets or "token=" not in text:
        return printable(text)
    hide = TOKEN_VALUE.sub(lambda match: "token=" + redact(match[1].encode("utf-8", "surrogateescape")), text)
    return printable(hide)


def piece_text(piece: Mapping[str, Any], secrets: bool, name: str = "value", secret: str = "secret") -> str:
    """The value of a piece: of a parameter that is a token nothing, of one that holds a token the rest."""
    raw: bytes | None = piece.get(secret)
    if raw is None:
        return printable(piece.get(name, ""))
    text = raw.decode("utf-8", "surrogateescape")
    if secrets or "message" in secret:
        return hide_tokens(text, secrets)
    more = CREDENTIAL.search(TOKEN_VALUE.sub("", text).encode("utf-8", "surrogateescape"))
    hidden = hide_tokens(text, secrets)
    return redact(raw) if more or hidden == printable(text) else hidden


def json_piece(values: Mapping[str, Any], secrets: bool) -> Any:
    """The JSON of a piece as data, without credentials; text that is not JSON stays text."""
    raw: bytes | None = values.get("secret_json")
    if raw is None:
        return parse(printable(values.get("json_text", "")))
    value = parse(printable(raw.decode("utf-8", "surrogateescape")))
    if isinstance(value, str):
        return piece_text(values, secrets, "json_text", "secret_json")
    return present_json(value, secrets)


def known_pieces(elements: Elements) -> list[Mapping[str, Any]]:
    """The pieces whose value is known: that of the last one of a frame that was truncated is not."""
    return [piece for piece in elements if "value" in piece or "secret" in piece]


def keep_closed(elements: Elements) -> Elements:
    """The pieces of a text that was truncated, before the first whose quotes or brackets do not close."""
    for index, piece in enumerate(elements):
        value = piece.get("value", "")
        if (value.startswith("[") and not value.endswith("]")) or (value.startswith('"') and not QUOTED.match(value)):
            return elements[:index]
    return elements


def convert(value: str, wanted: str) -> str | int | bool:
    """The value in its declared type, or the text if it does not fit."""
    if wanted == names.INTEGER and NUMBER.match(value):
        return int(value)
    if wanted == names.BOOLEAN and value in ("true", "false"):
        return value == "true"
    return value


def unquote(value: str) -> str:
    """A Go string literal without its quotes; any other text as it is."""
    if not value.startswith('"'):
        return value
    return ESCAPE.sub(_unescape, value[1:-1] if value.endswith('"') and len(value) > 1 else value[1:])


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None:
        return SIMPLE_ESCAPES.get(match[4], match[4])
    number = int(code, 16)
    return chr(number) if number < 0xD800 or 0xDFFF < number <= 0x10FFFF else match[0]


def parse(text: str) -> Any:
    """JSON text as data; text that is not JSON stays text."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def offset_list(text: str) -> list[dict[str, int]] | None:
    """``P0:3,P1:7`` as partitions and offsets, None for other text."""
    if text.count(",") >= MAX_OFFSETS:
        return None
    pairs = [OFFSET_PAIR.match(item) for item in text.split(",")]
    if not all(pairs):
        return None
    return [{"partition": int(pair[1]), "offset": int(pair[2])} for pair in pairs if pair]


def spell_offsets(offsets: Sequence[Mapping[str, int]]) -> str:
    """``"0:3,1:7"``; of many the first ones."""
    texts = [f"{each['partition']}:{each['offset']}" for each in offsets[:MAX_SPELLED]]
    return ",".join([*texts, "..."] if len(offsets) > MAX_SPELLED else texts)


# Commands.


def parameters(elements: Elements, secrets: bool) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Named parameters, those with unknown keys, and words without ``=``; a repeated key keeps the last value."""
    named: dict[str, Any] = {}
    other: dict[str, str] = {}
    words: list[str] = []
    for piece in known_pieces(elements):
        if "key" not in piece:
            words.append(piece_text(piece, secrets))
            continue
        parameter = names.PARAMETERS.get(piece["key"])
        if parameter is None:
            other[printable(piece["key"])] = piece_text(piece, secrets)
        else:
            named[parameter[0]] = convert(piece_text(piece, secrets), parameter[1])
    return named, other, words


def command(name: str, values: Mapping[str, Any], secrets: bool) -> dict[str, Any]:
    """The parameters of a ``key=value`` command."""
    named, other, words = parameters(values.get("arguments", ()), secrets)
    if name in names.OFFSET_COMMANDS and words and (offsets := offset_list(words[-1])) is not None:
        named["offsets"] = offsets
        words.pop()
    tail = values.get("tail")
    if not tail or not tail.keys() & names.TAIL_KEYS.keys():
        pass  # cut
    elif tail["tail_name"] == "message=":
        named["message"] = piece_text(tail, secrets, "message", "secret_message")
    else:
        named["payload"] = json_piece(tail, secrets)
    return {**named, **({OTHER: other} if other else {}), **({IGNORED: words} if words else {})}


def positional(name: str, values: Mapping[str, Any], secrets: bool) -> dict[str, Any]:
    """The words of a positional command, by their places; an envelope with a topic shows the broker of 2025-11."""
    table = names.POSITIONAL_2025 if values.get("envelope_topic") else names.POSITIONAL
    keys = table.get(name, ())
    words = [piece_text(word, secrets) for word in known_pieces(values.get("words", ()))]
    named: dict[str, Any] = {}
    for index, key in enumerate(keys[: len(words)]):
        if key == "offsets":
            named[key] = offset_list(words[index]) or words[index]
        elif key == "message":
            named[key] = " ".join(words[index:])
            return named
        else:
            field, wanted = names.PARAMETERS[key]
            named[field] = convert(words[index], wanted)
    if len(words) > len(keys):
        named[IGNORED] = words[len(keys) :]
    return named


def discovery(values: Mapping[str, Any], secrets: bool) -> dict[str, Any]:
    """The JSON of a discovery command, and the token in front."""
    named: dict[str, Any] = {}
    if "token" in values:
        raw = values["token"]
        named["auth_token"] = raw.decode("utf-8", "backslashreplace") if secrets else redact(raw)
    value = json_piece(values, secrets)
    if value != "":
        named.update(members(value))
    return named


# Replies.


def reply_fields(elements: Elements, secrets: bool) -> dict[str, Any]:
    """The fields of an OK, ERROR or STREAM_CONTROL reply; bare words are ``details``."""
    named: dict[str, Any] = {}
    other: dict[str, str] = {}
    words: list[str] = []
    for piece in known_pieces(elements):
        value = unquote(piece_text(piece, secrets))
        key: str | None = piece.get("key")
        if key is None:
            words.append(value)
        elif key in names.REPLY_INTEGERS:
            named[names.REPLY_NAMES.get(key, key)] = convert(value, names.INTEGER)
        elif key in names.REPLY_BOOLEANS:
            named[key] = convert(value, names.BOOLEAN)
        elif key in names.REPLY_TEXTS:
            fields = _parse_value(key, value)
            count = key == "offsets" and isinstance(fields, int)
            named["offset_count" if count else names.REPLY_NAMES.get(key, key)] = fields
        else:
            other[printable(key)] = value
    if len(words) == 1 and words[0].startswith("["):
        named.setdefault("assignments", _assignments(words.pop()))
    return {**named, **({"details": words} if words else {}), **({OTHER: other} if other else {})}


def sentence(code: str, details: Elements, secrets: bool) -> str:
    """The text of an error that begins with no code: ``acks=all not yet implemented``; empty: it has one."""
    is_code = "_" in code or code.isupper() or (code and not (details and "key" not in details[0]))
    if is_code:
        return ""
    parts = [printable(code)]
    for piece in known_pieces(details):
        name = f"{printable(piece['key'])}=" if "key" in piece else ""
        parts.append(name + piece_text(piece, secrets))
    return " ".join(filter(None, parts))


def _parse_value(key: str, value: str) -> Any:
    """Lists and JSON in the value of a reply field."""
    if key == "assignments":
        return _assignments(value)
    if key in ("snapshot", "snapshots", "brokers", "cluster"):
        return parse(value)
    if key == "offsets":
        return _partition_offsets(value)
    return value


def _assignments(value: str) -> list[int] | str:
    """``[0 1 2]``, with blanks or commas between."""
    inner = value.removeprefix("[").removesuffix("]").replace(",", " ").split()
    return [int(item) for item in inner] if all(map(ASSIGNMENT.fullmatch, inner)) else value


def _partition_offsets(value: str) -> list[dict[str, int]] | str | int | bool:
    """``P0:earliest=0:latest=3:leo=3:hwm=3,P1:...``, or how many offsets there are."""
    offsets = []
    for item in value.split(","):
        match = PARTITION_OFFSETS.match(item)
        if match is None:
            return convert(value, names.INTEGER)
        pairs = (pair.split("=") for pair in match[2].split(":")[1:])
        offsets.append({"partition": int(match[1]), **{key: int(number) for key, number in pairs}})
    return offsets


def members(value: Any) -> dict[str, Any]:
    """The members of a JSON object; anything else as ``json``."""
    return value if isinstance(value, dict) else {"json": value}


def json_type(value: Any) -> str:
    """Kind of reply of a JSON value."""
    names = (name for key, name in JSON_TYPES if key in value) if isinstance(value, dict) else ()
    return next(iter(names), "Json")


JSON_TYPES: tuple[tuple[str, str], ...] = tuple(names.NAMES["json-types"].items())
"""A member that identifies each kind of JSON reply, in the order in which they are looked for."""
