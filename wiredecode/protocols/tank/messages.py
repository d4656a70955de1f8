"""The messages of Produce and of the answers to Consume, as rows."""

from typing import Any

from wiredecode.fields import compiler, printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, MAX_MILLISECONDS, PUBLISH, Messages, nanoseconds
from wiredecode.protocols.tank import conversation_bundles as bundles
from wiredecode.protocols.tank.layers_bundle import Bundle, message_count
from wiredecode.protocols.tank.names import CODEC_MASK, CODECS, PREVIOUS_PLUS_ONE, PRODUCE, PRODUCE_WITH_BASE


def add_messages(frame: Frame, contents: bundles.BundleContents, out: Messages) -> None:
    """Add the whole messages of a frame that was just decoded."""
    operation = PUBLISH if frame.code in (PRODUCE, PRODUCE_WITH_BASE) else DELIVER
    values: bundles.Bundled | None = None
    for numbered in contents.numbered:
        bundle = numbered.bundle
        if frame.layer is not None and (bundle is None or isinstance(bundle.get("messages"), int)):
            values = values or compiler.readable(frame.layer, frame.buffer, frame.start, frame.stop)[0]
            bundle = _bundle_at(values, *numbered.path)
        if bundle is None:
            continue
        elements, codec = bundle.get("messages", ()), bundle["flags"] & CODEC_MASK
        if codec:
            plain = contents.inflated.get(numbered.path)
            elements = () if plain is None else compiler.readable(Bundle, plain, 0, len(plain))[0]["messages"]
        messages = [message for message in elements if "body" in message]
        if not messages:
            continue
        shares = None
        if operation == PUBLISH and len(contents.numbered) > 1:  # the answer has a result for each partition
            i, k = numbered.path
            share = k + sum(len(topic["partitions"]) for topic in frame.values["topics"][:i])
            shares = [share] * len(messages)
        keys = [message.get("key") for message in messages]
        out.add(
            frame,
            operation,
            [message["body"] for message in messages],
            topic=printable(numbered.topic),
            partition=numbered.partition,
            keys=None if keys.count(None) == len(keys) else keys,
            offsets=numbers(bundle, numbered.number, messages),
            times_ns=times([message.get("timestamp") for message in messages]),
            compression=CODECS[codec] if codec else None,
            shares=shares,
        )


def _bundle_at(values: bundles.Bundled, i: int, k: int) -> bundles.Bundled:
    if "chunks" not in values:
        bundle: bundles.Bundled = values["topics"][i]["partitions"][k]["bundle"]
        return bundle
    chunk: dict[str, Any] = values["chunks"][i]
    whole: list[dict[str, bundles.Bundled]] = chunk["bundles"]
    return whole[k]["bundle"] if k < len(whole) else dict(chunk["partial_bundle"])


def numbers(bundle: bundles.Bundled, number: int | None, messages: list[dict[str, Any]]) -> range | list[int] | None:
    """The sequence numbers of the messages; None: only the broker will give them."""
    if "first_sequence_number" in bundle:
        count = message_count(bundle)
        jumps = ((each["flags"] & PREVIOUS_PLUS_ONE != 0, each.get("gap", 0)) for each in messages)
        return list(bundles.sparse_numbers(jumps, count, *bundles.sparse_ends(bundle, count)))
    if number is None:
        return None
    sequence = range(number, number + len(messages))
    return sequence if sequence[-1] <= bundles.MASK64 else [each & bundles.MASK64 for each in sequence]


def times(stamps: list[int | None]) -> list[int | None]:
    """Times of messages, of which some have that of the message before; the first of a bundle then has 0."""
    given = [stamp for stamp in stamps if stamp is not None]
    if len(given) == len(stamps) and max(given, default=0) < MAX_MILLISECONDS:
        return [stamp * 1_000_000 for stamp in given]
    own: list[int | None] = []
    last: int | None = 0
    for stamp in stamps:
        if stamp is not None:
            last = nanoseconds(stamp)
        own.append(last)
    return own
