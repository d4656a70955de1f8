"""The bytes of a frame, with the fields separated by colour and by a bar."""

import re
from bisect import bisect_right
from itertools import groupby

from rich.text import Text

from wiredecode.fields import plain, text
from wiredecode.fields.credentials import is_secret_value
from wiredecode.fields.layer import Layer, Range, may_hide
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.carried import inner_layers
from wiredecode.view.theme import SHOWN_DUMP_BYTES, TreeOptions

ROW = 16
FIELD_STYLES = ("green", "cyan", "magenta", "yellow")
"""Fields take turns."""
HIDDEN = "**"
FIELD, PACKET = "|", "║"
"""Marks before the first byte of a field, or of a packet."""


def hexdump(frame: Frame, layer: Layer | None, options: TreeOptions) -> Text:
    """Rows of offset, 16 bytes and ASCII; a bar precedes the first byte of each field.

    Bytes of secrets, and those that are not decoded, are ``**`` unless ``options.secrets``.
    """
    dump, size = Dump(frame, layer, reveal=options.secrets), len(frame.data)
    stop = size if options.full else min(size, SHOWN_DUMP_BYTES)
    text = Text(no_wrap=True, overflow="crop")
    for row in range(0, stop, ROW):
        text.append(dump.row(row, stop, "  ")).append("\n")
    if stop < size:
        text.append(f"  ... {size - stop:,} more bytes (--full shows all)\n", "dim")
    text.rstrip()
    return text


class Dump:
    """The rows of one frame, made on demand. ``packets``: the bytes of several packets are marked."""

    def __init__(self, frame: Frame, layer: Layer | None, *, reveal: bool = False, packets: bool = False) -> None:
        self.data, self.layer = frame.data, layer
        self._pieces = [begin for begin, _ in frame.pieces] if packets else []
        self._starts = sorted({start for start, _ in leaves(layer)}) if layer is not None else []
        self.hidden: list[Range] = [] if reveal else hidden_ranges(frame, layer)

    def row(self, begin: int, stop: int, margin: str = "") -> Text:
        """The row of the bytes from ``begin`` on, up to ``stop``."""
        text = Text(no_wrap=True, overflow="crop").append(f"{margin}{begin:06x} ", "dim")
        letters = Text("  " + "   " * max(0, begin + ROW - stop))
        for turn, run in groupby(range(begin, min(begin + ROW, stop)), self._turn):
            offsets = list(run)
            cells = [_cell(self.data, at, self.hidden) for at in offsets]
            style = FIELD_STYLES[turn[0] % len(FIELD_STYLES)] if self.layer is not None else ""
            text.append(self._bar(offsets[0]))
            text.append(" ".join(number for number, _ in cells), style)
            letters.append("".join(letter for _, letter in cells), style)
        return text.append(letters)

    def _turn(self, at: int) -> tuple[int, int]:
        """Number of fields, and packets, that began after the first byte, up to this one."""
        return bisect_right(self._starts, at) - bisect_right(self._starts, 0), bisect_right(self._pieces, at)

    def _bar(self, at: int) -> str:
        """The mark before a byte: whether a packet or a field begins with it."""
        return " " if not at else PACKET if at in self._pieces else FIELD if at in self._starts else " "


def _cell(data: bytes, at: int, hidden: list[Range]) -> tuple[str, str]:
    """A byte as digits and as a character."""
    if any(start <= at < stop for start, stop in hidden):
        return HIDDEN, "*"
    return f"{data[at]:02x}", chr(data[at]) if 32 <= data[at] < 127 else "."


def leaves(layer: Layer) -> list[Range]:
    """The byte ranges of all fields that hold no other fields, in order."""
    ranges: list[Range] = []
    for name, value in layer.fields.items():
        inner = value if isinstance(value, list) else [value]
        if any(isinstance(element, Layer) for element in inner):
            start, first = layer.ranges.get(name, (0, 0))[0], inner[0].start
            if start < first and name in layer.ranges:  # the count of an array
                ranges.append((start, first))
            for element in inner:
                ranges += leaves(element)
        elif name in layer.ranges and layer.ranges[name][0] < layer.ranges[name][1]:
            ranges.append(layer.ranges[name])
    return ranges


def hidden_ranges(frame: Frame, layer: Layer | None) -> list[Range]:
    """The bytes of a frame that must not be shown: those of secrets, and those not decoded, which may be anything."""
    size = len(frame.data)
    if layer is None:
        return [(0, size)]
    inner = [each for layer_inside, stop in inner_layers(frame) for each in secrets(layer_inside, frame.data, stop)]
    return [*secrets(layer, frame.data, size), *inner]


def secrets(layer: Layer, data: bytes, stop: int) -> list[Range]:
    """The byte ranges of a layer in ``data`` that must not be shown; its bytes end at ``stop``.

    Those of secret values, and unreadable bytes, for they may be anything; but of a truncated field only if
    it holds a secret, or one comes after or before it, since its length may be wrong.
    """
    ranges = list(layer.secret_ranges())
    reached = layer.stop if layer.problem is None else layer.problem.start
    if reached < stop and (_may_follow(layer) or is_secret_value(text(data[reached:stop]))):
        ranges.append((reached, stop))
    return ranges


def _may_follow(layer: Layer) -> bool:
    """Whether the bytes that were not read may hold a secret."""
    if layer.problem is None or layer.problem.reason:
        return True
    failed = re.split(r"[.\[]", layer.problem.field, maxsplit=1)[0]
    names = [kind.name for kind in layer.fields_desc]
    later = names[names.index(failed) if failed in names else 0 :]
    near = {*later, *list(layer.ranges)[-1:]}
    return any(kind.name in near and (may_hide(kind) or plain(kind).free) for kind in layer.fields_desc)
