"""Recognising Pravega, cutting it into messages, and finding the next message after a gap."""

import re
from collections.abc import Iterable, Iterator

from wiredecode.fields.layer import Layer
from wiredecode.frames.splitter import BAD, EMPTY, GOOD, SHORT, SURE, Allowance, Chain, Evidence, LengthPrefix, Number
from wiredecode.protocols.base import Found, Rejected, Start, Undecided, Verdict, generated_of
from wiredecode.protocols.pravega import NAME, PORTS, evidence, names
from wiredecode.protocols.pravega.conversation import PravegaConversation
from wiredecode.protocols.pravega.layers import HEADER, MAX_VERSION, Unknown
from wiredecode.protocols.pravega.layers_older import OLDER, proposal
from wiredecode.protocols.shared.proxy import LAYERS as PROXY_LAYERS
from wiredecode.protocols.shared.proxy import BehindProxy

GENERATED = generated_of("pravega")

HELLO = bytes.fromhex("ffffff8100000008")
HELLO_BYTES = 16
MESSAGES_TO_BELIEVE = 2
"""Good messages in a row that identify the protocol on any port, one of them more than a KeepAlive or DataAppended."""
MESSAGES_TO_DECIDE = 32
"""Messages after which the dialect may stay undecided: both have layouts in common."""
DECIDE_BYTES = 16 * 1024
SEARCH_BYTES = 256 * 1024
"""While searching, a larger message is not waited for."""
SEARCH_SMALL_BYTES = 8 * 1024
"""Search limit for messages without a large blob, whose check takes time in proportion to their length."""

CODES = b"".join(re.escape(bytes([code])) for code in sorted(evidence.KNOWN) if code > 0)
NEGATIVE = b"".join(re.escape(bytes([code & 0xFF])) for code in sorted(evidence.KNOWN) if code < -2)
CANDIDATE = re.compile(rb"(?=(?:\x00\x00\x00[" + CODES + rb"]|\xff\xff\xff[" + NEGATIVE + rb"])\x00)", re.DOTALL)
"""Candidates for messages in mid-stream. Types 0, -1 and -2 are none: append data is full of their bytes."""


def hello(data: bytes, final: bool) -> bool | None:
    """Whether the bytes begin with a Hello; None: more are needed."""
    if len(data) < HELLO_BYTES:
        return None if HELLO.startswith(data[:8]) and not final else False
    high, low = int.from_bytes(data[8:12]), int.from_bytes(data[12:16])
    return data.startswith(HELLO) and 1 <= low <= high <= MAX_VERSION


def _possible(data: bytes, position: int) -> bool:
    """Whether a message may start here; if its header is not whole, it may."""
    return position + HEADER.size > len(data) or evidence.plausible(*HEADER.unpack_from(data, position))


class MessageChain(Chain):
    """Messages in a row: how much they prove, and for which dialect they speak."""

    most = MESSAGES_TO_DECIDE
    dialect: str | None = None

    def judge(self, data: bytes, position: int) -> evidence.MessageEvidence:
        seen = evidence.judge(data, position)
        if not self.whole and seen.layer is not None and seen.layer.type_name == "Event":
            return evidence.MessageEvidence(BAD)  # zeros are everywhere
        return seen

    def add(self, data: bytes, seen: Evidence) -> None:
        assert isinstance(seen, evidence.MessageEvidence)
        self.dialect = self.dialect or evidence.dialect_of(seen.code, data, self.end, seen.end)

    def enough(self) -> bool:
        return self.dialect is not None and self.is_believed(at_home=False)

    def fills(self, data: bytes, final: bool) -> bool:
        """Whether the bytes are messages to the last one: on the protocol's port, or where it is known, it will do."""
        conclusive = self.dialect is not None if self.best >= GOOD else final or self.whole >= MESSAGES_TO_BELIEVE
        return conclusive and self.whole > 0 and (self.end == len(data) or self.whole == self.most)

    def is_believed(self, at_home: bool) -> bool:
        """Whether this is the protocol; ``at_home``, at the start on one of its ports, one message will do."""
        several = self.best == GOOD and self.whole >= MESSAGES_TO_BELIEVE
        return self.best == SURE or several or (at_home and self.whole > 0)


