"""Every option of every command does something: each has a case here that shows it, or names the test that does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.test_spark import OPTIONS, STATS
from tests.net import craft
from tests.view.frames import CLIENT, HANDSHAKE, SERVER
from tests.view.frames import write as write_capture
from wiredecode.capture import PacketBatch, open_capture
from wiredecode.capture.live.sniffer import Counts
from wiredecode.cli import sniff
from wiredecode.cli.app import command_line
from wiredecode.protocols.rabbitmq_stream import layers

ROOT = Path(__file__).parent.parent.parent
RABBITMQ = ROOT / "captures" / "rabbitmq-stream"
BASIC, SHUFFLED = str(RABBITMQ / "c43_basic.pcap"), str(RABBITMQ / "d_shuffled_dups.pcap")
LATE = "late.pcap"
"""Made by :func:`folder`: a frame of 2 MiB, one segment of which comes 30 ms late, after an ACK of it."""


LIVE = (
    *("-i", "-f", "-p", "--snaplen", "--buffer", "--duration", "--via"),
    *("-w", "--ring-size", "--ring-seconds", "--ring-files"),
)
TWO_PASSES = "tests/export/test_two_passes.py"


@dataclass(frozen=True)
class Case:
    """A command line without the option and with it: what comes of them differs."""

    without: str
    option: str
    before: str = ""
    """What is run first, both times."""
    code: int = 0


@dataclass(frozen=True)
class See:
    """The option needs more than files; this test shows it: ``path::name``."""

    test: str


PUBLISH = """-q -Y frame.type=="Publish" -c 1"""
READING: dict[str, Case | See] = {
    "-d": Case("{basic} {quick}", "-d 5552=nats"),
    "--hole-timeout": Case("{late} {quick}", "--hole-timeout 0.005"),
    "--max-buffer": Case("{late} {quick}", "--max-buffer 1"),
    "--limit": Case("{shuffled} {quick}", "--limit buffered_segments=0"),
    "--keylog": See("tests/tls/test_tls.py::test_commands_take_key_logs_and_captures_bring_them"),
    "--keylog-dir": See("tests/tls/test_tls.py::test_commands_take_key_logs_and_captures_bring_them"),
    "--resolve": See("tests/net/test_hosts.py::test_commands_show_names_where_they_are_asked_for"),
    "--sandbox": See("tests/cli/test_sandbox.py::test_commands_do_the_same_in_the_sandbox"),
}
"""``{quick}``: the shortest output of the command."""
SHOWING = {
    "--summary": Case("{basic} -q -c 3", "--summary"),
    "--json": Case("{basic} -q -c 3", "--json"),
    "-T": Case("{basic} -q -c 3", "-T tabs"),
    "-e": Case("{basic} -q -c 3 -T fields -e frame.number", "-e frame.type"),
    "-E": Case("{basic} -q -c 3 -T fields -e frame.number", "-E header=y"),
    "-x": Case("{basic} -q -c 3", "-x"),
    "-V": Case(f"{{basic}} {PUBLISH}", "-V"),
    "--time": Case("{basic} -q -c 3 --summary", "--time delta"),
    "--utc": Case("{basic} -q -c 3 --time absolute", "--utc"),
    "-Y": Case("{basic} -q --summary", "-Y frame.length>100"),
    "-c": Case("{basic} -q --summary", "-c 3"),
    "--bytes": Case(f"{{basic}} {PUBLISH}", "--bytes length"),
    "--ranges": Case("{basic} -q -c 3 --json", "--ranges"),
    "--show-secrets": Case("""{basic} -q -Y frame.type=="SaslAuthenticate" """, "--show-secrets"),
    "--color": Case("{basic} -q -c 3", "--color always"),
    "--summary-json": Case("{basic} -q -c 3", "--summary-json totals.json"),
    "-q": Case("{basic} --summary", "-q"),
    "-v": Case("{basic} --summary", "-v"),
}
TIMES = {
    "--from": Case("{basic} {quick}", "--from 2.8"),
    "--to": Case("{basic} {quick}", "--to 0.01"),
}


def nothing_fits(case: Case | See) -> Case | See:
    """Trace finds no message then, where the option changes how the capture is read."""
    return replace(case, code=1) if isinstance(case, Case) and case.option.split()[0] in LEAVES_NOTHING else case


EXTCAP_CAPTURE = "tests/wireshark/test_extcap.py::test_a_capture_goes_through_the_fifo_until_it_is_ended"
LEAVES_NOTHING = ("-d", "--hole-timeout", "--max-buffer", "--from", "--to")
CASES: dict[str, dict[str, Case | See]] = {
    "": {
        "--version": Case("protocols", "--version"),
        "--install-completion": Case("protocols", "--install-completion bash"),
        "--show-completion": Case("protocols", "--show-completion bash"),
    },
    "pcap": {
        **SHOWING,
        **TIMES,
        **READING,
        "-w": Case("{basic} -q", "-w out.pcapng"),
        "--whole-connections": Case("""{basic} -q -w out.pcapng -Y frame.type=="Publish" """, "--whole-connections"),
        "--follow-file": See("tests/cli/test_tshark.py::test_a_file_that_grows_is_followed_until_ctrl_c"),
    },
    "sniff": {
        **SHOWING,
        **READING,
        "--hole-timeout": See("tests/cli/test_every_option.py::test_limits_reach_a_live_dissector"),
        "--max-buffer": See("tests/cli/test_every_option.py::test_limits_reach_a_live_dissector"),
        "--limit": See("tests/cli/test_every_option.py::test_limits_reach_a_live_dissector"),
        "-v": See("tests/cli/test_every_option.py::test_verbose_shows_the_traceback_of_a_bug"),
        "-i": See("tests/live/test_rights.py::test_options_reach_the_capture"),
        "-f": See("tests/live/test_rights.py::test_options_reach_the_capture"),
        "-p": See("tests/live/test_sniff.py::test_the_mode_of_the_interface_is_as_asked"),
        "-w": See(
            "tests/live/test_sniff.py::test_a_dialogue_held_again_gives_its_frames_and_the_saved_file_the_same_ones"
        ),
        "--ring-size": See(
            "tests/live/test_saving.py::test_a_ring_by_size_is_named_as_dumpcap_does_and_loses_nothing_on_the_way"
        ),
        "--ring-seconds": See("tests/live/test_sniff.py::test_a_ring_of_files_goes_on_though_nothing_comes"),
        "--ring-files": See("tests/live/test_sniff.py::test_a_ring_of_files_goes_on_though_nothing_comes"),
        "--duration": See("tests/live/test_sniff.py::test_a_snapshot_length_cuts_packets_and_says_so"),
        "--via": See("tests/live/test_sniff.py::test_another_program_captures"),
        "--snaplen": See("tests/live/test_sniff.py::test_a_snapshot_length_cuts_packets_and_says_so"),
        "--buffer": See("tests/live/test_rights.py::test_options_reach_the_capture"),
    },
    "interfaces": {"--json": Case("", "--json")},
    "follow": {
        **READING,
        **TIMES,
        "-n": Case("{basic} -q", "-n 2"),
        "--address": Case("{basic} -q", "--address 127.0.0.1:37496"),
        "--port": Case("{basic} -q", "--port 37496"),
        "-Y": Case("{basic} -q", """-Y frame.type=="QueryOffset" """),
        "--side": Case("{basic} -q -n 2", "--side server"),
        "--raw": Case("{basic} -q -n 2", "--raw"),
        "--messages": Case("{basic} -q -n 2", "--messages"),
        "--json": Case("{basic} -q -n 2", "--json"),
        "--hex": Case("{basic} -q -n 2", "--hex"),
        "--full": Case("{basic} -q -n 2", "--full"),
        "--time": Case("{basic} -q -n 2", "--time epoch"),
        "--utc": Case("{basic} -q -n 2 --time absolute", "--utc"),
        "-c": Case("{basic} -q -n 2", "-c 3"),
        "--bytes": Case("{basic} -q -n 2", "--bytes sha256"),
        "--ranges": Case("{basic} -q -n 2 --json", "--ranges"),
        "--show-secrets": Case("{basic} -q -n 2 --hex", "--show-secrets"),
        "--color": Case("{basic} -q -n 2", "--color always"),
        "-q": Case("{basic} -n 2", "-q"),
        "-v": Case("{basic} -n 2", "-v"),
    },
    "export": {
        **{
            name: Case(case.without.replace("--time", ""), case.option) if isinstance(case, Case) else case
            for name, case in (READING | TIMES).items()
        },
        "-o": Case("{basic} -q -o a.ndjson", "-o b.ndjson"),
        "--format": Case("{basic} -q -c 3 -o a.ndjson", "--format csv"),
        "--level": Case("{basic} -q -o a.csv", "--level messages"),
        "--columns": Case("{basic} -q -o a.csv", "--columns time,type"),
        "--partition-by": Case("{basic} -q -c 20 -o a --format csv", "--partition-by type"),
        "--overwrite": Case(
            "{basic} -q -c 5 -o a --format csv --partition-by type",
            "--overwrite",
            before="{basic} -q -c 9 -o a --format csv --partition-by type",
        ),
        "--compression": Case("{basic} -q -o a.parquet", "--compression none"),
        "--row-group": Case("{basic} -q -o a.parquet", "--row-group 50"),
        "--csv-formulas": See("tests/cli/test_export.py::test_formulas_in_csv_can_be_guarded"),
        "-c": Case("{basic} -q -o a.csv", "-c 3"),
        "-Y": Case("{basic} -q -o a.csv", "-Y frame.length>100"),
        "--utc": Case("{basic} -q -o a.csv --to 2026-11-20T20:00:00", "--utc"),
        "--bytes": Case("{basic} -q -o a.ndjson", "--bytes length"),
        "--ranges": Case("{basic} -q -o a.ndjson", "--ranges"),
        "--ids": Case("{basic} -q -o a.ndjson", "--ids stable"),
        "--two-passes": See(f"{TWO_PASSES}::test_the_command_reads_twice"),
        "--show-secrets": Case("{basic} -q -o a.ndjson", "--show-secrets"),
        "--summary-json": Case("{basic} -q -o a.csv", "--summary-json totals.json"),
        "-q": Case("{basic} -o a.csv", "-q"),
        "-v": Case("{basic} -o a.csv", "-v"),
    },
    "stats": {
        **READING,
        **TIMES,
        "--utc": Case("{basic} -q --to 2026-11-20T20:00:00", "--utc"),
        "--table": Case("{basic} -q", "--table latency"),
        "--interval": Case("{basic} -q --table throughput", "--interval 10s"),
        "--hops": See("tests/stats/test_numbers.py::test_a_cluster_is_counted_by_exchanges_and_not_by_hops"),
        "--timeline": Case("{basic} -q", "--timeline"),
        "-Y": Case("{basic} -q", """-Y frame.type=="Publish" """),
        "--json": Case("{basic} {quick}", "--json"),
        "--csv": Case("{basic} {quick}", "--csv"),
        "--color": Case("{basic} {quick}", "--color always"),
        "-q": Case("{basic} --table frames", "-q"),
        "-v": Case("{basic} --table frames", "-v"),
    },
    "check": {
        **READING,
        **TIMES,
        "--utc": Case("{basic} --severity note --to 2026-11-20T20:00:00", "--utc"),
        "--severity": Case("{basic}", "--severity note"),
        "--fail-on": Case("{shuffled}", "--fail-on warning", code=1),
        "--timeline": Case("{basic}", "--timeline"),
        "--json": Case("{shuffled}", "--json"),
        "-q": Case("{basic} -v", "-q"),
        "-v": Case("{basic}", "-v"),
    },
    "report": {
        **READING,
        **TIMES,
        "--utc": Case("{basic} {quick} --to 2026-11-20T20:00:00", "--utc"),
        "-o": See("tests/report/test_report.py::test_all_sections_and_plots_are_there"),
        "-Y": See("tests/report/test_report.py::test_only_what_a_filter_chooses_counts"),
        "-n": Case("{basic} {quick} -n 2", "-n 3"),
        "--title": Case("{basic} {quick}", "--title Ticket"),
        "-q": Case("{basic} {quick}", "-q"),
        "-v": Case("{basic} {quick}", "-v"),
    },
    "anonymize": {
        **READING,
        "--resolve": See("tests/net/test_hosts.py::test_what_shows_no_names_says_so"),
        "--keylog": See("tests/tls/test_tls.py::test_what_decrypts_nothing_says_so"),
        "--keylog-dir": See("tests/tls/test_tls.py::test_what_decrypts_nothing_says_so"),
        "--key": Case("{basic} {quick}", "--key {shuffled}"),
        "--names": Case("{basic} {quick}", "--names"),
        "--bodies": Case("{basic} {quick}", "--bodies"),
        "--crypto-pan": Case("{basic} {quick} --key {shuffled}", "--crypto-pan"),
        "--keep-unknown": Case("{basic} {quick} -d 5552=nats", "--keep-unknown"),
        "-q": Case("{basic} {quick}", "-q"),
        "-v": Case("{basic} {quick}", "-v"),
    },
    "trace": {
        **{option: nothing_fits(case) for option, case in (READING | TIMES).items()},
        "--own-clocks": See("tests/trace/test_clocks.py::test_clocks_are_left_alone_where_that_is_asked_for"),
        "--utc": Case("{basic} {quick} --to 2026-11-20T20:00:00", "--utc"),
        "--frame": Case("{basic} {quick}", "--frame 54"),
        "--index": Case("{basic} --frame 54", "--index 4"),
        "--id": Case("{basic} --frame 54", "--id 5"),
        "--topic": Case("{basic} {quick}", "--topic other", code=1),
        "--text": Case("{basic} {quick}", "--text m:1"),
        "--bytes": Case("{basic} {quick}", "--bytes 01020304", code=1),
        "--key": Case("{basic} {quick}", "--key none", code=1),
        "--nth": Case("{basic} {quick}", "--nth 3"),
        "--json": Case("{basic} {quick}", "--json"),
        "-q": Case("{basic} --text nowhere", "-q", code=1),
        "-v": Case("{basic} {quick}", "-v"),
    },
    "spark": {
        **{words.split()[0]: See("tests/cli/test_spark.py::test_every_option_reaches_the_job") for words, _ in OPTIONS},
        **dict.fromkeys(READING, See("tests/cli/test_spark.py::test_decoding_options_reach_the_plan")),
        "--resolve": See("tests/net/test_hosts.py::test_what_shows_no_names_says_so"),
        "--keylog": See("tests/cli/test_spark.py::test_key_logs_reach_the_plan"),
        "--keylog-dir": See("tests/cli/test_spark.py::test_key_logs_reach_the_plan"),
        "--sandbox": See("tests/cli/test_sandbox.py::test_spark_starts_java_and_says_so"),
    },
    "spark stats": {
        words.split()[0]: See("tests/cli/test_spark.py::test_every_option_of_spark_stats_reaches_the_run")
        for words, _ in STATS
    },
    "sql": {
        "--csv-formulas": See("tests/cli/test_export.py::test_formulas_in_csv_can_be_guarded"),
        "--two-passes": See(f"{TWO_PASSES}::test_the_command_reads_twice"),
        "--allow-files": See("tests/cli/test_sql_alone.py::test_files_are_for_those_who_ask"),
        **READING,
        "--format": Case("{basic} {quick}", "--format csv"),
        "-o": Case("{basic} {quick}", "-o answer.csv"),
        "--bytes": Case("{basic} select~body~from~messages", "--bytes text"),
        "--show-secrets": Case("{basic} select~layers.rabbitmq_stream.data~from~frames", "--show-secrets"),
        "--color": Case("{basic} {quick} --format table", "--color always"),
        **TIMES,
        "--utc": Case("{basic} {quick} --to 2026-11-20T20:00:00", "--utc"),
        "-Y": Case("{basic} {quick}", "-Y frame.length>100"),
        "-q": See("tests/cli/test_sql.py::test_a_long_answer_is_cut_on_terminals_only"),
        "-v": See("tests/cli/test_every_option.py::test_verbose_shows_the_traceback_of_a_bug"),
    },
    "ui": {
        **dict.fromkeys([*READING, "-Y"], See("tests/ui/test_command.py::test_options_reach_the_screen")),
        **dict.fromkeys(LIVE, See("tests/ui/test_command.py::test_options_reach_the_capture_and_what_is_saved")),
        "--follow-file": See("tests/ui/test_command.py::test_a_file_that_grows_is_looked_at_as_such"),
    },
    "config": {"--unset": See("tests/cli/test_settings.py::test_config_shows_sets_and_unsets")},
    "wireshark": {
        "--install": See("tests/wireshark/test_places.py::test_what_was_installed_is_removed_again"),
        "--uninstall": See("tests/wireshark/test_places.py::test_what_was_installed_is_removed_again"),
        "--plugins": See("tests/wireshark/test_places.py::test_what_was_installed_is_removed_again"),
        "--extcap": See("tests/wireshark/test_places.py::test_what_was_installed_is_removed_again"),
        "--print": See("tests/wireshark/test_places.py::test_print_and_output_write_the_same"),
        "-o": See("tests/wireshark/test_places.py::test_print_and_output_write_the_same"),
    },
    "extcap": {
        "--extcap-interfaces": See("tests/wireshark/test_extcap.py::test_interfaces_are_listed_behind_a_version"),
        "--extcap-version": See("tests/wireshark/test_extcap.py::test_interfaces_are_listed_behind_a_version"),
        "--extcap-interface": See("tests/wireshark/test_extcap.py::test_an_interface_has_one_link_type"),
        "--extcap-dlts": See("tests/wireshark/test_extcap.py::test_an_interface_has_one_link_type"),
        "--extcap-config": See("tests/wireshark/test_extcap.py::test_every_option_that_is_asked_for_is_taken"),
        "--extcap-capture-filter": See(EXTCAP_CAPTURE),
        "--capture": See(EXTCAP_CAPTURE),
        "--fifo": See(EXTCAP_CAPTURE),
        "--no-promiscuous": See("tests/wireshark/test_extcap.py::test_options_reach_the_capture"),
        "--snaplen": See("tests/wireshark/test_extcap.py::test_options_reach_the_capture"),
        "--via": See("tests/wireshark/test_extcap.py::test_options_reach_the_capture"),
    },
    "protocols": {},
    "fields": {"--json": Case("nats.subject", "--json")},
}
QUICK = {
    "pcap": "--summary",
    "sniff": "--summary -q",
    "follow": "--json -n 1",
    "export": "-o out.ndjson",
    "stats": "-q --table frames",
    "check": "--severity note",
    "trace": "--id 1",
    "anonymize": f"out.pcapng --key {BASIC}",
    "report": "-o r.html",
    "sql": "select~count(*)~n,~sum(length)~s,~max(status)~m~from~frames",
}


def options() -> Iterator[tuple[str, str]]:
    """Every option: its command and its first name."""
    tree = command_line()
    for name, command in [("", tree), *tree.commands.items()]:
        for parameter in command.params:
            if parameter.param_type_name == "option":
                yield name, parameter.opts[0]


ALL = list(options())


def test_every_option_has_a_case_and_every_case_an_option() -> None:
    assert set(ALL) == {(name, option) for name, cases in CASES.items() for option in cases}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the capture that is late."""
    folder = tmp_path_factory.mktemp("options")
    message = layers.PublishedMessage(publishing_id=1, data=bytes(2 << 20))
    talk = craft.Talk()
    made = talk.handshake()
    for side, layer in HANDSHAKE:
        made += talk.send(side, bytes(layer))
    large = talk.send(CLIENT, bytes(layers.Publish(publisher_id=1, messages=[message])), 60_000)
    write_capture(folder / LATE, [*made, *large[:5], large[6], talk.ack(SERVER), *large[7:], large[5]])
    return folder


