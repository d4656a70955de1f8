"""Refusals by code, as tables: which codes in which frames are which problem, in which words.

A table ``[refusals.NAME]`` of a protocol's ``names.toml`` is one :class:`Refusal`; severity, causes and advice are
those of the problem ``NAME`` in its ``problems.toml``.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.codes import Codes, codes_of
from wiredecode.protocols.shared.data import data_of
from wiredecode.protocols.shared.problems import Problem, Report, Rule


@dataclass(frozen=True)
class Refusal:
    """A row of such a table; texts are templates of facts about the frame."""

    what: str
    """The title."""
    key: str = ""
    """Refusals that agree here are one problem; empty: those of one title."""
    problem: str = ""
    """The problem, if the table is not named after it."""
    errors: Collection[Any] = ()
    types: Collection[str] = ()
    other_than: Collection[str] = ()
    """Codes and types of frames that are meant, empty: all; and those that are not."""
    alike: str = ""
    """Refusals that agree here are shown as one; empty: those with one error."""
    detail: str = ""
    many: int = 0
    """From this number on it is a warning."""
    passing: bool = False
    """It is a note at first."""
    moves: bool = False
    """It shows that the server has given its work to another one."""
    likely: Mapping[str, str] = field(default_factory=dict)
    """Likely cause by name of the error."""

    def matches(self, kind: str | None, errors: Collection[Any]) -> list[Any]:
        """The errors in a frame of this type that it means."""
        if (self.types and kind not in self.types) or kind in self.other_than:
            return []
        return [each for each in errors if (not self.errors or each in self.errors) and each not in self.other_than]

    def report(self, report: Report, codes: Codes, frame: Frame, facts: Mapping[str, Any]) -> Problem:
        """Report the refusal in a frame; ``facts``: among others the ``error`` by name."""
        code, title, error = codes[self.problem], self.what.format(**facts), str(facts.get("error", ""))
        key, severity = self.key.format(**facts) or title, "note" if self.passing else None
        problem = report.add(code, title, key, frame=frame, severity=severity)
        reason = f"{(frame.type or '').removesuffix('Response')}: {facts.get('message', error)}"
        problem.likely = self.likely.get(error) or code.cause_of(reason)
        problem.alike = self.alike.format(**facts) or (error if "{alike}" in code.several else "")
        problem.detail(self.detail.format(**facts))
        if self.many and problem.count >= self.many:
            problem.severity = "warning"
        return problem


def refusals_of(protocol: str) -> dict[str, Refusal]:
    """The table of a protocol."""
    rows = data_of(protocol, "names.toml")["refusals"]
    return {name: Refusal(**{"problem": name, **row}) for name, row in rows.items()}


@dataclass(eq=False)
class Refusals(Rule):
    """Reports what the table of its protocol names."""

    protocol: ClassVar[str]
    table: ClassVar[Mapping[str, Refusal]]

    def frame(self, frame: Frame) -> None:
        errors = self.errors(frame)
        for refusal, some in self.matching(frame, errors) if errors else ():
            self.refused(frame, refusal, some)

    def errors(self, frame: Frame) -> Collection[Any]:
        """The codes with which a frame refuses something."""
        raise NotImplementedError

    def facts(self, frame: Frame, errors: Collection[Any]) -> Mapping[str, Any]:
        """Fields of the templates, of a frame that refuses something."""
        raise NotImplementedError

    def matching(self, frame: Frame, errors: Collection[Any]) -> Iterator[tuple[Refusal, list[Any]]]:
        """The rows of the table that hold for a frame, with the errors that they mean."""
        for refusal in self.table.values():
            if some := refusal.matches(frame.type, errors):
                yield refusal, some

    def refused(self, frame: Frame, refusal: Refusal, errors: Collection[Any]) -> Problem | None:
        """Report that a row of the table holds; None: it does not, after all."""
        return refusal.report(self.report, codes_of(self.protocol), frame, self.facts(frame, errors))
