"""Maps: names and typed values in the bytes of one field, maps and arrays among these, in any encoding."""

from collections.abc import Iterator
from typing import Any

from wiredecode.fields.layer import Range, Style
from wiredecode.fields.numbers import UInt32
from wiredecode.fields.sized import Binary, everything, mask


class Map(Binary):
    """Base of maps. A value is the bytes; records show an object, columns JSON, filters have names of all keys.

    An encoding defines the four methods, of which the last two are called with bytes that have no :meth:`problem`.
    """

    column = "json"

    def __init__(self, name: str, doc: str = "", **kw: Any) -> None:
        kw.setdefault("length", UInt32)
        super().__init__(name, doc, inner=self._show, credentials=self._hidden, **kw)

    def read_map(self, raw: bytes, style: Style) -> dict[str, Any] | None:
        """The values by name, JSON-ready, credentials hidden as the style says; None: the bytes are no map."""
        raise NotImplementedError

    def problem(self, raw: bytes) -> str:
        """Why bytes are no map; "" if they are one."""
        raise NotImplementedError

    def secrets(self, raw: bytes) -> Iterator[Range]:
        """The bytes of each credential."""
        raise NotImplementedError

    def entries(self, raw: bytes) -> Iterator[tuple[str, Range]]:
        """Path (``table.a[0]``) and bytes, name included, of each entry; of those inside after the outer one."""
        raise NotImplementedError

    def spans(self, raw: bytes, base: int = 0) -> dict[str, Range]:
        """Bytes of all entries by path, from ``base`` on, where the map begins; none of bytes that are no map."""
        entries = () if self.problem(raw) else self.entries(raw)
        return {path: (base + first, base + last) for path, (first, last) in entries}

    def readable(self, value: Any) -> str:
        shown = self.read_map(value, Style()) if value else None
        return super().readable(value) if shown is None else str(shown)

    def _show(self, raw: bytes, style: Style, record: dict[str, Any]) -> dict[str, Any] | None:
        shown = self.read_map(raw, style)
        return mask(raw, style, record) if shown is None else {self.name: shown}  # no map: it may hold anything

    def _hidden(self, raw: bytes) -> list[Range]:
        return everything(raw) if self.problem(raw) else [*self.secrets(raw)]
