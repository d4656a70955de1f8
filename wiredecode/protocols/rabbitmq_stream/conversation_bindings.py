"""Publisher and subscription ids of one connection, and the streams they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wiredecode.fields import printable


@dataclass(slots=True)
class Binding:
    """A publisher or subscription id: the stream it stands for, and what it was before its request is confirmed."""

    stream: str
    generated: Mapping[str, Any]
    """What frames with this id are told about it."""
    ended: bool = False
    previous: Binding | None = None


@dataclass(slots=True)
class Bindings:
    """The ids of one kind on one connection, and whether something is still to be known about unknown ones."""

    table: dict[int, Binding] = field(default_factory=dict)

    def declare(self, number: int, stream: str, reference: str = "") -> None:
        generated = {"stream": printable(stream)}
        if reference:
            generated["reference"] = printable(reference)
        self.table[number] = Binding(stream, generated, previous=self.table.get(number))

    def answer(self, number: int, accepted: bool) -> None:
        """The response to a declaration: a refused one leaves the id as it was."""
        binding = self.table.get(number)
        if binding is None:
            return
        if accepted:
            binding.previous = None
        elif binding.previous is not None:
            self.table[number] = binding.previous
        else:
            del self.table[number]

    def end(self, number: int) -> None:
        if number in self.table:
            self.table[number].ended = True

    def end_stream(self, stream: str) -> None:
        for binding in self.table.values():
            binding.ended = binding.ended or binding.stream == stream
