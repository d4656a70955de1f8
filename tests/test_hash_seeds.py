"""Python's hash seed changes the order of sets of text: no byte of output may depend on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from tests.conftest import CAPTURES
from tests.golden import run

SEEDS = ("0", "1", "9")
"""Before the order was fixed, seed 9 swapped two members of the column ``other``, and seed 1 did not."""
SELECTION = (
    "rabbitmq-stream/c43_amqp.pcap",
    "rabbitmq-stream/c43_errors.pcap",
    "nats/03-pubsub.pcap",
    "liftbridge/31-lb-all-types.pcap",
    "tank/tank_07_produce_multi_errors.pcap",
    "cursus/group.pcap",
    "pravega/errors.pcap",
)
CAPTURE = [str(CAPTURES / name) for name in SELECTION]
FEW_COLUMNS = ["--columns", "layers.rabbitmq_stream.key,layers.rabbitmq_stream.other,layers.nats.other"]
COMMANDS: dict[str, list[str]] = {
    "frames": ["export", *CAPTURE, "-o", "{out}.parquet"],
    "other": ["export", *CAPTURE, "-o", "{out}.parquet", *FEW_COLUMNS],
    "frames as JSON": ["export", *CAPTURE, "-o", "{out}.jsonl"],
    "frames as CSV": ["export", *CAPTURE, "-o", "{out}.csv"],
    "messages": ["export", *CAPTURE, "-o", "{out}.parquet", "--level", "messages"],
    "packets": ["export", *CAPTURE, "-o", "{out}.parquet", "--level", "packets"],
    "connections": ["export", *CAPTURE, "-o", "{out}.parquet", "--level", "connections"],
    "records": ["pcap", *CAPTURE, "--json", "--ranges", "--summary-json", "{out}"],
    "trees": ["pcap", *CAPTURE, "--color", "never"],
    "lines": ["pcap", *CAPTURE, "--summary", "-Y", "frame.type in {Publish, MSG, Produce} || finding"],
    "unknown name": ["pcap", CAPTURE[0], "-Y", "frame.type == Publihs"],
    "check": ["check", *CAPTURE],
    "check as JSON": ["check", *CAPTURE, "--json"],
    "stats": ["stats", *CAPTURE],
    "report": ["report", *CAPTURE[:3], "-o", "{out}.html"],
    "fields": ["fields"],
    "Lua": ["wireshark", "-o", "{out}.lua"],
}


QUICK = ("other", "records", "fields")
"""A sample of the commands; all others are a slow test."""


def digests(names: Sequence[str]) -> dict[str, str]:
    """The digest of what each command prints and writes, in this process."""
    from wiredecode.cli import main

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            words = COMMANDS[name]
            place = Path(folder, name.replace(" ", "-"))
            place.mkdir()
            code, out, err = run(main, [word.replace("{out}", str(place / "out")) for word in words])
            files = sorted(place.rglob("*"))
            assert code in (0, 1) or "Publihs" in err, (name, err)
            assert not words[-1].startswith("{out}") or files, name
            parts = [out.encode(), err.encode(), *(path.read_bytes() for path in files if path.is_file())]
            found[name] = sha256(b"\0".join(part.replace(folder.encode(), b"") for part in parts)).hexdigest()
    return found


@pytest.mark.parametrize(
    ("names", "seeds"), [(QUICK, SEEDS[::2]), pytest.param((*COMMANDS,), SEEDS, marks=pytest.mark.slow)]
)
def test_no_output_depends_on_the_hash_seed(names: tuple[str, ...], seeds: tuple[str, ...]) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.test_hash_seeds", *names],
            cwd=Path(__file__).parent.parent,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in seeds
    ]
    first, *others = [json.loads(process.communicate()[0]) for process in started]
    assert [*first] == [*names]
    for seed, other in zip(seeds[1:], others, strict=True):
        assert [name for name in first if first[name] != other[name]] == [], f"seed {seed} differs from {seeds[0]}"


if __name__ == "__main__":
    json.dump(digests(sys.argv[1:]), sys.stdout)
