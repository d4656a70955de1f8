"""Two versions of wiredecode on the same captures, alternating: user CPU and peak memory of each command, as ratios.

The ratio is that of the least user CPU of all rounds, since other work on the machine only adds to it. Cells above
their limit are measured again. On a busy machine luck of one run remains, and the kernel divides CPU time into user and
system by samples: a cell is too slow only if the medians of user and system time are above the limit, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import versions
from tests.bench.inputs import made
from tests.bench.tools import LINES, ROOT, Runs, Tool, measure, tshark
from tests.bench.versions import Version

LIMIT = 1.1
"""Highest ratio that passes."""
ATTEMPTS = 3
"""Times that a cell above its limit is measured again, at most: each only lowers the least value."""
REPEAT = 3
"""A cell above the limit gets so many times the rounds that it had."""
MEMORY_SLACK = 10
"""MB that a command may need more at any ratio."""
OUTPUT_DIFFERS = 0.1
"""Share of the output's size from which a difference is reported: then commands do not do the same work."""
EXAMPLE = ROOT / "captures" / "rabbitmq-stream" / "c43_basic.pcap"
START = "start"
"""In place of a case: `EXAMPLE`, so small that nearly all is start-up."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, and its name in tables. ``{file}`` and ``{out}`` in the words are replaced."""

    name: str
    words: tuple[str, ...]
    codes: tuple[int, ...] = (0,)
    launches: int = 1
    more: float = 1.0
    """Times the limit that it may cost, as it does more than the baseline's."""

    def of(self, version: Version) -> Tool:
        name = f"{self.name}, {version.name}"
        return Tool(name, (*version.command, *self.words), codes=self.codes, launches=self.launches)


def _pcap(name: str, *options: str) -> Command:
    return Command(name, ("pcap", "{file}", "-q", *options))


def _export(level: str) -> Command:
    return Command(f"export {level}", ("export", "{file}", "-q", "--level", level, "-o", "{out}.parquet"))


STARTS = (
    Command("--help", ("--help",), launches=5),
    _pcap("pcap -c 1", "-c", "1"),
    _pcap("pcap --summary", "--summary"),
)
"""Commands on `EXAMPLE`."""
USUAL = (
    _pcap("pcap --summary", "--summary"),
    _pcap("pcap --json", "--json"),
    _pcap("pcap -T fields", "-T", "fields", "-e", "frame.number", "-e", "frame.type"),
    _export("messages"),
    _export("frames"),
    Command("check", ("check", "{file}", "-q"), codes=(0, 1, 3), more=1.15),  # it follows messages since; problems
    Command("stats", ("stats", "{file}", "-q")),
)
OTHERS = (
    _pcap("pcap -c 300", "-c", "300"),
    Command("follow", ("follow", "{file}", "-q", "-n", "1")),
    Command("trace", ("trace", "{file}", "-q", "--text", "Lisbon"), codes=(0, 1)),  # no message has it
    Command("sql", ("sql", "{file}", "-q", "select protocol, count(*) from frames group by all")),
    Command("anonymize", ("anonymize", "{file}", "-q", "-o", "{out}.pcapng")),
    Command("report", ("report", "{file}", "-q", "-o", "{out}.html")),
)
WHOLE = ("rabbitmq-publish-midstream", "rabbitmq-deliver-midstream", "nats-few", "liftbridge", "mixed-midstream")
"""Cases of a whole run: half an hour. Others are measured when they are named."""
WHOLE_MEGABYTES, WHOLE_ROUNDS = 4, 3
QUICK = {
    "rough": (2, USUAL),
    "segments": (24, USUAL[:1]),  # many packets of which little is decoded: the cost of each
    "web": (18, USUAL[:1]),  # the same, of packets that are placed one by one
}
"""Megabytes and commands of a quick run, which .ci/run makes: a minute."""
QUICK_ROUNDS = 3


