"""Nothing raw reaches a terminal, whichever command and option shows it; and there is one way to write."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_hostile import TERMINAL
from tests.fuzz.mutate import forget_fills, places
from tests.fuzz.targets import KITS
from tests.view.frames import write
from wiredecode.testing import ProtocolTests
from wiredecode.testing.samples import CANNOT
from wiredecode.testing.segments import Part, craft, every

PACKAGE = Path(__file__).parents[2] / "wiredecode"
NASTY = "\x1b]0;x\x07\x1b[31m\x9b\u202e\u200b"
FRAMES = 60
"""Frames of each protocol."""
COMMANDS = {
    0: (
        *("pcap F", "pcap F --summary", "pcap F --full --hex", "pcap F -V --bytes text", "pcap F --json"),
        *("pcap F --json --bytes text --ranges", "pcap F --show-secrets --full --bytes text", "pcap F -T pdml"),
        *("pcap F --summary --color always --resolve capture --utc", "pcap F -T fields -e frame.type -e _ws.col.info"),
        *("pcap F -T json", "pcap F -T fields -E header=y -e kafka.client_id -e nats.subject -e cursus.text"),
        *("check F --severity note", "check F --json", "check F --timeline", "check F --json --timeline"),
        *(
            "check F --json --facts",
            "stats F",
            "stats F --json",
            "stats F --csv --table frames",
            "stats F --timeline --json",
        ),
        *("flows F", "flows F --json", "metrics F", "follow F", "follow F -n 1", "follow F -n 1 --json --bytes text"),
        *("follow F -n 1 --messages", "follow F -n 1 --hex", "follow F -n 1 --full"),
        *("export F -o - --format csv", "export F -o - --format ndjson --bytes text", "export F -o - --format json"),
        *("export F -o - --level messages --format csv --bytes text", "export F -o - --level flows --format json"),
        *(
            "sql F SELECT\tbody,topic,headers\tFROM\tmessages",
            "sql F FROM\tframes --format csv",
            "sql F FROM\tframes --format json",
        ),
    ),
    2: (
        "export F -o - --format parquet",
        "follow F -n 1 --raw",
        "pcap F -Y 'nats.\x1b[31m\u202e'",
        "pcap \x1b[31m\u202e",
    ),
}
"""By exit code; F: the capture; tabulators become spaces."""
WRITERS = {
    "cli/output.py": "the guard itself",
    "cli/config.py": "escapes the settings of the user",
    "cli/app.py": "the version, and our own help",
    "cli/completion.py": "words for the shell",
    "cli/wireshark.py": "lines for Wireshark",
    "cli/pages.py": "our own pages",
    "cli/spark_job.py": "a traceback for developers, and progress without text of the wire",
    "view/console.py": "writes to an output",
    "view/notebook.py": "makes a text",
}
"""Modules that print, or make a console."""
NAMES = ("print", "Console", "echo", "stdout", "stderr", "sys.__std")
"""One of them is in each module that does."""


def hostile(kit: type[ProtocolTests], chance: random.Random) -> list[Part]:
    """Frames of a protocol with escapes, direction marks and BEL in all their texts."""
    parts = []
    layers = chance.sample(list(kit.layers()), min(FRAMES, len(kit.layers())))
    for number, layer in enumerate(layers):
        for raw in kit.made(layer)[:1]:
            try:
                packet = layer.within(raw, 0, len(raw))
                for owner, kind in list(places(packet)):
                    value = owner.fields.get(kind.name)
                    if isinstance(value, str):
                        owner.fields[kind.name] = value + NASTY
                forget_fills(packet)
                parts.append(Part(1, number % 2, bytes(packet)))
            except CANNOT:
                parts.append(Part(1, number % 2, raw))
    return parts


@pytest.fixture(scope="module", params=["made", "12a-controls-rabbitmq", "14-controls-timeline"])
def capture(request: pytest.FixtureRequest, captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param != "made":
        return captures / "hostile" / f"{request.param}.pcap"
    packets = [
        packet
        for number, (name, kit) in enumerate(KITS.items(), 1)
        for packet in craft(
            [part_of(part, number) for part in hostile(kit, random.Random(name))], every(1460), kit.port()
        )
    ]
    return write(tmp_path_factory.mktemp("terminal") / "hostile.pcap", packets)


def part_of(part: Part, connection: int) -> Part:
    return Part(connection, part.side, part.data)


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
def test_no_command_writes_controls(run: Run, capture: Path, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    bad = []
    for expected, lines in COMMANDS.items():
        for words in lines:
            if not terminal and ("--raw" in words or "parquet" in words):
                continue
            found = run(*(capture if word == "F" else word.replace("\t", " ") for word in words.split(" ")))
            if found.code != expected or "please report" in found.err:
                bad.append((words, found.code, found.err[-300:]))
            shown = (found.raw.decode() if terminal else "") + found.err
            where = TERMINAL.search(shown)
            if where is not None:
                bad.append((words, where.start(), shown[max(0, where.start() - 60) : where.end() + 20]))
    assert not bad, "\n".join(map(str, bad))


def writers() -> set[str]:
    """Modules that write to a terminal by other ways than :class:`wiredecode.cli.output.Output`."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if not any(name in text for name in NAMES):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            writes = called in (
                "print",
                "Console",
                "traceback.print_exception",
                "typer.echo",
                "typer.secho",
                "click.echo",
            )
            if writes or called.startswith(
                ("sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer.write", "sys.__std")
            ):
                found.add(path.relative_to(PACKAGE).as_posix())
    return found


def test_nothing_else_writes() -> None:
    assert writers() == set(WRITERS)
