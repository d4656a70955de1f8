"""One line per frame with the fields that were asked for: ``-T fields -e NAME`` as tshark has it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wiredecode.dataclasses import dataclass
from wiredecode.fields.layer import Style
from wiredecode.filter.model import Field, Level, Type
from wiredecode.filter.names import Names, is_copy
from wiredecode.filter.wireshark_names import Needs
from wiredecode.frames.escape import escape
from wiredecode.frames.frame import Finding, Frame
from wiredecode.frames.record import rfc3339
from wiredecode.view.summary import SummaryLines
from wiredecode.view.times import seconds_text

NAMED = {"/t": "\t", "/s": " "}
QUOTES = {"d": '"', "s": "'", "n": ""}
TABS = tuple(f"_ws.col.{name}" for name in ("number", "time", "source", "destination", "protocol", "length", "info"))
"""Columns of ``-T tabs``."""


class UnknownField(ValueError):
    """No field has that name, or an option of ``-E`` is none; the text says what there is."""


@dataclass(frozen=True)
class Form:
    """Options of ``-E``."""

    header: bool = False
    separator: str = "\t"
    quote: str = ""
    occurrence: str = "a"
    aggregator: str = ","

    @classmethod
    def of(cls, options: Sequence[str]) -> "Form":
        """Read ``NAME=VALUE`` texts. Raises :class:`UnknownField`."""
        shown: dict[str, Any] = {}
        for option in options:
            name, _, value = option.partition("=")
            if name == "header" and value in ("y", "n"):
                shown[name] = value == "y"
            elif name in ("separator", "aggregator") and value:
                shown[name] = NAMED.get(value, value)
            elif name == "quote" and value in QUOTES:
                shown[name] = QUOTES[value]
            elif name == "occurrence" and value in ("f", "l", "a"):
                shown[name] = value
            else:
                raise UnknownField(
                    f"-E {option}: there is header=y|n, separator=/t|/s|CHARACTER, quote=d|s|n, occurrence=f|l|a, "
                    "aggregator=,|/s|CHARACTER"
                )
        return cls(**shown)


class FieldLines:
    """Makes the lines of one capture. Raises :class:`UnknownField`."""

    def __init__(
        self, names: Sequence[str], form: Form, *, show: Callable[[bytes], str], secrets: bool = False
    ) -> None:
        known_names = Names(secrets=secrets)
        self.form, self._names, self._show = form, names, show
        self._columns, self._last_ns = self._made_columns(), 0
        self._fields = [None if name.lower() in self._columns else known_names.find(name) for name in names]
        for name, field in zip(names, self._fields, strict=True):
            if field is None and name.lower() not in self._columns:
                raise UnknownField(f"-e: no field is called {name!r}{known_names.near(name, self._columns)}")
        fields = [field for field in self._fields if field is not None]
        self.style: Style | None = known_names.records.style if any(field.complete for field in fields) else None
        """Style in which frames have to be dissected."""
        self.needs_responses = any(field.level is Level.LINKED for field in fields)
        self.needs = Needs.of(field.name for field in fields)
        self.needs_copies = any(is_copy(field.name) for field in fields)

    def columns_of_packets(self, known: Mapping[str, Sequence[str]]) -> list[str]:
        """Columns of the table of packets that have the fields; ``known`` by name. Raises :class:`UnknownField`."""
        columns = ["packet", "time", "src", "dst", "length", "transport"]  # of those for people
        for name, field in zip(self._names, self._fields, strict=True):
            if field is not None and field.name not in known:
                raise UnknownField(f"-Y chooses packets, and these have no {name}: for frames use -Y 'frame && (...)'")
            columns += () if field is None else known[field.name]
        return list(dict.fromkeys(columns))

    def _made_columns(self) -> Mapping[str, Callable[[Frame], str]]:
        """Names of tshark's that are texts for people."""
        facts = SummaryLines().facts
        columns: dict[str, Callable[[Frame], str]] = {
            "number": lambda frame: str(frame.number),
            "no.": lambda frame: str(frame.number),
            "time": lambda frame: seconds_text(frame.time_ns - frame.connection.capture_ns, 9),
            "source": lambda frame: frame.source,
            "destination": lambda frame: frame.destination,
            "protocol": lambda frame: frame.protocol,
            "length": lambda frame: str(frame.length),
            "info": lambda frame: f"{frame.shown_type}{facts(frame)}",
        }
        return {
            **{f"_ws.col.{name}": get for name, get in columns.items()},
            "frame.time_delta_displayed": self._since_last,
            "frame.time_epoch": lambda frame: seconds_text(frame.time_ns, 9),
        }

    def _since_last(self, frame: Frame) -> str:
        """Seconds since the frame of the line before."""
        last_ns, self._last_ns = self._last_ns or frame.time_ns, frame.time_ns
        return seconds_text(frame.time_ns - last_ns, 9)

    def header(self) -> str:
        """The names, if they are wanted; with a newline."""
        return f"{self.form.separator.join(self._names)}\n" if self.form.header else ""

    def line(self, frame: Frame) -> str:
        """The line of a frame, with its newline."""
        form, texts_shown = self.form, []
        for name, field in zip(self._names, self._fields, strict=True):
            if field is None:
                texts = [escape(self._columns[name.lower()](frame))]
            else:
                texts = [self._text(value, field) for value in field.get(frame)]
            if form.occurrence != "a":
                texts = texts[:1] if form.occurrence == "f" else texts[-1:]
            text = form.aggregator.join(texts)
            texts_shown.append(in_quotes(text, form.quote) if texts else "")
        return f"{form.separator.join(texts_shown)}\n"

    def _text(self, value: Any, field: Field) -> str:
        if value is None:
            return ""
        if field.type is Type.PROTOCOL:
            return field.name
        if isinstance(value, bool):
            return "1" if value else "0"
        if isinstance(value, bytes):
            return escape(self._show(value))
        if isinstance(value, int):
            if field.type is Type.TIME:
                return rfc3339(value)
            if field.name == "tcp.flags":
                return f"0x{value:04x}"
            return seconds_text(value, 9) if field.type is Type.DURATION else str(value)
        if isinstance(value, Finding):
            return escape(f"{value.severity}: {value.message}")
        if isinstance(value, dict) or field.type is Type.STRUCTURE:  # its fields have names of their own
            return field.name
        return escape(str(value))


def in_quotes(text: str, quote: str) -> str:
    """In quotes; those inside are doubled, as CSV has it."""
    return f"{quote}{text.replace(quote, quote * 2)}{quote}" if quote else text
