"""Times that clients give in another unit than the protocol's milliseconds, or ahead of now; bodies without times."""

from wiredecode.patterns import pattern

YEAR_MS, AHEAD_MS = 366 * 86_400_000, 60_000
"""A time in another unit is about now; a clock that is further ahead is wrong."""
UNITS = {"seconds": (1000, 1), "microseconds": (1, 1000), "nanoseconds": (1, 1_000_000)}
"""Factor and divisor that make milliseconds."""
TIME = pattern(rb"\d{4}-\d\d-\d\d[T ]\d\d:[\d:.]{2,20}|(?<![\w.])1\d{9}(?:\d{3}|\d{6}|\d{9})?(?:\.\d{1,9})?(?![\w.])")
"""A date with a time of day, or a time since 1970 in s, ms, us or ns."""


def unit_of(time_ms: int, now_ms: int) -> str:
    """The unit in which a time is about now, if that is not milliseconds; else empty."""
    near = (name for name, (more, less) in UNITS.items() if abs(time_ms * more // less - now_ms) < YEAR_MS)
    return next(near, "") if time_ms > 0 else ""


def ahead_of(time_ms: int, now_ms: int) -> int:
    """The milliseconds that a time is ahead, if no clock should be; else 0."""
    return ahead_ms if AHEAD_MS < (ahead_ms := time_ms - now_ms) < YEAR_MS else 0


def without_times(body: bytes) -> bytes:
    """The message without its times: these alone differ if it is made anew for each attempt."""
    return TIME.sub(b"", body)
