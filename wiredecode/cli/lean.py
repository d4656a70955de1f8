"""Leaves out imports that no command needs; they take a third of a start, and 33 MB.

Scapy's vendors of network cards and Bluetooth companies, and cryptography, take 40 ms and 25 MB; pydantic, with which
typer converts the values of options from 0.26 on, 65 ms and 8 MB.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

LISTS = {"scapy.libs.manuf": "", "scapy.libs.bluetoothids": {}}
"""Scapy's modules of lists, and ``DATA`` in each."""


class LeanScapy:
    """On ``sys.meta_path`` of a process of our own: a program that calls a command keeps its Scapy."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to import the modules of Scapy that read those lists: without them."""
        spec = PathFinder.find_spec(name, path, target) if name in RUN else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, name)
        return spec


class _Loader(Loader):
    def __init__(self, loader: Any, name: str) -> None:
        self._loader, self._run = loader, RUN[name]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        with self._run(module):
            self._loader.exec_module(module)


@contextmanager
def _stand_in(modules: dict[str, Any]) -> Iterator[None]:
    """Replace modules that were not imported yet; None: they are not installed."""
    added = {name: module for name, module in modules.items() if name not in sys.modules}
    sys.modules.update(added)
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]


@contextmanager
def _without_cryptography(module: ModuleType) -> Iterator[None]:
    with _stand_in({"cryptography": None}):
        yield


@contextmanager
def _without_lists(module: ModuleType) -> Iterator[None]:
    """Without Scapy's cache, so that no empty list gets there, and without Wireshark's list of vendors."""
    import scapy.main

    def open_others(file: str, *how: Any, **more: Any) -> Any:
        if file.endswith("manuf"):
            raise FileNotFoundError(file)
        return open(file, *how, **more)  # noqa: PTH123 - Scapy closes it

    lists = {name: ModuleType(name) for name in LISTS}
    for name, each in lists.items():
        vars(each)["DATA"] = LISTS[name]
    folder = scapy.main.SCAPY_CACHE_FOLDER
    scapy.main.SCAPY_CACHE_FOLDER = None
    vars(module)["open"] = open_others
    try:
        with _stand_in(lists):
            yield
    finally:
        del vars(module)["open"]
        scapy.main.SCAPY_CACHE_FOLDER = folder


RUN = {"scapy.config": _without_cryptography, "scapy.data": _without_lists}


class PlainValues:
    """Takes the values of options as they are, if they need no conversion; else typer converts them."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Convert ``value`` of an option or argument, ``param``; ``ctx`` is click's."""
        several, kind = param.multiple or param.nargs == -1, param.type_descriptor
        if value is None:
            return () if several else None
        if kind.parameter_info.parser is None:
            if several and kind.annotation == list[str] and isinstance(value, list | tuple):
                return [*value]
            if not several and (plain := _plain(kind, value)) is not None:
                return plain
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _plain(kind: Any, value: Any) -> Any:
    """Return the value of one word, or None if typer has to look at it."""
    type_, info = kind.annotation, kind.parameter_info
    if type(value) is type_:  # text and flags; numbers by default
        return value
    if type_ is int and isinstance(value, str) and value.isdecimal():
        number = int(value)
        return None if number < (info.min or 0) or number > (info.max or number) else number
    return value if get_origin(type_) is Literal and value in get_args(type_) else None


def plainly(parameters: list[Any]) -> list[Any]:
    """Return parameters that take plain values as they are."""
    for parameter in parameters:
        parameter._runtime_param = PLAIN  # an older typer, without pydantic, does not look at it
    return parameters


PLAIN = PlainValues()
