"""The other commands, and tests that need a separate process: pipes, signals, imports."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support import capture

COMMAND = [sys.executable, "-m", "wiredecode"]


def test_protocols_are_listed(run: Run) -> None:
    head, *rows = run("protocols").lines
    assert head.split() == ["NAME", "PROTOCOL", "PORTS", "OVER", "TLS", "DIALECTS"]
    assert any(row.split() == ["rabbitmq_stream", "RabbitMQ", "Stream", "5552", "5551", "-"] for row in rows)


def test_every_field_of_every_record_is_listed(run: Run, captures: Path) -> None:
    """Records hold the fields of the catalogue, and otherwise only generated values."""
    names = {json.loads(line)["name"] for line in run("fields", "--json").lines}
    inner = {"messages", "problem", "offset"}

    def missing(value: object, prefix: str) -> set[str]:
        if isinstance(value, list):
            return {name for element in value for name in missing(element, prefix)}
        if not isinstance(value, dict):
            return set()
        keys = {key: f"{prefix}.{key}" for key in value}
        found = {name for key, name in keys.items() if name not in names and key not in inner}
        return found.union(
            *(missing(value[key], name) for key, name in keys.items() if name in names and key != "amqp")
        )

    for name in ("c43_basic", "c43_subentry", "c43_sac", "c43_superstream"):
        for frame in capture(captures / "rabbitmq-stream" / f"{name}.pcap").frames:
            for protocol, fields in (frame.layers or {}).items():
                assert missing(fields, protocol) == {f"{protocol}.{key}" for key in frame.generated} - names


def test_fields_have_type_messages_and_meaning(run: Run) -> None:
    (row,) = [json.loads(line) for line in run("fields", "rabbitmq_stream.chunk.chunk_id", "--json").lines]
    assert row["type"] == "uint64"
    assert row["messages"] == ["Deliver", "DeliverV2"]
    assert row["meaning"] == "offset of the first message"
    secret = [json.loads(line)["name"] for line in run("fields", "--json").lines if json.loads(line)["secret"]]
    assert "rabbitmq_stream.data" in secret
    assert "secret" in run("fields", "rabbitmq_stream.data").out
    codes = json.loads(run("fields", "rabbitmq_stream.offset_type", "--json").lines[0])["values"]
    assert codes["5"] == "timestamp"


def test_an_unknown_prefix_is_an_error(run: Run) -> None:
    result = run("fields", "mqtt")
    assert (result.code, result.raw) == (2, b"")
    assert "no field begins with 'mqtt'" in result.err


def test_fields_fit_into_a_narrow_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("fields", "rabbitmq_stream.messages").lines
    assert lines[0].startswith("rabbitmq_stream.messages")
    assert lines[1] == "    messages and sub-batches [Publish, PublishV2]"


def test_pages_of_the_documentation_are_shown_by_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"tutorial", "troubleshooting", "exit-codes", "nats"} <= set(run("help").lines)
    assert run("help", "glossary").out.startswith("# Glossary\n")
    assert (run("help", "nosuch").code, run("help", "nosuch").out) == (2, "")
    monkeypatch.setattr("wiredecode.cli.pages.terminal", lambda: os.terminal_size((60, 24)))
    shown = re.sub(r"\x1b\[[\d;]*m", "", run("help", "glossary").out)
    assert "# Glossary" not in shown and max(map(len, shown.splitlines())) <= 60


def test_help_and_version(run: Run) -> None:
    assert "--version" in run("--help").out
    assert "[brackets]" in run("pcap", "--help").out
    assert run("--version").out.startswith("wiredecode ")
    empty = run()
    assert empty.code == 2
    assert "wiredecode --help lists all commands" in empty.err
    assert run("nonsense").code == 2


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from wiredecode.cli import main; main(['pcap', '--help']);"
        "print([m for m in ('scapy', 'numpy', 'rich', 'orjson') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_check_imports_only_protocols_in_the_capture(captures: Path) -> None:
    path = str(captures / "nats" / "03-pubsub.pcap")
    code = (
        f"import sys; from wiredecode.cli import main; main(['check', '-q', {path!r}]);"
        "print(*(m for m in sys.modules if m.endswith('.protocol') and 'protocols' in m), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.split(".")[2] for name in done.stderr.split()} == {"nats", "liftbridge"}


@pytest.mark.parametrize(("words", "own"), [("", True), ("sys.argv[1:]", False)])
def test_a_command_imports_nothing_that_it_does_not_need_and_a_program_keeps_its_scapy(
    words: str, own: bool, basic: Path, tmp_path: Path
) -> None:
    pytest.importorskip("cryptography")
    code = (
        f"import sys; from wiredecode.cli import main; main({words});"
        "from scapy.data import MANUFDB, IP_PROTOS; from scapy.config import conf; import cryptography;"
        "print('pydantic' in sys.modules, len(MANUFDB.d) > 0, conf.crypto_valid, IP_PROTOS.tcp, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "pcap", str(basic), "--summary", "-q"]
    folders = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=folders)
    assert done.stderr.split() == ["False", str(not own), str(not own), "6"]
    assert list(tmp_path.rglob("manufdb*")) == [] or not own


def test_a_closed_pipe_gives_no_error(captures: Path) -> None:
    path = captures / "rabbitmq-stream" / "c43_large.pcap"
    with subprocess.Popen(
        [*COMMAND, "pcap", path, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_frames_come_while_the_pipe_is_open_and_an_interrupt_ends_quietly(basic: Path) -> None:
    command = [*COMMAND, "pcap", "-", "--summary"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        process.stdin.write(basic.read_bytes()[:5000])
        process.stdin.flush()
        assert b"PeerProperties" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read().decode()
        assert process.wait() == 130
        process.stdin.close()
    assert "interrupted; until now:" in errors
    assert "Traceback" not in errors


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_reported(basic: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "pcap", basic, "--json", "-q"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert done.stderr.decode() == f"wiredecode: cannot write: {os.strerror(28)}\n"
