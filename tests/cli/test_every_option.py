"""Every option of every command has an effect: each has a case that runs it and asserts the difference, or names the
test that does."""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.option_cases import CASES, FILES, QUICK, Case, Outcome, See
from tests.conftest import in_one_test
from tests.net import craft
from tests.net.test_hosts import named
from tests.report.support import undrawn
from tests.view.frames import CLIENT, HANDSHAKE, SERVER
from tests.view.frames import write as write_capture
from wiredecode.capture import PacketBatch, open_capture
from wiredecode.capture.live.sniffer import Counts
from wiredecode.cli import sandbox
from wiredecode.cli.app import _tree, command_line
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.ui import app

ROOT = Path(__file__).parent.parent.parent
BASIC = FILES["basic"]
GIVEN = {FILES[name] for name in ("late", "named", "keyfolder")}


def options() -> Iterator[tuple[str, str]]:
    """Every option: its command and its first name."""
    tree = command_line()
    for name, command in [("", tree), *tree.commands.items()]:
        for parameter in command.params:
            if parameter.param_type_name == "option":
                yield name, parameter.opts[0]


ALL = list(options())


def of_kind(kind: type, parametrize: Callable[..., Any]) -> Any:
    pairs = [pair for pair in ALL if isinstance(CASES.get(pair[0], {}).get(pair[1]), kind)]
    return parametrize(("command", "option"), pairs, ids=[" ".join(pair).strip() for pair in pairs])


def test_every_option_has_a_case_and_every_case_an_option() -> None:
    assert set(ALL) == {(name, option) for name, cases in CASES.items() for option in cases}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with crafted captures, and secrets."""
    folder = tmp_path_factory.mktemp("options")
    message = layers.PublishedMessage(publishing_id=1, data=bytes(2 << 20))
    talk = craft.Talk()
    made = talk.handshake()
    for side, layer in HANDSHAKE:
        made += talk.send(side, bytes(layer))
    large = talk.send(CLIENT, bytes(layers.Publish(publisher_id=1, messages=[message])), 60_000)
    write_capture(folder / FILES["late"], [*made, *large[:5], large[6], talk.ack(SERVER), *large[7:], large[5]])
    named(folder, "04-request-reply.pcap")
    (folder / FILES["keyfolder"]).mkdir()
    shutil.copy(FILES["keys"], folder / FILES["keyfolder"] / "a.log")
    return folder


@pytest.fixture
def folder(place: Path, monkeypatch: pytest.MonkeyPatch, tokyo: None) -> Path:
    """The working directory and HOME of commands, so that their files are found."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(place))
    doubles(monkeypatch)
    return place


@pytest.fixture(autouse=True, scope="module")
def shells() -> Iterator[None]:
    """Typer finds no shell."""
    _tree.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
        yield
    _tree.cache_clear()


class Replayed:
    """A file as the source of sniff."""

    def __init__(self, path: str) -> None:
        self._capture = open_capture([path])
        self.info, self.saving, self.bytes_total = self._capture.info, None, None
        self.counts = Counts(230, 0, 0, 0)
        self.bytes_read = 0

    def __iter__(self) -> Iterator[PacketBatch]:
        return iter(self._capture)

    def save(self, *said: object) -> None:
        print("saved", *said, file=sys.stderr)

    def stop(self) -> None: ...

    def close(self) -> None: ...


def doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test doubles of functions that change this process or need a terminal; they print their arguments to stderr."""

    def confine(reads: Iterable[Path], writes: Iterable[Path], **_: object) -> None:
        print("confined: reads", *reads, "writes", *writes, file=sys.stderr)

    def show(files: list[str], select: Any, **reading: Any) -> int:
        given = {**reading, "select": select and select.text}
        print(*(f"{name} {value}" for name, value in given.items()), sep="\n", file=sys.stderr)
        return 0

    monkeypatch.setattr(sandbox, "confine", confine)
    monkeypatch.setattr(app, "run", show)
    undrawn(monkeypatch)


def outcome(run: Run, command: str, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """Exit code, both outputs, and the written files, which are removed."""
    found = [word.replace("~", " ") for word in words.format(**FILES, quick=QUICK.get(command, "")).split()]
    if command == "sniff":
        path = found[0]

        def capturing(*said: object, saves: bool) -> closing[Replayed]:
            print("asked for", *said, file=sys.stderr)
            return closing(Replayed(path))

        monkeypatch.setattr("wiredecode.cli.capturing.capturing", capturing)
        found[:1] = ["-i", "lo"]
    elif command == "ui":
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda: True)
    result = run(*[command] * bool(command), *found)
    written = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in GIVEN
    }
    return Outcome(result.code, result.raw.decode("utf-8", "replace"), result.err, written)


def comes_of(case: Case, words: str, command: str, run: Run, folder: Path, patch: pytest.MonkeyPatch) -> Outcome:
    if case.before:
        outcome(run, command, case.before, folder, patch)
    found = outcome(run, command, words, folder, patch)
    for path in folder.iterdir():
        if path.name not in GIVEN:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return found


WITHOUT: dict[tuple[str, ...], Outcome] = {}
"""Cached outcomes of command lines without the option, which many options share."""


@of_kind(Case, pytest.mark.parametrize)
def test_the_option_has_its_effect(
    command: str, option: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[command][option]
    assert isinstance(case, Case) and case.option.split()[0] == option
    key = command, case.before, case.without
    if key not in WITHOUT:
        WITHOUT[key] = comes_of(case, case.without, command, run, folder, monkeypatch)
    words = f"{case.without} {case.option}" if command else case.option
    found = comes_of(case, words, command, run, folder, monkeypatch)
    assert found.code == case.code, found.err
    assert case.shows(WITHOUT[key], found), f"without: {WITHOUT[key]}\nwith it: {found}"[:20_000]


@cache
def definitions(path: Path) -> dict[str, ast.stmt]:
    """The definitions of a module, by name."""
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            if isinstance(target, ast.Name):
                found[target.id] = node
    return found


def texts(name: str, module: dict[str, ast.stmt]) -> Iterator[str]:
    """The strings in a test, and in the definitions of its module that it uses."""
    names, seen = [name], set[str]()
    while names:
        each = names.pop()
        if each in module and each not in seen:
            seen.add(each)
            for node in ast.walk(module[each]):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
                elif isinstance(node, ast.Name | ast.arg):
                    names.append(node.id if isinstance(node, ast.Name) else node.arg)


@of_kind(See, in_one_test)
def test_the_named_test_uses_the_option_and_asserts_something(command: str, option: str) -> None:
    case = CASES[command][option]
    assert isinstance(case, See)
    place, _, name = case.test.partition("::")
    module = definitions(ROOT / place)
    assert name in module, f"{case.test} does not exist"
    assert any(isinstance(node, ast.Assert) for node in ast.walk(module[name])), "it asserts nothing"
    words = {word.partition("=")[0] for text in texts(name, module) for word in text.split()}
    assert words & {option, *option_names(command, option)}, "it does not give the option"


def option_names(command: str, option: str) -> list[str]:
    """The names of an option: short and long."""
    tree = command_line()
    parameters = (tree.commands[command] if command else tree).params
    return [name for each in parameters if option in each.opts for name in each.opts]


@pytest.mark.parametrize("command", ["sql", "sniff"])
def test_verbose_shows_the_traceback_of_a_bug(
    command: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("wiredecode.cli.capturing.capturing", fail)
    monkeypatch.setattr("wiredecode.export.query.Database", fail)
    words = {"sql": [BASIC, "select 1"], "sniff": ["-i", "lo"]}[command]
    assert "Traceback" not in run(command, *words).err
    assert "Traceback" in run(command, *words, "-v").err
