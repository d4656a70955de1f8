"""Compares captures with the accounts of client and broker.

    python -m tests.truth FOLDER [--protocol NAME]

Every ``NAME.pcap*`` in the folder that has a ``NAME.truth.json`` is decoded and compared with it: by
``tests/protocols/truth_<protocol>.py`` (a function ``check(capture, truth) -> list of disagreements``; the protocols
are those whose names are in the folder's), and, if the capture was derived from another one, with that one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support import Run, capture, dissect, is_plain, lossy, meaning, seen
from wiredecode.capture import CaptureError, PacketBatch, open_capture

Check = Callable[[Path, dict[str, Any]], list[str]]


def check_of(name: str) -> Check:
    """A combined check of all protocols whose names are in ``name``."""
    modules = sorted(path.stem for path in (Path(__file__).parent / "protocols").glob("truth_*.py"))
    wanted = [module for module in modules if module.removeprefix("truth_") in name]
    if not wanted:
        raise LookupError(f"no tests/protocols/truth_<protocol>.py for {name!r}")
    checks: list[Check] = [importlib.import_module(f"tests.protocols.{module}").check for module in wanted]
    return lambda path, truth: [line for check in checks for line in check(path, truth)]


def pairs(folder: Path) -> Iterator[tuple[Path, Path]]:
    """The captures of a folder with their truth: ``NAME.pcap.truth.json`` or ``NAME.truth.json``."""
    for path in sorted(folder.iterdir()):
        name, container, _ = path.name.rpartition(".pcap")
        truths = [folder / f"{start}.truth.json" for start in (path.name, name)]
        truth = next((truth for truth in truths if truth.exists()), None)
        if container and truth is not None and path.suffix != ".json":
            yield path, truth


def compare(path: Path, truth_path: Path, check: Check) -> list[str]:
    """The disagreements of one capture with its truth."""
    truth = json.loads(truth_path.read_text())
    run = capture(path) if "derived_from" not in truth else encrypted(path)
    wrong = accounts(path, run, truth)
    base_truth = truth_of_base(path, truth)
    if base_truth is None:
        return wrong + check(path, truth)
    base_path = path.parent / (truth["derived_from"].removesuffix(".pcap") + ".pcap")
    base = capture(base_path) if base_path.exists() else None
    if base is not None and run.error is not None:
        return wrong + cut_short(run, base)
    if base is not None and fresh(run) < fresh(base):
        return wrong + damaged(path, run, base_path)
    return wrong + check(path, base_truth) + ([] if base is None else identical(run, base))


def encrypted(path: Path) -> Run:
    """Dissect a capture without the TLS secrets that it may contain, like the capture it was made from."""
    return dissect(replace(batch, secrets=()) for batch in open_capture([path]))


def truth_of_base(path: Path, truth: dict[str, Any]) -> dict[str, Any] | None:
    """The truth of the capture that this one was derived from."""
    base_truth: dict[str, Any] | None = truth.get("base_truth")
    for key in ("truth_of_source", "source_truth"):
        base = path.parent / truth.get(key, "-")
        if base.exists():
            base_truth = json.loads(base.read_text())
    return base_truth


def fresh(run: Run) -> int:
    """Payload bytes captured, each counted once."""
    totals = run.totals
    return totals.captured - totals.duplicate - totals.late - totals.ignored


def accounts(path: Path, run: Run, truth: dict[str, Any]) -> list[str]:
    """Check that the accounting closes over the captured payload bytes (if the link layer is plain)."""
    totals = run.totals
    wrong = [] if totals.closes else [f"the accounting does not close: {totals}"]
    if all(is_plain(batch) for batch in packets_of(path)):
        present = seen(packets_of(path)).captured
        if totals.captured != present:
            wrong.append(f"{totals.captured} payload bytes counted, {present} are there")
    damaged = any(key.startswith("deriv") for key in truth) or "began after" in str(truth.get("notes"))
    if totals.undecoded and not damaged:
        wrong.append(f"{totals.undecoded} bytes undecoded in an undamaged capture")
    return wrong


def packets_of(path: Path) -> Iterator[PacketBatch]:
    """The batches of a capture up to its damage."""
    batches = iter(open_capture([path]))
    while True:
        try:
            batch = next(batches, None)
        except CaptureError:
            return
        if batch is None:
            return
        yield batch


def identical(run: Run, base: Run) -> list[str]:
    """The same frames, but for packets, times and numbers; requests and responses linked alike."""
    ours, theirs = placed(run), placed(base)
    wrong = [f"{len(ours)} frames, the base has {len(theirs)}"] if len(ours) != len(theirs) else []
    for mine, base_frame in zip(ours, theirs, strict=False):
        different = [name for name in base_frame if mine[name] != base_frame[name]]
        if different:
            wrong.append(f"{mine['type']} at {mine['offset']} differs from the base in {different}")
    return wrong


def placed(run: Run) -> list[dict[str, Any]]:
    """The contents of frames in order of their places, which replace their numbers."""
    said = [meaning(frame) for frame in run.frames]
    for frame in said:
        frame["connection"] = frame["connection"].rpartition(":")[2]  # addresses may have been rewritten
    places = {frame["number"]: place(frame) for frame in said}
    for frame in said:
        frame["number"] = None
        for name in ("request", "response"):
            frame[name] = places.get(frame[name])
    return sorted(said, key=place)


def place(said: dict[str, Any]) -> tuple[Any, ...]:
    return said["connection"], said["side"], said["offset"]


def cut_short(run: Run, base: Run) -> list[str]:
    """Compare a file that ends early: everything before its end, then one error."""
    wrong = [] if run.error is not None else ["the early end was not reported"]
    read = run.totals.packets
    expected = [frame for frame in base.frames if frame.packet_ready <= read]
    ours = [frame for frame in run.frames if not frame.missing]
    for mine, theirs in zip(ours, expected, strict=False):
        said, base_frame = meaning(mine), meaning(theirs)
        if base_frame["response"] is not None and base_frame["response"] > len(expected):
            base_frame["response"] = None
        if said != base_frame or (mine.packets, mine.time_ns) != (theirs.packets, theirs.time_ns):
            wrong.append(f"frame {mine.number} {mine.type} differs from the base")
    if len(ours) != len(expected):
        wrong.append(f"{len(ours)} frames before the cut, not {len(expected)}")
    return wrong


def damaged(path: Path, run: Run, base_path: Path) -> list[str]:
    """Compare a damaged capture: frames whose bytes were captured, reported gaps, nothing invented."""
    base, whole = capture(base_path), seen(packets_of(base_path))
    there = seen(packets_of(path))
    wrong, lost = lossy(base, run, there, whole.origin)
    wrong += [f"lost although whole: {f.number} {f.type} at {f.offset} of {f.source}" for f in lost]
    base_bytes = base.totals.framed + base.totals.undecoded
    ours = run.totals.framed + run.totals.undecoded + run.totals.missing
    if ours != base_bytes and there.origin == whole.origin:
        wrong.append(f"{ours} bytes in frames, spans and gaps; {base_bytes} were sent")
    gaps = sum(finding.code in ("hole", "frame-cut") for frame in run.frames for finding in frame.findings)
    if run.totals.missing and not gaps:
        wrong.append("no finding names the gaps")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--protocol", help="the truth module to use, if it is not in the folder's name")
    options = parser.parse_args()
    check = check_of(options.protocol or options.folder.resolve().name)
    failed = 0
    for path, truth in pairs(options.folder):
        try:
            wrong = compare(path, truth, check)
        except Exception as error:  # a report on all captures is worth more than the first traceback
            wrong = [f"the check broke: {error!r}"]
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok':6} {path.name}")
        for line in wrong:
            print(f"       {line}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
