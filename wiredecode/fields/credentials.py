"""What looks like a credential, wherever it stands: by the name beside it, or by its own form.

Declared fields say ``secret=True``. This is for what nobody declared: headers, properties, members of JSON objects,
words of free text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

NAME = re.compile(
    r"pass|pwd|token|secret|jwt|seed|cred|auth(?!or(?!i))|cookie|session|bearer|signature|nkey|otp\b|"
    r"\b(?:sig|sas|pin|creds?)\b|(?:api|access|private|signing|encryption|shared|master)[-_. ]?key",
    re.IGNORECASE,
)
"""Part of a name whose value is taken for a secret."""
USER_INFO = r"(?<=://)[^\s/?#@\"'<>]+(?=@)"
JSON_WEB_TOKEN = r"\beyJ[\w-]{6,}(?:\.[\w-]*){0,2}"
KEY_SEED = r"\bS[UAOCNX][A-Z2-7]{40,}"
AFTER_NAME = r"(?i:\b(?:bearer|basic|negotiate|digest)\s+)(?P<rest>[^\s\"',;]+)"
VALUE = re.compile("|".join((USER_INFO, JSON_WEB_TOKEN, KEY_SEED, AFTER_NAME)))
"""User and password of a URL, a JWT (or what was captured of one), an NKEY seed, the credentials of an HTTP scheme."""
HINT = re.compile(r"://[^\s/]*@|eyJ|S[UAOCNX][A-Z2-7]{40}|bearer|basic|negotiate|digest", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether the value of a header, property or member of this name carries credentials."""
    return NAME.search(name) is not None


def is_secret_value(value: str) -> bool:
    """Whether a text is or holds a credential by its form."""
    return HINT.search(value) is not None and VALUE.search(value) is not None


def without_secrets(value: str, hide: Callable[[str], str]) -> str:
    """The text with what is a credential by its form replaced by what ``hide`` makes of it."""
    if HINT.search(value) is None:
        return value

    def hidden(match: re.Match[str]) -> str:
        rest = match["rest"]
        return match[0][: -len(rest)] + hide(rest) if rest else hide(match[0])

    return VALUE.sub(hidden, value)