@dataclass(slots=True)
class Cell:
    """One command on one capture."""

    case: str
    command: Command
    file: Path
    old: Runs = field(default_factory=Runs)
    new: Runs = field(default_factory=Runs)

    @property
    def left_out(self) -> bool:
        """Whether the old version cannot do it."""
        return bool(self.old.failed)

    @property
    def time(self) -> float:
        return self.new.user / self.old.user

    @property
    def memory(self) -> float:
        return self.new.peak_mb / self.old.peak_mb

    def needs_more_memory(self, limit: float) -> bool:
        return self.memory > limit and self.new.peak_mb - self.old.peak_mb > MEMORY_SLACK

    def above(self, limit: float) -> bool:
        """Whether to measure again."""
        limit *= self.command.more
        return not self.new.failed and (self.time > limit or self.needs_more_memory(limit))

    def complaints(self, limit: float, old: str) -> Iterator[str]:
        """Sentences about what is too much."""
        limit *= self.command.more
        name = f"{self.command.name} on {self.case}"
        if self.new.failed:
            yield f"{name}: {self.new.failed}"
            return
        if self.time > limit and self.new.typical(by_cpu=True) / self.old.typical(by_cpu=True) > limit:
            seconds = f"{self.old.user:.2f} s, now {self.new.user:.2f} s"
            yield f"{name}: {self.time:.2f} times the user CPU of {old} (limit {limit:g}): {seconds}"
        if self.needs_more_memory(limit):
            peaks = f"{self.old.peak_mb:.0f} MB, now {self.new.peak_mb:.0f} MB"
            yield f"{name}: {self.memory:.2f} times the peak memory of {old} (limit {limit:g}): {peaks}"


Runner = Callable[[Cell, int], None]
"""Adds that many alternating rounds to a cell."""


def judge(cells: Sequence[Cell], run: Runner, rounds: int, limit: float, old: str) -> list[str]:
    """Measure all cells, those above the limit again; return a complaint for each that stays there."""
    for cell in cells:
        run(cell, rounds)
    compared = [cell for cell in cells if not cell.left_out]
    for cell in compared:
        for _ in range(ATTEMPTS):
            if not cell.above(limit):
                break
            print(f"{cell.command.name} on {cell.case}: {cell.time:.2f}, again", file=sys.stderr, flush=True)
            run(cell, REPEAT * rounds)
    return [text for cell in compared for text in cell.complaints(limit, old)]


def planned(names: Sequence[str] | None, size: float | None, quick: bool, folder: Path) -> list[Cell]:
    """The cells of a run; their captures are made."""
    cells = [Cell(START, command, EXAMPLE) for command in STARTS]
    plan = QUICK if quick else dict.fromkeys(WHOLE, (WHOLE_MEGABYTES, USUAL + OTHERS))
    for name in names or plan:
        megabytes, commands = plan.get(name, (WHOLE_MEGABYTES, USUAL + OTHERS))
        file = Path(made(name, size or megabytes, folder)["path"])
        cells += [Cell(name, command, file) for command in commands]
    return cells


def runner(old: Version, new: Version, folder: Path) -> Runner:
    def run(cell: Cell, rounds: int) -> None:
        tools = {cell.command.of(old): cell.old, cell.command.of(new): cell.new}
        measure(cell.file, tools, rounds, 0, folder, tools)

    return run


def beside(cells: Iterable[Cell], rounds: int, folder: Path) -> dict[str, float]:
    """User CPU of tshark's lines by case, if it is installed: how fast the machine is."""
    files = {each.case: each.file for each in cells if each.case != START}
    peers = [tool for tool in tshark([]) if tool.name == LINES]
    return {case: measure(files[case], peers, rounds, 0, folder)[tool].user for case in files for tool in peers}


