"""Finds values that look like credentials in any place: by the name beside them, or by their own form.

Declared fields say ``secret=True``. This is for undeclared values: headers, properties, members of JSON objects,
words of free text.
"""

import re
from collections.abc import Callable
from functools import lru_cache

WORD = (
    r"pass(?!ed|ive|age|ing|es\b)|pswd|pwd|token|secret|jwt|credential|creds?\b|bearer|session|cookie|signature|kennwort|"
    r"api[-_. ]?key|account[-_. ]?key|access[-_. ]?key|shared[-_. ]?key|private[-_. ]?key"
)
NAME = re.compile(
    WORD + r"|seed|cred|auth(?!or(?!i))|nkey|otp\b|mfa|c?[xs]s?rf|hmac|krb5|kerberos|signing|"
    r"connection[-_. ]?string|\b(?:pw|psk|sig|sign|sas|pin|dsn|ticket|refresh|nonce|private)\b",
    re.IGNORECASE,
)
"""Part of a name whose value counts as a secret."""
KEY_NAME = re.compile(r"[-_. ]keys?\Z", re.IGNORECASE)
HARMLESS_KEYS = re.compile(
    r"(?:partition(?:ing)?|routing|message|msg|record|row|sort|primary|foreign|object|public|cache|shard|group|order|"
    r"dedup(?:lication)?|idempotency|stream|topic|event|aggregate|bucket|kv|hash|map|from|to|data|index|binding)"
    r"[-_. ]keys?\Z",
    re.IGNORECASE,
)
"""Keys that open nothing; any other ``...-key`` may."""
JOINED = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")

USER_INFO = (
    r"(?<=//)(?:[^\s/:@\"<>]*:(?!\d{1,5}(?:[/?#]|\Z))[^\s\"<>]{1,256}|[^\s/?#@\"<>]{1,256})(?=@)"
    r"|(?<![\w/:.])[\w.+-]{1,64}:(?P<bare>[^\s@:/\"<>]{1,256})(?=@[\w\[])"
)
JSON_WEB_TOKEN = r"\beyJ[\w-]{6,}(?:\.[\w-]*){0,2}"
KEY_SEED = r"\bS[UAOCNX][A-Z2-7]{40,}"
PROVIDER = (
    r"\b(?:gh[opsur]_|github_pat_|glpat-|xox[abeoprs]-|sk_live_|rk_live_|npm_|hvs\.|AIza|AKIA|ASIA|SG\.)[\w.-]{12,}"
)
PRIVATE_KEY = r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*)"
SCHEME = r"(?i:\b(?:bearer|basic|negotiate(?!\s+[\w-]+=[^=\s])|digest|apikey)\b[\s:]+[\"']?(?P<scheme>[^\s\"',;]+))"
ASSIGNED = (
    rf"(?i:(?:{WORD}|\b(?:pw|sig|sas|auth)\b)\w{{0,64}}[\"']?\s{{0,8}}(?:[=:]|(?<!\s)\(|->)\s{{0,8}}(?!<redacted)"
    r"(?:[bu]?\"(?P<double>[^\"]+)|[bu]?'(?P<single>[^']+)|(?P<plain>[^\s&;,)\"'{\[]+)))"
)
SPOKEN = (
    r"(?i:\b(?:token|password|passwd|pwd|secret|credentials)\s+(?:(?:is|was|for)\s+)?[\"']?"
    r"(?P<spoken>(?=[^\s\"']{0,256}\d)(?!<redacted)[^\s\"']{6,}))"
)
VALUE = re.compile("|".join((USER_INFO, JSON_WEB_TOKEN, KEY_SEED, PROVIDER, PRIVATE_KEY, SCHEME, ASSIGNED, SPOKEN)))
"""User and password of a URL, a JWT (or what was captured of one), an NKEY seed, keys of providers, a private key in
PEM, the credentials of an HTTP scheme, ``password=...`` and the like, a word with a digit after ``token``."""
STEMS = (
    *("@", "eyj", "bearer", "basic", "negotiate", "digest", "api", "account", "access", "shared", "private", "pass"),
    *("pswd", "pwd", "token", "secret", "jwt", "cred", "session", "cookie", "signature", "kennwort", "pw", "sig"),
    *("sas", "auth", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "xox", "sk_live_", "rk_live_"),
    *("npm_", "hvs.", "aiza", "akia", "asia", "sg."),
)
"""A text without any of these in small letters holds no credential, unless it is a seed."""
SEED = re.compile(KEY_SEED)
NUMBERS = re.compile(r"[0-9a-fA-F:.-]*\Z")
"""Numbers, ids in hex, times: none of the letters make a stem."""


def may_hold(value: str) -> bool:
    """Whether a text needs a look by :data:`VALUE`, which is slow."""
    if NUMBERS.match(value):
        return False
    text = value.casefold()
    for stem in STEMS:
        if stem in text:
            return True
    return len(value) > 40 and SEED.search(value) is not None


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether the value of a header, property or member of this name carries credentials."""
    name = JOINED.sub("-", name)
    return NAME.search(name) is not None or (KEY_NAME.search(name) is not None and not HARMLESS_KEYS.search(name))


def is_secret_value(value: str) -> bool:
    """Whether a text is or holds a credential by its form."""
    return may_hold(value) and VALUE.search(value) is not None


def without_secrets(value: str, hide: Callable[[str], str]) -> str:
    """Return the text, with values that have the form of credentials replaced by the result of ``hide``."""
    if not may_hold(value):
        return value

    def hidden(match: re.Match[str]) -> str:
        if match.lastgroup is None:
            return hide(match[0])
        start, stop = match.start(match.lastgroup) - match.start(), match.end(match.lastgroup) - match.start()
        return match[0][:start] + hide(match[match.lastgroup]) + match[0][stop:]

    return VALUE.sub(hidden, value)