@pytest.fixture
def folder(place: Path, monkeypatch: pytest.MonkeyPatch, tokyo: None) -> Path:
    """Where commands run: what they write is seen; HOME, too."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    return place


WITHOUT: dict[tuple[str, ...], tuple[Any, ...]] = {}
"""What came of command lines without the option: many options share one."""


class Replayed:
    """What sniff reads, out of a file: the first word of the command line names it."""

    path = BASIC

    def __init__(self) -> None:
        self._capture = open_capture([self.path])
        self.info, self.saving, self.bytes_total = self._capture.info, None, None
        self.counts = Counts(230, 0, 0, 0)
        self.bytes_read = 0

    def __iter__(self) -> Iterator[PacketBatch]:
        return iter(self._capture)

    def stop(self) -> None: ...

    def close(self) -> None: ...


def outcome(run: Run, command: str, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """Exit code, both outputs, and what is in the folder."""
    places = {"basic": BASIC, "late": LATE, "shuffled": SHUFFLED, "quick": QUICK.get(command, "")}
    found = [word.replace("~", " ") for word in words.format(**places).split()]
    if command == "sniff":
        monkeypatch.setattr(Replayed, "path", found[0])
        monkeypatch.setattr(sniff, "open_live", lambda *_, **__: Replayed())
        found[:1] = ["-i", "lo"]
    elif command == "report":  # drawing takes nearly all of the time, and no option is about it
        monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda _, file, **__: file.write("<svg ></svg>"))
    result = run(*[command] * bool(command), *found)
    files = {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return result.code, result.raw, result.err, files


@pytest.mark.parametrize(("command", "option"), ALL, ids=[" ".join(pair).strip() for pair in ALL])
def test_the_option_changes_what_comes_out(
    command: str, option: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[command][option]
    if isinstance(case, See):
        place, _, name = case.test.partition("::")
        names = {node.name for node in ast.parse((ROOT / place).read_text()).body if isinstance(node, ast.FunctionDef)}
        assert name in names, f"{case.test} does not exist"
        return
    assert case.option.split()[0] == option

    def comes_of(words: str) -> tuple[Any, ...]:
        if case.before:
            outcome(run, command, case.before, folder, monkeypatch)
        found = outcome(run, command, words, folder, monkeypatch)
        for path in sorted(folder.rglob("*"), reverse=True):
            if path.is_dir():
                path.rmdir()
            elif path.name != LATE:
                path.unlink()
        return found

    key = command, case.before, case.without
    if key not in WITHOUT:
        WITHOUT[key] = comes_of(case.without)
    found = comes_of(f"{case.without} {case.option}" if command else case.option)
    assert found[0] == case.code, found[2]
    assert found != WITHOUT[key]


def test_limits_reach_a_live_dissector(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = ["-i", "lo", "--hole-timeout", "7", "--max-buffer", "9", "--limit", "closed_seconds=3"]
    limits: list[Any] = []
    monkeypatch.setattr(sniff, "dissector", lambda *given, **_: limits.append(given[2].limits))
    monkeypatch.setattr(sniff, "open_live", lambda *_, **__: None)
    assert run("sniff", *said).code == 2
    (found,) = limits
    assert (found.hole_seconds, found.buffered_bytes, found.closed_seconds) == (7, 9 << 20, 3)


@pytest.mark.parametrize("command", ["sql", "sniff"])
def test_verbose_shows_the_traceback_of_a_bug(
    command: str, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(sniff, "open_live", fail)
    monkeypatch.setattr("wiredecode.export.query.Database", fail)
    words = {"sql": [BASIC, "select 1"], "sniff": ["-i", "lo"]}[command]
    assert "Traceback" not in run(command, *words).err
    assert "Traceback" in run(command, *words, "-v").err
