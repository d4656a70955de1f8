"""Protocol packages have the same files; docs/add-a-protocol.md shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import wiredecode.protocols
from wiredecode.protocols.registry import carried_by, protocols

PACKAGES = Path(wiredecode.protocols.__path__[0])
PAGE = Path(__file__).parents[2] / "docs" / "add-a-protocol.md"
ALL = frozenset({"protocol", "names", "layers", "conversation", "messages", "problems"})
"""Modules of every protocol. A family of modules begins with one of these names: ``layers_batch``."""
CONNECTED = frozenset({"evidence"})
"""Modules of every protocol with its own connections; a carried protocol does not need them."""
FEW = frozenset({"bulk", "flows", "identity", "redaction", "wireshark"})
"""Optional modules: those that would hold a line are not there."""
SPECIAL = {"nats": frozenset({"transport"})}
"""Modules of one protocol: NATS connections may change into S2, TLS or WebSocket streams."""
FILES = frozenset({"generated.toml", "problems.toml", "wireshark.lua"})
NATIVE = frozenset({"kafka", "amqp091"})
"""Protocols that Wireshark decodes itself: there is no Lua for them."""
TABLES = {
    "kafka": frozenset({"layers.json"}),
    "amqp091": frozenset({"layers.json"}),
    "liftbridge": frozenset({"layers.proto"}),
}
"""Tables that layers are made from."""
CARRIED = frozenset(one.name for each in protocols() for one in carried_by(each.name))
NAMES = sorted({each.name for each in protocols()} | CARRIED)


def needed(name: str) -> frozenset[str]:
    return ALL if name in CARRIED else ALL | CONNECTED


@pytest.mark.parametrize("name", NAMES)
def test_every_protocol_has_the_required_modules_only(name: str) -> None:
    modules = {path.stem for path in (PACKAGES / name).glob("*.py")} - {"__init__"}
    assert needed(name) <= modules
    families = {module.partition("_")[0] for module in modules}
    assert families <= needed(name) | FEW | SPECIAL.get(name, frozenset())
    assert families <= modules, "a family has a first module that bears its name"


@pytest.mark.parametrize("name", NAMES)
def test_every_protocol_has_the_required_files(name: str) -> None:
    files = {path.name for path in (PACKAGES / name).iterdir() if path.is_file() and path.suffix != ".py"}
    assert files >= (FILES - {"wireshark.lua"} if name in NATIVE else FILES)
    others = files - FILES - TABLES.get(name, frozenset())
    assert {file.partition(".")[0].partition("_")[0] for file in others} <= {"wireshark", "names", "redaction"}


def test_packages_are_protocols() -> None:
    packages = {path.name for path in PACKAGES.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages == {*NAMES, "shared"}


FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?: .*\n|\n)+", re.MULTILINE)
IMPORT = re.compile(r"^ *from (\S+) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)


def imported(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Modules that a module imports anywhere, also late and for types; layers are made of kinds, which name them."""
    text = FOR_TYPES.sub("", path.read_text()) if path.parent.name == "fields" else path.read_text()
    for module, some, one in IMPORT.findall(text):
        for name in filter(str.strip, re.sub(r"#.*", "", some or one).split(",")):  # the last comma has none after it
            inner = f"{module}.{name.strip().partition(' ')[0]}"
            yield inner if inner in modules else module


def test_no_modules_import_each_other() -> None:
    root = PACKAGES.parent
    paths = root.rglob("*.py")
    named = ((".".join(path.relative_to(root.parent).with_suffix("").parts), path) for path in paths)
    modules = {name.removesuffix(".__init__"): path for name, path in named}
    graph = {name: set(imported(path, modules)) & modules.keys() for name, path in modules.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle
    assert sum(map(len, graph.values())) > len(graph)


def test_a_carried_protocol_does_not_import_its_carrier() -> None:
    for protocol in protocols():
        for one in carried_by(protocol.name):
            texts = [path.read_text() for path in (PACKAGES / one.name).glob("*.py")]
            assert not any(f"wiredecode.protocols.{protocol.name}" in text for text in texts)


def test_the_page_shows_every_module() -> None:
    page = PAGE.read_text()
    rows = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert rows >= ALL | CONNECTED | FEW
