"""The table of messages, ``layers.txt``: each block is read when its message is first met."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

LAST = 32767
Layout = tuple[bool, tuple["Part", ...]]
"""Whether a structure is flexible, and its fields, in one version."""
Part = tuple[str, str, bool, bool, int | None, Layout | None]
"""Name, type, whether it is an array, can be null; its tag; layout of its structure."""


def span(text: str) -> range:
    """Versions, spelled as ``3``, ``3-5`` or ``3+``; none if it is empty."""
    first, _, last = text.rstrip("+").partition("-")
    return range(int(first), (LAST if text.endswith("+") else int(last or first)) + 1) if text else range(0)


class Field(NamedTuple):
    """A field in all versions of its message."""

    name: str
    type: str
    versions: range
    null: range
    tag: int
    tagged: range
    fields: tuple[Field, ...]

    def part(self, version: int, flexible: bool) -> Part:
        kind = self.type.removeprefix("[]")
        inner = layout(self.fields, version, flexible) if kind == "struct" else None
        tag = self.tag if version in self.tagged else None
        return self.name, kind, kind != self.type, version in self.null, tag, inner


def layout(fields: tuple[Field, ...], version: int, flexible: bool) -> Layout:
    """Fields as they are in one version."""
    return flexible, tuple(each.part(version, flexible) for each in fields if version in each.versions)


def parsed(lines: list[str], depth: int = 1) -> tuple[Field, ...]:
    """The fields of one structure, which are taken from the front of ``lines``."""
    found: list[Field] = []
    while lines and lines[0].startswith(" " * depth):
        name, kind, versions, *more = lines.pop(0).split()
        words = {word[0]: word[1:] for word in more}
        tag, _, tagged = words.get("#", "-1,").partition(",")
        inner = parsed(lines, depth + 1)
        found.append(Field(name, kind, span(versions), span(words.get("?", "")), int(tag), span(tagged), inner))
    return tuple(found)


@dataclass
class Block:
    """Some versions of a message."""

    versions: range
    flexible: range
    lines: list[str]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return parsed(self.lines)


@dataclass
class Message:
    """A message in all its versions."""

    key: int
    """Number of its API; -1 of messages inside fields."""
    name: str
    blocks: list[Block]

    @property
    def versions(self) -> tuple[int, int]:
        """The first and the last one."""
        return min(block.versions[0] for block in self.blocks), max(block.versions[-1] for block in self.blocks)

    def layout(self, version: int) -> Layout:
        block = next(each for each in self.blocks if version in each.versions)
        return layout(block.fields, version, version in block.flexible)


ERRORS: dict[int, str] = {}
MESSAGES: dict[str, Message] = {}


def _load() -> None:
    lines: list[str] = []
    for line in Path(__file__).with_name("layers.txt").read_text().splitlines():
        if line.startswith(" "):
            lines.append(line)
        elif line.startswith("error "):
            _, code, name = line.split()
            ERRORS[int(code)] = name
        elif not line.startswith("#"):
            key, name, versions, flexible = line.split()
            lines = []
            message = MESSAGES.setdefault(name, Message(-1 if key == "-" else int(key), name, []))
            message.blocks.append(Block(span(versions), span("" if flexible == "none" else f"{flexible}+"), lines))


_load()


def by_key(ending: str) -> dict[int, Message]:
    """The requests or responses, by the number of their API."""
    return {each.key: each for each in MESSAGES.values() if each.key >= 0 and each.name.endswith(ending)}


REQUESTS, RESPONSES = by_key("Request"), by_key("Response")
APIS = {key: message.name.removesuffix("Request") for key, message in sorted(REQUESTS.items())}
