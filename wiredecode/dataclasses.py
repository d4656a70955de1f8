"""Dataclasses as in the standard library, made faster: ``from wiredecode.dataclasses import dataclass, field``.

The standard library compiles six functions for a frozen class, and commands import a hundred classes: that was a sixth
of their start. Here only ``__init__`` is compiled. mypy finds assignments to ``frozen`` classes, nothing prevents them
at run time; so their instances are made in half the time, too.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import asdict as asdict
from dataclasses import field as field
from dataclasses import fields as fields
from dataclasses import is_dataclass as is_dataclass
from dataclasses import replace as replace
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform, overload

T = TypeVar("T")


class Lazy:
    """Base of classes whose attributes ``made`` are made when they are first read: most objects never need them."""

    __slots__ = ()
    made: ClassVar[Mapping[str, Callable[[], Any]]] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            make = self.made.get(name)
            if make is None:
                raise AttributeError(f"{type(self).__name__} has no attribute {name}")
            value = make()
            setattr(self, name, value)
            return value


@overload
def dataclass(cls: type[T], /) -> type[T]: ...


@overload
def dataclass(
    *, frozen: bool = ..., eq: bool = ..., repr: bool = ..., slots: bool = ..., kw_only: bool = ...
) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(field_specifiers=(dataclasses.Field, field))
def dataclass(
    cls: Any = None,
    /,
    *,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,  # noqa: A002 - as in the standard library
    slots: bool = False,
    kw_only: bool = False,
) -> Any:
    """Class decorator with these parameters of ``dataclasses.dataclass``."""

    def decorate(cls: Any) -> Any:
        own = vars(cls)
        made: Any = dataclasses.dataclass(repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
        if repr and "__repr__" not in own:
            made.__repr__ = _repr(tuple(each.name for each in fields(made) if each.repr))
        if eq:
            made.__eq__, by_value = _comparison(tuple(each.name for each in fields(made) if each.compare))
            if "__hash__" not in own:
                made.__hash__ = by_value if frozen else None
        return made

    return decorate if cls is None else decorate(cls)


def _repr(names: tuple[str, ...]) -> Callable[[object], str]:
    def __repr__(self: object) -> str:  # noqa: N807 - a method
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return recursive_repr()(__repr__)


def _comparison(names: tuple[str, ...]) -> tuple[Callable[[object, object], bool], Callable[[object], int]]:
    values = attrgetter(*names) if names else type

    def __eq__(self: object, other: object) -> bool:  # noqa: N807 - a method
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def __hash__(self: object) -> int:  # noqa: N807 - a method
        return hash(values(self))

    return __eq__, __hash__
