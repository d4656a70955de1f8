"""Compares tshark with the generated dissector and our records: ``python -m tests.wireshark.compare CAPTURE ...``.

A field agrees when both have it in the same message, with the same value. A field that only one has does not agree.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import wiredecode
from wiredecode.protocols.registry import carried_by, protocols

NAMES = [protocol.name for protocol in protocols()]
TIME = re.compile(r"(\w{3} +\d+, \d{4} \d\d:\d\d:\d\d)\.(\d{9}) UTC$")
BREAK = re.compile(r"\s")
STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{3,9})Z$")
OUT_OF_ORDER = ("-o", "tcp.reassemble_out_of_order:TRUE")
"""Wireshark leaves this off; captures with segments out of order need it."""
ENDS = frozenset({"ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "tcp.srcport", "tcp.dstport"})


class Shown(NamedTuple):
    """A field in Wireshark's tree."""

    show: str
    value: str
    label: str


class Enumerated(NamedTuple):
    """A value of an enumeration in a record."""

    name: Any
    code: int


Fields = dict[str, list[Any]]


@dataclass
class Message:
    type: str
    length: int
    fields: Fields


@dataclass
class Agreement:
    """Numbers of agreeing fields and of all fields of either side; the others by name."""

    agreed: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def share(self) -> float:
        total = sum(self.total.values())
        return sum(self.agreed.values()) / total if total else 1.0

    def add(self, other: Agreement) -> None:
        self.agreed += other.agreed
        self.total += other.total
        self.examples = {**other.examples, **self.examples}

    def missed(self) -> list[tuple[str, int]]:
        return (self.total - self.agreed).most_common()


Directions = dict[tuple[str, str, str], list["Message"]]
"""Messages in their order, by protocol, sender and receiver."""


