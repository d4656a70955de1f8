"""A frame with its contents replaced: as many bytes, which decode to the same structure."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from wiredecode.anonymize.key import BLANK, Key, blank
from wiredecode.dataclasses import dataclass
from wiredecode.fields import Kind, Varint, plain
from wiredecode.fields.jsonfields import STRING, JsonObject
from wiredecode.fields.layer import Layer, Range
from wiredecode.frames.frame import UNDECODED, Frame
from wiredecode.protocols.shared.redaction import Disguises, Rules
from wiredecode.view.hexdump import secrets

LOCAL = frozenset({"localhost"})
DEFAULT = Rules()
PRINTABLE = re.compile(rb"[ -~]{3,}|\A[ -~]{2}\Z")
"""A piece of text in the bytes of a number."""


class Leaf(NamedTuple):
    """A field that holds text or bytes."""

    path: tuple[str, ...]
    """Names, without the places in arrays."""
    kind: Kind
    range: Range
    value: Any
    owner: Layer
    """The structure that it is in."""


def leaves(layer: Layer, path: tuple[str, ...] = (), *, numbers: bool = False) -> Iterator[Leaf]:
    """The fields of a layer, and of the structures in it, that hold text or bytes; or its binary ``numbers``."""
    kinds = {kind.name: plain(kind) for kind in layer.fields_desc}
    for name, value in layer.fields.items():
        inner = value if isinstance(value, list) else [value]
        for element in inner:
            if isinstance(element, Layer):
                yield from leaves(element, (*path, name), numbers=numbers)
        texts = isinstance(value, int) if numbers else any(isinstance(element, str | bytes | dict) for element in inner)
        span = layer.ranges.get(name)
        if span is None and layer.problem is not None:  # a list that was truncated
            span = max((stop for _, stop in layer.ranges.values()), default=layer.start), layer.problem.start
        if texts and span is not None and not any(isinstance(element, Layer) for element in inner):
            yield Leaf((*path, name), kinds[name], span, value, layer)


def undeclared_members(layer: Layer) -> Iterator[Range]:
    """Where the members of JSON objects are that their layout does not declare, with their names."""
    for value in layer.fields.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Layer):
                yield from undeclared_members(each)
    if isinstance(layer, JsonObject):
        start = layer.start
        for gap, path, raw in layer.layout:
            stop = start + len(gap) + len(raw)
            if path not in layer.fields:
                yield start, stop
            start = stop


@dataclass
class Pseudonymizer:
    """Replaces what frames hold."""

    key: Key
    rules: Disguises
    names: bool = False
    bodies: bool = False
    keep_unknown: bool = False

    def __post_init__(self) -> None:
        self.blanked: Counter[str] = Counter()
        """Bytes that were blanked because nothing better could be done, by reason."""

    def frame(self, frame: Frame) -> bytes:
        """The bytes of a frame, replaced."""
        data = frame.data
        if frame.layer is None or frame.status == UNDECODED:
            if self.keep_unknown:
                return data
            self.blanked["undecoded bytes"] += len(data)
            return blank(data)
        out = bytearray(data)
        self._layer(frame.layer, data, out, 0, len(data))
        for inner in frame.inner:
            if inner.start is not None:
                stop = inner.start + len(inner.data)
                out[inner.start : stop] = data[inner.start : stop]
                self._layer(inner.layer, data, out, inner.start, stop)
        for each in frame.inner:
            if each.start is not None:
                self._seal(each.layer, data, out, each.start, each.start + len(each.data))
        self._seal(frame.layer, data, out, 0, len(data))
        return bytes(out)

    def _rules(self, layer: type[Layer]) -> Rules:
        return self.rules.get(layer.filter_name, DEFAULT)

    def _seal(self, kind: type[Layer], data: bytes, out: bytearray, start: int, stop: int) -> None:
        """Checksums that were right are right again."""
        seals = self._rules(kind).seals
        if seals and out != data:
            layer = kind.within(data, start, stop)
            for seal in seals:
                seal(layer, data, out)

    def _layer(self, kind: type[Layer], data: bytes, out: bytearray, start: int, stop: int) -> None:
        rules, layer = self._rules(kind), kind.within(data, start, stop)
        reached = layer.stop if layer.problem is None else min(layer.problem.start, stop)
        if rules.encrypted:
            for leaf in leaves(layer):
                first, last = leaf.range
                out[first:last] = blank(data[first:last])
                self.blanked["encrypted bytes"] += last - first
            return
        for leaf in leaves(layer):
            self._leaf(leaf, rules, data, out)
        if self.names:
            for first, last in undeclared_members(layer):
                out[first:last] = self._json(data[first:last], rules)
        for first, last in secrets(layer, data, stop):
            out[first:last] = blank(data[first:last])
        if layer.problem is not None or reached < stop:  # then numbers may be texts
            for leaf in leaves(layer, numbers=True):
                if leaf.kind.fixed is not None or isinstance(leaf.kind, Varint):
                    first, last = leaf.range
                    out[first:last] = PRINTABLE.sub(lambda match: BLANK * len(match[0]), data[first:last])
        if reached < stop:
            out[reached:stop] = blank(data[reached:stop])
            self.blanked["bytes of frames that are truncated, or that cannot be read"] += stop - reached

    def _leaf(self, leaf: Leaf, rules: Rules, data: bytes, out: bytearray) -> None:
        path = leaf.path
        if rules.among(rules.addresses, path):
            at = leaf.range[0]
            out[at : at + 4] = self.key.ipv4(data[at : at + 4])
            return
        if rules.among(rules.blanked, path):
            first, last = leaf.range
            first += int(leaf.kind.minimum())
            out[first:last] = BLANK * (last - first)
            return
        if rules.compressed(leaf.owner, path[-1]):
            for first, last in ranges_of(leaf, data):
                out[first:last] = BLANK * (last - first)
                self.blanked["compressed bytes"] += last - first
            return
        inside = rules.parts.get(path[-1])
        for first, last in ranges_of(leaf, data):
            if inside is None:
                out[first:last] = self._replace(leaf, rules, data[first:last])
                continue
            for start, stop, is_text in inside(data[first:last]):
                out[first + start : first + stop] = self._replace_part(
                    rules, data[first + start : first + stop], is_text
                )

    def _replace(self, leaf: Leaf, rules: Rules, raw: bytes) -> bytes:
        """Replacement of one text, or of some bytes."""
        path = leaf.path
        is_text = not isinstance(leaf.value, bytes) and not rules.among(rules.bodies, path)
        if rules.among(rules.kept, path):
            return self._replace_name(raw, rules) if self.names and is_text else raw
        if rules.among(rules.hosts, path):
            return self._replace_name(raw, rules)
        if rules.among(rules.texts, path):
            return self._replace_name(raw, rules) if self.names or self.bodies else self.key.addresses(raw)
        if rules.among(rules.json, path) or isinstance(leaf.value, dict):
            return self._json(raw, rules) if self.names else self.key.addresses(raw)
        return self._replace_part(rules, raw, is_text or rules.among(rules.names, path))

    def _replace_part(self, rules: Rules, raw: bytes, is_text: bool) -> bytes:
        """Replacement of a text, or of bytes, by ``--names`` or ``--bodies``."""
        if is_text:
            return self._replace_name(raw, rules) if self.names else self.key.addresses(raw)
        return self.key.noise(raw) if self.bodies else self.key.addresses(raw)

    def _replace_name(self, raw: bytes, rules: Rules) -> bytes:
        return self.key.names(raw, rules.words | LOCAL, digits=rules.digits)

    def _json(self, raw: bytes, rules: Rules) -> bytes:
        return STRING.sub(lambda match: b'"' + self._replace_name(match[0][1:-1], rules) + b'"', raw)


def ranges_of(leaf: Leaf, data: bytes) -> Iterator[Range]:
    """Ranges of the texts or bytes of a field: without their lengths, quotes and blanks."""
    start, stop = leaf.range
    if isinstance(leaf.value, dict):
        yield start, stop
        return
    if not isinstance(leaf.value, list):
        raw = _bytes(leaf.value)
        at = data.rfind(raw, start, stop) if raw is not None else -1
        yield (at, at + len(raw)) if raw is not None and at >= 0 else (start + int(leaf.kind.minimum()), stop)
        return
    for value in leaf.value:
        raw = _bytes(value)
        at = data.find(raw, start, stop) if raw is not None else -1
        if raw is None or at < 0:
            yield start, stop
            return
        if raw:
            yield at, at + len(raw)
        start = at + len(raw)


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        return None
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # modified UTF-8
        return None
