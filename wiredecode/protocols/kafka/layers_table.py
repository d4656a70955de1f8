"""The table of messages, ``layers.txt``: each block is read when its message is first met."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

LAST = 32767
Span = tuple[int, int]
Layout = tuple[bool, tuple["Part", ...]]
"""Whether a structure is flexible, and its fields, in one version."""
Part = tuple[str, str, bool, bool, int | None, Layout | None]
"""Name, type, whether it is an array, can be null; its tag; layout of its structure."""


def span(text: str) -> Span:
    """First and last version."""
    first, _, last = text.rstrip("+").partition("-")
    return int(first), LAST if text.endswith("+") else int(last or first)


@dataclass
class Field:
    """A field in all versions of its message."""

    name: str
    type: str
    versions: Span
    null: Span = (0, -1)
    tag: int = -1
    tagged: Span = (0, -1)
    fields: tuple[Field, ...] = ()

    @classmethod
    def parse(cls, line: str, fields: tuple[Field, ...]) -> Field:
        name, kind, versions, *more = line.split()
        found = cls(name, kind, span(versions), fields=fields)
        for word in more:
            if word.startswith("?"):
                found.null = span(word[1:])
            else:
                tag, _, versions = word.removeprefix("#").partition(",")
                found.tag, found.tagged = int(tag), span(versions)
        return found

    def part(self, version: int, flexible: bool) -> Part:
        kind = self.type.removeprefix("[]")
        tag = self.tag if self.tagged[0] <= version <= self.tagged[1] else None
        inner = layout(self.fields, version, flexible) if kind == "struct" else None
        null = self.null[0] <= version <= self.null[1]
        return self.name, kind, kind != self.type, null, tag, inner


def layout(fields: tuple[Field, ...], version: int, flexible: bool) -> Layout:
    """Fields as they are in one version."""
    there = (each for each in fields if each.versions[0] <= version <= each.versions[1])
    return flexible, tuple(each.part(version, flexible) for each in there)


def parsed(lines: list[str], start: int = 0, depth: int = 1) -> tuple[tuple[Field, ...], int]:
    """Fields of one structure; the place of the next line that is not among them."""
    found: list[Field] = []
    while start < len(lines):
        line = lines[start]
        indent = len(line) - len(line.lstrip())
        if indent < depth:
            break
        inner, following = parsed(lines, start + 1, depth + 1)
        found.append(Field.parse(line, inner))
        start = following
    return tuple(found), start


@dataclass
class Block:
    """Some versions of a message."""

    name: str
    versions: Span
    flexible: int
    lines: list[str]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return parsed(self.lines)[0]

    def layout(self, version: int) -> Layout:
        return layout(self.fields, version, version >= self.flexible)


@dataclass
class Message:
    """A message in all its versions."""

    key: int
    """Number of its API; -1 of messages inside fields."""
    name: str
    blocks: list[Block]

    @property
    def versions(self) -> Span:
        return min(block.versions[0] for block in self.blocks), max(block.versions[1] for block in self.blocks)

    def layout(self, version: int) -> Layout:
        return next(each for each in self.blocks if each.versions[0] <= version <= each.versions[1]).layout(version)


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
            block = Block(name, span(versions), LAST + 1 if flexible == "none" else int(flexible), lines)
            message = MESSAGES.setdefault(name, Message(-1 if key == "-" else int(key), name, []))
            message.blocks.append(block)


_load()


def by_key(ending: str) -> dict[int, Message]:
    """The requests or responses, by the number of their API."""
    return {each.key: each for each in MESSAGES.values() if each.key >= 0 and each.name.endswith(ending)}


REQUESTS, RESPONSES = by_key("Request"), by_key("Response")
APIS = {key: message.name.removesuffix("Request") for key, message in sorted(REQUESTS.items())}
