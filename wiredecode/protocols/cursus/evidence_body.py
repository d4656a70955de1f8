"""Identifies the kind of a frame's body by its first bytes and its sender, in the order of the specification."""

import re
from typing import Any

from wiredecode.dataclasses import dataclass
from wiredecode.protocols.cursus import layers, names
from wiredecode.protocols.cursus.layers_batch import LABELS, batch_layer, choose, fit
from wiredecode.protocols.cursus.layers_kinds import TOKEN
from wiredecode.protocols.shared.compression import Decompressed, Status, decompress

MAX_DECOMPRESSED_BYTES = 16 * 1024 * 1024
"""Most that one body may grow to, as in the newest broker."""
MAX_SNAPPY_RATIO = 64
MAX_TOPIC_BYTES = 249

CODECS = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x82SNAPPY\x00", "xerial"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
EMPTY = bytes(4)
"""The length of an empty body; another length and no body: the connection was closed inside."""

raw_command = re.compile(layers.RAW_COMMAND).match
envelope_command = re.compile(layers.ENVELOPE_COMMAND).match
discovery_command = re.compile(layers.DISCOVERY_COMMAND).match
success = re.compile(rb"[ \t\r\n]*OK(?=[ \t\r\n]|\Z)").match
failure = re.compile(rb"[ \t\r\n]*ERROR(?::|(?= ))").match
control = re.compile(rb"[ \t\r\n]*STREAM_CONTROL(?=[ \t\r\n]|\Z)").match
json_start = re.compile(rb"[ \t\r\n]*[{\[]").match
topic_characters = re.compile(rb"[A-Za-z0-9._=-]*\Z").match
first_word = re.compile(rb"[\0 \t\r\n]*(\w*)").match
first_argument = re.compile(rb"[\0 \t\r\n]*\w+[ \t\r\n]*(?:([^\s=]+)=|(\S))?").match


def codec_of(data: bytes, start: int, stop: int) -> str | None:
    """The codec whose magic number a body starts with."""
    front = data[start : min(stop, start + 8)]
    return next((name for magic, name in CODECS if front.startswith(magic)), None)


def inflate(codec: str, body: bytes, limit: int = MAX_DECOMPRESSED_BYTES) -> Decompressed:
    """The body decompressed, within bounds."""
    return decompress("snappy-java" if codec == "xerial" else codec, body, limit)


def raw_snappy(body: bytes) -> bytes | None:
    """Contents of a raw snappy block, if it is one: it has no magic number."""
    if len(body) < 2:
        return None
    limit = min(MAX_DECOMPRESSED_BYTES, MAX_SNAPPY_RATIO * len(body))
    inflated = decompress("snappy-raw", body, limit)
    return inflated.data if inflated.status is Status.OK else None


# Text.

LINES_AND_JOINERS = dict.fromkeys(map(ord, "\n\r\t\u200d"))
"""Not printable by themselves, and yet in texts: the last one joins emoji."""


def text_command(data: bytes, start: int, stop: int) -> type[layers.CursusFrame] | None:
    """The layer of a client's text at ``data[start:stop]`` (a whole frame), None if it is none."""
    position = start + 4
    if raw_command(data, position, stop):
        return _command_layer(data, position, stop)
    size = stop - position - 2
    topic = int.from_bytes(data[position : position + 2], "big")
    if size < 0 or topic > size:
        return None
    inside = position + 2 + topic
    if data[position + 2 : inside] == b"cluster" and discovery_command(data, inside, stop):
        return layers.DiscoveryCommand
    if envelope_command(data, inside, stop):
        return _command_layer(data, inside, stop)
    if topic <= MAX_TOPIC_BYTES and topic_characters(data, position + 2, inside):
        return layers.Envelope
    return None


def _command_layer(data: bytes, position: int, stop: int) -> type[layers.CursusFrame]:
    """``key=value`` when the first argument is a known parameter, positional when it is anything else."""
    match = first_argument(data, position, stop)
    name = command_name(data, position, stop)
    if name == "AUTH":
        return layers.AuthCommand
    if match is not None and (match[1] or match[2]):
        key = (match[1] or b"").decode("ascii", "replace")
        if key not in names.PARAMETERS and not key.endswith(("message", "payload")):
            return layers.PositionalCommand
    return layers.PayloadCommand if name in names.PAYLOAD_COMMANDS else layers.Command


