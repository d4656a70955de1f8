"""Facts from all bundles of a frame: sequence numbers, inherited timestamps, decompressed messages, findings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from wiredecode.budget import TOO_MANY
from wiredecode.dataclasses import dataclass
from wiredecode.fields import compiler, printable, rfc3339_ms
from wiredecode.fields.layer import Style
from wiredecode.fields.numbers import varint_size
from wiredecode.frames.frame import MALFORMED, OK, Frame
from wiredecode.protocols.shared.compression import Status, decompress_in_frame
from wiredecode.protocols.shared.publications import confirm_parts
from wiredecode.protocols.tank import names
from wiredecode.protocols.tank.layers_bundle import MAX_MESSAGES, Bundle, message_count, plain_header
from wiredecode.protocols.tank.layers_kinds import Endpoint

MAX_REPORTED = 16
"""Findings about bundles reported for one frame; beyond it only their number."""
MASK64 = 2**64 - 1
FAULTLESS = {Status.LIMIT: ("limit", "decompression"), Status.MISSING: ("undecoded", "codec-missing")}
"""Group and code of findings about failed decompression of sound data."""
NO_TIME = rfc3339_ms(0)
"""Meaning of "same timestamp" on the first message of a bundle."""

Bundled = dict[str, Any]
"""A bundle: its record, or its values."""


@dataclass(slots=True, frozen=True)
class Numbered:
    """A bundle whose messages may be wanted: its values, topic and partition, and the number of its first message."""

    bundle: Bundled | None
    """None if the frame has a record, which holds values as they are shown."""
    topic: str
    partition: int
    number: int | None
    path: tuple[int, int]


class BundleContents:
    """Completes the bundles of one frame, in order.

    With a ``style`` bundles are records; without, they are values of the ``walk`` decoder, whose messages are only
    counted. ``path`` is the format of the path of bundle k of element i.
    """

    def __init__(self, frame: Frame, style: Style | None, path: str) -> None:
        self.frame, self.style, self.path = frame, style, path
        self.inflated: dict[tuple[int, int], bytes] = {}
        """Contents of compressed bundles for the rows, by place."""
        self.damaged = frame.status != OK
        """Bytes are missing or malformed: the last bundle may be incomplete."""
        self.messages = 0
        self.first: int | None = None
        self.last: int | None = None
        """Lowest and highest sequence number of the frame, where they are known."""
        self.topic, self.partition = "", 0
        """Topic and partition of the next bundle."""
        self.numbered: list[Numbered] = []
        """The bundles read."""
        self._reported = 0

    def bundle(self, bundle: Bundled, raw: Bundled | None, number: int | None, i: int, k: int) -> int | None:
        """Complete a whole bundle whose first message has that number, unless it is sparse; return the next number.

        ``raw`` holds its values as they were on the wire, if it is compressed.
        """
        flags, count = bundle["flags"], message_count(bundle)
        messages = self._messages(bundle)
        if flags & (names.EXTRA | names.CODEC_MASK) or "partial_message" in bundle:
            messages = self._unusual(bundle, raw, messages, (i, k))
        seen = messages if isinstance(messages, int) else count if messages is None else len(messages)
        if seen != count and "partial_message" not in bundle:
            message = f"{seen} messages, the header says {count}"
            self.report("warning", "malformed", "message-count", message, self.path.format(i, k))
        if self.style is not None:
            describe(bundle, flags)
            bundle["message_count"] = count
        self._add(bundle, number, (i, k))
        self.messages += seen
        return self._number(bundle, messages, count, number)

    def partial(self, bundle: dict[str, Any], number: int | None, i: int, k: int) -> None:
        """Complete the captured part of a truncated bundle."""
        flags = bundle.get("flags")
        if flags is None:
            return
        if self.style is not None and not flags & names.EXTRA:
            describe(bundle, flags)
        messages = self._messages(bundle)
        if messages:
            self._add(bundle, number, (i, k))
            self.messages += messages if isinstance(messages, int) else len(messages)
            self._number(bundle, messages, message_count(bundle), number)

    def _add(self, bundle: Bundled, number: int | None, path: tuple[int, int]) -> None:
        values = bundle if self.style is None else None
        self.numbered.append(Numbered(values, self.topic, self.partition, number, path))

    def report(self, severity: str, group: str, code: str, message: str, path: str) -> None:
        self._reported += 1
        if self._reported <= MAX_REPORTED:
            self.frame.find(severity, group, code, f"{path}: {message}", path)

    def close(self, *, one_partition: bool) -> dict[str, Any]:
        """After the last bundle: return what the frame holds; sequence numbers only of ``one_partition``."""
        if self._reported > MAX_REPORTED:
            message = f"{self._reported - MAX_REPORTED} more findings about the bundles of this frame"
            self.frame.find("note", "limit", "more-findings", message)
        facts: dict[str, Any] = {}
        if self.frame.is_partial:
            return facts
        if self.messages or not self.damaged:
            facts["messages"] = self.messages
        if self.first is not None and one_partition:
            facts["first_sequence_number"], facts["last_sequence_number"] = self.first, self.last
        return facts

    def _messages(self, bundle: Bundled) -> Any:
        """The messages of a bundle; without records only their number."""
        messages = bundle.get("messages")
        return messages if self.style is not None or not isinstance(messages, list) else len(messages)

    def _number(self, bundle: dict[str, Any], messages: Any, count: int, number: int | None) -> int | None:
        """Give the messages of a bundle their timestamps and sequence numbers; return the number after its last."""
        if isinstance(messages, list):
            inherit_timestamps(messages)
        if "first_sequence_number" in bundle:
            number, last = sparse_ends(bundle, count)
            if isinstance(messages, list):
                number_sparse(messages, count, number, last)
        elif number is None:
            return None
        else:
            last = number + count - 1
            if isinstance(messages, list):
                for each, message in enumerate(messages, number):
                    message["sequence_number"] = each & MASK64
        self.first = number if self.first is None else min(number, self.first)
        self.last = min(MASK64, last if self.last is None else max(last, self.last))
        return last + 1 & MASK64

    def _unusual(self, bundle: Bundled, raw: Bundled | None, messages: Any, key: tuple[int, int]) -> Any:
        """Extra flags, compression, messages that do not fit; return the messages."""
        flags, path = bundle["flags"], self.path.format(*key)
        if flags & names.EXTRA:
            reading = "read as" if "extra" in bundle else "ignored, it does not fit"
            message = f"bit 7 of the bundle's flags is set; {reading} the layout of the document"
            self.report("note", "protocol", "extra-flags", message, path)
        if flags & names.CODEC_MASK:
            return self._decompress(bundle, raw, path, key)
        if "partial_message" in bundle:
            self._report_rest(messages, path)
        return messages

    def _decompress(self, bundle: Bundled, raw: Bundled | None, path: str, key: tuple[int, int]) -> Any:
        codec = bundle["flags"] & names.CODEC_MASK
        if codec not in names.CODECS:
            message = f"codec {codec} is not assigned: the messages are not decoded"
            self.report("warning", "protocol", "unknown-codec", message, path)
            return None
        raw = bundle if self.style is None else raw
        plain = None if raw is None else self._inflate(bundle, raw, path)
        if plain is None:
            return None
        self.inflated[key] = plain
        try:
            if self.style is None:
                inside: Bundled = compiler.walk(Bundle, plain, 0, len(plain))[0]
            else:
                inside = compiler.record(Bundle, plain, 0, len(plain), self.style)[0]
                bundle["messages"] = inside["messages"]
        except compiler.DecodeError:
            self.report("warning", "limit", "decompression", TOO_MANY, path)
            return None
        if "partial_message" in inside:
            bundle["partial_message"] = inside["partial_message"]
            self._report_rest(inside["messages"], path)
        return self._messages(inside)

    def _inflate(self, bundle: Bundled, raw: Bundled, path: str) -> bytes | None:
        """A compressed bundle as it would be without compression; None: it cannot be decompressed; reported."""
        inflated = decompress_in_frame("snappy-raw", raw.get("message_set", b""))
        if inflated.status is not Status.OK:
            bundle["problem"] = f"{names.CODECS[names.SNAPPY]}: {inflated.message}"
            group, code = FAULTLESS.get(inflated.status, ("malformed", "decompression"))
            self.report("warning", group, code, bundle["problem"], path)
            return None
        bundle["uncompressed_length"] = len(inflated.data)
        return plain_header(raw) + inflated.data

    def _report_rest(self, messages: Any, path: str) -> None:
        seen = messages if isinstance(messages, int) else len(messages)
        if seen == MAX_MESSAGES:
            self.report("warning", "limit", "messages", f"only the first {MAX_MESSAGES} messages are decoded", path)
        else:
            self.frame.status = MALFORMED
            self.report("error", "malformed", "message-cut", f"message {seen} does not fit into its bundle", path)


def describe(bundle: dict[str, Any], flags: int) -> None:
    """Set the meanings of the flags of a bundle."""
    codec = flags & names.CODEC_MASK
    bundle["codec"] = names.CODECS.get(codec) or f"codec {codec}"
    bundle["sparse"] = flags & names.SPARSE != 0


def inherit_timestamps(messages: list[dict[str, Any]]) -> None:
    """A message without a timestamp has that of the message before it; the first of a bundle, none: 0."""
    stamp = NO_TIME
    for message in messages:
        if "timestamp" in message:
            stamp = message["timestamp"]
        else:
            message["timestamp"] = stamp


def number_sparse(messages: list[dict[str, Any]], count: int, first: int, last: int) -> None:
    """Sequence numbers of a sparse bundle of ``count`` messages, as the reader computes them: flag, ends, gap."""
    jumps = (("previous_plus_one" in message["flags"], message.get("gap", 0)) for message in messages)
    for message, number in zip(messages, sparse_numbers(jumps, count, first, last), strict=True):
        message["sequence_number"] = number


def sparse_ends(bundle: Bundled, count: int) -> tuple[int, int]:
    """Sequence numbers of the first and the last message of a sparse bundle of ``count`` messages."""
    first: int = bundle["first_sequence_number"]
    return first, first if count == 1 else first + bundle.get("last_delta", 0) + 1 & MASK64


def sparse_numbers(jumps: Iterable[tuple[bool, int]], count: int, first: int, last: int) -> Iterator[int]:
    """Sequence numbers of a sparse bundle, from each message's flag (follows the one before) and gap."""
    number = first - 1
    for index, (follows, gap) in enumerate(jumps):
        if follows:
            number += 1
        elif index == 0:
            number = first
        elif index == count - 1:
            number = last
        else:
            number += gap + 1
        yield number & MASK64


