"""Mutated captures, whole commands: ``python -m tests.fuzz.hostile --minutes 10``, figures at its end.

Every command is run in a child of this process, on a file, as a user does; its output is a file or a terminal. No
mistake of ours may show (exit code 70, finding ``internal``), nothing raw in what is shown, JSON can be read, memory is
bounded. All ways to read a capture (frames, blocks, Scapy, records, trees, batches) agree.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import struct
import sys
import tempfile
import time
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import orjson

from tests.fuzz import properties
from tests.fuzz.mutate import mutate_packets, mutate_talk
from tests.fuzz.properties import harmless, holds, same_in_batches
from tests.fuzz.shapes import PacketsInput, TalkInput
from tests.fuzz.targets import CAPTURES, KITS, as_pcapng, mutate_tls, packet_seeds, talks, tls_seeds
from tests.pcap import write_pcap
from wiredecode.capture import CaptureError, open_capture
from wiredecode.cli import main as wiredecode
from wiredecode.testing import dissect, tables
from wiredecode.testing.packets import START_NS
from wiredecode.testing.samples import MUTATIONS
from wiredecode.testing.segments import Part

COMMANDS = {
    "summary": "pcap FILE --summary",
    "trees": "pcap FILE -V",
    "bytes": "pcap FILE -x --hex",
    "json": "pcap FILE --json --ranges",
    "processes": "pcap FILE --json --jobs 2",
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
    "anonymize": "anonymize FILE -o OUT.pcapng --names --bodies",
    "save": "pcap FILE -w OUT.pcapng -Y frame.length>20",
    "sql": "sql FILE --format ndjson FROM_MESSAGES",
}
MADE_OF = Counter[str]()
"""Captures made of each protocol."""
FAR_ABOVE, ENOUGH, LEAST_SECONDS = 20, 30, 1.0
"""An input is kept if its CPU time is this many times the median of its command, after so many runs, and no shorter."""
PART_BYTES = 10_000
"""Larger inputs may take longer: their time is that of so many bytes."""
MAX_BYTES = 300_000
"""Of a capture that is mutated."""
MEMORY_MB = 400
LINES = ("json", "check json", "sql")
PATHS = "all paths"
PATHS_BYTES, SHOWN = 60_000, 60
"""Bytes of captures that are read in all ways, and frames of each by every reader."""
SMALL_BYTES = 20_000
COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Damage some packets of a pcap file in or after their headers; lengths in the file still fit."""
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


def file_of(packets: Iterable[tuple[int, bytes]], linktype: int = 1) -> bytes:
    """A pcap file."""
    out = io.BytesIO()
    write_pcap(out, packets, linktype)
    return out.getvalue()


def timed(packets: Iterable[bytes], chance: random.Random) -> Iterator[tuple[int, bytes]]:
    """Packets a millisecond apart, all at one time, or with a clock that goes back."""
    step = chance.choice((1_000_000, 1_000_000, 0, -1000))
    return ((START_NS + at * step, packet) for at, packet in enumerate(packets))


