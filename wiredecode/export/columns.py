"""Columns that were asked for by name: checking the names, and picking them from records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wiredecode.frames.columns import KEYS
from wiredecode.protocols.catalogue import known_columns

Record = dict[str, Any]
Tree = dict[str, Any]
"""A tree of names: each leads to a Wanted or None."""


def checked(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """The columns of records of these names. Raises :class:`UnknownColumn`."""
    return known_columns(names, known, f"; there is {', '.join(KEYS)}")


def record_columns() -> list[str]:
    """Every column that records can have: their keys, and below ``layers`` the fields of all protocols."""
    from wiredecode.protocols.catalogue import catalogue, generated_entries
    from wiredecode.protocols.registry import protocols

    layers = [layer for protocol in protocols() for layer in protocol.layers()]
    fields = [entry.name for entry in (*catalogue(layers), *generated_entries(protocols()))]
    tops = dict.fromkeys(name.split(".")[0] for name in fields)
    return [*KEYS, *(f"layers.{name}" for name in (*tops, *fields))]


def picker(names: Sequence[str]) -> Callable[[Record], Record]:
    """What picks columns from a record: the same record with these keys only, in the order asked for.

    ``layers.rabbitmq_stream.stream`` keeps its place below ``layers``; names reach through arrays into their elements.
    Fields that a frame does not have are left out, as they are in the record.
    """
    wanted: Tree = {}
    for name in names:
        _add(wanted, name.split("."))
    return lambda record: _pick(record, wanted)


def _add(tree: Tree, path: list[str]) -> None:
    """Add a path; None stands for everything below a name."""
    *front, last = path
    for step in front:
        below = tree.setdefault(step, {})
        if below is None:
            return
        tree = below
    tree[last] = None


def _pick(value: Any, wanted: Tree | None) -> Any:
    if wanted is None:
        return value
    if isinstance(value, list):
        return [_pick(element, wanted) for element in value]
    if not isinstance(value, dict):
        return value
    return {name: _pick(value[name], below) for name, below in wanted.items() if name in value}