def mark_dropped(chunk: dict[str, Any], requested: int, high_water_mark: int) -> None:
    """Mark the messages that the client drops: below what it asked for, above the high water mark."""
    bundles = [entry.get("bundle", {}) for entry in chunk.get("bundles", ())]
    for bundle in [*bundles, chunk.get("partial_bundle", {})]:
        messages = bundle.get("messages")
        if not messages or "sequence_number" not in messages[-1]:
            continue
        if messages[0]["sequence_number"] >= requested and messages[-1]["sequence_number"] <= high_water_mark:
            continue
        for message in messages:
            if message["sequence_number"] < requested:
                message["below_requested"] = True
            elif message["sequence_number"] > high_water_mark:
                message["above_high_water_mark"] = True


def raw_chunks(frame: Frame, chunks: list[dict[str, Any]]) -> list[Any] | None:
    """The chunks as they were on the wire, if any bundle in them is compressed."""
    bundles = (each.get("bundle", {}) for chunk in chunks for each in chunk.get("bundles", ()))
    if not any(bundle.get("flags", 0) & names.CODEC_MASK for bundle in bundles):
        return None
    values = frame.values
    if not isinstance(values.get("chunks"), list) and frame.layer is not None:
        values = compiler.walk(frame.layer, frame.buffer, frame.start, frame.stop)[0]
    chunks_read: list[Any] = values["chunks"]
    return chunks_read


