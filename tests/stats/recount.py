"""Recounts the statistics from single frames and messages in plain Python."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import wiredecode
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import rfc3339
from wiredecode.protocols.checks import offers
from wiredecode.protocols.registry import protocols

Row = dict[str, Any]
THOUSANDTHS = {"p50_us": 500, "p90_us": 900, "p99_us": 990, "p99_9_us": 999}


def recounted(path: Path) -> dict[str, list[Row]]:
    """All tables, rows in any order; throughput by second."""
    capture = wiredecode.read(path, strict=False)
    whole = list(capture)
    return {
        "frames": frames(whole),
        "latency": latency(whole),
        "confirms": confirms(whole, capture.messages()),
        "throughput": throughput(capture.messages()),
        "findings": findings(whole),
        "connections": connections(whole),
    }


def ends(frame: Frame) -> tuple[str, str]:
    there, here = frame.connection.endpoints[1 - frame.side], frame.connection.endpoints[frame.side]
    return here, there


def shown(time_ns: int) -> str:
    """To the microsecond, as tables have it."""
    return rfc3339(time_ns // 1000 * 1000).removesuffix("Z").rstrip("0").rstrip(".") + "Z"


def broker(frame: Frame) -> str | None:
    return None if frame.sender is None else ends(frame)[frame.sender == "client"]


def spread(values: Iterable[int]) -> Row:
    """Percentiles with fractions: exact, then rounded to nanoseconds, halves up."""
    ordered = sorted(values)
    if not ordered:
        return dict.fromkeys(("min_us", *THOUSANDTHS, "max_us"))
    figures: Row = {"min_us": ordered[0] / 1e3}
    for name, part in THOUSANDTHS.items():
        place = Fraction((len(ordered) - 1) * part, 1000)
        low, high = ordered[floor(place)], ordered[-(-place // 1)]
        figures[name] = floor(low + (high - low) * (place - floor(place)) + Fraction(1, 2)) / 1e3
    return {**figures, "max_us": ordered[-1] / 1e3}


def frames(whole: Sequence[Frame]) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Frame]] = defaultdict(list)
    for frame in whole:
        groups[frame.protocol, frame.type, frame.sender].append(frame)
    return [
        {
            **dict(zip(("protocol", "type", "sender"), key, strict=True)),
            "frames": len(some),
            "bytes": sum(frame.length for frame in some),
            **{name: sum(frame.status == name for frame in some) for name in ("partial", "malformed", "undecoded")},
            "findings": sum(len(frame.findings) for frame in some),
        }
        for key, some in groups.items()
    ]


def latency(whole: Sequence[Frame]) -> list[Row]:
    """Copies do not count: neither of requests nor of responses that the requester also got."""
    by_number = {frame.number: frame for frame in whole}
    answers: dict[int | None, list[Frame]] = defaultdict(list)
    for frame in whole:
        answers[frame.request].append(frame)
    values: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    silent: Counter[tuple[Any, ...]] = Counter()
    asking = {name: types for one in protocols() for name, types in one.requests.items()}
    polls = {one.name: checks.waits for one in protocols() if (checks := one.checks()) is not None}
    for frame in whole:
        if "copy_of" in frame.generated:
            continue
        figures = [each for each in answers[frame.number] if each.latency_ns is not None]
        own = [each for each in figures if each.connection is frame.connection]
        for each in own or [each for each in figures if "copy_of" not in each.generated]:
            assert each.latency_ns is not None
            values[*request(frame, each), broker(each)].append(each.latency_ns)
        asked = frame.outcome is None and frame.type in asking.get(frame.protocol or "", ())
        if not answers[frame.number] and (asked or frame.outcome in ("unanswered", "late")):
            silent[*request(frame), broker(frame)] += 1
    assert all(one.request is None or one.request in by_number for one in whole)
    return [
        {
            **dict(zip(("protocol", "request", "topic", "broker"), key, strict=True)),
            "count": len(values[key]),
            **spread(values[key]),
            "unanswered": silent[key],
            "long_poll": key[1] in polls.get(key[0], ()),
        }
        for key in {**values, **silent}
    ]


def confirms(whole: Sequence[Frame], messages: Iterable[Row]) -> list[Row]:
    """From the table of messages; those of a sub-batch have one number, and count once."""
    confirming = {(name, kind): how for name, checks in offers() for kind, how in checks.publishes.items()}
    sub_batches = {
        "rabbitmq_stream": ("Publish",)
    }  # messages may share a number there: those that do are confirmed as one
    by_id = {frame.id: frame for frame in whole}
    values: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    figures: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in ("failed", "unconfirmed", "unknown")}
    counted = set()
    for each in messages:
        frame = by_id[each["frame"]]
        shared = frame.type in sub_batches.get(frame.protocol, ())
        number = frame.id, each.get("sequence") if shared else each["index"]
        if each["operation"] != "publish" or (frame.protocol, frame.type) not in confirming or number in counted:
            continue
        counted.add(number)
        if (other := confirming[frame.protocol, frame.type].other_streams) and str(each.get("topic")).startswith(other):
            continue
        key, outcome = (frame.protocol, each.get("topic"), broker(frame)), each.get("outcome")
        if "copy_of" in frame.generated:
            continue
        if outcome == "ok":
            values[key].append(each["latency_ns"])
        elif outcome == "refused":
            figures["failed"][key] += 1
        elif outcome in ("unanswered", "late"):
            figures["unconfirmed"][key] += 1
        elif outcome is None and frame.expects_response:
            figures["unknown"][key] += 1
    return [
        {
            **dict(zip(("protocol", "stream", "broker"), key, strict=True)),
            "confirmed": len(values[key]),
            **spread(values[key]),
            **{name: some[key] for name, some in figures.items()},
        }
        for key in {**values, **figures["failed"], **figures["unconfirmed"], **figures["unknown"]}
    ]


def group(topic: str | None) -> str | None:
    for begin in (begin for one in protocols() for begin in one.reply_topics):
        if topic is not None:
            topic = re.sub(rf"(^|\.){re.escape(begin)}.*", rf"\1{begin}*", topic, count=1, flags=re.DOTALL)
    return topic


def request(frame: Frame, answer: Frame | None = None) -> tuple[Any, ...]:
    """The name of a request, and its topic."""
    subject = frame.values.get("subject") if frame.protocol == "nats" else None
    if not isinstance(subject, str):
        return frame.protocol, frame.type, None
    api = re.match(r"\$JS\.(.+\.)?API\.(CONSUMER\.MSG\.NEXT\.)?", subject)
    if api is not None:
        return frame.protocol, "pull" if api[2] else "JetStream API", group(subject)
    stored = answer is not None and "stream" in answer.generated
    return frame.protocol, "JetStream publish" if stored else "request", group(subject)


def throughput(messages: Iterable[Row]) -> list[Row]:
    found: dict[tuple[Any, ...], list[int | None]] = defaultdict(list)
    for row in messages:
        found[row["protocol"], group(row.get("topic")), row["operation"], row["time"][:19] + "Z"].append(row["size"])
    names = ("protocol", "topic", "operation", "start")
    rows = []
    for key, sizes in found.items():
        known = [size for size in sizes if size is not None]
        size = sum(known) if known else None
        rates = {"messages_per_s": float(len(sizes)), "bytes_per_s": None if size is None else float(size)}
        rows.append({**dict(zip(names, key, strict=True)), "messages": len(sizes), "bytes": size, **rates})
    return rows


def findings(whole: Sequence[Frame]) -> list[Row]:
    found: dict[tuple[Any, ...], list[tuple[int, str]]] = defaultdict(list)
    for frame in whole:
        for each in frame.findings:
            key = frame.connection.number, *ends(frame), each.severity, each.group, each.code
            found[key].append((frame.time_ns, each.message))
    names = ("connection", "src", "dst", "severity", "group", "code")
    return [
        {
            **dict(zip(names, key, strict=True)),
            "count": len(some),
            "first": shown(min(time for time, _ in some)),
            "message": min(message for _, message in some),
        }
        for key, some in found.items()
    ]


def connections(whole: Sequence[Frame]) -> list[Row]:
    groups: dict[int, list[Frame]] = defaultdict(list)
    for frame in whole:
        groups[frame.connection.number].append(frame)
    rows = []
    for number, some in groups.items():
        clients = [ends(frame)[frame.sender == "server"] for frame in some if frame.sender is not None]
        both = ends(some[0])
        client = clients[0] if clients else min(both)
        times = [frame.time_ns for frame in some]
        row: Row = {"connection": number, "client": client, "server": both[both[0] == client]}
        row["protocol"] = ", ".join(sorted({frame.protocol for frame in some if frame.protocol})) or None
        row |= {"start": shown(min(times)), "seconds": (max(times) - min(times)) / 1e9}
        for side in ("client", "server"):
            sent = [frame for frame in some if (ends(frame)[0] == client) == (side == "client")]
            row |= {f"{side}_frames": len(sent), f"{side}_bytes": sum(frame.length for frame in sent)}
        rows.append(row)
    return rows
