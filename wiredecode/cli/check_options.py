"""Options of ``wiredecode check``, and the severities that they choose."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.capturing import FilesOrLive

if TYPE_CHECKING:
    from wiredecode.check.verdict import CheckVerdict

Severity = Literal["error", "warning", "note"]
SEVERITIES = ("error", "warning", "note")


@options.group
class CheckOptions(FilesOrLive):
    """Options: the source, the choice and form of problems, and the exit code."""

    connection: int | None = Option(
        None, "-n", "--connection", min=1, metavar="N", help="Only problems of the connection with this number."
    )
    display_filter: options.CheckFilter = None
    severity: Severity = Option("warning", help="The least severity that is shown.")
    fail_on: Literal["error", "warning", "note", "undecoded"] | None = Option(
        None,
        help="Exit 1 if any problem is at least this severe; undecoded: exit 3 if not all was captured and decoded.",
    )
    json: bool = Option(False, "--json", help="One JSON object per problem, then one with the verdict (NDJSON).")
    facts: bool = Option(False, "--facts", help="With --json: before the problems one JSON object per fact.")
    write: Path | None = Option(
        None, "-w", "--write", metavar="OUT.pcapng", help="Write the packets of all evidence, too."
    )
    time: options.Time = None
    color: options.Color = "auto"
    two_passes: options.TwoPasses = False
    timeline: bool = Option(
        False, "--timeline", help="After the problems: what changed when; with --json one more object."
    )

    def check(self) -> None:
        """Refuse options that do not go together."""
        alone = self.connection or self.display_filter or self.write or self.two_passes or self.timeline or self.facts
        refusal = "-n, -Y, -w, -2, --facts, --timeline, --from and --to go with files"
        self.check_source("checks", "nothing to check: give capture files, or -i IFACE", bool(alone), refusal)
        options.refuse((self.facts and not self.json, "--facts goes with --json"))
        if self.write is not None:
            options.check_writing(self.files or [], self.write)

    @property
    def least(self) -> str:
        """The least severity that is shown: also what makes the exit code 1."""
        fails = self.fail_on if self.fail_on in SEVERITIES else self.severity
        return max(self.severity, fails, key=SEVERITIES.index)

    def shows(self, severity: str) -> bool:
        """Whether problems of this severity are shown."""
        return SEVERITIES.index(severity) <= SEVERITIES.index(self.least)

    def exit_code(self, conclusion: CheckVerdict, severities: Iterable[str]) -> int:
        """The exit code for this verdict and problems of these severities."""
        from wiredecode.check.verdict import NOT_JUDGED

        least = SEVERITIES.index(self.fail_on) if self.fail_on in SEVERITIES else -1
        if any(SEVERITIES.index(each) <= least for each in severities):
            return 1
        return 0 if conclusion.judged and (conclusion.whole or self.fail_on != "undecoded") else NOT_JUDGED
