"""Contents of Produce and of answers to Consume: chunks of bundles, bundles of messages (TANK's tank_encoding.md).

::

    chunk    { bundle_length varint | bundle } ..., the last one cut by some brokers
    bundle   flags u8 | [extra] | [message_count varint] | [first_sequence_number u64] | [last_delta varint] | messages
    message  flags u8 | [gap varint] | [timestamp u64] | [key str8] | body_length varint | body
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wiredecode.fields import (
    Array,
    Binary,
    Bounded,
    Flags,
    LengthOf,
    Optional,
    Rest,
    Struct,
    Truncated,
    UInt8,
    Varint32,
    When,
    compiler,
)
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.layer import Layer
from wiredecode.fields.numbers import shortest
from wiredecode.protocols.shared.compression import decompress
from wiredecode.protocols.tank import names
from wiredecode.protocols.tank.layers_kinds import U16, U32, U64, Milliseconds, Tail

MAX_MESSAGES = 1_000_000
"""Messages of one bundle that are read; the bytes after them are left as they are."""
FRAME_HEADER, HEADER_LENGTH = 5, 4
"""Bytes of message id and payload length, and of the header length that follows them."""
MAX_PROBED_BYTES = 1024 * 1024
"""Most that the message set of a bundle with bit 7 may grow to while its layout is looked for."""


def message_fields(*gap: Optional) -> list[Any]:
    return [
        Flags("flags", "what is left out", names=names.MESSAGE_FLAGS),
        *gap,
        Optional(
            Milliseconds("timestamp", "set by the producer, ms since 1970"),
            When(f"flags & {names.SAME_TIMESTAMP} == 0"),
        ),
        Optional(Binary("key", "key", length=UInt8), When(f"flags & {names.HAS_KEY} == {names.HAS_KEY}")),
        Varint32("body_length", "size of the body", unit="bytes", fill=LengthOf("body")),
        Binary("body", "the message", length="body_length"),
    ]


class Message(Layer):
    """A message that cannot have a gap: of a plain bundle, or the first or last of a sparse one."""

    fields_desc = message_fields()


class GappedMessage(Layer):
    """A message between the first and the last of a sparse bundle."""

    fields_desc = message_fields(
        Optional(
            Varint32("gap", "sequence numbers left out before this message"),
            When(f"flags & {names.PREVIOUS_PLUS_ONE} == 0"),
        )
    )


@contextmanager
def greedy(em: Emitter, start: str) -> Iterator[None]:
    """Generate the body of a loop that reads one element; if it does not fit, the loop ends before it."""
    em.line(f"{start} = p")
    with em.block("try:"):
        yield
    with em.block("except DecodeError:"):
        em.line(f"p = {start}")
        em.line("break")


class Messages(Array):
    """The whole messages up to the end of the bundle, by their bytes: the announced count is used for numbering only.

    Stops before a message that does not fit; the next field has the rest.
    """

    def __init__(self, name: str, doc: str = "") -> None:
        super().__init__(name, GappedMessage, doc, count=None, bulk=True)
        self.plain = Array(name, Message, count=None)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[list[Layer], int]:
        last = message_count(layer.fields) - 1 if layer.fields["flags"] & names.SPARSE else 0
        messages: list[Layer] = []
        while position < end and len(messages) < MAX_MESSAGES:
            message = (GappedMessage if 0 < len(messages) < last else Message).within(data, position, end)
            if message.problem is not None:
                break
            messages.append(message)
            position = message.stop
        return messages, position

    def emit(self, em: Emitter) -> str:
        flags = em.reference("flags")
        em.flush()
        count = f"({flags} >> {names.COUNT_SHIFT} & 15 or {em.scopes[-1].variables['message_count']})"
        if em.mode == "head":
            em.line("p = e")
            return count
        last, index, elements, start = (em.variable(name) for name in ("last", "n", "l", "s"))
        em.line(f"{last} = {count} - 1 if {flags} & {names.SPARSE} else 0")
        em.line(f"{elements} = []")
        stepping, em.stepping = em.stepping, em.walks
        with em.block(f"for {index} in range({MAX_MESSAGES}):"):
            em.line("if p >= e: break")
            with greedy(em, start):
                with em.block(f"if {last} > {index} > 0:"):
                    em.element(self, elements, index)
                with em.block("else:"):
                    em.element(self.plain, elements, index)
        em.line(f"else: {index} = {MAX_MESSAGES}")
        em.stepping = stepping
        return index if em.mode == "walk" else elements


class Extra(Layer):
    """Contents announced by bit 7, by the document."""

    fields_desc = [
        Flags("extra_flags", "what follows", names=names.EXTRA_FLAGS),
        Optional(
            U32("leader_epoch", "epoch of the partition's leader"), When(f"extra_flags & {names.PRODUCER_INFO} == 1")
        ),
        Optional(U64("producer_id", "producer"), When(f"extra_flags & {names.PRODUCER_INFO} == 1")),
        Optional(U16("producer_epoch", "epoch of the producer"), When(f"extra_flags & {names.PRODUCER_INFO} == 1")),
    ]


SEVERAL = (
    f"flags & {names.COUNT_MASK} != {1 << names.COUNT_SHIFT} and (flags & {names.COUNT_MASK} or message_count != 1)"
)
"""The bundle has not exactly one message."""


def document_layout(data: bytes, position: int, end: int) -> bool:
    """Whether the documented layout with extra flags, after the flags before ``position``, fits up to the end.

    The number of messages must be the announced one. No program writes this layout: if it does not fit, bit 7 is
    ignored.
    """
    try:
        bundle, _ = compiler.walk(DocumentBundle, data, position - 1, end)
        if "message_set" in bundle:
            if bundle["flags"] & names.CODEC_MASK != names.SNAPPY:
                return False
            inflated = decompress("snappy-raw", bundle["message_set"], MAX_PROBED_BYTES)
            plain = plain_header(bundle) + inflated.data
            bundle, _ = compiler.walk(Bundle, plain, 0, len(plain))
    except compiler.FAILED:
        return False
    return "partial_message" not in bundle and bundle.get("messages", 0) == message_count(bundle) > 0


HAS_EXTRA = When(f"flags >= {names.EXTRA} and document_layout()", document_layout=document_layout)


def bundle_fields(extra: When) -> list[Any]:
    return [
        UInt8("flags", "codec (bits 0-1), message count 1 to 15 (bits 2-5), sparse (bit 6), extra (bit 7)"),
        Optional(Struct("extra", Extra, "extra flags"), extra),
        Optional(
            Varint32("message_count", "messages, unless the flags hold them"), When(f"flags & {names.COUNT_MASK} == 0")
        ),
        Optional(
            U64("first_sequence_number", "number of the first message"),
            When(f"flags & {names.SPARSE} == {names.SPARSE}"),
        ),
        Optional(
            Varint32("last_delta", "number of the last message - of the first - 1"),
            When(f"flags & {names.SPARSE} and {SEVERAL}"),
        ),
        Optional(Messages("messages", "messages"), When(f"flags & {names.CODEC_MASK} == 0")),
        Optional(
            Rest("partial_message", "a message that is truncated"), When(f"left and flags & {names.CODEC_MASK} == 0")
        ),
        Optional(Rest("message_set", "the messages, compressed as one block"), When("left")),
    ]


class Bundle(Layer):
    """Messages that were produced together, the unit of storage."""

    fields_desc = bundle_fields(HAS_EXTRA)


def produced_bundle() -> Bounded:
    until_end = ("partial_message", "message_set")
    return Bounded("bundle", Bundle, "messages produced together", size="bundle_length", until_end=until_end)


class DocumentBundle(Layer):
    """A bundle with bit 7 set, as the document has it."""

    fields_desc = bundle_fields(When(f"flags & {names.EXTRA} == {names.EXTRA}"))


class BundleEntry(Layer):
    """A bundle in a chunk."""

    fields_desc = [
        Varint32("bundle_length", "size of the bundle", unit="bytes", fill=LengthOf("bundle")),
        produced_bundle(),
    ]


class Bundles(Array):
    """The whole bundles up to the end of the chunk."""

    def __init__(self, name: str, doc: str = "") -> None:
        super().__init__(name, BundleEntry, doc, count=None)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[list[Layer], int]:
        bundles: list[Layer] = []
        while position < end:
            bundle = BundleEntry.within(data, position, end)
            if bundle.problem is not None:
                break
            bundles.append(bundle)
            position = bundle.stop
        return bundles, position

    def emit(self, em: Emitter) -> str:
        em.flush()
        index, elements, start, limit = (em.variable(name) for name in ("n", "l", "s", "z"))
        em.line(f"{index}, {elements}, {limit} = 0, [], e")
        with em.block("while p < e:"):
            with greedy(em, start):
                em.element(self, elements, index)
            em.line(f"{index} += 1")
        em.line(f"e = {limit}")
        return elements


class PartialBundle(Layer):
    """The last bundle of a chunk that was truncated: older brokers cut at the fetch size. Nothing unusual."""

    fields_desc = [
        Optional(Varint32("bundle_length", "size of the whole bundle", unit="bytes"), When("True")),
        Optional(UInt8("flags", "as in a whole bundle"), When("True")),
        Optional(
            Rest("undecided", "with bit 7 the layout is known only from a whole bundle"),
            When(f"flags & {names.EXTRA} == {names.EXTRA}"),
        ),
        *bundle_fields(When("True"))[2:],
        Optional(Rest("cut", "beginning of a field"), When("left")),
    ]


class Chunk(Layer):
    """The data of one partition in an answer to Consume: bytes of the partition's log."""

    fields_desc = [
        Bundles("bundles", "whole bundles"),
        Optional(Tail("partial_bundle", PartialBundle, "the last bundle, cut"), When("left")),
    ]

    @classmethod
    def minimum(cls) -> int:
        """A chunk of which nothing was captured still counts."""
        return 1


