"""A search for a class finds one class."""

from __future__ import annotations

import ast
from collections import defaultdict
from importlib import import_module
from pathlib import Path

from scapy.fields import Field
from scapy.packet import Packet

import wiredecode

ROOT = Path(wiredecode.__file__).parent


def test_class_names_are_unique() -> None:
    """But for declarations, which specifications name: layers, and kinds of fields such as protobuf's Int32."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        classes = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
        place = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
        declares = classes and ("protocols" in path.parts or "fields" in path.parts)
        module = import_module(place) if declares else None
        for name in classes:
            if not issubclass(getattr(module, name, object), Packet | Field):
                places[name].append(place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
