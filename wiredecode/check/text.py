"""Problems as text for people, and as records."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from wiredecode.dataclasses import dataclass
from wiredecode.frames.escape import counted, times, wrap_escaped
from wiredecode.frames.record import rfc3339
from wiredecode.protocols.shared.facts import Fact
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, Problem

WIDTH = 80
LABEL = 12
"""Columns of a label and its indentation."""
MAX_WORDS = 600
"""Characters of a text from the wire that are shown."""
COLORS = {"error": "1;31", "warning": "1;33", "note": "1;36"}
ARROW, MIN_ALIKE = " → ", 3
"""Between the ends of a connection; connections of one client to one server that are shown in one line."""
SHOWN = 3
"""Connections whose packets the command shows."""
OF_PACKETS = "tcp.flags & 7 || tcp.analysis.flags"
"""Packets with FIN, SYN or RST, and those that TCP analysis found."""
MAX_FILES = 3
"""Files that a command names; of more, the user knows them."""


@dataclass(frozen=True)
class Layout:
    """Layout of problems: columns, colours, the clock beside seconds, and the captures that commands name."""

    width: int = WIDTH
    color: bool = False
    clock: Callable[[int, int], str] | None = None
    """The text before the seconds, by time and the capture's first time, ns."""
    files: Sequence[str] = ("FILE",)

    def command(self, text: str) -> str:
        """A command with the names of the captures in place of ``FILE``."""
        files = " ".join(map(shlex.quote, self.files)) if len(self.files) <= MAX_FILES else "FILES"
        return text.replace("FILE", files, 1)

    def labelled(self, line: str, *, to_do: bool = False) -> str:
        """A line with its label dimmed, and advice in bold."""
        if not self.color:
            return line
        label, text = line[:LABEL], line[LABEL:]
        label = label if label.isspace() else f"\x1b[2m{label}\x1b[0m"
        return label + (f"\x1b[1m{text}\x1b[0m" if to_do else text)

    def time(self, time_ns: int, first_ns: int) -> str:
        """``+4.737 s``, after the clock time if that is shown."""
        seconds = f"+{(time_ns - first_ns) / 1e9:.3f} s".replace("+-", "-")
        if self.clock is None:
            return seconds
        return f"{self.clock(time_ns, first_ns)} ({seconds})"


def report_lines(
    problems: list[Problem], first_ns: int, layout: Layout | None = None
) -> Iterator[tuple[Problem | None, str]]:
    """The lines of the report, each with its problem; empty lines have none."""
    layout = layout or Layout()
    for problem in problems:
        for line in _problem(problem, first_ns, layout):
            yield problem, line
        yield None, ""


def _problem(problem: Problem, first_ns: int, layout: Layout) -> Iterator[str]:
    head = f"{problem.severity}[{problem.name}]"
    first, *others = wrap_escaped(f"{head}  {problem.title}", "", "    ", layout.width, MAX_WORDS)
    if layout.color:
        first = f"\x1b[{COLORS[problem.severity]}m{head}\x1b[0m\x1b[1m{first[len(head) :]}\x1b[0m"
        others = [f"\x1b[1m{line}\x1b[0m" for line in others]
    yield from (first, *others)
    connections = who(problem)
    if more := max(len(problem.members) - len(problem.connections), 0):
        connections.append(f"and {counted(more, 'more connection')}")
    rows = {
        "when": [when(problem, first_ns, layout)],
        "who": connections,
        "changed": problem.changed,
        "evidence": [*problem.details, numbers(problem)],
        "so also": effects(problem),
        "likely": [problem.likely or ", or ".join(problem.code.causes)],
        "to do": [problem.code.advice],
    }
    for label, texts in rows.items():
        for text in filter(None, texts):
            lines = wrap_escaped(text, f"  {label:<{LABEL - 2}}", " " * LABEL, layout.width, MAX_WORDS)
            yield from (layout.labelled(line, to_do=label == "to do") for line in lines)
            label = ""
    if shown := command(problem):
        yield layout.labelled(f"  {'show':<{LABEL - 2}}{layout.command(shown)}")  # in one line, to be copied


def who(problem: Problem) -> list[str]:
    """The connections of a problem; several of one client to one server as one: ``#3 to #10 10.0.0.1 → ...``."""
    alike: dict[tuple[str, str], list[int]] = {}
    for number, text in sorted(problem.connections.items()):
        client, _, rest = text.partition(ARROW)
        alike.setdefault((client.rpartition(":")[0], rest), []).append(number)
    lines = []
    for (host, rest), numbers in alike.items():
        if len(numbers) < MIN_ALIKE:
            lines += [f"#{number} {problem.connections[number]}" for number in numbers]
            continue
        follow = numbers[-1] - numbers[0] == len(numbers) - 1
        which = f"#{numbers[0]} to #{numbers[-1]}" if follow else ", ".join(f"#{number}" for number in numbers)
        lines.append(f"{which} {host}{ARROW}{rest}")
    return lines


