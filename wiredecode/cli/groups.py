"""Options that are listed once: a dataclass declares them, commands take it as one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, TypeVar, dataclass_transform, get_type_hints

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def group(cls: type[T]) -> type[T]:
    """A class whose fields are options: ``Annotated`` types and defaults, as typer takes them for parameters.

    A field whose type is a group brings its options. What follows from the options are properties.
    """
    return dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)


def with_groups(command: Callable[..., int]) -> Callable[..., int]:
    """``command`` as typer takes it: instead of a parameter that is a group it has a parameter per option."""
    kinds = get_type_hints(command, include_extras=True)
    given = inspect.signature(command).parameters
    found: dict[str, inspect.Parameter] = {}
    """By name: what two groups ask for is one option."""
    for name, parameter in given.items():
        own = [parameter.replace(annotation=kinds[name])]
        found |= {each.name: each for each in (_options(kinds[name]) if is_dataclass(kinds[name]) else own)}
    options = list(found.values())

    @functools.wraps(command)
    def run(**values: Any) -> int:
        made = {name: _made(kinds[name], values) for name in given if is_dataclass(kinds[name])}
        return command(**{name: value for name, value in values.items() if name in given}, **made)

    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    )
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def _options(kind: Any) -> Iterator[inspect.Parameter]:
    kinds = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        if is_dataclass(kinds[field.name]):
            yield from _options(kinds[field.name])
            continue
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kinds[field.name]
        )


def _made(kind: Any, values: dict[str, Any]) -> Any:
    kinds = get_type_hints(kind, include_extras=True)
    return kind(
        **{
            field.name: _made(kinds[field.name], values) if is_dataclass(kinds[field.name]) else values[field.name]
            for field in fields(kind)
        }
    )