def of_tshark(script: Path, capture: Path) -> Directions:
    """Messages as tshark shows them with the script."""
    options = OUT_OF_ORDER if re.search("shuffled|ooo", capture.name) else ()
    command = ["tshark", "-r", str(capture), "-X", f"lua_script:{script}", *options, "-T", "pdml"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        found: Directions = defaultdict(list)
        for _, element in ElementTree.iterparse(process.stdout):
            if element.tag != "packet":
                continue
            ends: dict[str, str] = {}
            for proto in element.iter("proto"):
                name = proto.get("name", "")
                if name in ("ip", "ipv6", "tcp"):
                    ends |= {one.get("name", ""): one.get("show", "") for one in proto if one.get("name") in ENDS}
                elif name in NAMES:
                    one = message(proto)
                    if one.type or one.fields:
                        found[name, end(ends, "src"), end(ends, "dst")].append(one)
            element.clear()
    return found


def message(proto: ElementTree.Element) -> Message:
    fields: Fields = defaultdict(list)
    kind = ""
    for one in proto.iter("field"):
        name = one.get("name", "")
        shown = Shown(one.get("show", ""), one.get("value", ""), one.get("showname", ""))
        if name == "wiredecode.type":
            kind = shown.show
        elif name and not name.startswith(("wiredecode.", "_ws.")):
            fields[name].append(shown)
    return Message(kind, int(proto.get("size", "0")), fields)


def end(ends: dict[str, str], side: str) -> str:
    port = ends[f"tcp.{side}port"]
    return f"[{ends[f'ipv6.{side}']}]:{port}" if f"ipv6.{side}" in ends else f"{ends[f'ip.{side}']}:{port}"


def of_records(capture: Path) -> Directions:
    """Messages from our records."""
    carried = {one.name: name for name in NAMES for one in carried_by(name)}
    found: Directions = defaultdict(list)
    for frame in wiredecode.read(capture, strict=False):
        record = frame.record()
        protocol = carried.get(record["protocol"], record["protocol"])
        if protocol not in NAMES or record["status"] == "undecoded":
            continue
        fields: Fields = defaultdict(list)
        for name, layer in (record["layers"] or {}).items():
            collect(name, layer, fields)
        one = Message(record["type"] or "", record["length"], fields)
        found[protocol, record["src"], record["dst"]].append(one)
    return found


def collect(path: str, value: Any, fields: Fields) -> None:
    """The values of a record by full name; an enumeration has its name and its number."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith("_code") and name.removesuffix("_code") in value and isinstance(inner, int):
                continue
            code = value.get(f"{name}_code")
            collect(f"{path}.{name}", inner if not isinstance(code, int) else Enumerated(inner, code), fields)
    elif isinstance(value, list) and not path.endswith("flags"):
        for inner in value:
            collect(path, inner, fields)
    elif value is not None:
        fields[path].append(value)


def agrees(ours: Any, shown: Shown) -> bool:
    """Whether Wireshark shows the value of a record."""
    match ours:
        case Enumerated(name, code):
            return shown.show == str(code) and (name == code or str(name) in shown.label)
        case bool():
            return shown.show == ("1" if ours else "0") or shown.show == str(ours)
        case list():
            names = set(re.findall(r"\w+", shown.label.rpartition("(")[2]))
            return set(ours) == (names if ours else set()) or (not ours and shown.show in ("0", "0x00"))
        case int() | float():
            return shown.show == str(ours)
        case str():
            return (
                shown.show == ours
                or shown.value == ours
                or shown.show in (visible(ours), BREAK.sub(" ", ours))  # XML makes blanks of line ends in attributes
                or (same_stamp(ours, shown.show) if STAMP.match(ours) else False)
                or (not ours and not shown.value)
            )
    return False


def visible(text: str) -> str:
    """As Wireshark shows control characters."""
    spelled = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\f": "\\f", "\a": "\\a", "\b": "\\b"}
    return "".join(spelled.get(each, each) if each >= " " else f"\\{ord(each):03o}" for each in text)


def nanoseconds(shown: str) -> int | None:
    found = TIME.match(shown)
    if found is None:
        return None
    moment = datetime.strptime(found[1], "%b %d, %Y %H:%M:%S").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000_000 + int(found[2])


def same_stamp(ours: str, shown: str) -> bool:
    found = STAMP.match(ours)
    assert found is not None
    seconds = int(datetime.fromisoformat(found[1] + "+00:00").timestamp())
    return nanoseconds(shown) == seconds * 1_000_000_000 + int(found[2].ljust(9, "0"))


def pairs(ours: list[Message], theirs: list[Message]) -> Iterator[tuple[Message | None, Message | None]]:
    """The messages of one direction, in pairs."""
    keys = [[(one.type, one.length) for one in side] for side in (ours, theirs)]
    if keys[0] == keys[1]:
        yield from zip(ours, theirs, strict=True)
        return
    matcher = SequenceMatcher(None, *keys, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal" or (tag == "replace" and b - a == d - c):
            yield from zip(ours[a:b], theirs[c:d], strict=True)
        else:
            yield from ((one, None) for one in ours[a:b])
            yield from ((None, one) for one in theirs[c:d])


def compare(script: Path, capture: Path) -> dict[str, Agreement]:
    """The agreement by protocol."""
    theirs, ours = of_tshark(script, capture), of_records(capture)
    found: dict[str, Agreement] = defaultdict(Agreement)
    for key in sorted({*theirs, *ours}):
        for one, two in pairs(ours.get(key, []), theirs.get(key, [])):
            judge(found[key[0]], one, two, f"{capture.name} {key[1]}")
    return dict(found)


def judge(agreement: Agreement, one: Message | None, two: Message | None, where: str) -> None:
    mine, other = (one.fields if one else {}), (two.fields if two else {})
    for name in {*mine, *other}:
        values, shown = mine.get(name, []), other.get(name, [])
        if not values and structure(shown):
            continue
        agreement.total[name] += max(len(values), len(shown))
        good = sum(agrees(value, each) for value, each in zip(values, shown, strict=False))
        agreement.agreed[name] += good
        if good < max(len(values), len(shown)) and name not in agreement.examples:
            kind = (one or two).type if one or two else ""
            agreement.examples[name] = (
                f"{where} {kind}: {str(values[:2])[:90]} | {str([s[:2] for s in shown[:2]])[:110]}"
            )


def structure(shown: Iterable[Shown]) -> bool:
    """Whether these are items of structures, which have no value."""
    return all(not one.show for one in shown)


def main() -> None:
    script, *captures = map(Path, sys.argv[1:])
    total: dict[str, Agreement] = defaultdict(Agreement)
    for capture in captures:
        for name, agreement in compare(script, capture).items():
            total[name].add(agreement)
            print(f"{capture.name:40} {name:16} {agreement.share():7.2%} of {sum(agreement.total.values())}")
    for name, agreement in total.items():
        print(f"\n{name}: {agreement.share():.2%} of {sum(agreement.total.values())}")
        for path, count in agreement.missed()[:45]:
            print(f"  {count:6} {path}: {agreement.examples.get(path, '')}")


if __name__ == "__main__":
    main()
