"""Finds values that look like credentials in any place: by the name beside them, or by their own form.

Declared fields say ``secret=True``. This is for undeclared values: headers, properties, members of JSON objects,
words of free text.
"""

import re
import tomllib
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files

WORD = (
    r"pass(?!ed|ive|age|ing|es\b)|pswd|pwd|token|secret|jwt|credential|creds?\b|bearer|session|cookie|signature|kennwort|"
    r"api[-_. ]?key|account[-_. ]?key|access[-_. ]?(?:key|code)|shared[-_. ]?key|private[-_. ]?key"
)
NAME = re.compile(
    WORD + r"|pword|geheim|senha|seed|mnemonic|cred|auth(?!or(?!i[sz]))|assertion|saml|jaas|(?<!o)nkey|otp\b|mfa|"
    r"[2t]fa\b|sessid|c?[xs]s?rf|hmac|krb5|kerberos|keytab|sign(?:ing|ed)|preshared|\w{2}pw\b|"
    r"conn(?:ection)?[-_. ]?str(?:ing)?\b|(?:recovery|backup|unlock|verification)[-_. ]?codes?|"
    r"(?:hook|database|jdbc)[-_. ]?url|"
    r"\b(?:pw\d?|psk|sig|sign|sas|pin|pincode|puk|dsn|ticket|refresh|c?nonce|private|pem)\b",
    re.IGNORECASE,
)
"""Part of a name whose value counts as a secret."""
KEY_NAME = re.compile(r"(?:[-_. ]|ssh|client|app)keys?\Z", re.IGNORECASE)
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
    r"|(?i:%2f%2f[\w.-]{0,64}%3a)(?P<encoded>[\w.~%-]{1,256}?)(?=%40)"
)
JSON_WEB_TOKEN = r"\beyJ[\w-]{6,}(?:\.[\w-]*){0,2}"
KEY_SEED = r"\bS[UAOCNX][A-Z2-7]{40,}"
PREFIXES = sum(tomllib.loads((files(__package__) / "credentials.toml").read_text("utf-8")).values(), list[str]())
"""Of keys that providers issue."""
PROVIDER = rf"\b(?:{'|'.join(map(re.escape, PREFIXES))}|\d{{8,10}}:AA)[\w.-]{{12,}}"
HOOK = r"(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/(?P<hook>[^\s\"'<>]+)"
PRIVATE_KEY = r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*)|PuTTY-User-Key-File-(?s:.*)"
HASH = r"\$(?:2[abxy]|[56]|apr1|argon2\w{1,2})\$[\w./$+=,-]{8,}|(?i:\{s?sha\d*\})[\w+/=]{8,}|\$ANSIBLE_VAULT(?s:.*)"
SCHEME = (
    r"(?i:\b(?:bearer|basic|negotiate(?!\s+[\w-]+=[^=\s])|apikey|ntlm|ssws)\b[\s:=]+[\"']?(?P<scheme>[^\s\"',;]+)"
    r"|\b(?:(?:digest|hawk|oauth)\s+(?=\w+=)|aws\s+(?=\w+:)|authori[sz]ation[\"']?\s{0,8}[:=]\s{0,8})(?P<header>[^\r\n]+)"
    r"|\bdigest[\s:]+[\"']?(?P<digest>[^\s\"',;]+))"
)
ASSIGNED = (
    rf"(?i:(?:{WORD}|\b(?:pw|sig|sas|auth|otp)\b)\w{{0,64}}[\\\"']{{0,8}}\s{{0,8}}(?:for\s+\S{{1,64}}\s+)?"
    r"(?:[=:]{1,2}>?|(?<!\s)\(|->|%3[ad]|\\u003[ad])\s{0,8}(?:[|>]\s+)?(?:\[\s*)?(?!<redacted)"
    r"(?:\\{1,8}[\"'](?P<escaped>[^\"'\\]+)|[bu]?\"(?P<double>[^\"]+)|[bu]?'(?P<single>[^']+)"
    r"|(?P<plain>[^\s&;,)\"'{\[]+)))"
)
ELEMENT = rf"(?i:<[\w:.-]{{0,64}}(?:{WORD})[^<>]{{0,256}}>(?:<!\[CDATA\[)?\s{{0,8}}(?P<element>[^<>\s][^<>]*))"
SPOKEN = (
    r"(?i:(?:\b(?:token|pass(?:word|wd|code|phrase)|pwd|secret|credentials|api key|auth(?:\s+(?:plain|login))?|"
    r"requirepass|identified\s+by)\s+(?:(?:is|was|for):?\s+)?|(?<=-u)\s+[\w.@-]{1,64}:|\bjdbc:\w{1,16}:\w{1,16}:\w{1,64}/)"
    r"[\"']?(?P<spoken>(?=[^\s\"']{0,256}\d)(?!<redacted)[^\s\"']{6,}))"
)
FORMS = (USER_INFO, JSON_WEB_TOKEN, KEY_SEED, PROVIDER, HOOK, PRIVATE_KEY, HASH, SCHEME, ASSIGNED, ELEMENT, SPOKEN)
VALUE = re.compile("|".join(FORMS))
"""User and password of a URL, a JWT (or what was captured of one), an NKEY seed, keys of providers, addresses of
webhooks, a private key, a hash of a password, credentials of an HTTP scheme, ``password=...`` and the like, an element
of XML, a word with a digit after ``token``."""
STEMS = (
    *("@", "%40", "eyj", "bearer", "basic", "negotiate", "digest", "api", "account", "access", "shared", "private"),
    *("pass", "pswd", "pwd", "token", "secret", "jwt", "cred", "session", "cookie", "kennwort", "pw", "sig", "sas"),
    *("auth", "otp", "ntlm", "ssws", "hawk", "aws", "identified", "-u ", "jdbc"),
)
"""A text without any of these in small letters holds no credential, unless it is long."""
STEMS_OF_LONG = (
    *("hooks", "putty", "$2", "$5$", "$6$", "$apr1", "$argon2", "{sha", "{ssha", "$ansible", ":aa"),
    *map(str.casefold, PREFIXES),
)
"""Nor is one of these in it, or a seed."""
LONG = 10
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
    if len(value) <= LONG:
        return False
    for stem in STEMS_OF_LONG:
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
