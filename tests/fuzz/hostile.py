"""Mutated captures, whole commands: ``python -m tests.fuzz.hostile --minutes 10``, figures at its end.

Every command is run in a child of this process, on a file, as a user does; its streams are files. No mistake of ours
may show (exit code 70, finding ``internal``), nothing raw in what is shown, JSON can be read, memory is bounded.
"""

from __future__ import annotations

import argparse
import os
import random
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson

from tests.fuzz.mutate import mutate_talk
from tests.fuzz.properties import harmless, holds
from tests.fuzz.shapes import TalkInput
from tests.fuzz.targets import CAPTURES, KITS, talks
from wiredecode.capture.write import write_pcap
from wiredecode.cli import main as wiredecode
from wiredecode.testing.mutations import MUTATIONS
from wiredecode.testing.packets import START_NS

COMMANDS = {
    "summary": "pcap FILE --summary",
    "trees": "pcap FILE -V",
    "bytes": "pcap FILE -x --hex",
    "json": "pcap FILE --json --ranges",
    "fields": "pcap FILE -T fields -e frame.number -e nats.subject -e finding.code",
    "filter": 'pcap FILE --summary -Y finding.severity=="error"',
    "follow": "follow FILE -n 1",
    "check": "check FILE",
    "check json": "check FILE --json",
    "stats": "stats FILE",
    "stats json": "stats FILE --json",
    "report": "report FILE -o OUT.html",
    "frames": "export FILE -o OUT.parquet",
    "messages": "export FILE --level messages -o OUT.csv",
    "connections": "export FILE --level connections -o OUT.ndjson",
    "anonymize": "anonymize FILE OUT.pcapng --names --bodies",
    "save": "pcap FILE -w OUT.pcapng -Y frame.length>20",
    "sql": "sql FILE --format ndjson FROM_MESSAGES",
}
MOST_BYTES = 300_000
"""Of a capture that is mutated."""
MEMORY_MB = 400
LINES = ("json", "check json", "sql")


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Some packets of a pcap file are damaged behind their headers, or in them; lengths in the file still fit."""
    out, records, at = bytearray(data), [], 24
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    while at + 16 <= len(data):
        size = struct.unpack_from(f"{order}I", data, at + 8)[0]
        records.append((at + 16, min(at + 16 + size, len(data))))
        at += 16 + size
    if not records or chance.random() < 0.05:
        return chance.choice(MUTATIONS)(data, chance)
    for _ in range(chance.choice((1, 3, 10, len(records) // 4))):
        start, stop = chance.choice(records)
        first = min(start + chance.choice((0, 14, 66, 66, 66, 66)), stop)
        if stop - first > 1:
            new = chance.choice(MUTATIONS)(bytes(out[first:stop]), chance)
            out[first:stop] = new[: stop - first].ljust(stop - first, b"\0")
    return bytes(out)


def talked(chance: random.Random) -> bytes:
    """A capture of a mutated talk, built from the declarations."""
    kit = chance.choice(list(KITS.values()))
    data = chance.choice(talks(kit))
    for _ in range(chance.choice((1, 3, 6))):
        data = mutate_talk(kit, data, chance)
    with tempfile.TemporaryFile() as file:
        packets = TalkInput.read(data).packets(kit.port())
        write_pcap(file, ((START_NS + at * 1_000_000, packet) for at, packet in enumerate(packets)))
        file.seek(0)
        return file.read()


def mutants(chance: random.Random) -> Iterator[bytes]:
    """Without end."""
    paths = sorted(path for path in CAPTURES.glob("*/*.pcap") if path.stat().st_size < MOST_BYTES)
    while True:
        yield talked(chance) if chance.random() < 0.4 else damaged(chance.choice(paths).read_bytes(), chance)


def run(words: list[str], folder: Path) -> tuple[int, bytes, bytes, int]:
    """Exit code, streams and peak MB of a command in a child of this process."""
    names = folder / "stdout", folder / "stderr"
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 99
        try:
            for number, name in enumerate(names, 1):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            code = wiredecode(words)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), names[0].read_bytes(), names[1].read_bytes(), used.ru_maxrss // 1024


def judge(name: str, code: int, out: bytes, err: bytes, peak: int) -> None:
    """What must hold of a command's end."""
    told = err.decode()
    holds(code in (0, 1, 2), f"exit {code}: {told[-300:]}")
    holds("please report" not in told and "Traceback" not in told, f"internal: {told[-300:]}")
    holds(peak < MEMORY_MB, f"memory: {peak} MB")
    text = out.decode()
    harmless(text.replace("\n", " ").replace("\t", " "), name)
    harmless(told.replace("\n", " "), f"errors of {name}")
    for line in text.splitlines() if name in LINES else ():
        holds(isinstance(orjson.loads(line), dict), f"JSON: {line[:80]}")


def main() -> int:
    """Run, and tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path(".cache/fuzz"))
    given = parser.parse_args()
    (given.work / "found").mkdir(parents=True, exist_ok=True)
    chance, found, runs, files = random.Random(given.seed), Counter[str](), Counter[str](), 0
    most = 0
    until = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as temporary:
        folder, file = Path(temporary), Path(temporary, "hostile.pcap")
        for data in mutants(chance):
            if time.monotonic() > until:
                break
            file.write_bytes(data)
            files += 1
            for name in chance.sample(sorted(COMMANDS), 4):
                words = [
                    word.replace("FILE", str(file)).replace("OUT", str(folder / "out"))
                    for word in COMMANDS[name].split()
                ]
                words = ["select * from messages" if word == "FROM_MESSAGES" else word for word in words]
                runs[name] += 1
                ended = run(words, folder)
                most = max(most, ended[3])
                try:
                    judge(name, *ended)
                except Exception as error:
                    told = f"{name}: {type(error).__name__}: {str(error)[:160]}"
                    found[told] += 1
                    if found[told] == 1:
                        (given.work / "found" / f"hostile-{given.seed}-{files}.pcap").write_bytes(data)
                        print(f"FOUND hostile-{given.seed}-{files}.pcap {told}", flush=True)
    print(f"{files:,} captures, {runs.total():,} commands, peak {most} MB, found {found.total()}: {dict(runs)}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
