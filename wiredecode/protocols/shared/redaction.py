"""Rules of a protocol for ``wiredecode anonymize``: which texts are its own, and which values must be recomputed."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields.layer import Layer
from wiredecode.protocols.shared.data import data_of, words

Seal = Callable[[Layer, bytes, bytearray], None]
"""``(layer as it was, its bytes, the new ones)``: make checksums right that were right before. Ranges of the layer
are places in both."""
NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Rules:
    """Fields by their names (``value``), or with the structure around them (``properties.value``).

    Texts that no rule mentions are names; other bytes are bodies.
    """

    kept: frozenset[str] = NONE
    """Texts that belong to the protocol: verbs, reasons, versions. If names are replaced, only their ``words`` stay."""
    hosts: frozenset[str] = NONE
    """Host names: always replaced, as addresses are."""
    names: frozenset[str] = NONE
    """Bytes that are names."""
    bodies: frozenset[str] = NONE
    """Texts that are bodies."""
    json: frozenset[str] = NONE
    """Texts that are JSON: numbers stay."""
    texts: frozenset[str] = NONE
    """Bytes in which the protocol reads words: only their words are replaced, even if they are bodies."""
    parts: Mapping[str, Callable[[bytes], Iterable[tuple[int, int, bool]]]] = field(default_factory=dict)
    """Bytes that hold fields of their own: first byte of each, byte after its last, and whether it is a text."""
    compressed: Callable[[Layer, str], bool] = lambda layer, name: False
    """Whether a field of a structure holds compressed bytes."""
    encrypted: bool = False
    """Nothing of it but numbers is readable: everything else is blanked."""
    blanked: frozenset[str] = NONE
    """Fields that are always blanked completely."""
    addresses: frozenset[str] = NONE
    """Fields that begin with an IPv4 address in four bytes."""
    words: frozenset[str] = NONE
    """Parts of names that mean something to the protocol: they stay. Parts are runs of letters and digits."""
    digits: bool = False
    """Parts that are numbers stay, however long."""
    seals: tuple[Seal, ...] = ()

    def among(self, which: frozenset[str], path: tuple[str, ...]) -> bool:
        """Whether a field is in one of the sets above."""
        return path[-1] in which or ".".join(path[-2:]) in which


Disguises = Mapping[str, Rules]
"""By filter name of the layer."""


def read_rules(package: str, **more: Mapping[str, Any]) -> dict[str, Rules]:
    """The rules in ``redaction.toml`` of a package of protocols, sets as words; ``more``: what else rules have."""
    by_protocol = {}
    for name, table in data_of(package, "redaction.toml").items():
        rules = {key: words(value) if isinstance(value, str) else value for key, value in table.items()}
        by_protocol[name] = Rules(**{**rules, **more.get(name, {})})
    return by_protocol
