"""The kinds of problems of a package: their texts are in a file ``problems.toml`` beside its modules."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, cached_property

from wiredecode.data import text_of
from wiredecode.dataclasses import dataclass, field
from wiredecode.patterns import pattern

SEVERITIES = ("error", "warning", "note")
"""The worst first."""

CAUSE, ACTION, EFFECT, REMARK = 10, 30, 50, 70
"""Ranks: what explains others; what a client or server did; its consequence; the rest."""
TABLE = pattern(r"(?m)^(?=\[)")
"""Where a table begins."""
RANKS = {"cause": CAUSE, "action": ACTION, "effect": EFFECT, "remark": REMARK}


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of problem; its page in docs/reference/findings is made of this."""

    code: str
    """``protocol.name``, or ``tcp.name``, ``capture.name`` and the like."""
    severity: str
    title: str
    """The problem, in a few words."""
    meaning: str
    causes: tuple[str, ...]
    """Usual causes, the most frequent first."""
    advice: str
    capture: str
    """The capture in ``captures/`` that shows it; empty: a test makes one."""
    otherwise: str = ""
    """When it has another severity; only its page says so."""
    rank: int = EFFECT
    """Of problems of one severity those with a lower rank come first."""
    explains: tuple[str, ...] = ()
    """Codes of problems that are consequences of this one, if they concern the same connections or server."""
    general: bool = False
    """A more exact problem with the same frames explains it, and it explains notes about them."""
    harmless: str = ""
    """Its severity if it has no consequences at its servers that are worse than a note; empty: the same."""
    before: tuple[str, ...] = ()
    """Codes of consequences that are shown by themselves, after this one, which is as severe."""
    scope: str = "connection"
    """``"server"``: it explains problems of all connections to the same servers, during its time. ``"path"``: those
    between the same hosts, during its time, and those of its connections."""
    neighbours: tuple[str, ...] = ()
    """Codes of consequences at other servers that its clients use with the same protocol, during its time."""
    after: int = 1
    """Seconds after its end within which consequences of such a server's problem begin."""
    several: str = ""
    """Title of many problems of this code as one; ``{count}`` is their number ..."""
    late: bool = False
    """... if no cause explains them: each may have its own."""
    likely: Mapping[str, str] = field(default_factory=dict)
    """Likely cause of a refusal by a word of its reason."""

    def cause_of(self, reason: str) -> str:
        """The likely cause of a refusal, in any case of letters; "" if none is known."""
        text = reason.lower()
        return next((cause for word, cause in self.likely.items() if word.lower() in text), "")


class Codes:
    """The codes of one package, by the names of their tables in ``problems.toml``: read when one is first used."""

    def __init__(self, package: str, prefix: str) -> None:
        self._package, self._prefix = package, prefix
        self._known: dict[str, Code] = {}

    @cached_property
    def _texts(self) -> dict[str, str]:
        """The text of each table, with those inside it: to read all takes 20 ms, and few are needed."""
        texts: dict[str, str] = {}
        for text in TABLE.split(text_of(self._package, "problems.toml"))[1:]:
            header = text.partition("]")[0].removeprefix("[").removesuffix(".likely").strip('"')
            texts[header] = texts.get(header, "") + text
        return texts

    def __getitem__(self, name: str) -> Code:
        code = self._known.get(name)
        if code is None:
            table = tomllib.loads(self._texts[name])[name]
            table |= {"rank": RANKS[table["rank"]], "causes": tuple(table["causes"])}
            code = self._known[name] = Code(self._prefix + name, **{"capture": "", **table})
        return code

    def __iter__(self) -> Iterator[Code]:
        return map(self.__getitem__, self._texts)


@cache
def codes_of(protocol: str) -> Codes:
    """The codes of a protocol of wiredecode."""
    return Codes(f"wiredecode.protocols.{protocol}", f"{protocol}.")
