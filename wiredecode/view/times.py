"""Times as the user wants them: since the first packet, since the frame before, of day, or since the epoch."""

from datetime import UTC, datetime
from functools import lru_cache

WIDTHS = {"relative": 11, "delta": 11, "absolute": 32, "utc": 27, "epoch": 17}
"""Columns of a time, by form: those of ``--time``, and absolute in UTC."""
SECOND = 1_000_000_000


class Times:
    """Texts of the times of one output, in its order: ``form`` is a choice of ``--time``, absolute times are local.

    All have microseconds. ``delta`` is since the frame that was asked about before, the first one's is 0.
    """

    def __init__(self, form: str = "relative", *, utc: bool = False) -> None:
        self.form, self.utc = form, utc
        self.width = WIDTHS["utc" if form == "absolute" and utc else form]
        self._before: int | None = None

    @property
    def is_usual(self) -> bool:
        """Seconds since the first packet: what is shown unless something else is asked for."""
        return self.form == "relative"

    def text(self, time_ns: int, first_ns: int) -> str:
        """``time_ns`` is since the epoch; ``first_ns``: when the capture began."""
        if self.form == "relative":
            return seconds_text(time_ns - first_ns)
        if self.form == "delta":
            before, self._before = self._before, time_ns
            return seconds_text(0 if before is None else time_ns - before)
        if self.form == "epoch":
            return seconds_text(time_ns)
        seconds, rest = divmod(time_ns, SECOND)
        second, zone = _second(seconds, self.utc)
        return f"{second}.{rest // 1000:06d}{zone}"

    def column(self, time_ns: int, first_ns: int) -> str:
        """The text, padded to the width of its form."""
        return f"{self.text(time_ns, first_ns):>{self.width}}"

    def label(self, time_ns: int, first_ns: int) -> str:
        """The text for a sentence, with the unit of seconds."""
        text = self.text(time_ns, first_ns)
        if self.form == "delta" and not text.startswith("-"):
            text = f"+{text}"
        return f"{text} s" if self.form in ("relative", "delta") else text


def seconds_text(ns: int, digits: int = 6) -> str:
    """Seconds with ``digits`` digits after the point, rounded down as in tshark."""
    whole, rest = divmod(abs(ns // 10 ** (9 - digits)), 10**digits)
    return f"{'-' * (ns < 0)}{whole}.{rest:0{digits}d}"


USUAL = Times()
"""Keeps nothing between frames, so all may share it."""


@lru_cache(maxsize=64)
def _second(seconds: int, utc: bool) -> tuple[str, str]:
    """A second in RFC 3339, and the offset of its time zone."""
    when = datetime.fromtimestamp(seconds, UTC)
    if utc:
        return when.strftime("%Y-%m-%dT%H:%M:%S"), "Z"
    local = when.astimezone()
    text = local.isoformat()
    return text[:19], text[19:]