def tables(cells: Iterable[Cell], old: str, peer: Mapping[str, float]) -> list[str]:
    """Values of the new version, with their ratios: by command, then the CPU by capture. ``peer``: see `beside`."""
    measured = [cell for cell in cells if not cell.left_out and not cell.new.failed]
    groups: dict[tuple[bool, Command], list[Cell]] = {}
    for cell in measured:
        groups.setdefault((cell.case == START, cell.command), []).append(cell)
    heads = f"| command | user CPU, s | times {old} | highest | peak MB | times {old} | highest |"
    about = "Least values of all rounds; over all captures, the seconds are added, the peak is the highest."
    lines = [about, "", heads, "|---|---:|---:|---|---:|---:|---|"]
    lines += [row(group) for group in groups.values()]
    found = {(cell.case, cell.command.name): cell for cell in measured if cell.case != START}
    commands = dict.fromkeys(name for _, name in found)
    titles = [*(f"`{name}`" for name in commands), *(["`tshark -n -r`"] if peer else [])]
    lines += ["", f"User CPU, s (times {old}):", "", f"| capture | {' | '.join(titles)} |"]
    lines.append("|---|" + "---:|" * len(titles))
    sizes = {case: cell.file.stat().st_size for (case, _), cell in found.items()}
    for case in sizes:
        some = (found.get((case, name)) for name in commands)
        texts = [f"{one.new.user:.2f} ({one.time:.2f})" if one else "" for one in some]
        texts += [f"{peer[case]:.2f}"] if peer else []
        lines.append(f"| {case}, {sizes[case] / 1e6:.0f} MB | {' | '.join(texts)} |")
    return [*lines, ""]


def row(cells: Sequence[Cell]) -> str:
    """A command on all its captures."""
    now, before = sum(cell.new.user for cell in cells), sum(cell.old.user for cell in cells)
    peak, peak_before = max(cell.new.peak_mb for cell in cells), max(cell.old.peak_mb for cell in cells)
    slowest, largest = max(cells, key=lambda cell: cell.time), max(cells, key=lambda cell: cell.memory)
    name = f"`{cells[0].command.name}`" + (", small capture" if cells[0].case == START else "")
    time = f"{now:.2f} | {now / before:.2f} | {slowest.time:.2f} {slowest.case}"
    return f"| {name} | {time} | {peak:.0f} | {peak / peak_before:.2f} | {largest.memory:.2f} {largest.case} |"


def notes(cells: Iterable[Cell], old: str) -> list[str]:
    """Commands that were left out, and commands whose ratios mean less because their outputs differ."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        name, before, now = f"* `{cell.command.name}`", cell.old.output_bytes, cell.new.output_bytes
        if cell.left_out:
            found.setdefault(f"{name} is left out, {old} fails ({cell.old.failed})", []).append(cell.case)
        elif abs(now - before) > OUTPUT_DIFFERS * max(now, before):
            sizes = f"{cell.case} {now / 1000:,.1f} kB ({before / 1000:,.1f})"
            found.setdefault(f"{name} does not write what {old} writes", []).append(sizes)
    return [*(f"{what}: {', '.join(where)}." for what, where in found.items()), ""] if found else []


def prepared(
    revision: str, names: Sequence[str] | None, size: float | None, folder: Path, *, quick: bool
) -> tuple[Version, Version, list[Cell]]:
    """Both versions, compiled, and the cells to measure; what was made before is kept. Raises `Unavailable`."""
    return (
        versions.committed(revision, folder),
        versions.current(folder),
        planned(names, size, quick, folder),
    )


def against(
    revision: str,
    names: Sequence[str] | None,
    size: float | None,
    rounds: int | None,
    limit: float,
    folder: Path,
    *,
    quick: bool,
) -> tuple[list[str], list[str]]:
    """Compare the working tree with a revision; return tables, and complaints. Raises `Unavailable`."""
    old, new, cells = prepared(revision, names, size, folder, quick=quick)
    os.environ.pop("PYTHONPATH", None)  # it precedes what the environments hold
    # The same for both: sets in the same order, no settings of a user.
    os.environ |= {"PYTHONHASHSEED": "0", "XDG_CONFIG_HOME": str(folder / "settings")}
    rounds = rounds or (QUICK_ROUNDS if quick else WHOLE_ROUNDS)
    complaints = judge(cells, runner(old, new, folder), rounds, limit, old.name)
    peer = {} if quick else beside(cells, rounds, folder)
    return [*tables(cells, old.name, peer), *notes(cells, old.name)], complaints