def effects(problem: Problem) -> list[str]:
    """The consequences of a problem, one line per code, with the title of the heaviest."""
    by_name: dict[str, list[Problem]] = {}
    for effect in problem.effects:
        by_name.setdefault(effect.name, []).append(effect)
    lines = [
        f"{name} ({times(sum(each.count for each in some))}): {max(some, key=lambda each: each.weight).title}"
        for name, some in by_name.items()
    ]
    if len(lines) > MAX_EVIDENCE:
        lines[MAX_EVIDENCE - 1 :] = [f"and {counted(len(lines) - MAX_EVIDENCE + 1, 'more', '')}"]
    return lines


def when(problem: Problem, first_ns: int, layout: Layout | None = None) -> str:
    """``+0.256 s to +5.127 s, 77 times``."""
    if problem.first_ns is None:
        return times(problem.count)
    layout = layout or Layout()
    begin_ns, end_ns = problem.first_ns, problem.last_ns or problem.first_ns
    text = layout.time(begin_ns, first_ns)
    if problem.to_end:
        text += " until the end of the capture"
    elif end_ns - begin_ns >= 500_000:
        text += f" to {layout.time(end_ns, first_ns)}"
    return text if problem.count <= 1 else f"{text}, {times(problem.count)}"


def numbers(problem: Problem) -> str:
    """``frames 64, 100, ...; packets 103, 165``."""
    parts = []
    for word, cited in (("frame", problem.frames), ("packet", problem.packets)):
        if cited:
            more = ", ..." if word == "frame" and problem.count > len(cited) else ""
            parts.append(f"{word}{'s' * (len(cited) > 1)} {', '.join(map(str, sorted(cited)))}{more}")
    return "; ".join(parts)


def evidence(problem: Problem, first_ns: int) -> str:
    """When it happened, and where to look."""
    return "; ".join(filter(None, (when(problem, first_ns), numbers(problem))))


def command(problem: Problem) -> str:
    """The command that shows the evidence."""
    if problem.frames:
        return f"wiredecode pcap FILE -Y 'frame.number in {{{', '.join(map(str, sorted(problem.frames)))}}}'"
    if problem.members and problem.code.code.startswith("tcp."):
        streams = ", ".join(map(str, sorted(problem.members)[:SHOWN]))
        return f"wiredecode pcap FILE --summary -Y 'tcp.stream in {{{streams}}} && ({OF_PACKETS})'"
    if problem.members:
        return f"wiredecode follow FILE -n {min(problem.members)}"
    return ""


def record(problem: Problem, files: Sequence[str] = ("FILE",)) -> dict[str, Any]:
    """One object of ``--json``."""
    return {
        "severity": problem.severity,
        "code": problem.name,
        "page": problem.code.code,
        "title": problem.code.title,
        "message": problem.title,
        "details": problem.details,
        "changed": problem.changed,
        "count": problem.count,
        "first_time": None if problem.first_ns is None else rfc3339(problem.first_ns),
        "last_time": None if problem.last_ns is None else rfc3339(problem.last_ns),
        "to_end": problem.to_end,
        "frames": problem.frames,
        "packets": problem.packets,
        "connections": [
            {"connection": number, "description": text} for number, text in sorted(problem.connections.items())
        ],
        "meaning": problem.code.meaning,
        "likely": problem.likely or None,
        "causes": list(problem.code.causes),
        "advice": problem.code.advice,
        "show": Layout(files=files).command(command(problem)),
        "effects": [record(each, files) for each in problem.effects],
    }


def fact_record(fact: Fact) -> dict[str, Any]:
    """One object of ``--facts``."""
    connections = {place.connection.number: place.connection.description for place in fact.places}
    return {
        "fact": fact.kind.name,
        **dict(zip(fact.kind.of, fact.of, strict=True)),
        "by": fact.by or None,
        "count": fact.times,
        "first_time": rfc3339(fact.since_ns),
        "last_time": rfc3339(fact.until_ns),
        "frames": [place.number for place in fact.places if place.number],
        "packets": [packet for place in fact.places for packet in place.packets],
        "connections": [{"connection": number, "description": text} for number, text in connections.items()],
    }
