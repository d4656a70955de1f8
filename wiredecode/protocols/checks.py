"""What protocols offer to those that judge and measure (:class:`~wiredecode.protocols.shared.problems.Checks`)."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import ClassVar, Protocol, TypeVar

from wiredecode.protocols.registry import carried_by, protocol_named, protocols
from wiredecode.protocols.shared.problems import Checks

T = TypeVar("T")
NO_CHECKS = Checks()


class FrameReader(Protocol):
    """A gauge, a reader of flows, and the like."""

    types: ClassVar[frozenset[str]]
    """Message types that it reads."""


R = TypeVar("R", bound=FrameReader)


@cache
def checks_of(name: str) -> Checks:
    """The checks of a protocol, which is imported for that, or of one that another carries; empty if it has none."""
    protocol = protocol_named(name)
    return (None if protocol is None else protocol.checks()) or NO_CHECKS


class ByProtocol(dict[str, T]):
    """Result of ``make`` for the checks of a protocol, which is imported at first use."""

    def __init__(self, make: Callable[[Checks], T]) -> None:
        self._make = make

    def __missing__(self, name: str) -> T:
        made = self[name] = self._make(checks_of(name))
        return made


def by_type(kinds: Iterable[Callable[[], R]]) -> dict[str | None, list[R]]:
    """New readers, by the types of frames that they read."""
    readers: dict[str | None, list[R]] = {}
    for reader in (kind() for kind in kinds):
        for each in reader.types:
            readers.setdefault(each, []).append(reader)
    return readers


def offers() -> Iterator[tuple[str, Checks]]:
    """Return the checks of every protocol, by name; those that another one carries too."""
    for protocol in protocols():
        names = protocol.name, *(carried.name for carried in carried_by(protocol.name))
        yield from ((name, checks_of(name)) for name in names)