def every_ms(packets: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    return ((START_NS + at * 1_000_000, packet) for at, packet in enumerate(packets))


def talked(chance: random.Random) -> bytes:
    """A capture of a mutated conversation built from declarations; some have a PROXY preface or use a WebSocket."""
    kit = chance.choice(list(KITS.values()))
    data = chance.choice(talks(kit))
    for _ in range(chance.choice((1, 3, 6))):
        data = mutate_talk(kit, data, chance)
    talk = TalkInput.read(data)
    if chance.random() < 0.3:
        wrap = chance.choice((proxied, webbed))
        talk.parts = wrap(talk.parts, chance)
    MADE_OF[kit.__name__] += 1
    return file_of(timed(talk.packets(kit.port()), chance))


def proxied(parts: list[Part], chance: random.Random) -> list[Part]:
    """Add a PROXY preface, which is damaged half the time."""
    second = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(range(1, 13))
    preface = chance.choice((b"PROXY TCP4 10.1.2.3 10.4.5.6 40000 4222\r\n", second))
    return [Part(1, 0, chance.choice(MUTATIONS)(preface, chance) if chance.random() < 0.5 else preface), *parts]


def webbed(parts: list[Part], chance: random.Random) -> list[Part]:
    """Put the conversation into frames of a WebSocket and damage one."""
    asked = b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: eA==\r\n\r\n"
    agreed = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    made = [Part(1, 0, asked), Part(1, 1, agreed)]
    for part in parts:
        mask, data = chance.randbytes(4), part.data[:60_000]
        masked = bytes(byte ^ mask[at & 3] for at, byte in enumerate(data)) if not part.side else data
        head = bytes([0x82, 126 | (0 if part.side else 0x80)]) + len(data).to_bytes(2, "big")
        made.append(Part(1, part.side, head + (b"" if part.side else mask) + masked))
    hit = chance.choice(made)
    hit.data = chance.choice(MUTATIONS)(hit.data, chance)
    return made


def tunnelled(chance: random.Random) -> bytes:
    """Packets of any link layer and in tunnels, with damaged headers."""
    data = chance.choice(list(SEEDS["packets"]()))
    for _ in range(chance.choice((1, 3, 10))):
        data = mutate_packets(data, chance)
    found = PacketsInput.read(data)
    return file_of(((START_NS + at, packet) for at, (_, packet) in enumerate(found.packets)), found.linktype)


def in_fragments(chance: random.Random) -> bytes:
    """Packets of a capture as fragments of IP, some lost, repeated or damaged."""
    from scapy.layers.inet import IP, fragment
    from scapy.layers.l2 import Ether

    size = chance.choice((24, 80, 400))
    plain = PacketsInput.of(open_capture([chance.choice(small())]), 40)
    made = [bytes(Ether() / each) for _, raw in plain.packets for each in fragment(Ether(raw)[IP], size)]
    for _ in range(chance.choice((0, 2, 9))):
        at = chance.randrange(len(made))
        made[at : at + 1] = chance.choice(([], made[at : at + 1] * 2, [chance.choice(MUTATIONS)(made[at], chance)]))
    return file_of(every_ms(made))


def encrypted(chance: random.Random) -> bytes:
    """Damaged records of TLS, with their secrets in the capture."""
    data = mutate_tls(chance.choice(SEEDS["tls"]()), chance)
    size = int.from_bytes(data[:2], "big")
    capture = as_pcapng(file_of(every_ms(TalkInput.read(data[2 + size :]).packets(4222))))
    keys = data[2 : 2 + size] + b"\n" * (-size % 4)
    first = struct.unpack_from("<I", capture, 4)[0]
    total = 20 + len(keys)
    block = struct.pack("<IIII", 10, total, 0x544C534B, len(keys)) + keys + struct.pack("<I", total)
    return capture[:first] + block + capture[first:]


def blocks(chance: random.Random) -> bytes:
    """A pcapng file with damaged blocks."""
    data = as_pcapng(chance.choice(small()).read_bytes())
    for _ in range(chance.choice((1, 3))):
        data = chance.choice(MUTATIONS)(data, chance)
    return data


@cache
def small() -> list[Path]:
    return [path for path in sorted(CAPTURES.glob("*/*.pcap")) if path.stat().st_size < SMALL_BYTES]


SEEDS: dict[str, Callable[[], Any]] = {"packets": cache(lambda: list(packet_seeds())), "tls": tls_seeds}


def mutants(chance: random.Random) -> Iterator[bytes]:
    """Endless mutated captures."""
    paths = sorted(path for path in CAPTURES.glob("*/*.pcap") if path.stat().st_size < MAX_BYTES)
    made = (talked, talked, talked, tunnelled, in_fragments, encrypted, blocks)
    while True:
        if chance.random() < 0.4:
            yield damaged(chance.choice(paths).read_bytes(), chance)
        else:
            with suppress(CaptureError, IndexError):  # from mutated input
                yield chance.choice(made)(chance)


def same_on_all_paths(path: Path) -> None:
    """Assert that every way to read a capture agrees, and that ranges lie within their frames."""
    result = same_in_batches(lambda size: dissect(open_capture([path], **({"batch_packets": size} if size else {}))), 3)
    properties.failures(result)
    for frame in result.frames[:SHOWN]:
        kit = KITS.get(frame.protocol or "")
        properties.decoded(kit, frame) if kit else properties.findings(frame)
        properties.shown(frame)
    slow, _ = tables.table(open_capture([path]), "messages", blocks=False)
    with tables.shortest_blocks():
        fast, _ = tables.table(open_capture([path]), "messages", blocks=True)
    holds(fast.equals(slow), f"tables: {tables.difference(fast, slow) if len(fast) else 'no rows'}")
    rows, _ = tables.table(open_capture([path]), "frames", blocks=False)
    expected = [[finding.record() for finding in frame.findings] for frame in result.frames]
    holds(rows["findings"].to_pylist() == expected, "tables: other findings than frames have")


def child(work: Callable[[], int], folder: Path, terminal: bool) -> tuple[int, bytes, bytes, int, float]:
    """Run work in a child of this process; its output is a file, or a terminal.

    Returns exit code, streams, peak MB and seconds of CPU.
    """
    names = folder / "stdout", folder / "stderr"
    sys.stdout.flush()
    ours, theirs = os.openpty() if terminal else (None, None)
    pid = os.fork()
    if not pid:
        code = 99
        try:
            for number, name in enumerate(names, 1):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            if theirs is not None:
                os.dup2(theirs, 1)
            code = work()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    said = b""
    if ours is not None and theirs is not None:
        os.close(theirs)
        with suppress(OSError):  # EIO: the other side is closed
            while piece := os.read(ours, 1 << 16):
                said += piece
        os.close(ours)
    _, status, used = os.wait4(pid, 0)
    out = COLOUR.sub(b"", said).replace(b"\r\n", b"\n") if terminal else names[0].read_bytes()
    return os.waitstatus_to_exitcode(status), out, names[1].read_bytes(), used.ru_maxrss // 1024, used.ru_utime


def compared(path: Path) -> int:
    """Return 0; or 3, and write the broken property to standard error."""
    try:
        same_on_all_paths(path)
    except Exception as error:
        print(f"{type(error).__name__}: {error}".encode("ascii", "backslashreplace").decode(), file=sys.stderr)
        return 3
    return 0


def command(name: str, file: Path) -> Callable[[], int]:
    """A command on a capture, to be run in a child."""
    words = [word.replace("FILE", str(file)).replace("OUT", f"{file}.out") for word in COMMANDS[name].split()]
    return partial(wiredecode, ["select * from messages" if word == "FROM_MESSAGES" else word for word in words])


class Costs:
    """Seconds of CPU of each command."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def check(self, name: str, seconds: float) -> None:
        """Assert that a run is not far above the median."""
        known = self.seconds.setdefault(name, [])
        insort(known, seconds)
        median = known[len(known) // 2]
        far = len(known) > ENOUGH and seconds > max(FAR_ABOVE * median, LEAST_SECONDS)
        holds(not far, f"cost: {seconds / median:.0f} times the median of {median:.2f} s")


def judge(name: str, code: int, out: bytes, err: bytes, peak: int) -> None:
    """Assert the properties of a finished command."""
    errors = err.decode()
    holds(code in (0, 1, 2, 3), f"exit {code}: {errors[-300:] if name != PATHS else errors[:300]}")
    holds("please report" not in errors and "Traceback" not in errors, f"internal: {errors[-300:]}")
    holds(peak < MEMORY_MB, f"memory: {peak} MB")
    text = out.decode()
    harmless(text.replace("\n", " ").replace("\t", " "), name)
    harmless(errors.replace("\n", " "), f"errors of {name}")
    for line in text.splitlines() if name in LINES else ():
        holds(isinstance(orjson.loads(line), dict), f"JSON: {line[:80]}")


def main() -> int:
    """Run commands on mutants; print findings and totals."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--commands", type=int, default=2, help="number on each capture")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path(".cache/fuzz"))
    given = parser.parse_args()
    (given.work / "found").mkdir(parents=True, exist_ok=True)
    chance, found, runs, files = random.Random(given.seed), Counter[str](), Counter[str](), 0
    most, costs = 0, Costs()
    until = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as temporary:
        folder, file = Path(temporary), Path(temporary, "hostile.pcap")
        for data in mutants(chance):
            if time.monotonic() > until:
                break
            file.write_bytes(data)
            files += 1
            for name in (*[PATHS] * (len(data) < PATHS_BYTES), *chance.sample(sorted(COMMANDS), given.commands)):
                runs[name] += 1
                terminal = name not in (PATHS, *LINES) and chance.random() < 0.5
                ended = child(partial(compared, file) if name == PATHS else command(name, file), folder, terminal)
                most = max(most, ended[3])
                try:
                    judge(name, *ended[:4])
                    costs.check(name, ended[4] / max(1, len(data) / PART_BYTES))
                except Exception as error:
                    text = str(error)
                    said = text[:160] if not text.startswith(("cost", "memory")) else text.partition(":")[0]
                    problem = f"{name}: {type(error).__name__}: {said}"
                    found[problem] += 1
                    if found[problem] == 1:
                        (given.work / "found" / f"hostile-{given.seed}-{files}.pcap").write_bytes(data)
                        print(f"FOUND hostile-{given.seed}-{files}.pcap {problem}", flush=True)
    print(f"of protocols: {dict(MADE_OF)}")
    print(f"{files:,} captures, {runs.total():,} commands, peak {most} MB, found {found.total()}: {dict(runs)}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
