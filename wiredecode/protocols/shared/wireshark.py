"""Parts with which protocols describe their Lua for Wireshark; :meth:`Protocol.wireshark` imports it late."""

from collections.abc import Mapping
from pathlib import Path

from wiredecode.protocols.base import Generated

TYPES = {"json": "string", "struct": "none", "binary": "bytes"}


def source_beside(module: str, part: str = "") -> str:
    """The Lua of a protocol, which is beside its module; ``part`` is the end of the name of a further file."""
    path = Path(module)
    return path.with_name(f"{path.stem}{part}.lua").read_text()


def ftype(column: str) -> str:
    """The type in Wireshark of a column."""
    column = column.removeprefix("list<").removesuffix(">")
    return TYPES.get(column, column)


def generated_types(generated: Mapping[str, Generated], *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Generated fields with their types in Wireshark, but those whose names end ``without``: Lua cannot know them."""
    shown = {name: field.column for name, field in generated.items() if field.column != "-"}
    return {name: ftype(column) for name, column in shown.items() if not name.endswith(without)}
