"""Compares captures with lost or truncated packets with the whole ones: no frame and no value may be invented.

``python -m tests.sweep`` makes such variants of any captures. Frames are known by their
endpoints and TCP sequence number.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import OK, PARTIAL, UNDECODED, Frame
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import Limits
from wiredecode.net.types import Chunk, Direction, Event

ROOT = Path(__file__).parent.parent
CAPTURES = ROOT / "captures"
DAMAGED = ("snap96", "drop1pct", "midconn", "ooo-dup", "shuffled_dups", "cutfile", "s2c-only", "snaplen96", "d4_")
"""Parts of the names of captures that are not whole."""
HOSTILE = "hostile"
"""The folder of captures that were mutated: their frames lie, and one connection changes its dialect."""
HEADER_BYTES = 8
"""Most bytes of a frame that its length does not count."""
LARGE = 200_000
"""Bytes of a capture of which many variants would take long."""
INVENTED = "no such frame"
NEAR_NS = 200_000_000
"""Packets further apart in time do not change places."""
STYLE = Style()

GENERIC = ("Unknown", "Compressed", "Json", "Handshake", "Response")
"""Types of frames whose specific type is unknown if the rest is truncated."""
NUMBERS_OF_FRAMES = frozenset({"copy_of", "inside", "requests", "block", "begun_in"})
"""Fields that are numbers of frames: these differ."""
LEARNED = frozenset({"event_count", "events", "acknowledged_appends", "segment", "in_reply_to", "session_version"})
"""Fields that depend on earlier frames, some of which may be lost."""

WORD = re.compile(r"\w+")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Place = tuple[str, str, int, int, int]
"""Source, destination, TCP sequence number, the order inside a frame that held others, its size."""


def whole_captures(root: Path = CAPTURES) -> list[Path]:
    """Captures of whole connections."""
    return [
        path
        for path in captures([root])
        if not any(part in path.name for part in DAMAGED) and HOSTILE not in path.parts
    ]


def read(path: Path) -> PacketBatch:
    """All packets of a capture, which may be truncated, as one batch."""
    batches: list[PacketBatch] = []
    with suppress(CaptureError):
        batches.extend(open_capture([path]))
    if not batches:
        return PacketBatch.from_packets([])
    starts = np.cumsum([0, *(len(batch.buffer) for batch in batches)])
    columns = ("captured", "original", "time_ns", "linktype", "interface", "number")
    return PacketBatch(
        b"".join(bytes(batch.buffer) for batch in batches),
        np.concatenate([batch.start + start for batch, start in zip(batches, starts, strict=False)]),
        **{name: np.concatenate([getattr(batch, name) for batch in batches]) for name in columns},
    )


def captures(places: Iterable[Path]) -> Iterator[Path]:
    """The captures among these files and below these folders."""
    for place in places:
        found = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (path for path in found if ".pcap" in path.name and ".json" not in path.name and path.is_file())


def small_captures() -> list[Path]:
    """Whole captures that are small enough for many variants."""
    return [path for path in whole_captures() if size_of(path) <= LARGE]


@cache
def size_of(path: Path) -> int:
    """Bytes of a capture before it was compressed."""
    return len(pa.input_stream(path).read()) if path.suffix in (".gz", ".zst") else path.stat().st_size


def damaged_captures(root: Path = CAPTURES) -> list[tuple[Path, Path]]:
    """Damaged captures, each with the whole one if it is kept."""
    pairs = []
    for path in sorted(root.rglob("*.pcap")):
        part = next((part for part in DAMAGED if part in path.name), None)
        if part is not None:
            whole = path.name.replace(f".{part}", "")
            if whole != path.name and (path.parent / whole).exists():
                pairs.append((path.parent / whole, path))
    return pairs


def cut_packets(packets: PacketBatch, size: int) -> PacketBatch:
    """The packets truncated to a snapshot length."""
    return replace(packets, captured=np.minimum(packets.captured, size))


@dataclass
class Dissected:
    """The frames of a capture by their places."""

    frames: dict[Place, Frame] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    """Content hints of undecoded connections."""


def dissect(packets: PacketBatch) -> Dissected:
    """Dissect packets; all frames with records."""
    sequence = _sequence_numbers(packets)
    votes: dict[Direction, Counter[int]] = defaultdict(Counter)

    def note(events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Chunk):
                for end, packet in zip(event.ends.tolist(), event.packet.tolist(), strict=True):
                    votes[event.direction][(sequence[packet] - end) & 0xFFFFFFFF] += 1

    out = Dissected()
    dissector = Dissector(
        Demand(style=STYLE), on_events=note, on_end=lambda _, other: out.unknown.update([other] if other else [])
    )
    frames = list(dissector.frames([packets]))
    for frame in frames:
        base = votes[frame.connection.directions[frame.side]].most_common(1)[0][0]
        place = (frame.offset + base) & 0xFFFFFFFF
        out.frames[frame.source, frame.destination, place, frame.inner_index, frame.length] = frame
    return out


def _sequence_numbers(packets: PacketBatch) -> dict[int, int]:
    """The sequence number after the captured bytes of each packet with TCP."""
    reader = HeaderReader(Limits(), Counter(), Counter())
    segments = reader.read(packets)
    rows = zip(segments.number.tolist(), segments.seq.tolist(), segments.captured.tolist(), strict=True)
    return {number: seq + captured for number, seq, captured in rows}


@dataclass
class Report:
    """Differences between a damaged capture and the whole one."""

    frames: Counter[str] = field(default_factory=Counter)
    """Number of whole frames in the damaged capture, by protocol."""
    missed: Counter[str] = field(default_factory=Counter)
    """Number of these frames that were not found."""
    missed_after: Counter[str] = field(default_factory=Counter)
    """Number of missed frames after the first frame found in their direction."""
    wrong: list[str] = field(default_factory=list)
    """Invented frames, frames of other protocols, and values that differ from the whole capture."""

    def add(self, other: Report) -> None:
        for name in ("frames", "missed", "missed_after"):
            getattr(self, name).update(getattr(other, name))
        self.wrong += other.wrong

    def table(self) -> str:
        rows = [f"{'protocol':<20}{'frames':>10}{'missed':>10}{'after the first':>18}"]
        rows += [
            f"{name:<20}{count:>10,}{self.missed[name]:>10,}{self.missed_after[name]:>18,}"
            for name, count in sorted(self.frames.items())
        ]
        return "\n".join(rows)


def chosen(packets: PacketBatch, places: Iterable[int]) -> PacketBatch:
    """Some of the packets, numbered anew."""
    kept = np.array([*places], np.int64)
    columns = ("start", "captured", "original", "time_ns", "linktype", "interface")
    picked = {name: getattr(packets, name)[kept] for name in columns}
    return replace(packets, number=np.arange(1, len(kept) + 1, dtype=packets.number.dtype), **picked)


def lossy_variants(packets: PacketBatch, seed: str) -> Iterator[tuple[str, PacketBatch]]:
    """The packets with some lost, single ones and several in a row."""
    chance, count = random.Random(seed), len(packets)
    for share in (0.01, 0.1, 0.4):
        yield f"without {share:.0%}", chosen(packets, [each for each in range(count) if chance.random() > share])
    start = chance.randrange(count)
    gap = range(start, min(count, start + chance.randrange(1, 30)))
    if len(gap) < count:
        yield f"without {gap}", chosen(packets, [each for each in range(count) if each not in gap])
    for share in (0.02, 0.2):
        kept = [each for each in moved(packets, chance) if chance.random() > share]
        twice = [each for each in kept for _ in range(1 + (chance.random() < 0.05))]
        yield f"in another order, some twice, without {share:.0%}", in_time(chosen(packets, twice))


def moved(packets: PacketBatch, chance: random.Random) -> list[int]:
    """A reordering of packets within :data:`NEAR_NS`, by up to six places."""
    far = np.flatnonzero(np.diff(packets.time_ns) > NEAR_NS) + 1
    talks = np.split(np.arange(len(packets)), far)
    return [each for talk in talks for each in sorted(talk.tolist(), key=lambda at: at + chance.random() * 6)]


def in_time(packets: PacketBatch) -> PacketBatch:
    """The packets with sorted times, as in a capture of packets that overtook others."""
    return replace(packets, time_ns=np.sort(packets.time_ns))


def wrong_links(whole: Dissected, damaged: Dissected) -> Iterator[str]:
    """Responses of a damaged capture linked to another request than in the whole one, and wrong outcomes.

    If messages pass several connections (NATS), the request may be another hop of the same message.
    """
    before = {frame.id: place for place, frame in whole.frames.items()}
    after = {frame.id: place for place, frame in damaged.frames.items()}
    for place, frame in damaged.frames.items():
        same = whole.frames.get(place)
        if same is None or "nats" in (same.layers or {}) or frame.dialect != same.dialect:
            continue
        said = (value for path, value in flat(same.layers or {}) if name_of(path) == "requests")
        right = {before.get(number) for number in (same.request, *said)}
        if frame.request is not None and after.get(frame.request) not in right:
            yield f"{frame.protocol} {frame.type} {place}: answers {after.get(frame.request)}, not {right}"
        if frame.outcome not in (None, "", same.outcome, "late", "unanswered", "not asked for"):
            yield f"{frame.protocol} {frame.type} {place}: {frame.outcome}, not {same.outcome}"


def wrong_copies(whole: Dissected, damaged: Dissected) -> Iterator[str]:
    """Wrong copies in a damaged capture; another hop of the same message is right."""
    places, before = [*whole.frames], {frame.id: place for place, frame in whole.frames.items()}
    first = {place: before.get(whole.frames[place].generated.get("copy_of"), place) for place in places}
    after = {frame.id: place for place, frame in damaged.frames.items()}
    for place, frame in damaged.frames.items():
        original = after.get(frame.generated.get("copy_of"))
        if place not in first or original is None or frame.inner_index or damaged.frames[original].inner_index:
            continue  # inner offsets count from the first captured byte
        if first[place] == place and {*frame.data.splitlines()[1:]} == {
            *damaged.frames[original].data.splitlines()[1:]
        }:
            continue  # linked by stream sequences, which come later in the whole capture
        if first[place] != first.get(original, original):
            yield f"{frame.protocol} {frame.type} {place}: a copy of {original}, not {first[place]}"


def losses(path: Path, turns: Iterable[int], seed: int = 1) -> Report:
    """Reports of a capture with random lost packets, for each turn and way."""
    packets, report = read(path), Report()
    if len(packets) < 2:
        return report
    whole = dissect(packets)
    for turn in turns:
        for how, variant in lossy_variants(packets, f"{seed} {turn} {path.name}"):
            damaged = dissect(variant)
            found = compare(whole, damaged, learned=False)
            links = (*wrong_links(whole, damaged), *wrong_copies(whole, damaged))
            found.wrong = [f"{path.name} {how}: {line}" for line in (*found.wrong, *links)]
            report.add(found)
    return report


def compare(
    whole: Dissected, damaged: Dissected, first: int = 1, *, learned: bool = True, values: bool | None = None
) -> Report:
    """Compare a damaged capture with the whole one; ``first`` is the packet of the whole one that it begins with.

    ``values``: also compare values and frames inside others, which no late start leaves the same (default: if ``first``
    is 1). ``learned``: also the fields that earlier frames give.
    """
    report, values = Report(), first == 1 if values is None else values
    began: dict[tuple[str, str], int] = {}
    unfinished = {place[:-1]: frame for place, frame in whole.frames.items() if frame.status == PARTIAL}
    for place, frame in damaged.frames.items():
        if frame.status != UNDECODED:
            began.setdefault((frame.source, frame.destination), frame.packets[0])
            if values or not frame.inner_index:
                # The end of an unfinished frame may be lost, and its size with it.
                other = whole.frames.get(place) or unfinished.get(place[:-1])
                said = differences(place, frame, other, values=values)
                report.wrong += [line for line in said if learned or not LEARNED.intersection(WORD.findall(line))]
    for place, frame in whole.frames.items():
        if frame.status != OK or frame.inner_index or frame.packets[0] < first:
            continue
        report.frames[frame.protocol] += 1
        found = damaged.frames.get(place)
        if found is None or found.status != OK:
            report.missed[frame.protocol] += 1
            known = began.get((frame.source, frame.destination))
            # Without the INFO that announced it, TLS without keys is another protocol: its handshake is shown, no more.
            if frame.protocol != "tls":
                report.missed_after[frame.protocol] += known is not None and frame.packets[0] > known
    return report


def differences(place: Place, frame: Frame, whole: Frame | None, *, values: bool) -> Iterator[str]:
    """Errors of a frame of a damaged capture."""
    where = f"{frame.protocol} {frame.type} {frame.status} {place[0]}>{place[1]} offset {frame.offset}+{frame.length}"
    if frame.inner_index and (whole is None or whole.data != frame.data):
        return  # inner offsets count from the first captured byte, without lost ones
    if whole is None:
        yield f"{where}: {INVENTED}"
        return
    if whole.status == UNDECODED:
        return  # of a capture that was damaged before, or began late
    if frame.protocol not in (whole.protocol, *(whole.layers or {})):
        yield f"{where}: it is {whole.protocol} {whole.type}"
        return
    carries = frame.protocol != whole.protocol
    if frame.type not in (None, whole.type, *GENERIC) and not carries:
        yield f"{where}: its type is {whole.type}"
    if not values:
        return
    same = frame.layers == whole.layers  # of most frames
    said = {} if same else dict(flat(whole.layers or {}))
    for path, value in () if same else flat(frame.layers or {}):
        if (path in said and said[path] == value) or name_of(path) in NUMBERS_OF_FRAMES:
            continue
        if says_less(value, said.get(path)):
            continue
        if path not in said and whole.connection.initiator is None:
            continue  # the whole capture began late, too: in another order more is known
        if frame.type not in (*GENERIC, None) or not is_raw(path, value, frame, whole):
            yield f"{where}: {path} = {value!r}, not {said.get(path)!r}"
    if frame.status == "malformed" and whole.status != "malformed":
        yield f"{where}: malformed"


def name_of(path: str) -> str:
    """The last name of a path, without an index."""
    return path.rpartition(".")[2].partition("[")[0]


def is_raw(path: str, value: Any, frame: Frame, whole: Frame) -> bool:
    """Whether a value of a frame of unknown type is its own bytes, their number, or its type."""
    if isinstance(value, str):
        return value in whole.data.hex() or value.startswith("<redacted ") or name_of(path) == "message_type"
    return name_of(path) in ("length", "message_length") and 0 <= frame.length - value <= HEADER_BYTES


def says_less(value: Any, whole: Any) -> bool:
    """Whether a text is the beginning of the whole one and ends with dots, or one has ids in place of names."""
    if not isinstance(value, str) or not isinstance(whole, str):
        return False
    front = value.removesuffix(" ...")
    if front == value and not UUID.search(value + whole):
        return False
    names = r"[^\[ ]+"
    return any(
        re.match(names.join(map(re.escape, UUID.split(one))), other) is not None
        for one, other in ((front, whole), (whole, front))
        if one == front or UUID.search(whole)
    )


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a record by their paths."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from flat(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from flat(inner, f"{path}[{index}]")
    else:
        yield path, value


def starts(path: Path, count: int, seed: int = 1, most: int | None = None) -> Report:
    """Reports of a capture that begins at some of its packets; at fewer if more than ``most`` would be read in all."""
    packets = read(path)
    if len(packets) < 2:
        return Report()
    if most is not None:
        count = max(1, min(count, 2 * most // len(packets)))  # half of them each time
    whole = dissect(packets)
    report = Report()
    chosen = random.Random(f"{seed} {path.name}").sample(range(1, len(packets)), min(count, len(packets) - 1))
    for start in sorted(chosen):
        found = compare(whole, dissect(packets.part(start, len(packets))), start + 1)
        found.wrong = [f"{path.name} from packet {start + 1}: {line}" for line in found.wrong]
        report.add(found)
    return report


def snaplens(path: Path, sizes: Iterable[int]) -> Report:
    """Reports of a capture with packets truncated to some sizes."""
    packets = read(path)
    whole = dissect(packets)
    report = Report()
    for size in sizes:
        found = compare(whole, dissect(cut_packets(packets, size)))
        found.wrong = [f"{path.name} snaplen {size}: {line}" for line in found.wrong]
        report.add(found)
    return report


def topic(frame: Frame) -> str | None:
    """The topic of a frame of Cursus."""
    return (frame.layers or {}).get("cursus", {}).get("topic")