class Pravega(BehindProxy):
    """Pravega's wire protocol, as released and as once proposed."""

    name = NAME
    title = "Pravega"
    ports = PORTS
    dialects = (names.WIRE, *names.PROPOSALS)
    framing = LengthPrefix(
        Number(4, 4, 0, evidence.MAX_BODY, "a length of {value} is above {most}"),
        after=HEADER.size,
        header=HEADER.size,
        held=(Number(0, 4, -evidence.MAX_TYPE, evidence.MAX_TYPE, "{value} is no message type", signed=True),),
    )
    requests = {"pravega": frozenset({*names.SUCCESSES, *names.APPENDS, "SetupAppend", "ReadSegment"})}
    summary_keys = ("segment", "segment_name", "target", "source", "event_number", "offset", "num_events")
    generated = GENERATED

    def recognise_inner(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        first = hello(data, final) if started else False
        if first is None:
            return Undecided()
        if first:
            return Verdict(0, dialect=names.WIRE)
        allowance = Allowance(data)
        for position in [0] if started else self._candidates(data):
            chain = MessageChain(data, position)
            more_may_come = not final and len(data) - position < SEARCH_BYTES
            alone = port and position == 0 and chain.fills(data, final)
            framed = position == 4 and int.from_bytes(data[:4]) >= len(data) - 4  # Kafka's size, and its correlation id
            refuted = framed or not (started or _possible(data, chain.end))
            if alone or (chain.is_believed(port and started) and not refuted):
                undecided = chain.dialect is None and chain.last.level == SHORT and chain.whole < MESSAGES_TO_DECIDE
                if undecided and more_may_come and chain.end - position < DECIDE_BYTES:
                    return Undecided(position, sure=True)
                return Verdict(position, chain.client, chain.dialect)
            if chain.last.level == SHORT and more_may_come:
                return Undecided(position, need=min(chain.need, SEARCH_BYTES))
            if not allowance.spend(chain.read):
                break
        return Rejected() if started or final else Undecided(max(0, len(data) - HEADER.size + 1))

    def _candidates(self, data: bytes) -> Iterator[int]:
        """Where a message may start in bytes whose beginning was not captured."""
        for match in CANDIDATE.finditer(data):
            if not self._hopeless(data, match.start()):
                yield match.start()

    def _hopeless(self, data: bytes, position: int) -> bool:
        """Whether a candidate's header, or that after a large message, rules out that it is worth a look."""
        if position + HEADER.size > len(data):
            return False
        code, length = HEADER.unpack_from(data, position)
        following = position + HEADER.size + length
        if length <= evidence.LARGE_BODY or code not in evidence.BLOBS or following + HEADER.size > len(data):
            return bool(length > (SEARCH_BYTES if code in evidence.BLOBS else SEARCH_SMALL_BYTES))
        return length > SEARCH_BYTES or not _possible(data, following)

    def search(self, data: bytes, *, final: bool) -> Found:
        """A message whose lengths add up, followed by a possible header; or one that also names a segment."""
        allowance = Allowance(data)
        for position in self._candidates(data):
            judged = evidence.judge(data, position)
            if judged.level == SHORT and not final:
                return Found(position, False, max(judged.need - position, 0))
            if not allowance.spend(judged.end - position if judged.end <= len(data) else 0):
                break
            if judged.level < EMPTY:
                continue
            believed = self._followed(data, judged, final)
            if believed is None:
                return Found(position, False)
            if believed:
                return Found(position, True)
        return Found(max(0, len(data) - HEADER.size + 1), False)

    def begin(self, data: bytes, *, final: bool) -> Found:
        """KeepAlives and DataAppended, which may be chance elsewhere, are believed where they fill a segment."""
        chain = MessageChain(data, 0)
        conclusive = chain.is_believed(at_home=False) or chain.fills(data, True)
        return Found(0, True) if conclusive else self.search(data, final=final)

    def _followed(self, data: bytes, judged: evidence.MessageEvidence, final: bool) -> bool | None:
        """Whether the bytes after a good message let it be believed; None: more bytes may decide."""
        if judged.level == SURE:
            return True
        if judged.end + HEADER.size > len(data):
            return judged.anchor if final else None
        if judged.anchor:
            return _possible(data, judged.end)
        following = evidence.judge(data, judged.end)
        if following.level == SHORT:
            return False if final else None
        return following.anchor

    def conversation(self, start: Start) -> PravegaConversation:
        return PravegaConversation(start)

    def layers(self) -> Iterable[type[Layer]]:
        current: list[type[Layer]] = [*evidence.CURRENT.values(), Unknown]
        current += [layer for table in (evidence.EAGER, OLDER) for older in table.values() for layer in older]
        return [*current, *proposal(names.PROPOSAL).values(), *PROXY_LAYERS]

    def type_names(self) -> Iterable[str]:
        return [*super().type_names(), *(name for codes in names.PROPOSALS.values() for name in codes.values())]


PROTOCOL = Pravega