def command_name(data: bytes, position: int, stop: int) -> str:
    match = first_word(data, position, stop)
    return match[1].decode("ascii", "replace").upper() if match else ""


def reply(data: bytes, start: int, stop: int) -> type[layers.CursusFrame] | None:
    """The layer of a broker's text, None if it is none that is known."""
    position = start + 4
    if success(data, position, stop):
        return layers.Success
    if failure(data, position, stop):
        return layers.Failure
    if control(data, position, stop):
        return layers.StreamControl
    if json_start(data, position, stop) and is_json(data[position:stop]):
        return layers.JsonReply
    return None


def is_json(body: bytes) -> bool:
    import orjson

    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return True


def is_text(body: bytes) -> bool:
    """Whether a body is printable UTF-8, with blanks and line ends."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return False
    return text.translate(LINES_AND_JOINERS).isprintable()


# All together.


@dataclass(slots=True)
class Body:
    """Kind of a frame's body."""

    layer: type[layers.CursusFrame]
    dialect: str | None = None
    ambiguous: bool = False
    fits: bool = True
    codec: str | None = None
    inflated: Decompressed | None = None
    values: dict[str, Any] | None = None
    """Values of a batch."""


def classify(data: bytes, start: int, stop: int, sender: str | None, dialect: str | None = None) -> Body:
    """Identify the frame at ``data[start:stop]``; ``dialect`` is the user's choice, ``sender`` None if unknown."""
    position = start + 4
    if position == stop:
        return Body(layers.Empty if data[start:position] == EMPTY else layers.Unknown)
    is_batch = data.startswith(names.MAGIC, position) and stop - position >= 6
    if is_batch and (body := _batch(data, start, stop, dialect)) is not None:
        return body
    codec = codec_of(data, position, stop)
    if codec is not None:
        return Body(layers.Compressed, None, codec=codec, inflated=inflate(codec, data[position:stop]))
    layer = _text_layer(data, start, stop, sender)
    if layer is not None and not (layer is layers.Envelope and sender != "client"):
        return Body(layer, "seed" if layer is layers.PositionalCommand else None)
    if not is_batch and sender != "client" and is_text(data[position:stop]):
        return Body(layers.TextReply)
    inflated = raw_snappy(data[position:stop])
    if inflated and (holds_message(inflated) or (sender == "server" and is_text(inflated))):
        return Body(layers.Compressed, None, codec="snappy", inflated=Decompressed(inflated))
    if is_batch:
        return Body(batch_layer("cur", True), "cur", fits=False)
    return Body(layer or layers.Unknown)


def _batch(data: bytes, start: int, stop: int, dialect: str | None) -> Body | None:
    """A batch in the layout that the user wants, if it fits, else in the one that the bytes show."""
    layout, values, ambiguous = choose(data, start, stop)
    if dialect in LABELS and dialect != layout and (wanted := fit(dialect, data, start, stop)) is not None:
        layout, values = dialect, wanted
    if layout is None:
        return None
    guarded = data.find(TOKEN, start, stop) >= 0
    return Body(batch_layer(layout, guarded), layout, ambiguous=ambiguous, values=None if guarded else values)


def _text_layer(data: bytes, start: int, stop: int, sender: str | None) -> type[layers.CursusFrame] | None:
    layer = None if sender == "server" else text_command(data, start, stop)
    if layer is None or (layer is layers.Envelope and sender is None):
        return (reply(data, start, stop) or layer) if sender != "client" else layer
    return layer


def holds_message(body: bytes) -> bool:
    """Whether an inflated body is a batch or a text of either side."""
    framed = len(body).to_bytes(4, "big") + body
    if body.startswith(names.MAGIC):
        return choose(framed, 0, len(framed))[0] is not None
    layer = text_command(framed, 0, len(framed))
    return layer not in (None, layers.Envelope) or reply(framed, 0, len(framed)) is not None
