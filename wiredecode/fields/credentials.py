"""Finds values that look like credentials in any place: by the name beside them, or by their own form.

Declared fields say ``secret=True``. This is for undeclared values: headers, properties, members of JSON objects,
words of free text.
"""

import re
from collections.abc import Callable
from functools import lru_cache, partial

from wiredecode.data import tables_of
from wiredecode.patterns import pattern

TABLES = tables_of(__package__, "credentials.toml")
PREFIXES = sum(TABLES["providers"].values(), list[str]())
"""Prefixes of keys that providers issue."""


def join_patterns(pieces: list[str]) -> str:
    """A regular expression of ``credentials.toml``."""
    word, prefixes = "".join(TABLES["names"]["word"]), "|".join(map(re.escape, PREFIXES))
    return "".join(pieces).replace("WORD", word).replace("PREFIXES", prefixes)


NAME, KEY_NAME, HARMLESS_KEYS, ODD_CASE = (
    pattern(partial(join_patterns, TABLES["names"][name]), re.IGNORECASE) for name in TABLES["names"] if name != "word"
)
"""Part of a name whose value counts as a secret; ends of names of keys that may be secret, and of those that open
nothing; words that count although capitals divide them."""
JOINED = pattern(r"(?<=[a-z0-9])(?=[A-Z])|_")
FORMS = {name: join_patterns(pieces) for name, pieces in TABLES["forms"].items()}
PROVIDER = FORMS["provider"]
VALUE = pattern("|".join(FORMS.values()))
STEMS, WIDE_STEMS = (
    tuple(each for each in TABLES["stems"]["short"] if each.isascii() is plain) for plain in (True, False)
)
"""A text without any of these in small letters holds no credential, unless it is long."""
STEMS_OF_LONG: tuple[str, ...] = (*TABLES["stems"]["long"], *map(str.casefold, PREFIXES))
"""Nor is one of these in it, or a seed."""
LONG, SHORT = 10, 64
KEPT = 256
"""Longest text of which it is remembered whether it holds a credential: a search takes as long as many look-ups."""
SEED = pattern(FORMS["key-seed"])
NUMBERS = pattern(r"[0-9a-fA-F:.-]*\Z")
"""Numbers, ids in hex, times: none of the letters make a stem."""


def may_hold(value: str) -> bool:
    """Whether a text needs a look by :data:`VALUE`, which is slow. Short ones are often the same."""
    return (_may_hold if len(value) > SHORT else _short_may_hold)(value)


def _may_hold(value: str) -> bool:
    if NUMBERS.match(value):
        return False
    text = value.casefold()
    for stem in STEMS if value.isascii() else STEMS + WIDE_STEMS:
        if stem in text:
            return True
    if len(value) <= LONG:
        return False
    for stem in STEMS_OF_LONG:
        if stem in text:
            return True
    return len(value) > 40 and SEED.search(value) is not None


_short_may_hold = lru_cache(maxsize=4096)(_may_hold)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether the value of a header, property or member of this name carries credentials."""
    if ODD_CASE.search(name) is not None:
        return True
    name = JOINED.sub("-", name)
    return NAME.search(name) is not None or (KEY_NAME.search(name) is not None and not HARMLESS_KEYS.search(name))


def is_secret_value(value: str) -> bool:
    """Whether a text is or holds a credential by its form."""
    return (_holds if len(value) > KEPT else _kept_holds)(value)


def _holds(value: str) -> bool:
    return may_hold(value) and VALUE.search(value) is not None


_kept_holds = lru_cache(maxsize=4096)(_holds)


TOKEN_HEAD = b"eyJ"
JSON_WEB_TOKEN = re.compile(rb"eyJ[\w-]{6,}\.[\w.-]*")


def is_token(body: bytes) -> bool:
    """Whether a body is a JWT, or the captured front of one."""
    return body.startswith(TOKEN_HEAD) and JSON_WEB_TOKEN.match(body) is not None


def is_secret_pair(name: str | None, value: str | bytes | None) -> bool:
    """Whether the value of a header, property or setting carries credentials, by its name or itself."""
    if value is None:
        return False
    text = value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
    return is_secret_name(name or "") or is_secret_value(text)


def without_secrets(value: str, hide: Callable[[str], str]) -> str:
    """Return the text, with values that have the form of credentials replaced by the result of ``hide``."""
    if not (_holds if len(value) > KEPT else _kept_holds)(value):
        return value

    def hidden(match: re.Match[str]) -> str:
        if match.lastgroup is None:
            return hide(match[0])
        start, stop = match.start(match.lastgroup) - match.start(), match.end(match.lastgroup) - match.start()
        return match[0][:start] + hide(match[match.lastgroup]) + match[0][stop:]

    return VALUE.sub(hidden, value)
