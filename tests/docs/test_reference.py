"""The generated parts of the documentation are current."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from wiredecode.protocols import registry
from wiredecode.protocols.registry import BUILT_IN

DOCS = Path(__file__).parent.parent.parent / "docs"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_protocol_has_a_page_and_it_is_current() -> None:
    pages = dict(script("make_reference").pages())
    assert {path.stem for path in pages} == {name for name, _, _ in BUILT_IN} | {"liftbridge"}
    for path, text in pages.items():
        assert path.read_text() == text, "run: python docs/make_reference.py"


@pytest.mark.parametrize(("name", "_cls", "ports"), BUILT_IN)
def test_the_registry_tells_the_ports_that_the_protocol_has(name: str, _cls: str, ports: tuple[int, ...]) -> None:
    protocol = registry.by_name(name)
    assert protocol is not None
    assert protocol.name == name
    assert protocol.ports == ports
