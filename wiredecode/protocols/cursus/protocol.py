"""Recognising Cursus, cutting it into frames, and finding the next frame after a hole."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator

from wiredecode import compiler
from wiredecode.fields import Short
from wiredecode.layer import Layer
from wiredecode.net.types import Connection
from wiredecode.protocols.base import Found, Protocol, Rejected, Split, Undecided, Verdict
from wiredecode.protocols.cursus import names
from wiredecode.protocols.cursus.batch import BATCHES, LABELS, choose, sound
from wiredecode.protocols.cursus.body import codec_of, discovery_command, inflate, raw_snappy, text_command
from wiredecode.protocols.cursus.conversation import CursusConversation
from wiredecode.protocols.cursus.layers import TEXT_LAYERS, DiscoveryCommand, Envelope, RAW_COMMAND

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Longest body taken for real: what clients and older brokers accept."""
SEARCH_BYTES = 256 * 1024
"""A frame longer than this is believed by its start only."""
PEEK_BYTES = 4096
"""A frame whose end has not come is judged by so many bytes of it at most."""
PEEK_MESSAGES = 16
"""Messages of a batch that are looked at before it is believed."""
PEEK_INFLATED = 64 * 1024
"""Most that is decompressed to see what a body holds."""

LENGTH = struct.Struct(">I")

_COMMANDS = b"|".join(name.encode() for name in sorted(names.COMMANDS | set(names.DISCOVERY), key=len, reverse=True))
START = re.compile(
    rb"(?=[\0-\3][\0-\xff]{3}(?:"
    rb"\xba\x7c|\0[\0-\xf9][\0-\xff]{0,249}?(?:AUTH|" + _COMMANDS + rb")[ \t\r\n\0]?|OK|ERROR|STREAM_CONTROL|\{\"|"
    rb"(?i:" + _COMMANDS + rb")))",
    re.DOTALL,
)
PRINTABLE = re.compile(rb"[\t\n\r -~\x80-\xff]*")

STRONG, WEAK, CUT, BAD = "strong", "weak", "cut", "bad"
