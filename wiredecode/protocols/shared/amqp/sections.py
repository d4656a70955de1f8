"""The sections of an AMQP 1.0 message and their valid order (OASIS AMQP 1.0 part 3, section
3.2)."""

from __future__ import annotations

from dataclasses import dataclass

from wiredecode.protocols.shared.amqp.constructors import CONSTRUCTORS

BODY = 5
"""Rank of the three kinds of body."""


@dataclass(frozen=True, slots=True)
class Section:
    """One kind of section. ``codes``: constructors its value may have; ``fields``: names of a list's
    items."""

    descriptor: int
    name: str
    symbol: str
    rank: int
    codes: frozenset[int]
    type: str
    """What it is in records, in a word or two."""
    fields: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    """Whether it may follow that section (None: at the start)."""
    repeats: bool = False

    def follows(self, previous: Section | None) -> bool:
        """Whether it may follow that section (None: at the start)."""
        return previous is None or self.rank > previous.rank or (self.repeats and previous is self)


def _section(descriptor: int, rank: int, name: str, type_: str, fields: str = "", repeats: bool = False) -> Section:
    spelled = {"sequence": "amqp-sequence", "value": "amqp-value"}.get(name, name.replace("_", "-"))
    codes = frozenset(row.code for row in CONSTRUCTORS if row and type_ in ("*", row.type))
    shown = {"list": "structure" if fields else "array of arrays", "binary": "array of bytes", "*": "any"}
    named = [each.partition(":") for each in fields.split()]
    names, types = tuple(name for name, _, _ in named), tuple(said or "string" for _, _, said in named)
    return Section(
        descriptor, name, f"amqp:{spelled}:{type_}", rank, codes, shown.get(type_, type_), names, types, repeats
    )


SECTIONS: tuple[Section, ...] = (
    _section(
        0x70, 0, "header", "list",
        "durable:boolean priority:uint8 ttl:uint32 first_acquirer:boolean delivery_count:uint32",
    ),
    _section(0x71, 1, "delivery_annotations", "map"),
    _section(0x72, 2, "message_annotations", "map"),
    _section(
        0x73, 3, "properties", "list",
        "message_id:any user_id:bytes to subject reply_to correlation_id:any content_type content_encoding"
        " absolute_expiry_time:timestamp creation_time:timestamp group_id group_sequence:uint32 reply_to_group_id",
    ),
    _section(0x74, 4, "application_properties", "map"),
    _section(0x75, BODY, "data", "binary", repeats=True),
    _section(0x76, BODY, "sequence", "list", repeats=True),
    _section(0x77, BODY, "value", "*"),
    _section(0x78, 6, "footer", "map"),
)  # fmt: skip

BY_DESCRIPTOR: dict[int | str, Section] = {
    key: section for section in SECTIONS for key in (section.descriptor, section.symbol)
}


def field_name(section: Section, index: int) -> str:
    """Name of a list item; items beyond the standard's are kept as ``field_N``."""
    return section.fields[index] if index < len(section.fields) else f"field_{index}"
