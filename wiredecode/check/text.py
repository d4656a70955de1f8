"""Problems as text for people, within 80 columns, and as records."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

from wiredecode.frames.escape import escape, shorten
from wiredecode.frames.plurals import counted, times
from wiredecode.frames.record import rfc3339
from wiredecode.protocols.shared.codes import SEVERITIES
from wiredecode.protocols.shared.problems import Problem

WIDTH = 80
INDENT = "  "
MOST_WORDS = 600
"""Characters of a text from the wire that are shown."""


def counts(problems: list[Problem]) -> str:
    """``"2 errors, 1 warning"``."""
    found = Counter(problem.severity for problem in problems)
    return ", ".join(counted(found[each], each) for each in SEVERITIES if found[each])


def lines(problems: list[Problem], first_ns: int) -> Iterator[str]:
    """The report, line by line; what a code means stands at its first problem."""
    return (line for _, line in report_lines(problems, first_ns))


def report_lines(problems: list[Problem], first_ns: int) -> Iterator[tuple[Problem | None, str]]:
    """The lines of the report, each with the problem that it is about; headings are about none."""
    severity, explained = None, set()
    for problem in problems:
        if problem.severity != severity:
            severity = problem.severity
            several = sum(each.severity == severity for each in problems) > 1
            yield None, f"{severity.upper()}{'S' * several}"
            yield None, ""
        for line in _problem(problem, first_ns):
            yield problem, line
        if (problem.severity, problem.code) not in explained:
            explained.add((problem.severity, problem.code))
            for title, text in (("Meaning", problem.code.meaning), ("To do", problem.code.advice)):
                for line in wrapped(f"{title}: {text}", INDENT, INDENT):
                    yield problem, line
        yield None, ""


def _problem(problem: Problem, first_ns: int) -> Iterator[str]:
    yield from wrapped(f"{problem.name}: {problem.what}", "", INDENT)
    for detail in problem.details:
        yield from wrapped(detail, f"{INDENT}- ", f"{INDENT}  ")
    yield from wrapped(evidence(problem, first_ns), INDENT, INDENT)
    for number, description in sorted(problem.connections.items()):
        yield from wrapped(f"connection #{number}: {description}", INDENT, INDENT * 2)


def wrapped(text: str, first: str, others: str) -> list[str]:
    """Escaped, cut where it is endless, wrapped."""
    text = shorten(escape(text), MOST_WORDS)
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)


def evidence(problem: Problem, first_ns: int) -> str:
    """How often, when, and where to look."""
    parts = [times(problem.count)]
    if problem.first_ns is not None:
        begin, end = (problem.first_ns - first_ns) / 1e9, ((problem.last_ns or 0) - first_ns) / 1e9
        parts[0] += f", at {begin:.3f} s" if end - begin < 0.0005 else f", from {begin:.3f} to {end:.3f} s"
    for word, numbers in (("frame", problem.frames), ("packet", problem.packets)):
        if numbers:
            more = ", ..." if word == "frame" and problem.count > len(numbers) else ""
            parts.append(f"{word}{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}{more}")
    return "; ".join(parts)


def record(problem: Problem) -> dict[str, Any]:
    """One object of ``--json``."""
    return {
        "severity": problem.severity,
        "code": problem.name,
        "page": problem.code.code,
        "title": problem.code.title,
        "message": problem.what,
        "details": problem.details,
        "count": problem.count,
        "first_time": None if problem.first_ns is None else rfc3339(problem.first_ns),
        "last_time": None if problem.last_ns is None else rfc3339(problem.last_ns),
        "frames": problem.frames,
        "packets": problem.packets,
        "connections": [
            {"connection": number, "description": text} for number, text in sorted(problem.connections.items())
        ],
        "meaning": problem.code.meaning,
        "causes": list(problem.code.causes),
        "advice": problem.code.advice,
    }