class CutChunk(Layer):
    """A chunk whose end was not captured."""

    fields_desc = [Array("bundles", BundleEntry, "whole bundles, and what there is of the next", count=None)]

    @classmethod
    def minimum(cls) -> int:
        return 1


def chunk_lengths(topics: list[Any]) -> list[int]:
    """The sizes of the chunks of an answer, from the records of its header (structures or their values)."""
    lengths = []
    for topic in topics:
        records = (topic.fields if isinstance(topic, Layer) else topic).get("partitions", ())
        for record in records:
            length = (record.fields if isinstance(record, Layer) else record).get("chunk_length", 0)
            if length:
                lengths.append(length)
    return lengths


class Chunks(Array):
    """The chunks, one after another without separators, in the order of the records that announce one."""

    def __init__(self, name: str, doc: str = "") -> None:
        super().__init__(name, Chunk, doc, count=None, bulk=True)
        self.cut = Array(name, CutChunk, count=None)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[list[Layer], int]:
        chunks: list[Layer] = []
        missing = end < layer.start + FRAME_HEADER + layer.fields["payload_length"]
        for length in chunk_lengths(layer.fields["topics"]):
            if missing and position + length > end:
                self._read_cut(data, position, end, length, chunks)
            stop = min(end, position + length)
            chunks.append(Chunk.within(data, position, stop))
            position = stop
        return chunks, position

    def _read_cut(self, data: bytes, position: int, end: int, length: int, chunks: list[Layer]) -> None:
        chunk = CutChunk.within(data, position, end)
        chunks.append(chunk)
        name, short = f"{self.name}[{len(chunks) - 1}]", chunk.problem
        if short is None:
            raise Truncated(name, length, end - position, position, chunks)
        raise Truncated(f"{name}.{short.field}", short.needed, short.had, short.start, chunks)

    def emit(self, em: Emitter) -> str:
        topics, payload, header = (em.reference(name) for name in ("topics", "payload_length", "header_length"))
        em.flush()
        lengths, index, elements, limit, whole = (em.variable(name) for name in ("c", "n", "l", "z", "w"))
        em.line(f"{lengths} = {em.constant(chunk_lengths)}({topics})")
        if em.mode == "head":
            em.ended = True
            return f"len({lengths})"
        end_of_header = em.reach("header_length")
        em.line(f"{whole} = {end_of_header} - {header} - {HEADER_LENGTH} + {payload}")
        em.line(f"{elements}, {limit} = [], e")
        with em.block(f"for {index} in range(len({lengths})):"):
            with em.block(f"if {limit} < {whole} and p + {lengths}[{index}] > {limit}:"):
                em.line("raise DecodeError")
            em.line(f"e = min({limit}, p + {lengths}[{index}])")
            em.element(self, elements, index)
        em.line(f"e = {limit}")
        return elements


# Combined meanings of the fields of a bundle.


def message_count(bundle: Any) -> int:
    """The number of messages that the header of a bundle announces."""
    return int(bundle["flags"] >> names.COUNT_SHIFT & 15 or bundle.get("message_count", 0))


def plain_header(bundle: Any) -> bytes:
    """The header of an uncompressed bundle, for a decompressed message set; numbers are 0, only presence counts."""
    flags = bundle["flags"] & (names.COUNT_MASK | names.SPARSE)
    count = b"" if flags & names.COUNT_MASK else shortest(bundle.get("message_count", 0))
    sparse = bytes(8) if flags & names.SPARSE else b""
    return bytes([flags]) + count + sparse + (b"\0" if sparse and message_count(bundle) != 1 else b"")
