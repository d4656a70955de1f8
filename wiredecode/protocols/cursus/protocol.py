"""Recognising Cursus, cutting it into frames, and finding the next frame after a gap."""

import re
from collections.abc import Iterable, Iterator

from wiredecode.fields.layer import Layer
from wiredecode.frames.splitter import BAD, EMPTY, GOOD, SHORT, SURE, WEAK, LengthPrefix, Number
from wiredecode.protocols.base import Found, Generated, Rejected, Start, Undecided, Verdict, generated_of
from wiredecode.protocols.cursus import NAME, PORTS, names, names_texts
from wiredecode.protocols.cursus.conversation import CursusConversation
from wiredecode.protocols.cursus.conversation_bodies import KEPT
from wiredecode.protocols.cursus.evidence import MAX_FRAME_BYTES, FrameChain, judge
from wiredecode.protocols.cursus.layers import TEXT_LAYERS
from wiredecode.protocols.cursus.layers_batch import BATCHES, LABELS
from wiredecode.protocols.cursus.names import COMMANDS
from wiredecode.protocols.shared.proxy import LAYERS as PROXY_LAYERS
from wiredecode.protocols.shared.proxy import BehindProxy

COLUMNS = {names.TEXT: "string", names.INTEGER: "int64", names.BOOLEAN: "bool"}
REPLIES = ((names.REPLY_TEXTS, "string"), (names.REPLY_INTEGERS, "int64"), (names.REPLY_BOOLEANS, "bool"))
PARAMETER, REPLY = "parameter of commands", "field of replies"

REPLIED = {names.REPLY_NAMES.get(word, word): (kind, REPLY) for words, kind in REPLIES for word in sorted(words)}
COMPUTED = generated_of(NAME)
TOLD = {
    **REPLIED,
    **{
        name: (COLUMNS[kind], f"{PARAMETER}, {REPLY}" if name in REPLIED else PARAMETER)
        for name, kind in sorted(names.PARAMETERS.values())
    },
    **{name.removeprefix(f"{NAME}."): field for name, field in COMPUTED.items() if name.startswith(f"{NAME}.")},
}
"""Fields of texts and JSON replies: Arrow type and meaning."""
DECLARED = {"type"}.union(  # cursus.type is that of the frame
    kind.name for layer in (*BATCHES.values(), *TEXT_LAYERS) for kind in layer.fields_desc if layer.filter_name == NAME
)
GENERATED = {f"{NAME}.{name}": Generated(*field) for name, field in TOLD.items() if name not in DECLARED} | {
    name: field for name, field in COMPUTED.items() if not name.startswith(f"{NAME}.")
}
COLUMN_TYPES = {
    **{
        f"{NAME}.{kind.name}": "-"
        for layer in TEXT_LAYERS
        for kind in layer.fields_desc
        if layer.filter_name == NAME and kind.name not in (*KEPT, "data", "text")
    },
    **{f"{NAME}.{name}": column for name, (column, _) in TOLD.items() if name in DECLARED},
    "cursus.partition": "int32",  # text in the older document's batches
    "cursus.seq_end": "int64",  # -1 where there is none
    "cursus.seq_start": "uint64",
    "cursus.details": "list<string>",
    "cursus.text": "string",
    "cursus_compressed.data": "binary",
}

SEARCH_BYTES = 256 * 1024
"""While searching, a frame longer than this is believed only when its start decides alone."""
RECOGNISE_BYTES, RECOGNISE_BYTES_ELSEWHERE = 256 * 1024, 32 * 1024
"""Bytes of a direction that are looked at, again with each packet, when a capture starts in mid-stream: on the
protocol's ports, and on others."""
MAX_REFUSED_BYTES = 64 * 1024
"""On its own port, what may be a frame that the broker refuses is not given up before the broker speaks."""
START_BYTES = 12
"""Bytes that a candidate frame needs: its length and the first bytes of its body."""

