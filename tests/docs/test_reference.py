"""The generated parts of the documentation are current."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import Meter

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


@cache
def pages() -> dict[Path, str]:
    return dict(script("make_reference").pages())


def test_every_protocol_has_pages_and_the_reference_is_current() -> None:
    names = {one.NAME for one in BUILT_IN} | {"liftbridge"}
    assert {path.stem for path in (DOCS / "protocols").iterdir()} == names
    assert {path.stem for path in pages()} == names | {"filters", "index", "limits", "metrics", "tables"}
    for path, text in pages().items():
        assert path.read_text() == text, "run: python docs/make_reference.py"


def test_the_page_of_metrics_lists_all_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = {"wiredecode.request.duration", "messaging.client.operation.duration"}  # of readers
    for kind in ("counter", "gauge"):
        create = getattr(Meter, f"create_observable_{kind}")

        def record(self: Meter, name: str, *rest: Any, create: Any = create) -> Any:
            declared.add(name)
            return create(self, name, *rest)

        monkeypatch.setattr(Meter, f"create_observable_{kind}", record)
    page = "\n".join(script("make_reference").metrics())
    assert len(declared) > 20
    assert [name for name in sorted(declared) if f"`{name.replace('.', '_')}" not in page] == []
    assert page.count("\n| `") == len(declared)


def test_the_reference_has_no_stale_page() -> None:
    made = {path.name for path in pages()} | {"commands.md", "keys.md", "measurements.md"}
    assert {path.name for path in (DOCS / "reference").glob("*.md")} == made


@pytest.mark.parametrize("package", BUILT_IN, ids=lambda package: package.NAME)
def test_name_and_ports_of_a_protocol_match_its_package(package: ModuleType) -> None:
    protocol = registry.by_name(package.NAME)
    assert protocol is not None
    assert package.__name__ == f"wiredecode.protocols.{package.NAME}"
    assert (protocol.name, protocol.ports) == (package.NAME, package.PORTS)
