"""Topics and partitions: which ones a frame is about, and which a result without a name belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from wiredecode.fields import compiler, printable
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import REFUSED, Confirmation, Frame
from wiredecode.protocols.tank.layers_kinds import Endpoint
from wiredecode.protocols.tank.names import PRODUCE_RESULTS, WHOLE_TOPIC

MAX_NAMED = 8
"""Partitions named in the summary of a frame."""

MAX_LOOKED_AT = 64
"""Partitions looked at for that."""

Topics = tuple[tuple[str, tuple[Any, ...]], ...]
"""Topics of a request with their partitions: of Produce numbers, of Consume (number, sequence number, fetch size)."""


def record_of(frame: Frame, style: Style | None) -> Any:
    """The object to complete: with a style the record, else the values."""
    return frame.values if style is None or not frame.layers else frame.layers["tank"]


def whole(elements: Any, last_field: str) -> list[Any]:
    """The elements of an array that have the field: the last one of a frame that is cut may not."""
    return [element for element in elements or () if last_field in element]


def entries_of(topics: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Every partition of an answer to Consume, with its topic."""
    for topic in topics:
        for entry in topic.get("partitions", ()):
            if "partition" in entry:
                yield topic, entry


def named_partitions(pairs: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """Topic and partition, if a frame is about one; else the first few."""
    named = list(islice(dict.fromkeys(islice(pairs, MAX_LOOKED_AT)), MAX_NAMED + 1))
    if len(named) == 1:
        return {"topic": printable(named[0][0]), "partition": named[0][1]}
    if not named:
        return {}
    shown = " ".join(f"{printable(topic)}/{partition}" for topic, partition in named[:MAX_NAMED])
    return {"targets": shown + (" ..." if len(named) > MAX_NAMED else "")}


def all_topics(frame: Frame) -> bool:
    """Whether all topics and partitions of a frame are known: of one that was cut, a whole list, or only one."""
    if not frame.is_cut:
        return True
    if frame.layer is None:
        return False
    data = frame.data
    ranges = compiler.careful(frame.layer, data, 0, len(data), cut=True).ranges
    first = ranges.get("topics[0].topic")
    one = first is not None and data[first[0] - 1] == 1 == next(iter(data[first[1] : first[1] + 1]), 0)
    return "topics" in ranges or (one and "topics[0].partitions[0].partition" in ranges)


def outcome(code: int, endpoint: bytes | str | None, table: Mapping[int, str]) -> str:
    """A result in words; of a redirect also where to."""
    text = table.get(code, f"code {code:#04x}")
    if endpoint is None:
        return text
    return f"{text}: {Endpoint.spell(endpoint) if isinstance(endpoint, bytes) else endpoint}"


def result_places(addressed: Topics, results: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[int]]]:
    """The topic and the partitions of each result of Produce, in order; longer than ``results`` if some are missing.

    A result for a whole topic also covers its partitions in later entries of the request.
    """
    places: list[tuple[str, list[int]]] = []
    stopped: dict[str, list[int]] = {}
    for topic, partitions in addressed:
        if topic in stopped:
            stopped[topic].extend(partitions)
            continue
        for index, partition in enumerate(partitions):
            code = results[len(places)].get("result") if len(places) < len(results) else None
            if code in WHOLE_TOPIC:
                stopped[topic] = list(partitions[index:])
                places.append((topic, stopped[topic]))
                break
            places.append((topic, [partition]))
    return places


def confirm_partitions(
    frame: Frame, addressed: Topics, places: list[tuple[str, list[int]]], results: Sequence[Mapping[str, Any]]
) -> None:
    """Give each partition of a Produce the outcome of its messages; all results were captured."""
    if frame.request is None or len(dict(addressed)) < len(addressed):
        return  # a topic that comes again: which entry a result is about depends on those before
    confirmations, first = [], 0
    for (_, partitions), result in zip(places, results, strict=True):
        code, count = result.get("result", 0), len(partitions)
        refusal = outcome(code, result.get("endpoint"), PRODUCE_RESULTS) if code else None
        confirmations.append(Confirmation(frame.request, first, count, refusal, None))
        first += count
    confirmations[-1] = confirmations[-1]._replace(final=REFUSED)
    frame.confirmations = confirmations