def report_partial(contents: BundleContents, chunk: dict[str, Any], size: int, path: str) -> None:
    """Report the available and missing bytes of the truncated bundle in a chunk of ``size`` bytes."""
    bundle = chunk["partial_bundle"]
    length = bundle.get("bundle_length")
    whole = sum(entry["bundle_length"] + varint_size(entry["bundle_length"]) for entry in chunk["bundles"])
    had = size - whole - (0 if length is None else varint_size(length))
    missing = None if length is None else length - had
    if contents.style is not None:
        bundle["present_bytes"] = had
        bundle["missing_bytes"] = missing if missing is None or missing > 0 else 0
    if contents.damaged:
        return
    if missing is not None and missing <= 0:
        message = f"the header of a bundle of {length} bytes does not fit into it"
        contents.report("error", "malformed", "bundle-header", message, path)
        return
    of_what = "of unknown size" if length is None else f"of {length}, {missing} are missing"
    contents.report("note", "protocol", "partial-bundle", f"the last bundle is truncated: {had} bytes {of_what}", path)


MAX_NAMED = 8
"""Partitions named in the summary of a frame."""
MAX_EXAMINED = 64
"""Partitions examined for that summary."""

Topics = tuple[tuple[str, tuple[Any, ...]], ...]
"""Topics of a request with their partitions: of Produce numbers, of Consume (number, sequence number, fetch size)."""


