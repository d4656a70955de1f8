"""Every command with a missing extra: it works, or one line says what to install (issue 12, point 11)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from struct import pack

import pytest

from tests.capture.build import Ng, packets, padded
from tests.support import RABBITMQ
from wiredecode.capture import Capture
from wiredecode.extras import EXTRAS, install, missing

TLS, KEYLOG = RABBITMQ / "c43_tls.pcap", RABBITMQ / "c43_tls.keylog"
CAPTURE = str(RABBITMQ / "c43_basic.pcap")
RUN = """
import contextlib, io, json, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from wiredecode.cli import main
outcomes = {}
for words in json.loads(sys.argv[2]):
    with contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(words.split(" "))
    outcomes[words] = code, err.getvalue()
sys.stdout.flush()
print("\\n" + json.dumps(outcomes))
"""
COMMANDS = [
    f"pcap {CAPTURE} -c 3 -q",
    f"pcap {CAPTURE} --summary -c 3 -q -Y frame.number>1",
    f"pcap {CAPTURE} --json -c 3 -q",
    f"follow {CAPTURE} -n 1 -q",
    f"export {CAPTURE} -o frames.csv -q",
    f"export {CAPTURE} -o frames.parquet -q",
    f"export {CAPTURE} -o messages.ndjson --level messages -q",
    f"export {CAPTURE} -o packets.arrow --level packets -q",
    f"export {CAPTURE} -o frames.ndjson.zst -q",
    f"export {CAPTURE} -o delta:tables -c 3 -q",
    f"export {CAPTURE} -o iceberg:./tables -c 3 -q",
    f"sql {CAPTURE} select(1)",
    f"stats {CAPTURE} -q",
    "protocols",
    "fields rabbitmq_stream",
    f"spark {CAPTURE} -o lake --master sc://nowhere",
    f"spark {CAPTURE} -o lake -q",
    f"spark stats {CAPTURE}",
]
NEEDS = {
    "duckdb": r"sql",
    "zstandard": r".*(\.zst | iceberg:)",
    "pyspark": "spark",
    "deltalake": ".* delta:",
    "pyiceberg": ".* iceberg:",
    "sqlalchemy": ".* iceberg:",
}
"""The commands that cannot do without a package begin with this."""


USED_IF_THERE = [module for module in (*EXTRAS, "pandas", "polars") if module not in NEEDS]


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [*NEEDS, *USED_IF_THERE],
)
def test_every_command_works_without_an_extra_or_says_in_one_line_what_to_install(module: str, tmp_path: Path) -> None:
    check_without(module, tmp_path)


@pytest.mark.slow
def test_every_command_works_without_any_optional_package(tmp_path: Path) -> None:
    check_without(",".join(USED_IF_THERE), tmp_path)


def test_tls_secrets_without_cryptography(tmp_path: Path) -> None:
    """Secrets of a file need the package; a capture with its own secrets is read, with a hint."""
    ng, secrets = Ng(), KEYLOG.read_bytes()
    brought = ng.block(10, pack("<II", 0x544C534B, len(secrets)) + padded(secrets))
    frames = [packet.data for packet in packets(Capture([BytesIO(TLS.read_bytes())]))[0]]
    content = [ng.section(), ng.interface(), brought, *(ng.enhanced(data, at) for at, data in enumerate(frames))]
    (tmp_path / "inside.pcapng").write_bytes(b"".join(content))
    keyed, inside = f"pcap {TLS} -q --keylog {KEYLOG}", "pcap inside.pcapng --summary"
    outcomes = outcomes_without("cryptography", [keyed, inside], tmp_path)
    assert [*outcomes[keyed]] == [
        2,
        f"wiredecode: --keylog needs cryptography, which is not installed: {install('tls')}\n",
    ]
    code, err = outcomes[inside]
    assert code == 0
    assert f"TLS was not decrypted: give its secrets (--keylog; {install('tls')})" in err


def test_commands_that_need_a_missing_package_say_so(tmp_path: Path) -> None:
    """All packages in one process; each separately is a slow test."""
    words = [each for each in COMMANDS if any(re.match(pattern, each) for pattern in NEEDS.values())]
    outcomes = outcomes_without(",".join(NEEDS), words, tmp_path)
    for each, (code, err) in outcomes.items():
        extras = {EXTRAS[module] for module, pattern in NEEDS.items() if re.match(pattern, each)}
        assert (code, err.count("\n")) == (2, 1), (each, err)
        assert any(f"pip install '.[{extra}]' in a clone" in err for extra in extras) or "sc://" in each, (each, err)


def check_without(module: str, tmp_path: Path) -> None:
    words = [each for each in COMMANDS if not each.startswith("spark") or module == "pyspark"]
    outcomes = outcomes_without(module, words, tmp_path)
    assert list(outcomes) == words
    needing = {each for each in words if re.match(NEEDS.get(module, "(?!)"), each)}
    for each, (code, err) in outcomes.items():
        if each in needing:
            assert (code, err.count("\n")) == (2, 1), (each, err)
            assert module == "pyspark" or f"pip install '.[{EXTRAS[module]}]' in a clone" in err, err
        else:
            assert (code, err) == (0, ""), each
    if module == "pyspark":
        assert "pip install '.[spark]' in a clone" in outcomes[f"spark {CAPTURE} -o lake -q"][1]


def outcomes_without(module: str, words: list[str], tmp_path: Path) -> dict[str, tuple[int, str]]:
    """Exit code and stderr of each command, all in one process."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, module, json.dumps(words)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, tuple[int, str]] = json.loads(done.stdout.splitlines()[-1])
    return outcomes


def test_missing_packages_are_named_by_extra_or_name() -> None:
    def line(module: str) -> str | None:
        return missing(ModuleNotFoundError(f"No module named {module!r}", name=module))

    assert line("duckdb") == ("duckdb is needed for this, and not installed: pip install '.[sql]' in a clone")
    assert line("pyarrow.lib") == "pyarrow is needed for this, and not installed: pip install pyarrow"
    assert line("wiredecode.nothing") is None
    assert missing(ImportError("cannot import name 'x' from 'lark'", name="lark")) is None
