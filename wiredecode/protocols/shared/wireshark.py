"""What protocols need to say how Wireshark reads them; :meth:`Protocol.wireshark` imports it late."""

from __future__ import annotations

from pathlib import Path


def source_beside(module: str, part: str = "") -> str:
    """The Lua of a protocol, which stands beside its module; ``part`` is the end of the name of a further file."""
    path = Path(module)
    return path.with_name(f"{path.stem}{part}.lua").read_text()
