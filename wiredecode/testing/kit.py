"""The tests that every protocol has to pass, written once: a class that a test module makes its own.

::

    class TestKV(ProtocolTests):
        protocol = KV
        dialogues = {"asked and answered": [Part(1, 0, asked), Part(1, 1, answered)]}

pytest finds the tests in it, one for each capture and dialogue, and is not imported."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from wiredecode.capture import open_capture
from wiredecode.fields import compiler
from wiredecode.fields.kind import Truncated
from wiredecode.fields.layer import Layer
from wiredecode.filter.names import Names
from wiredecode.frames.frame import Frame
from wiredecode.protocols.base import Protocol
from wiredecode.protocols.catalogue import catalogue
from wiredecode.protocols.registry import by_name
from wiredecode.protocols.shared.tls import NAME as TLS
from wiredecode.testing import tables
from wiredecode.testing.dissection import Result, dissect, dissect_in_steps, meaning, pairing
from wiredecode.testing.packets import batches
from wiredecode.testing.parity import readers_agree
from wiredecode.testing.samples import (
    MUTATIONS,
    WANTED,
    Mutation,
    Values,
    distinct,
    general,
    integers,
    samples,
    truncation,
)
from wiredecode.testing.segments import CUTTINGS, Cutting, Part, craft, dialogue, every, reorder

Case = tuple[type[Layer], bytes]

BATCHES = (1, 7, 64)
STORED = {7: 20, 48: 3}
"""By the packets in a batch: after how many of these the dissector is stored."""
SMALL = 30_000
"""Bytes of the largest capture that is cut in every way."""
BATCHED = 200_000
"""Bytes of the largest capture that is read in batches of a few packets."""
FRAME_BYTES = 20_000
"""Of larger frames readers are compared on the first only."""
MANY = 100
"""Among this many damaged frames some are malformed, and some are not."""
MADE = 4
"""Frames of each layer, of those made from the declaration, that are damaged."""
COMPARED = ("side", "offset", "length", "type", "status", "values", "layers", "findings", "request", "sender")


class ProtocolTests:
    """Set ``protocol``, and any of the others."""

    protocol: ClassVar[type[Protocol]]
    vectors: ClassVar[Sequence[Case]] = ()
    """Frames of known layers, well-formed or not."""
    captures: ClassVar[Sequence[Path]] = ()
    """Whole captures of nothing but this protocol."""
    damaged: ClassVar[Sequence[Path]] = ()
    """Captures with gaps, late starts, or other traffic in them."""
    dialogues: ClassVar[Mapping[str, Sequence[Part]]] = {}
    """Bytes of both sides, if they are not in a capture."""
    cut: ClassVar[Sequence[Path]] = ()
    """The captures that are cut in every way; default: all small ones."""
    values: ClassVar[Mapping[str, Values]] = {}
    """Makes values of fields that cannot be guessed: by name of the field, or of the class of its kind."""
    steady: ClassVar[frozenset[str]] = frozenset()
    """Integers that have to stay as they are in a real frame: checksums, sizes, codes that distinguish types."""
    unmade: ClassVar[frozenset[str]] = frozenset()
    """Layers of which no frame can be made from the declaration alone."""
    stepped: ClassVar[frozenset[str]] = frozenset()
    """Layers whose ``walk`` steps over elements by their sizes alone: it does not see what is wrong inside."""
    unfound: ClassVar[Mapping[str, int]] = {}
    """Frames that a start in the middle of a capture, by its name, does not find: too little identifies them."""
    wanted: ClassVar[int] = WANTED
    """Frames made of each layer; more if others have other fields."""
    leaves: ClassVar[bool] = False
    """Fast decoders may leave what is written in an unusual way to the careful one."""

    # The tests.

    def __init_subclass__(cls) -> None:
        """Remove tests of captures and dialogues if there are none, so that pytest has none to skip."""
        if not cls.__name__.startswith("Test"):
            return  # a base of others
        empty = {"path": not (cls.captures or cls.damaged), "whole": not cls.captures, "talk": not cls.talks()}
        for name in [name for name in dir(cls) if name.startswith("test_")]:
            test = getattr(cls, name)
            if callable(test) and any(empty.get(argument) for argument in signature(test).parameters):
                setattr(cls, name, None)

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """One test for each capture, dialogue and so on that a test asks for by the name of its argument."""
        by_argument: dict[str, Mapping[str, Any]] = {
            "path": {path.name: path for path in (*self.captures, *self.damaged)},
            "whole": {path.name: path for path in self.captures},
            "talk": self.talks(),
            "mutate": {mutation.__name__: mutation for mutation in MUTATIONS},
        }
        for name, cases in by_argument.items():
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, list(cases.values()), ids=list(cases))

    @classmethod
    def layers(cls) -> list[type[Layer]]:
        """All layers of the protocol."""
        return list(dict.fromkeys(cls.protocol().layers()))

    @classmethod
    def talks(cls) -> dict[str, Callable[[], list[Part]]]:
        """Bytes to cut in every way, by name: dialogues, and those of captures."""
        said: dict[str, Callable[[], list[Part]]] = {}
        for name, parts in cls.dialogues.items():
            said[name] = partial(list, parts)
        for path in cls.cut or [path for path in cls.captures if path.stat().st_size < SMALL]:
            said[path.stem] = partial(cls.spoken_in, path)
        return said

    @classmethod
    def spoken_in(cls, path: Path) -> list[Part]:
        """Bytes of both sides of all connections of a capture."""
        return dialogue(cls.spoken(cls.read(path).frames))

    @classmethod
    def spoken(cls, frames: Iterable[Frame]) -> list[Frame]:
        """The frames that are not inside others."""
        return list(frames)

    @classmethod
    def port(cls) -> int:
        """The port of the server in packets that are made."""
        return cls.protocol.ports[0]

    # Ingredients of tests.

    @classmethod
    def dissect(cls, source: Iterable[Any], **options: Any) -> Result:
        """Only this protocol is tried."""
        result = dissect(source, **{"known": (cls.protocol(),), **options})
        failures = sorted(result.totals.failures)
        assert not failures
        return result

    @classmethod
    @cache
    def read(cls, path: Path) -> Result:
        """A capture file; read once, so do not change what comes back."""
        return cls.dissect(open_capture([path]))

    @classmethod
    def crafted(cls, parts: Iterable[Part], cut: Cutting) -> Result:
        """Bytes of both sides, in other segments."""
        return cls.batched(craft(parts, cut, server_port=cls.port()))

    @classmethod
    def batched(cls, packets: Iterable[bytes], size: int | None = None) -> Result:
        """Packets that are made, in batches of a size."""
        return cls.dissect(batches(packets, size), wait_ns=1 << 60)  # bytes that come one by one take long

    @classmethod
    def said(cls, result: Result) -> list[Any]:
        """Contents that must not depend on segments. Frames are in the order of their completion."""
        assert result.totals.closes
        return [meaning(frame) for frame in result.frames]

    @classmethod
    @cache
    def made(cls, layer: type[Layer]) -> list[bytes]:
        """Frames made from the declaration; made once, so do not change the list."""
        return samples(layer, cls.values, wanted=cls.wanted)

    @classmethod
    def captured(cls, path: Path) -> Iterator[Case]:
        """The whole frames of a capture and their carried frames, two of each length and layer."""
        seen: dict[tuple[type[Layer], int], int] = {}
        for frame in cls.read(path).whole:
            for layer, raw in [(frame.layer, frame.data), *((inner.layer, inner.data) for inner in frame.inner)]:
                if layer is None:
                    continue
                count = seen[layer, len(raw)] = seen.get((layer, len(raw)), 0) + 1
                if count <= 2 and (len(raw) < FRAME_BYTES or not any(size > len(raw) for _, size in seen)):
                    yield layer, raw

    @classmethod
    def cases(cls) -> list[Case]:
        """Vectors, and frames made from the declaration: what is damaged in every way."""
        return [*cls.vectors, *((layer, raw) for layer in cls.layers() for raw in cls.made(layer)[:MADE])]

    @classmethod
    def agree(cls, cases: Iterable[Case], *, damaged: bool = False) -> list[bool]:
        """Compare all readers; return which frames are well-formed."""
        return [
            readers_agree(layer, raw, leaves=cls.leaves, steps=layer.__name__ in cls.stepped, damaged=damaged)
            for layer, raw in cases
        ]

    # Readers agree.

    def test_readers_agree_on_frames_made_from_the_declaration(self) -> None:
        """Every integer has other bytes in all places."""
        for layer in self.layers():
            frames = self.made(layer)
            assert frames or layer.__name__ in self.unmade, f"no frame of {layer.__name__} could be made"
            assert all(self.agree((layer, raw) for raw in frames)), layer.__name__

    def test_layers_with_every_field_left_at_its_default_are_read_back(self) -> None:
        self.agree([(layer, bytes(layer())) for layer in self.layers()])

    def test_readers_agree_on_any_bytes(self) -> None:
        sizes = (1, 7, 8, 20, 60, 200)
        filled = [filling * size for size in sizes for filling in (b"\0", b"\xff")]
        for layer in self.layers():
            chance = random.Random(layer.__name__)
            any_bytes = [chance.randbytes(size) for size in sizes]
            self.agree(((layer, raw) for raw in any_bytes + filled), damaged=True)

    def test_readers_agree_on_vectors(self) -> None:
        self.agree(self.vectors)

    def test_readers_agree_on_captured_frames(self, path: Path) -> None:
        self.agree(self.captured(path))
        for frame in self.read(path).frames:
            if frame.status == "ok" and frame.layer is not None:
                assert self.round_trip(frame.layer, frame.data) is None, frame.number
                for inner in frame.inner:
                    self.round_trip(inner.layer, inner.data)

    @classmethod
    @cache
    def round_trip(cls, layer: type[Layer], raw: bytes) -> Truncated | None:
        """Assert the same values, and the same bytes again up to the last field; return the problem of the bytes."""
        packet = layer(raw)
        assert packet.values() == compiler.careful(layer, raw, 0, len(raw)).values
        if packet.problem is None:
            built = bytes(packet)
            assert built[: packet.stop] == raw[: packet.stop], (layer, raw.hex())
            assert bytes(packet.copy()) == built, (layer, raw.hex())
        return packet.problem

    def test_readers_agree_on_frames_truncated_at_every_byte(self) -> None:
        """Bytes of the next frame directly follow it in the buffer."""
        self.check_ends(60, 6)

    @classmethod
    def check_ends(cls, most: int, most_made: int) -> None:
        """Frames cut at up to ``most`` places, those made from the declaration at ``most_made``."""
        frames = []
        for number, (layer, raw) in enumerate(cls.cases()):
            step = 1 + len(raw) // (most if number < len(cls.vectors) else most_made)
            frames += [(layer, raw[:stop]) for stop in range(1 + number % step, len(raw), step)]
        cls.agree(frames)

    def test_readers_agree_on_damaged_frames(self, mutate: Mutation) -> None:
        self.check_damaged(mutate)

    @classmethod
    def check_damaged(cls, mutate: Mutation, rounds: int = 1) -> None:
        """Each frame is damaged ``rounds`` times, in other ways."""
        chance = random.Random(f"{mutate.__name__} {rounds}")
        cases = [case for case in cls.cases() for _ in range(rounds) if len(case[1]) > 1]
        whole = cls.agree(((layer, mutate(raw, chance)) for layer, raw in cases), damaged=True)
        assert not all(whole) or len(cases) < MANY
        assert any(whole) or len(cases) < MANY or mutate is truncation

    def test_every_field_of_a_well_formed_frame_has_a_range(self) -> None:
        for layer, raw in self.cases():
            decoded = compiler.careful(layer, raw, 0, len(raw))
            for start, stop in decoded.ranges.values():
                assert 0 <= start <= stop <= len(raw)
            names = {general(path).partition(".")[0].partition("[")[0] for path in decoded.ranges}
            assert decoded.problem is not None or names == set(decoded.without_defaults()), (layer, raw.hex())

    def test_facts_are_names_of_fields(self) -> None:
        unknown = {layer.__name__: names for layer in self.layers() if (names := {*layer.facts} - self.named())}
        assert not unknown

    @classmethod
    @cache
    def named(cls) -> frozenset[str]:
        """The names of all fields, declared and generated, as in their layers."""
        protocol, declared = cls.protocol(), (entry.name for entry in catalogue(cls.layers()))
        names = (*declared, *protocol.generated_fields(), *protocol.column_types)
        return frozenset(name.partition(".")[2] for name in names)

    # Segments.

    def test_segmentation_does_not_matter(self, talk: Callable[[], list[Part]]) -> None:
        """And all bytes are in frames."""
        parts = talk()
        whole = self.crafted(parts, every(60_000))
        assert whole.frames
        assert whole.totals.framed == sum(len(part.data) for part in parts)
        assert (whole.totals.undecoded, whole.totals.missing, sum(whole.totals.other.values())) == (0, 0, 0)
        said = self.said(whole)
        for name, cutting in CUTTINGS.items():
            assert self.said(self.crafted(parts, cutting())) == said, name

    def test_batches_do_not_matter(self, talk: Callable[[], list[Part]]) -> None:
        """Not even if segments come out of order; in order: ``test_batch_size_and_pickling_change_nothing_at_all``."""
        packets = craft(talk(), reorder(4, window=40), server_port=self.port())
        said = self.said(self.batched(packets))
        for size in BATCHES:
            assert self.said(self.batched(packets, size)) == said, f"{size} packets"

    def test_filters_know_types_and_every_key_of_the_records_of_captured_frames(self, whole: Path) -> None:
        frames, names = self.read(whole).frames, Names()
        assert {frame.type for frame in self.spoken(frames)} - {None} <= set(self.protocol().type_names())
        keys = {key for frame in frames for key in keys_of(frame.layers or {})}
        unknown = {key for key in keys if names.find(key) is None}
        assert not unknown or by_name(self.protocol.name) is None, "of protocols that are installed"

    def test_packets_that_are_made_say_what_the_captured_ones_said(self, whole: Path) -> None:
        if whole.stem in self.talks():
            captured = self.spoken(self.read(whole).frames)
            made = self.spoken(self.crafted(dialogue(captured), every(60_000)).frames)
            for one, two in zip(map(meaning, made), map(meaning, captured), strict=True):
                assert {key: one[key] for key in COMPARED} == {key: two[key] for key in COMPARED}

    def test_other_integers_are_linked_alike(self, talk: Callable[[], list[Part]]) -> None:
        """Integers that differ in every byte."""
        assert self.with_distinct_integers(talk())

    def with_distinct_integers(self, parts: list[Part]) -> list[Part]:
        """The same conversation with other numbers: frames are still paired in the same way."""
        base = self.crafted(parts, every(60_000)).frames
        before = list(map(pairing, base))
        frames = self.spoken(base)
        for frame in frames:
            frame.buffer, frame.start = self.changed(frame), 0
            frame.stop = len(frame.buffer)
        changed = dialogue(frames)
        again = self.crafted(changed, every(60_000)).frames
        for frame, paired in zip(again, before, strict=False):
            difference = f"frame {frame.number}: {pairing(frame)}, not {paired}: see ProtocolTests.steady"
            assert pairing(frame) == paired, difference
        assert len(again) == len(before)
        return changed

    def changed(self, frame: Frame) -> bytes:
        """The frame with other integers, where it stays as long and of the same fields."""
        data = frame.data
        if frame.layer is None or frame.missing:
            return data
        groups: dict[str, list[tuple[int, int]]] = {}
        for path, start, stop in integers(frame.layer, data):
            if path.rpartition(".")[2].removesuffix("[]") not in self.steady:
                groups.setdefault(path, []).append((start, stop))
        ranges = compiler.careful(frame.layer, data, 0, len(data)).ranges
        for ranges_of_group in groups.values():
            altered = distinct(data, ranges_of_group)
            if compiler.careful(frame.layer, altered, 0, len(altered)).ranges == ranges:
                data = altered
        return data

    # Captures.

    def test_every_byte_is_accounted_for(self, path: Path) -> None:
        """Of a whole capture all are in frames."""
        result = self.read(path)
        totals = result.totals
        assert totals.closes
        if path in self.captures:
            assert (totals.undecoded, totals.missing, sum(totals.other.values())) == (0, 0, 0)
        frames = [frame for frame in self.spoken(result.frames) if frame.status != "undecoded"]
        spoken = {frame.connection for frame in frames if frame.protocol != TLS}  # all else in TLS is other bytes
        framed = (frame.length - frame.missing for frame in frames if frame.connection in spoken)
        assert totals.framed == sum(framed)

    def test_a_late_start_gives_the_frames_that_follow(self, whole: Path) -> None:
        """From the packet in the middle on, but what TLS hides without its handshake."""
        packets = list(open_capture([whole]))
        first = sum(map(len, packets)) // 2
        late = self.dissect(batch.select(np.flatnonzero(batch.number > first)) for batch in packets)

        def following(result: Result) -> dict[Any, str | None]:
            hidden = {frame.connection for frame in result.frames if frame.protocol == TLS}
            return {
                (frame.connection.endpoints[frame.side], *frame.packets, frame.data): frame.type
                for frame in self.spoken(result.frames)
                if frame.packets[0] > first and frame.status == "ok" and frame.connection not in hidden
            }

        found, all_there = following(late), following(self.read(whole))
        assert found.items() <= all_there.items()
        assert len(all_there) - len(found) == self.unfound.get(whole.name, 0)

    def test_batch_size_and_pickling_change_nothing_at_all(self, path: Path) -> None:
        """Neither numbers nor packets nor times. One whole capture and one damaged are read packet by packet."""
        whole = dissect_in_steps(path)
        batch = min(STORED) if path.stat().st_size < BATCHED else max(STORED)
        assert dissect_in_steps(path, batch, STORED[batch]) == whole, f"{batch} packets, stored"
        for batch in BATCHES if path in map(largest, (self.captures, self.damaged)) else ():
            assert dissect_in_steps(path, batch) == whole, f"{batch} packets"

    def test_without_records_the_frames_are_the_same(self, path: Path) -> None:
        with_records = self.read(path)
        bare = self.dissect(open_capture([path]), style=None)
        assert bare.totals == with_records.totals
        for one, two in zip(bare.frames, with_records.frames, strict=True):
            assert meaning(one) == {**meaning(two), "layers": None}


class BlockTests(ProtocolTests):
    """For a protocol with ``bulk``, too: blocks of frames give the rows of frames that are read one by one."""

    def test_blocks_give_the_rows_of_frames(self, path: Path) -> None:
        self.check_blocks(lambda size: open_capture([path], batch_bytes=size))

    def test_blocks_agree_on_integers_that_differ_in_every_byte(self, talk: Callable[[], list[Part]]) -> None:
        parts = self.with_distinct_integers(talk())
        packets = craft(parts, every(1460), server_port=self.port())
        self.check_blocks(lambda size: batches(packets, max(1, size // 1000)))

    @classmethod
    def check_blocks(cls, source: Callable[[int], Iterable[Any]]) -> None:
        """Rows and totals: messages with blocks as short as one frame and without, frames in batches of two sizes.

        ``source`` is given bytes of a batch.
        """
        expected = {level: tables.table(source(1 << 20), level, blocks=False) for level in tables.LEVELS}
        with tables.shortest_blocks():
            for size in (1 << 20, 3000):
                for level in tables.LEVELS if size == 3000 else ("messages",):
                    rows, totals = tables.table(source(size), level, blocks=True)
                    assert totals == expected[level][1]
                    assert rows.equals(expected[level][0]), f"{level}: {tables.difference(rows, expected[level][0])}"


def keys_of(record: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """The names of all values in a record, as filters call them."""
    for name, value in record.items():
        yield before + name
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                yield from keys_of(inner, f"{before}{name}.")


def largest(paths: Iterable[Path]) -> Path | None:
    """The largest of the small captures."""
    small = [path for path in paths if path.stat().st_size < SMALL]
    return max(small, key=lambda path: (path.stat().st_size, path.name), default=None)