START = re.compile(
    rb"(?=[\0-\3][\0-\xff]{3}(?:\xba\x7c|\0\0[A-Za-z]|\0[\1-\xf9][\w.=-]|[A-Za-z]{2}|\{\"|"
    rb"\x1f\x8b\x08|\x82SNAPPY\0|\x04\x22\x4d\x18|\x28\xb5\x2f\xfd))",
    re.DOTALL,
)


class Cursus(BehindProxy):
    """The protocol of the Cursus broker, in its dialects from 2025-11 to 2026-08."""

    name = NAME
    title = "Cursus"
    ports = PORTS
    dialects = tuple(LABELS)
    requests = {"cursus": COMMANDS}
    summary_keys = tuple(names.NAMES["summary-keys"])
    generated, column_types = GENERATED, COLUMN_TYPES
    framing = LengthPrefix(Number(0, 4, 0, MAX_FRAME_BYTES), after=4, header=4)

    def recognise_inner(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        """Strict: on other ports a connection must begin with a command, or show frames that cannot be chance."""
        most = RECOGNISE_BYTES if port else RECOGNISE_BYTES_ELSEWHERE
        for position in [0] if started else self._positions(data):
            chain = FrameChain(data, position, started, final)
            needed = (WEAK if port else GOOD if chain.client else SURE) if started else (GOOD if port else SURE)
            if position and chain.best < SURE and chain.last.level == BAD:
                continue  # texts in messages look like replies, but what follows them like no frame
            alone = port and position == 0 and chain.fills(data, final)
            cut_short = chain.last.level == SHORT and final and port and position == 0 and len(data) >= START_BYTES
            if not (port or started) and not chain.is_conclusive:
                needed = SURE + chain.score
            mixed = not started and chain.empty and EMPTY < chain.best < SURE  # as events of Pravega are
            if not mixed and (chain.score >= needed or cut_short or alone):
                return Verdict(position, client=chain.client)
            if chain.last.level >= SHORT and not final and (started or len(data) - position < most):
                keep = 0 if started else position
                return Undecided(keep, need=min(chain.need + position - keep, most))
        if started and port and not final and len(data) < most and int.from_bytes(data[:4], "big") <= MAX_REFUSED_BYTES:
            return Undecided()
        return Rejected() if started or final else Undecided(max(0, len(data) - START_BYTES + 1))

    def _positions(self, data: bytes) -> Iterator[int]:
        yield 0
        for match in START.finditer(data, 1):
            yield match.start()

    def search(self, data: bytes, *, final: bool) -> Found:
        """A frame that cannot be chance, one that is followed by another, or one that ends at a gap.

        An empty frame is none to be followed by: messages hold many zeros.
        """
        for match in START.finditer(data):
            position = match.start()
            seen = judge(data, position, final)
            level, end = seen.level, seen.end
            if level == SURE or (final and level == GOOD and end > len(data)):
                return Found(position, True)
            if level == BAD or end - position > SEARCH_BYTES:
                continue
            if level == SHORT:
                if final and position == 0:
                    return Found(position, True)
                if not final:
                    return Found(position, False, max(seen.need - position, 0))
                continue
            following = judge(data, end, final).level
            if following >= WEAK:
                return Found(position, True)
            if following == SHORT:
                return Found(position, final)
        return Found(len(data) if final else max(0, len(data) - START_BYTES + 1), False)

    def begin(self, data: bytes, *, final: bool) -> Found:
        """Empty frames, which may be chance elsewhere, are believed where they fill a segment."""
        return Found(0, True) if FrameChain(data, 0, False, final).fills(data, True) else self.search(data, final=final)

    def conversation(self, start: Start) -> CursusConversation:
        return CursusConversation(start)

    def layers(self) -> Iterable[type[Layer]]:
        return [*BATCHES.values(), *TEXT_LAYERS, *PROXY_LAYERS]

    def type_names(self) -> Iterable[str]:
        return [
            *sorted(names.COMMANDS),
            *names.DISCOVERY,
            *sorted(names.OTHER_TYPES),
            *(name for _, name in names_texts.JSON_TYPES),
        ]


PROTOCOL = Cursus