def record_of(frame: Frame, style: Style | None) -> Any:
    """The object to complete: with a style the record, else the values."""
    return frame.values if style is None or not frame.layers else frame.layers["tank"]


def whole(elements: Any, last_field: str) -> list[Any]:
    """The elements of an array that have the field: the last one of a frame that is truncated may not."""
    return [element for element in elements or () if last_field in element]


def entries_of(topics: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Every partition of an answer to Consume, with its topic."""
    for topic in topics:
        for entry in topic.get("partitions", ()):
            if "partition" in entry:
                yield topic, entry


def named_partitions(pairs: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """Topic and partition, if a frame is about one; else the first few."""
    named = list(islice(dict.fromkeys(islice(pairs, MAX_EXAMINED)), MAX_NAMED + 1))
    if len(named) == 1:
        return {"topic": printable(named[0][0]), "partition": named[0][1]}
    if not named:
        return {}
    shown = " ".join(f"{printable(topic)}/{partition}" for topic, partition in named[:MAX_NAMED])
    return {"targets": shown + (" ..." if len(named) > MAX_NAMED else "")}


def all_topics(frame: Frame) -> bool:
    """Whether all topics and partitions of a frame are known: of one that was truncated, a whole list, or only one."""
    if not frame.is_partial:
        return True
    if frame.layer is None:
        return False
    data = frame.data
    ranges = compiler.careful(frame.layer, data, 0, len(data), truncated=True).ranges
    first = ranges.get("topics[0].topic")
    single = first is not None and data[first[0] - 1] == 1 == next(iter(data[first[1] : first[1] + 1]), 0)
    return "topics" in ranges or (single and "topics[0].partitions[0].partition" in ranges)


def outcome(code: int, endpoint: bytes | str | None, table: Mapping[int, str]) -> str:
    """A result in words; of a redirect also where to."""
    text = table.get(code, f"code {code:#04x}")
    if endpoint is None:
        return text
    return f"{text}: {Endpoint.spell(endpoint) if isinstance(endpoint, bytes) else endpoint}"


def result_groups(addressed: Topics, results: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[int]]]:
    """Topic and partitions of each result of Produce; one for a topic covers its partitions in later entries."""
    groups: list[tuple[str, list[int]]] = []
    stopped: dict[str, list[int]] = {}
    for topic, partitions in addressed:
        if topic in stopped:
            stopped[topic].extend(partitions)
            continue
        for index, partition in enumerate(partitions):
            code = results[len(groups)].get("result") if len(groups) < len(results) else None
            if code in names.WHOLE_TOPIC:
                stopped[topic] = list(partitions[index:])
                groups.append((topic, stopped[topic]))
                break
            groups.append((topic, [partition]))
    return groups


def confirm_partitions(
    frame: Frame, addressed: Topics, groups: list[tuple[str, list[int]]], results: Sequence[Mapping[str, Any]]
) -> None:
    """Give each partition of a Produce the outcome of its messages; all results were captured."""
    if frame.request is None or len(dict(addressed)) < len(addressed):
        return  # a topic that comes again: which entry a result is about depends on those before
    parts, first = [], 0
    for (_, partitions), result in zip(groups, results, strict=True):
        code, count = result.get("result", 0), len(partitions)
        refusal = outcome(code, result.get("endpoint"), names.PRODUCE_RESULTS) if code else None
        parts.append((first, count, refusal))
        first += count
    confirm_parts(frame, frame.request, parts)
