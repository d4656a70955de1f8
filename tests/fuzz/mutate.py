"""Mutations that know the structure of bytes: conversations by frame and field, packets by header."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.shapes import PacketsInput, TalkInput
from wiredecode.fields import Array, Kind, plain
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import Frame
from wiredecode.testing import ProtocolTests
from wiredecode.testing.packets import batches
from wiredecode.testing.samples import CANNOT, MUTATIONS, Maker
from wiredecode.testing.segments import Part, craft, every

EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1, -1, -(1 << 63))
NASTY = ("", "\x1b[31m\x07", "\u202eabc", "\udcff", "\x00", "=1+1", "a" * 300, "\u2028", "{}", "é", "../..")
NASTY_BYTES = (b"", b"\x1b]0;x\x07", b"\xff\xfe", b"\0" * 9, b"\r\n", b"\xe2\x80\xae", b"a" * 300, b'{"a":1}')
DAMAGED, MADE, MOVED, REBUILT = 0.3, 0.45, 0.55, 0.75
"""Shares of mutations, added up: a frame is damaged, a made one put in, frames are moved, the structure changes; else
a field changes."""
MOST_ELEMENTS, MOST_BYTES = 500, 20_000


# Fields.


def places(packet: Layer) -> Iterator[tuple[Layer, Kind]]:
    """The fields of a layer, and of the structures inside, with the structure that holds them."""
    for kind in map(plain, packet.fields_desc):
        value = packet.fields.get(kind.name)
        yield packet, kind
        for element in value if isinstance(value, list) else [value]:
            if isinstance(element, Layer):
                yield from places(element)


def forget_fills(packet: Layer) -> None:
    """Let lengths and counts be computed when the packet is built."""
    for owner, kind in places(packet):
        if kind.name in owner.fills:
            owner.fields.pop(kind.name, None)


def other_value(kit: type[ProtocolTests], owner: Layer, kind: Kind, chance: random.Random) -> Any:
    """Another value of a field."""
    old = owner.fields.get(kind.name)
    if isinstance(old, list) and old and chance.random() < 0.7:
        at = chance.randrange(len(old))
        return chance.choice((old[:at], old + old[at:], old[at:], [*old[:at], *old[at + 1 :]], old[::-1]))
    if isinstance(old, int) and chance.random() < 0.5:
        return chance.choice((*EDGES, old + 1, old - 1, old ^ 1 << chance.randrange(64)))
    if isinstance(old, str) and chance.random() < 0.5:
        return chance.choice((*NASTY, old + chance.choice(NASTY), old[1:], old * 2))
    if isinstance(old, bytes) and chance.random() < 0.5:
        return chance.choice((*NASTY_BYTES, old + chance.choice(NASTY_BYTES), old[1:], old * 2))
    depth = 0 if isinstance(kind, Array) else 2
    return Maker(chance, kit.values).value(kind, depth)


def wrong_count(owner: Layer, kind: Kind, chance: random.Random) -> None:
    """A length or count that does not fit what follows."""
    size = len(bytes(owner))
    owner.fields[kind.name] = chance.choice((0, 1, size, size + 1, 1000, 0x7FFF, 0x7FFF_FFFF, -1))


def nested(owner: Layer, kind: Kind, chance: random.Random) -> None:
    """Elements many times, a structure inside itself as bytes, or contents that compress to little."""
    old, times = owner.fields.get(kind.name), chance.choice((2, 16, 200))
    if isinstance(old, list):
        owner.fields[kind.name] = (old * times)[:MOST_ELEMENTS]
    elif isinstance(old, bytes):
        again = chance.choice((old, bytes(owner), bytes(len(old) or 9)))
        owner.fields[kind.name] = chance.choice((again * times, gzip.compress(again * times * 99)))[:MOST_BYTES]


def restructured(layer: type[Layer], raw: bytes, chance: random.Random) -> bytes:
    """A frame whose structure is another one: counts against contents, or contents in contents; half of them cut."""
    try:
        packet = layer.within(raw, 0, len(raw))
        every = list(places(packet))
        counts = [(owner, kind) for owner, kind in every if kind.name in owner.fills]
        deep = [(owner, kind) for owner, kind in every if isinstance(owner.fields.get(kind.name), list | bytes)]
        if deep:
            nested(*chance.choice(deep), chance)
            forget_fills(packet)
        if counts and chance.random() < 0.5:
            wrong_count(*chance.choice(counts), chance)
        new = bytes(packet) + raw[packet.stop :]
    except CANNOT:
        return chance.choice(MUTATIONS)(raw, chance) if len(raw) > 1 else raw
    return new[: chance.randrange(len(new) + 1)] if chance.random() < 0.3 else new


def other_field(kit: type[ProtocolTests], layer: type[Layer], raw: bytes, chance: random.Random) -> bytes:
    """A frame built again with another field; mostly with lengths and counts that fit."""
    try:
        packet = layer.within(raw, 0, len(raw))
        owner, kind = chance.choice(list(places(packet)))
        if chance.random() < 0.15:
            owner.fields.pop(kind.name, None)
        elif (value := other_value(kit, owner, kind, chance)) is not None:
            owner.fields[kind.name] = value
        if chance.random() < 0.8:
            forget_fills(packet)
        return bytes(packet) + raw[packet.stop :]
    except CANNOT:
        return chance.choice(MUTATIONS)(raw, chance) if len(raw) > 1 else raw


# Talks.


def frames_of(kit: type[ProtocolTests], talk: TalkInput) -> list[Frame]:
    """The frames of a conversation without loss."""
    packets = craft(talk.parts, every(60_000), server_port=kit.port())
    return [frame for frame in kit.dissect(batches(packets), style=None).frames if not frame.missing]


def replace(talk: TalkInput, frame: Frame, new: bytes) -> None:
    """Replace the bytes of a frame."""
    side, at = frame.side, 0
    for part in talk.parts:
        if part.side != side:
            continue
        first = frame.offset - at
        if 0 <= first < len(part.data):
            part.data = part.data[:first] + new + part.data[first + frame.length :]
            return
        at += len(part.data)


def mutate_talk(kit: type[ProtocolTests], data: bytes, chance: random.Random) -> bytes:
    """A talk with one to three changes."""
    talk = TalkInput.read(data)
    if not talk.parts:
        made = [raw for layer in kit.layers() for raw in kit.made(layer)[:1]]
        return TalkInput(0, 0, [Part(1, chance.randrange(2), chance.choice(made))]).write()
    if chance.random() < 0.1:
        talk.how, talk.seed = chance.randrange(64), chance.randrange(256)
    for _ in range(chance.choice((1, 1, 2, 3))):
        frames = frames_of(kit, talk)
        if not frames:
            part = chance.choice(talk.parts)
            part.data = chance.choice(MUTATIONS)(part.data, chance) if len(part.data) > 1 else part.data
            break
        frame, how = chance.choice(frames), chance.random()
        if how < DAMAGED or frame.layer is None:
            new = chance.choice(MUTATIONS)(frame.data, chance) if len(frame.data) > 1 else b""
        elif how < MADE:
            new = frame.data + chance.choice(kit.made(chance.choice(kit.layers())) or [b""])
        elif how < MOVED:
            new = chance.choice(
                (b"", frame.data * 2, chance.choice(frames).data, frame.data + chance.choice(frames).data)
            )
        elif how < REBUILT:
            new = restructured(frame.layer, frame.data, chance)
        else:
            new = other_field(kit, frame.layer, frame.data, chance)
        replace(talk, frame, new)
    return talk.write()


# Packets.


def mutate_packets(data: bytes, chance: random.Random) -> bytes:
    """Packets of which one is changed, moved, lost or repeated; most changes are in headers."""
    found = PacketsInput.read(data)
    if not found.packets:
        return data
    at = chance.randrange(len(found.packets))
    later, packet = found.packets[at]
    how = chance.random()
    if how < 0.15:
        del found.packets[at]
    elif how < 0.25:
        found.packets.insert(chance.randrange(len(found.packets) + 1), (later, packet))
    elif how < 0.3:
        found.linktype = chance.choice((0, 1, 12, 101, 108, 113, 228, 229, 276, chance.randrange(300)))
    elif how < 0.35:
        found.packets[at] = (chance.choice((0, 1, 1000, 0xFFFF)), packet)
    elif packet:
        header = packet[: chance.choice((20, 60, 120))]
        found.packets[at] = (later, chance.choice(MUTATIONS)(header, chance) + packet[len(header) :])
    return found.write()


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    """Damage any bytes as frames are damaged."""
    return chance.choice(MUTATIONS)(data, chance) if len(data) > 1 else chance.randbytes(4)


def words(*choices: str) -> Callable[[bytes, random.Random], bytes]:
    """Insert, delete and repeat words of a text."""

    def mutate(data: bytes, chance: random.Random) -> bytes:
        if chance.random() < 0.3:
            return mutate_bytes(data, chance)
        text = data.decode("utf-8", "replace").split(" ")
        at = chance.randrange(len(text))
        text[at : at + chance.randrange(2)] = [chance.choice(choices) for _ in range(chance.randrange(1, 3))]
        return " ".join(text).encode()

    return mutate
