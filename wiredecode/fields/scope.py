"""What the emitter knows of the structure whose code it writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from wiredecode.fields.bits import Bits
from wiredecode.fields.composition import Array, Optional, plain
from wiredecode.fields.layer import Layer
from wiredecode.fields.sized import Sized


@dataclass
class Scope:
    """One structure while its code is generated: the dict that holds it and what is known of its fields."""

    layer: type[Layer]
    target: str
    prefix: str
    """Variable that holds the path of this structure, in the careful decoder."""
    created: bool = False
    pending: list[tuple[str, str]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    presences: dict[str, str] = field(default_factory=dict)
    reaches: dict[str, str] = field(default_factory=dict)
    """Variables of where the bytes end that a length counts, see :func:`wiredecode.fields.presence`."""
    line: Any = None
    """The line of text being read, see :mod:`wiredecode.fields.textfields`."""

    @cached_property
    def needed(self) -> set[str]:
        """Fields that other fields of the layer refer to."""
        names: set[str] = set()
        for kind in self.layer.fields_desc:
            inner = plain(kind)
            if isinstance(kind, Optional):
                names |= kind.when.fields
            if isinstance(inner, Array):
                names.update(name for name in (inner.count, inner.size) if isinstance(name, str))
            if isinstance(inner, Sized) and isinstance(inner.length, str):
                names.add(inner.length)
        bits = [kind for kind in self.layer.fields_desc if isinstance(kind, Bits)]
        return names.union(kind.group[0].name for kind in bits if kind.name in names or kind.name in self.layer.row)

    @cached_property
    def asked(self) -> set[str]:
        """Optional fields whose presence others ask for."""
        names = {name for kind in self.layer.fields_desc if isinstance(kind, Optional) for name in kind.when.names()}
        return names.union(*(plain(kind).asks for kind in self.layer.fields_desc))

    @cached_property
    def measured(self) -> set[str]:
        """Lengths of which conditions ask what is left."""
        return {name for kind in self.layer.fields_desc if isinstance(kind, Optional) for name in kind.when.measured}
