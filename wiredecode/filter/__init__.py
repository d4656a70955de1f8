"""Display filters: from a text such as ``rabbitmq_stream.type == "Publish" && frame.length > 100`` to a predicate.

The language is Wireshark's (docs/filters.md). A filter is evaluated at the cheapest level first: facts of the
connection, of framing, of decoding without a record, fields, records. See :class:`Filter`.
"""

from wiredecode.dataclasses import replace
from wiredecode.fields.layer import Style
from wiredecode.filter.logic import Atom, Expression, decide, tests
from wiredecode.filter.model import FilterError as FilterError
from wiredecode.filter.model import Level
from wiredecode.filter.wireshark_names import FACTS, OF_PACKETS, Needs, is_of_packet
from wiredecode.frames.frame import Frame
from wiredecode.net.types import Connection

MAX_CONNECTIONS = 65_536
"""Connections whose answer is remembered."""
COUNTED = frozenset(("frame.number", "frame.packets", "frame.time_relative", "tcp.stream"))
"""Names that are counted, or measured, from the beginning of the capture."""


class Filter:
    """A predicate over frames.

    ``needs_records``: it uses fields that only frames dissected with a style have (see :meth:`style`).
    ``needs_responses``: it uses numbers of responses: dissect with ``link_responses``.
    """

    def __init__(self, text: str, expression: Expression) -> None:
        self.text, self.expression = text, expression
        atoms = list(tests(expression))
        self.levels = sorted({test.level for test in atoms})
        self.needs_records = any(test.complete for test in atoms)
        self.needs_responses = Level.LINKED in self.levels
        self._whole = decide(expression, max(self.levels, default=Level.CONSTANT))
        self._decided: dict[int, bool | None] = {}
        self._connection = decide(expression, Level.CONNECTION)
        self._arrival = decide(expression, Level.ARRIVAL)
        self._before_record = decide(expression, Level.HEADER if self.needs_records else Level.RECORD)
        self.names: frozenset[str] = frozenset().union(*(test.names for test in atoms))
        """The fields it is about."""

    def matches(self, frame: Frame) -> bool:
        if self._connection is not None:
            answer = self.connection(frame)
            if answer is not None:
                return answer
        return bool(self._whole(frame) if callable(self._whole) else self._whole)

    def connection(self, frame: Frame) -> bool | None:
        """Decide for all frames of this direction by addresses and ports alone; None: undecided."""
        decide = self._connection
        if decide is None or isinstance(decide, bool):
            return decide
        key = frame.connection.number << 1 | frame.side
        if key in self._decided:
            return self._decided[key]
        if len(self._decided) >= MAX_CONNECTIONS:
            self._decided.clear()
        answer = self._decided[key] = decide(frame)
        return answer

    def excludes(self, connection: Connection) -> bool:
        """Whether no frame of a connection can match; known when both of its sides have been asked about."""
        key = connection.number << 1
        return self._decided.get(key) is False and self._decided.get(key | 1) is False

    def arrival(self, frame: Frame) -> bool | None:
        """Decide about a frame that was numbered, but not decoded."""
        decide = self._arrival
        if self._connection is not None:
            answer = self.connection(frame)
            if answer is not None:
                return answer
        return decide(frame) if callable(decide) else decide

    def cannot_match(self, frame: Frame) -> bool:
        """Whether a frame that was decoded, but has no record yet, will certainly not match."""
        answer = self.connection(frame)
        decide = self._before_record
        if answer is None and callable(decide):
            answer = decide(frame)
        return answer is False

    def style(self, style: Style | None) -> Style | None:
        """The style to dissect with, if the output needs ``style`` (None: no records).

        If the filter reads fields of records, these must keep bytes unchanged, or as values that have them in ``raw``;
        the writer of the records renders them.
        """
        from wiredecode.filter.values import KEEP, RAW

        if style is None or not self.needs_records:
            return RAW if self.needs_records else style
        return replace(style, show=style.show if hasattr(style.show, "raw") else KEEP)

    def check_stable(self) -> None:
        """Refuse names that depend on the rest of the capture, which stable ids do not. Raises ``ValueError``."""
        for name, spelled in (pair for test in tests(self.expression) for pair in test.spelled):
            if name in COUNTED or name in FACTS or is_of_packet(name):
                shown = spelled if name == spelled else f"{spelled} ({name})"
                raise ValueError(f"{shown} depends on the rest of the capture, so it cannot be used with stable ids")

    @property
    def needs(self) -> Needs:
        """Its needs of packets."""
        return Needs.of(self.names)

    @property
    def chooses_packets(self) -> bool:
        """Whether it is about single packets and nothing of frames, so that packets without a frame can match, too."""
        names = self.names
        return any(map(is_of_packet, names)) and all(name in OF_PACKETS or is_of_packet(name) for name in names)

    @property
    def needs_copies(self) -> bool:
        """Whether it asks which messages are copies: dissect with ``Demand.copies``."""
        from wiredecode.filter.names import is_copy

        return any(map(is_copy, self.names))


def number_range(first: int, last: int) -> Filter:
    """The predicate of frames ``first`` to ``last``; no text is parsed for it, which takes a tenth of a second once."""
    text = f"frame.number >= {first} && frame.number <= {last}"
    test = Atom(lambda frame: first <= frame.number <= last, Level.ARRIVAL, names=frozenset(("frame.number",)))
    return Filter(text, test)


def compile_filter(text: str, *, secrets: bool = False, utc: bool = False) -> Filter:
    """Compile a display filter. Raises :class:`FilterError` with the place in the text.

    ``secrets``: fields with secrets may be compared. ``utc``: times without a zone are UTC, not local.
    """
    from wiredecode.filter.compare import Comparisons
    from wiredecode.filter.grammar import parse
    from wiredecode.filter.names import Names

    comparisons = Comparisons(text, Names(secrets=secrets), secrets, utc=utc)
    return Filter(text, comparisons.expression(parse(text)))
