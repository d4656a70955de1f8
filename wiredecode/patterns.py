"""Regular expressions that are compiled when they are first used.

Compiling those of all modules took a quarter of the time in which a command starts; most commands use few.
"""

import re
from collections.abc import Callable
from typing import Any, AnyStr, cast

_MEMBERS = tuple(name for name in dir(re.Pattern) if not name.startswith("_"))


class _Pattern:
    """A pattern that gets the members of ``re.Pattern`` at the first use of one: then they cost what those cost."""

    def __init__(self, make: Callable[[], re.Pattern[Any]]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        if name not in _MEMBERS:
            raise AttributeError(name)
        compiled = self._make()
        vars(self).update({each: getattr(compiled, each) for each in _MEMBERS})
        return getattr(compiled, name)


def pattern(source: AnyStr | Callable[[], AnyStr], flags: int = 0) -> re.Pattern[AnyStr]:
    """A regular expression; a function makes the text of a long one when it is needed."""
    made = _Pattern(lambda: re.compile(source() if callable(source) else source, flags))
    return cast("re.Pattern[AnyStr]", made)
