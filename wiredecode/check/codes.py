"""The codes of problems that any protocol can have, and the codes of all protocols."""

from wiredecode.protocols.checks import offers
from wiredecode.protocols.shared.codes import Code, Codes

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


def codes() -> tuple[Code, ...]:
    """All codes."""
    return (*CODES, *(code for _, offered in offers() for code in offered.codes))
