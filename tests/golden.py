"""Keeps the output of commands, and compares it later to find unintended changes.

    python -m tests.golden keep FOLDER [CAPTURE...]
    python -m tests.golden compare FOLDER [CAPTURE...] [--show] [--only COMMAND...]

``keep`` runs every command of :data:`COMMANDS` over the captures (default: those of the repository) and writes the
output into the folder. ``compare`` runs them again and names each output that differs; exit 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gzip
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path

CAPTURES = Path(__file__).parent.parent / "captures"
COMMANDS: dict[str, tuple[str, ...]] = {
    "tree": ("pcap", "{capture}", "--color", "never"),
    "summary": ("pcap", "{capture}", "--summary"),
    "json": ("pcap", "{capture}", "--json", "--summary-json", "{out}"),
    "ranges": ("pcap", "{capture}", "--json", "--ranges", "-q"),
    "filter": ("pcap", "{capture}", "--summary", "-q", "-Y", "finding || latency > 1ms"),
    "frames": ("export", "{capture}", "-q", "-o", "{out}.parquet"),
    "messages": ("export", "{capture}", "-q", "-o", "{out}.parquet", "--level", "messages"),
    "packets": ("export", "{capture}", "-q", "-o", "{out}.parquet", "--level", "packets"),
}


def captures_in(places: list[Path]) -> Iterator[Path]:
    """The captures among these files and below these folders."""
    for place in places:
        found = sorted(place.rglob("*.pcap*")) if place.is_dir() else [place]
        yield from (path for path in found if path.is_file() and ".json" not in path.name)


def output(arguments: tuple[str, ...], capture: Path) -> str:
    """Exit code, standard output, standard error and the written files, as text."""
    from wiredecode.cli import main

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        words = [word.format(capture=capture, out=out) for word in arguments]
        code, printed, errors = run(main, words)
        written = "".join(map(content, sorted(path for path in Path(folder).rglob("*") if path.is_file())))
        return f"exit {code}\n{printed}\n-- stderr\n{errors}\n-- files\n{written}".replace(folder, "")


def run(main: Callable[[list[str]], int], words: list[str]) -> tuple[int, str, str]:
    """Run a command in this process; its output goes to files, as for users."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        kept = os.dup(1), os.dup(2)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        streams = [io.TextIOWrapper(os.fdopen(os.dup(number), "wb"), write_through=True) for number in (1, 2)]
        try:
            with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
                code = main(words)
        finally:
            for stream in streams:
                stream.close()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "backslashreplace"))
    return code, texts[0], texts[1]


def content(path: Path) -> str:
    if path.suffix != ".parquet":
        return path.read_text()
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    rows = "\n".join(map(repr, table.to_pylist()))
    return f"{table.schema.to_string(show_field_metadata=False, show_schema_metadata=False)}\n{rows}"


def name_of(capture: Path, command: str) -> str:
    return ".".join([*capture.parts[-3:], command, "gz"])


def kept(capture: Path, folder: Path, commands: list[str]) -> None:
    for command in commands:
        text = output(COMMANDS[command], capture)
        (folder / name_of(capture, command)).write_bytes(gzip.compress(text.encode(), 1))


def differences(capture: Path, folder: Path, commands: list[str]) -> list[str]:
    """The beginning of a unified diff for each output that differs from the kept one."""
    found = []
    for command in commands:
        path = folder / name_of(capture, command)
        before = gzip.decompress(path.read_bytes()).decode() if path.exists() else "(nothing was kept)"
        after = output(COMMANDS[command], capture)
        if before != after:
            lines = difflib.unified_diff(before.split("\n"), after.split("\n"), "kept", "now", n=0, lineterm="")
            shown = [line[:400] for _, line in zip(range(12), lines, strict=False)]
            found.append("\n".join([path.name, *shown]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("action", choices=("keep", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("captures", type=Path, nargs="*", default=[CAPTURES])
    parser.add_argument("--show", action="store_true", help="show how outputs differ")
    parser.add_argument("--only", choices=COMMANDS, action="append", metavar="COMMAND", help=", ".join(COMMANDS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    commands = options.only or [*COMMANDS]
    captures = [path.resolve() for path in captures_in(options.captures)]
    with get_context("fork").Pool(os.cpu_count()) as pool:
        if options.action == "keep":
            pool.map(partial(kept, folder=options.folder, commands=commands), captures, chunksize=1)
            print(f"kept: {len(captures)} captures, {len(commands)} outputs each")
            return 0
        found = [
            text
            for texts in pool.imap(
                partial(differences, folder=options.folder, commands=commands), captures, chunksize=1
            )
            for text in texts
        ]
    for text in found:
        print(text if options.show else text.partition("\n")[0])
    print(f"{len(found)} of {len(captures) * len(commands)} outputs differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
