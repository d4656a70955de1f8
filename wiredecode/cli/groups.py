"""Options that are declared once: a dataclass holds them, and commands take it as one parameter."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from typer.models import ParameterInfo

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def group(cls: type[T]) -> type[T]:
    """A class whose fields are options, declared as the parameters of a typer command.

    A field whose type is a group brings its options. What follows from the options are properties.
    """
    declared = {name: value for name, value in vars(cls).items() if isinstance(value, ParameterInfo)}
    for name, info in declared.items():
        if info.default is ...:
            delattr(cls, name)
        else:
            setattr(cls, name, info.default)
    cls.declared = {**getattr(cls, "declared", {}), **declared}  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)


def with_groups(command: Callable[..., int]) -> Callable[..., int]:
    """``command`` as typer takes it: instead of a parameter that is a group it has a parameter per option."""
    options = _options(command)

    @functools.wraps(command)
    def run(**values: Any) -> int:
        code: int = _call(command, values)
        return code

    run.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: option.annotation for name, option in options.items()}
    return run


@functools.cache
def _kinds(of: Callable[..., Any]) -> dict[str, Any]:
    """The types of the parameters of a command or a group."""
    hints = get_type_hints(of, include_extras=True)
    return {name: hints[name] for name in inspect.signature(of).parameters}


def _options(of: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The options of a command or a group, by name: what two groups ask for is one option."""
    kinds, declared = _kinds(of), getattr(of, "declared", {})
    found: dict[str, inspect.Parameter] = {}
    for name, given in inspect.signature(of).parameters.items():
        if is_dataclass(kinds[name]):
            found |= _options(kinds[name])
        else:
            default = declared.get(name, given.default)
            found[name] = given.replace(kind=given.KEYWORD_ONLY, default=default, annotation=kinds[name])
    return found


def _call(of: Callable[..., Any], values: dict[str, Any]) -> Any:
    """Call a command or make a group, with the groups that it asks for."""
    kinds = _kinds(of)
    return of(**{name: _call(kinds[name], values) if is_dataclass(kinds[name]) else values[name] for name in kinds})
