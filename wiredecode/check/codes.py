"""The codes of problems that any protocol can have, and the codes of all protocols."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeVar

from wiredecode.protocols.registry import carried_by, protocol_named, protocols
from wiredecode.protocols.shared.codes import Code, Codes
from wiredecode.protocols.shared.problems import Checks

T = TypeVar("T")
CODES = Codes("wiredecode.check", "")
EXACT = {
    "codec-missing": "frame.codec-missing",
    "status": "frame.status",
    **dict.fromkeys(
        ("unknown-version", "unknown-command", "unknown-message", "unknown-type", "versions"), "frame.version"
    ),
    **dict.fromkeys(("frame-max", "max-payload"), "frame.too-large"),
}
"""By code of findings, in any group."""
_SAME = ("malformed", "checksum", "sequence", "security", "tls", "limit", "protocol")
GROUPS = {"response": "frame.refused", **{group: f"frame.{group}" for group in _SAME}}
"""By group of findings."""


def code_of(code: str, group: str) -> Code:
    """The kind of problem that a finding of this code and group is."""
    return CODES[EXACT.get(code) or GROUPS.get(group, "frame.other")]


@cache
def checks_of(name: str) -> Checks | None:
    """The checks of a protocol, which is imported for that, or of one that another carries."""
    protocol = protocol_named(name)
    return None if protocol is None else protocol.checks()


class ByProtocol(dict[str, T]):
    """Result of ``make`` for the checks of a protocol, which is imported at first use."""

    def __init__(self, make: Callable[[Checks], T]) -> None:
        self._make = make

    def __missing__(self, name: str) -> T:
        made = self[name] = self._make(checks_of(name) or Checks())
        return made


def offers() -> Iterator[tuple[str, Checks]]:
    """Return the checks of every protocol, by name; those that another one carries too."""
    for protocol in protocols():
        offered = {protocol.name: protocol.checks()}
        offered |= {carried.name: carried.checks() for carried in carried_by(protocol.name)}
        yield from ((name, checks) for name, checks in offered.items() if checks is not None)


def codes() -> tuple[Code, ...]:
    """All codes."""
    return (*CODES, *(code for _, offered in offers() for code in offered.codes))
