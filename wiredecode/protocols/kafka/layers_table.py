"""The table of messages and errors, ``layers.json``, which docs/make_kafka.py makes.

A message, which may come in several blocks of versions, lists its fields: name, type, first and last version, then what
else there is: versions in which it can be ``null``, its ``tag``, versions in which it is ``tagged``, inner ``fields``.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from wiredecode.dataclasses import dataclass

TABLE: Any = orjson.loads(Path(__file__).with_name("layers.json").read_bytes())
ERRORS: dict[int, str] = {int(code): name for code, name in TABLE["errors"].items()}
NEVER = (0, -1)

Layout = tuple[bool, tuple["Part", ...]]
"""Whether a structure is flexible, and its fields, in one version."""
Part = tuple[str, str, bool, bool, int | None, Layout | None]
"""Name, type, whether it is an array, can be null; its tag; layout of its structure."""


def layout(fields: Iterable[Any], version: int, flexible: bool) -> Layout:
    """Fields as they are in one version."""
    there = [each for each in fields if each[2] <= version <= each[3]]
    return flexible, tuple(part(version, flexible, name, kind, *more) for name, kind, _, _, *more in there)


def part(version: int, flexible: bool, name: str, kind: str, more: Mapping[str, Any] | None = None) -> Part:
    """A field as it is in one version."""
    more = more or {}
    null, tagged = more.get("null", NEVER), more.get("tagged", NEVER)
    inner = layout(more["fields"], version, flexible) if "fields" in more else None
    tag = more["tag"] if tagged[0] <= version <= tagged[1] else None
    return name, kind.removeprefix("[]"), kind.startswith("[]"), null[0] <= version <= null[1], tag, inner


@dataclass
class VersionedMessage:
    """A message in all its versions."""

    key: int
    """Number of its API, of keys and values in records that of their type; -1 of other messages inside fields."""
    name: str
    blocks: list[Mapping[str, Any]]

    @property
    def versions(self) -> tuple[int, int]:
        """The first and the last one."""
        return self.blocks[0]["versions"][0], self.blocks[-1]["versions"][1]

    def layout(self, version: int) -> Layout:
        block = next(each for each in self.blocks if each["versions"][0] <= version <= each["versions"][1])
        return layout(block["fields"], version, block["flexible"] is not None and version >= block["flexible"])


MESSAGES: dict[str, VersionedMessage] = {}
for each in TABLE["messages"]:
    MESSAGES.setdefault(each["name"], VersionedMessage(each["key"], each["name"], [])).blocks.append(each)

REQUESTS, RESPONSES = (
    {each.key: each for name, each in MESSAGES.items() if each.key >= 0 and name.endswith(ending)}
    for ending in ("Request", "Response")
)
"""By the number of their API."""
APIS = {key: message.name.removesuffix("Request") for key, message in sorted(REQUESTS.items())}
STATES = [(message.key, name.removesuffix("Key")) for name, message in MESSAGES.items() if name.endswith("Key")]
"""Types of the records in which coordinators keep groups and transactions, and their names; two have the same type."""
