"""A case per option of each command: a command line without it and with it, and the difference."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from tests.cli.test_spark import OPTIONS, STATS
from wiredecode.capture import open_capture

CAPTURES = Path(__file__).parents[2] / "captures"
RABBITMQ = CAPTURES / "rabbitmq-stream"
FILES = {
    "basic": str(RABBITMQ / "c43_basic.pcap"),
    "shuffled": str(RABBITMQ / "d_shuffled_dups.pcap"),
    "tls": str(RABBITMQ / "c43_tls.pcap"),
    "keys": str(RABBITMQ / "c43_tls.keylog"),
    "keyed": str(CAPTURES / "tank" / "tank_05_keys_timestamps.pcap"),
    "cluster": str(CAPTURES / "liftbridge" / "34-lb-replication.pcap.zst"),
    "late": "late.pcap",
    "named": "named.pcapng",
    "keyfolder": "keys",
}
"""``late`` (a frame of 2 MiB, one segment of which comes 30 ms late, after its ACK), ``named`` (with a name for an
address) and ``keyfolder`` are made by the test."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command."""

    code: int
    out: str
    err: str
    files: dict[str, bytes] = field(default_factory=dict)

    def text(self, of: str) -> str:
        """``out``, ``err``, ``both``, or the file of that name; without such a file nothing."""
        shown = {"out": self.out, "err": self.err, "both": self.out + self.err}
        return shown[of] if of in shown else self.files.get(of, b"").decode("utf-8", "replace")

    def rows(self, of: str = "out") -> list[dict[str, Any]]:
        """Lines of JSON."""
        return [json.loads(line) for line in self.text(of).splitlines()]


Shows = Callable[[Outcome, Outcome], bool]
"""Whether the option did what it is for, of the outcomes without it and with it."""


def has(*patterns: str, gone: Iterable[str] = (), of: str = "out") -> Shows:
    """Text that matches ``patterns`` appears with the option only, and text that matches ``gone`` without it only."""

    def shows(plain: Outcome, found: Outcome) -> bool:
        pairs = [(each, found, plain) for each in patterns] + [(each, plain, found) for each in gone]
        return all(
            re.search(each, one.text(of), re.MULTILINE) and not re.search(each, other.text(of), re.MULTILINE)
            for each, one, other in pairs
        )

    return shows


def lines(choose: Callable[[list[str]], Sequence[str]], of: str = "out") -> Shows:
    """The lines are a selection of those without the option, and fewer."""

    def shows(plain: Outcome, found: Outcome) -> bool:
        before = plain.text(of).splitlines()
        return found.text(of).splitlines() == list(choose(before)) != before

    return shows


def every(pattern: str, of: str = "out") -> Shows:
    """All lines match, and did not without the option."""

    def shows(plain: Outcome, found: Outcome) -> bool:
        fit = [[bool(re.match(pattern, line)) for line in each.text(of).splitlines()] for each in (plain, found)]
        return not all(fit[0]) and bool(fit[1]) and all(fit[1])

    return shows


def both(*shows: Shows) -> Shows:
    return lambda plain, found: all(each(plain, found) for each in shows)


def same(of: str = "out") -> Shows:
    """The option does not change this output."""
    return lambda plain, found: plain.text(of) == found.text(of)


def nothing_left(plain: Outcome, found: Outcome) -> bool:
    return bool(plain.out) and found.out == ""


def filtered(column: str, fits: Callable[[Any], bool], of: str = "out") -> Shows:
    """The rows are the matching ones of those without the option."""

    def shows(plain: Outcome, found: Outcome) -> bool:
        before = plain.rows(of)
        return found.rows(of) == [row for row in before if fits(row[column])] != before

    return shows


def coloured(plain: Outcome, found: Outcome) -> bool:
    """The same text, in colours."""
    return "\x1b[" not in plain.out and re.sub(r"\x1b\[[0-9;]*m", "", found.out) == plain.out != found.out


def quiet(plain: Outcome, found: Outcome) -> bool:
    """Nothing on standard error, and the same output."""
    return plain.err != "" == found.err and plain.out == found.out


def writes(name: str, start: bytes = b"") -> Shows:
    return lambda plain, found: name not in plain.files and found.files[name].startswith(start)


@dataclass(frozen=True)
class Case:
    """A command line without the option and with it, and a check of the difference."""

    without: str
    option: str
    shows: Shows
    before: str = ""
    """Command lines that are run first, both times."""
    code: int = 0


@dataclass(frozen=True)
class See:
    """The option needs more than files; this test covers it: ``path::name``. It has to name the option."""

    test: str


VERBOSE = has("^file +.*: pcap", of="err")
NO_SUCH_MESSAGE = both(nothing_left, has("no message with", of="err"))

# Options of all commands that read captures: each with ``{quick}``, the shortest output of the command.
QUICK = {
    "pcap": "--summary",
    "sniff": "--summary",
    "follow": "--json -n 1",
    "export": "-o out.ndjson",
    "stats": "-q --table frames",
    "check": "--severity note",
    "metrics": "--step 24h",
    "trace": "--id 1",
    "anonymize": f"-o out.pcapng --key {FILES['basic']}",
    "report": "-o r.html",
    "sql": "select~count(*)~n,~sum(length)~s,~max(status)~m~from~frames",
    "ui": "",
}
READING_OPTIONS = {
    "-d": "{basic} {quick}|-d 5552=nats",
    "--gap-timeout": "{late} {quick}|--gap-timeout 0.005",
    "--gap-buffer": "{late} {quick}|--gap-buffer 1",
    "--limit": "{shuffled} {quick}|--limit buffered_segments=0",
    "--keylog": "{tls} {quick}|--keylog {keys}",
    "--keylog-dir": "{tls} {quick}|--keylog-dir {keyfolder}",
    "--resolve": "{named} {quick}|--resolve capture",
    "--sandbox": "{basic} {quick}|--sandbox",
}
TOTALS: dict[str, Shows] = {
    "-d": has(r"^frames +14 nats \(14 undecoded\)", gone=[r"^frames +142 rabbitmq_stream$"], of="err"),
    "--gap-timeout": has("^missing +60,000 bytes were sent but not captured", r"\(1 partial\)", of="err"),
    "--gap-buffer": has("^limits +buffered_bytes: reached 1 time$", r"\(1 partial\)", of="err"),
    "--limit": has("^limits +buffered_segments: reached 61 times$", of="err"),
    "--keylog": has(r"^frames +45 rabbitmq_stream, 20 tls$", of="err"),
    "--keylog-dir": has(r"^frames +45 rabbitmq_stream, 20 tls$", of="err"),
}
"""The pattern of totals on standard error."""
NAMED = {
    "follow": "{named} -q",
    "export": "{named} -q -o out.ndjson --level connections",
    "stats": "{named} -q",
    "flows": "{named} -q --json",
    "sql": "{named} select~client_host~from~connections",
    "trace": "{named} --frame 16",
}
"""Where the shortest output shows no addresses."""


CONFINED = both(has(r"^confined: reads .*c43_basic\.pcap", of="err"), same())
"""The output of the sandbox's test double."""


def counted(n: int, s: int | None, m: str | None) -> Shows:
    return lambda plain, found: found.rows() == [{"n": n, "s": s, "m": m}] != plain.rows()


SHOWN: dict[str, dict[str, Shows]] = {
    "pcap": TOTALS | {"--resolve": has(r"nats-1\.example:4222")},
    "sniff": TOTALS | {"--resolve": has(r"nats-1\.example:4222")},
    "follow": TOTALS | {"--resolve": has(r"nats-1\.example:4222")},
    "export": TOTALS | {"--resolve": has(r"nats-1\.example", of="out.ndjson")},
    "stats": {
        "-d": has(r"^nats +client +7 ", gone=["rabbitmq_stream"]),
        "--gap-timeout": has(r"Publish +client +1 +2097177 +1 "),
        "--gap-buffer": has(r"Publish +client +1 +2097177 +1 "),
        "--limit": has(r"Deliver +server +111 ", gone=[r"Deliver +server +124 "]),
        "--keylog": has(r"^rabbitmq_stream +Publish "),
        "--keylog-dir": has(r"^rabbitmq_stream +Publish "),
        "--resolve": has(r"nats-1\.example"),
    },
    "check": {
        "-d": has(r"^error\[nats\.not-a-frame\]", gone=["rabbitmq_stream"]),
        "--gap-timeout": has(r"^warning\[capture\.loss\]"),
        "--gap-buffer": has(r"more than\s+1048576\s+\(buffered_bytes\)"),
        "--limit": has(r"\(buffered_segments\)"),
        "--keylog": has(
            r"^note\[rabbitmq_stream\.", gone=["^Nothing could be judged: 2 connections are TLS without keys"]
        ),
        "--keylog-dir": has(r"^note\[rabbitmq_stream\."),
        "--resolve": has(r"nats-1\.example"),
    },
    "trace": {
        **dict.fromkeys(("-d", "--gap-timeout", "--gap-buffer"), NO_SUCH_MESSAGE),
        "--limit": has(r"^11 messages fit", gone=["^12 messages fit"]),
        "--keylog": has(r"published: Publish"),
        "--keylog-dir": has(r"published: Publish"),
        "--resolve": has(r"nats-1\.example"),
    },
    "flows": TOTALS | {"--resolve": has(r"nats-1\.example")},
    "metrics": TOTALS | {"--resolve": has(r"nats-1\.example")},
    "anonymize": TOTALS,
    "report": TOTALS | {"--resolve": has(r"nats-1\.example", of="r.html")},
    "sql": {
        "-d": counted(14, 9692, "undecoded"),
        "--gap-timeout": counted(3, 2097211, "partial"),
        "--gap-buffer": counted(3, 2097211, "partial"),
        "--limit": counted(505, 80636, "undecoded"),
        "--keylog": counted(65, 11547, "ok"),
        "--keylog-dir": counted(65, 11547, "ok"),
        "--resolve": has(r"nats-1\.example"),
    },
    "ui": {
        "-d": has(r"\bdecode_as=.*5552", of="err"),
        "--gap-timeout": has(r"\bgap_seconds=0\.005\b", of="err"),
        "--gap-buffer": has(r"\bbuffered_bytes=1048576\b", of="err"),
        "--limit": has(r"\bbuffered_segments=0\b", of="err"),
        "--keylog": has(r"KeyLog\(10 secrets\)", of="err"),
        "--keylog-dir": has(r"KeyLog\(10 secrets\)", of="err"),
        "--resolve": has(r"\bresolve[= ]True\b", of="err"),
    },
}


METRICS = "tests/metrics/test_metrics.py"
ON_INTERFACE: dict[str, Case | See] = dict.fromkeys(
    ("-i", "-f", "-p", "--duration", "--via", "-s", "-B"),
    See(f"{METRICS}::test_an_interface_is_opened_with_the_requested_options"),
)
"""Options of commands that read an interface, too."""


def reading(command: str) -> dict[str, Case | See]:
    """The cases of the options that all commands reading captures share."""
    made: dict[str, Case | See] = {}
    for name, words in READING_OPTIONS.items():
        if name == "--resolve" and command == "anonymize":
            continue  # it shows no names
        without, _, option = words.partition("|")
        if name == "--resolve":
            without = NAMED.get(command, without)
        made[name] = Case(without, option, SHOWN[command].get(name, CONFINED))
    return made


START_NS = 1_795_203_900_128_771_000
"""Of the basic capture."""


def later(ns: int) -> bool:
    return ns >= START_NS + 10**9


def early(ns: int) -> bool:
    return ns <= START_NS + 10**7


def times(command: str, option_from: Shows, option_to: Shows) -> dict[str, Case | See]:
    without = "{basic} -q --json" if command in ("pcap", "sniff") else "{basic} {quick}"
    return {"--from": Case(without, "--from 1", option_from), "--to": Case(without, "--to 0.01", option_to)}


def times_of_rows(command: str, of: str = "out") -> dict[str, Case | See]:
    return times(command, filtered("time_ns", later, of), filtered("time_ns", early, of))


def utc(without: str, shows: Shows) -> Case:
    """In Tokyo, where the tests run, this moment is before the capture; in UTC it is after it."""
    return Case(f"{without} --to 2026-11-20T20:00:00", "--utc", shows)


def totals_written(plain: Outcome, found: Outcome) -> bool:
    written = json.loads(found.files["totals.json"])
    return "totals.json" not in plain.files and written["packets"]["read"] == 230 and plain.out == found.out


def with_ranges(of: str = "out") -> Shows:
    """Rows have the range of each field and are otherwise equal."""

    def shows(plain: Outcome, found: Outcome) -> bool:
        pairs = list(zip(plain.rows(of), found.rows(of), strict=True))
        return all(other.pop("ranges") and one == other for one, other in pairs) and bool(pairs)

    return shows


def rows_of(column: str, *values: Any, but: str = "") -> Shows:
    """The output is rows of JSON, with these values in a column; ``but``: rows with this column are others."""
    return lambda plain, found: (
        plain.out[:1] != "{" and [row[column] for row in found.rows() if but not in row] == list(values)
    )


SHOWN_LINE = r" +\d+ +\d+\.\d{6}  #\d+ "
PUBLISH = '-q -Y frame.type=="Publish" -c 1'
SHOWING: dict[str, Case | See] = {
    "--summary": Case("{basic} -q -c 3", "--summary", every(SHOWN_LINE)),
    "--json": Case(
        "{basic} -q -c 3", "--json", rows_of("type", "PeerProperties", "PeerPropertiesResponse", "SaslHandshake")
    ),
    "-T": Case("{basic} -q -c 3", "-T tabs", every(r"\d+\t\d+\.\d{9}\t127\.0\.0\.\d:\d+\t")),
    "-e": Case("{basic} -q -c 3 -T fields -e frame.number", "-e frame.type", has("^1\tPeerProperties$", gone=["^1$"])),
    "-E": Case(
        "{basic} -q -c 3 -T fields -e frame.number",
        "-E header=y",
        lambda plain, found: found.out == "frame.number\n" + plain.out,
    ),
    "-x": Case("{basic} -q -c 3", "-x", has(r"^  000000  00 00 00 71\|00 11")),
    "-V": Case(f"{{basic}} {PUBLISH}", "-V", has("(78){20}", gone=["78…"])),
    "--time": Case("{basic} -q -c 3 --summary", "--time delta", has(r"^ +1 +0\.000000 ", r"^ +3 +0\.000313 ")),
    "--utc": Case(
        "{basic} -q -c 3 --time absolute",
        "--utc",
        has(r"^Frame 1  2026-11-20T19:45:00\.129150Z", gone=[r"^Frame 1  2026-11-21T04:45:00\.129150\+09:00"]),
    ),
    "-Y": Case("{basic} -q --json", "-Y frame.length>100", filtered("length", lambda length: length > 100)),
    "-c": Case("{basic} -q --summary", "-c 3", lines(lambda rows: rows[:3])),
    "--bytes": Case(f"{{basic}} {PUBLISH}", "--bytes length", has("data: 40 bytes", gone=["c43_basic:m:0"])),
    "--ranges": Case("{basic} -q -c 3 --json", "--ranges", with_ranges()),
    "--show-secrets": Case(
        '{basic} -q -Y frame.type=="SaslAuthenticate"',
        "--show-secrets",
        has("data: 006775657374006775657374", gone=["<redacted 12 bytes>"]),
    ),
    "--color": Case("{basic} -q -c 3", "--color always", coloured),
    "--summary-json": Case("{basic} -q -c 3", "--summary-json totals.json", totals_written),
    "-q": Case("{basic} --summary", "-q", quiet),
    "-v": Case("{basic} --summary", "-v", has("^ +7 PeerProperties  ", of="err")),
}


def parquet(of: str, value: Callable[[Any], Any]) -> Callable[[Outcome], Any]:
    def read(outcome: Outcome) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        return value(pq.ParquetFile(pa.BufferReader(outcome.files[of])).metadata)

    return read


compression = parquet("a.parquet", lambda metadata: metadata.row_group(0).column(0).compression)
row_groups = parquet("a.parquet", lambda metadata: metadata.num_row_groups)


FEW = "{basic} -q --columns frame,type"
"""Columns of an export that is about files: all of them take seconds."""


def of_each_type(plain: Outcome, found: Outcome) -> bool:
    """A folder of each type has its rows."""
    types = {line.split(",")[1].strip('"') for line in plain.text("a").splitlines()[1:]}
    return {name for name in found.files if name.startswith("a/")} == {f"a/type={each}/part-0.csv" for each in types}


def replaced(plain: Outcome, found: Outcome) -> bool:
    """Without the option the folder is unchanged."""
    return plain.code == 2 and "a/type=Open/part-0.csv" in plain.files and "a/type=Open/part-0.csv" not in found.files


def stable_ids(plain: Outcome, found: Outcome) -> bool:
    ids = [row["frame"] for row in found.rows("a.ndjson")]
    return (
        [row["frame"] for row in plain.rows("a.ndjson")] == [*range(1, 143)] and len({*ids}) == 142 and min(ids) > 142
    )


def addresses(outcome: Outcome) -> list[int]:
    """Source and destination of the written packets: Ethernet, IPv4."""
    with NamedTemporaryFile(suffix=".pcapng") as file:
        file.write(outcome.files["out.pcapng"])
        file.flush()
        found = [batch.buffer[at + 26 : at + 34] for batch in open_capture([file.name]) for at in batch.start.tolist()]
    return [int.from_bytes(each) for pair in found for each in (pair[:4], pair[4:])]


def other_addresses(plain: Outcome, found: Outcome) -> bool:
    before, after = addresses(plain), addresses(found)
    return len(before) == len(after) > 100 and not {*before} & {*after}


def keeps_prefixes(plain: Outcome, found: Outcome) -> bool:
    """127.0.0.1 and 127.0.0.3 share 30 bits; so do their replacements."""

    def shared(outcome: Outcome) -> int:
        one, other = sorted({*addresses(outcome)[:2]})
        return 32 - (one ^ other).bit_length()

    return shared(found) == 30 and other_addresses(plain, found)


def asked(words: str) -> Shows:
    """The test double of the capture was called with these options."""
    return both(has(f"^asked for .*{words}", of="err"), same())


def one_message(*patterns: str) -> Shows:
    return has(*patterns, gone=[r"^\d+ messages fit"])


TWO_PASSES = "tests/export/test_two_passes.py"
EXTCAP = "tests/wireshark/test_extcap.py"
EXTCAP_CAPTURE = f"{EXTCAP}::test_a_capture_is_written_to_the_fifo_until_it_is_ended"
NO_KEYS = See("tests/tls/test_tls.py::test_a_key_log_that_decrypts_nothing_is_reported")
LIVE = (
    *("-i", "-f", "-p", "-s", "-B", "--duration", "--via"),
    *("-w", "--ring-size", "--ring-seconds", "--ring-files"),
)
AFTER = has("^note\\[rabbitmq_stream.no-close\\]")
CASES: dict[str, dict[str, Case | See]] = {
    "": {
        "--version": Case("protocols", "--version", every(r"wiredecode \S")),
        "--install-completion": Case(
            "protocols",
            "--install-completion bash",
            writes(".bash_completions/wiredecode.sh", b"_wiredecode_completion"),
        ),
        "--show-completion": Case("protocols", "--show-completion bash", has("^_wiredecode_completion")),
    },
    "pcap": {
        "--jobs": See("tests/cli/test_jobs.py::test_lines_and_records_equal_those_of_one_process"),
        "-2": See(f"{TWO_PASSES}::test_every_command_reads_twice"),
        **SHOWING,
        **times_of_rows("pcap"),
        **reading("pcap"),
        "-w": Case("{basic} -q", "-w out.pcapng", both(nothing_left, writes("out.pcapng", b"\x0a\x0d\x0d\x0a"))),
        "--whole-connections": Case(
            '{basic} -q -w out.pcapng -Y frame.type=="Publish"',
            "--whole-connections",
            has("connection_name", of="out.pcapng"),
        ),
        "--overview": See("tests/cli/test_overview.py::test_a_pipe_gets_frames_only"),
        "--follow-file": See("tests/cli/test_tshark.py::test_a_file_that_grows_is_followed_until_ctrl_c"),
    },
    "sniff": {
        **SHOWING,
        **reading("sniff"),
        "--sandbox": Case("{basic} {quick}", "--sandbox", both(has("^confined: reads", of="err"), same())),
        "-q": Case("{basic} --summary", "-q", both(has(gone=["^packets ", "^capture "], of="err"), same())),
        "-i": Case("{basic} -c 1", "-i any", asked("interface='any'")),
        "-f": Case("{basic} -c 1", "-f port~5552", asked("'port 5552'")),
        "-p": Case("{basic} -c 1", "-p", asked("promiscuous=False")),
        "-w": See("tests/live/test_sniff.py::test_a_replayed_dialogue_gives_the_same_frames_live_and_saved"),
        "--ring-size": Case(
            "{basic} -c 1 -w new.pcapng", "--ring-size 3", has("^saved new.pcapng .*3145728", of="err")
        ),
        "--ring-seconds": See("tests/live/test_sniff.py::test_a_ring_of_files_rotates_without_packets"),
        "--ring-files": See("tests/live/test_sniff.py::test_a_ring_of_files_rotates_without_packets"),
        "--duration": See("tests/live/test_sniff.py::test_a_snapshot_length_truncates_packets_and_is_reported"),
        "--via": See("tests/live/test_sniff.py::test_capturing_with_another_program"),
        "-s": See("tests/live/test_sniff.py::test_a_snapshot_length_truncates_packets_and_is_reported"),
        "-B": Case("{basic} -c 1", "-B 7", asked("buffer_mib=7")),
    },
    "interfaces": {
        "--json": Case(
            "",
            "--json",
            lambda plain, found: (
                [row["name"] for row in found.rows()] == [line.split()[0] for line in plain.out.splitlines()[1:]]
            ),
        )
    },
    "follow": {
        **reading("follow"),
        **times_of_rows("follow"),
        "-n": Case("{basic} -q", "-n 2", has("^Connection #2 ", gone=["^#1 "])),
        "--address": Case("{basic} -q", "--address 127.0.0.1:37496", has("^Connection #2 ", gone=["^#1 "])),
        "--port": Case("{basic} -q", "--port 37496", has("^Connection #2 ", gone=["^#1 "])),
        "-Y": Case("{basic} -q", '-Y frame.type=="QueryOffset"', has("^Connection #6 ", "→ QueryOffset")),
        "--side": Case("{basic} -q -n 2", "--side server", has("answers frame 16", gone=["→ PeerProperties"])),
        "--raw": Case("{basic} -q -n 2", "--raw", has("\0\0\0t\0\x11\0\x01", gone=["^Connection"])),
        "--messages": Case("{basic} -q -n 2", "--messages", every("6334335f62617369633a6d3a3[012]3a(78){26}$")),
        "--json": Case("{basic} -q -n 2", "--json", rows_of("connection", *[2] * 23)),
        "--hex": Case("{basic} -q -n 2", "--hex", has(r"^ +000000  00 00 00 74\|00 11")),
        "--full": Case("{basic} -q -n 2 --bytes base64", "--full", has("eHh4eA==", gone=["eHh4…"])),
        "--time": Case("{basic} -q -n 2", "--time epoch", has(r"^1795203900\.139476 ", gone=[r"^ +0\.010705 "])),
        "--utc": Case(
            "{basic} -q -n 2 --time absolute", "--utc", has(r"^2026-11-20T19:45:00\.139476Z", gone=[r"\+09:00"])
        ),
        "-c": Case("{basic} -q -n 2", "-c 3", lines(lambda rows: rows[:6])),
        "--bytes": Case("{basic} -q -n 2", "--bytes sha256", has(r"\| 5145a7d4[0-9a-f]{56} ", gone=["c43_basic:m:0"])),
        "--ranges": Case("{basic} -q -n 2 --json", "--ranges", with_ranges()),
        "--show-secrets": Case("{basic} -q -n 2 --hex", "--show-secrets", has("67 75 65 73 74", gone=[r"\*\* \*\*"])),
        "--color": Case("{basic} -q -n 2", "--color always", coloured),
        "-q": Case("{basic} -n 2", "-q", quiet),
        "-v": Case("{basic} -n 2", "-v", VERBOSE),
    },
    "export": {
        **reading("export"),
        **times_of_rows("export", "out.ndjson"),
        "-o": Case(
            "{basic} -q -o a.ndjson",
            "-o b.ndjson",
            lambda plain, found: (
                found.files["b.ndjson"] == plain.files["a.ndjson"] and {*found.files} & {"a.ndjson"} == set()
            ),
        ),
        "--format": Case("{basic} -q -c 3 -o a.ndjson", "--format csv", has('^"frame","time"', of="a.ndjson")),
        "--level": Case(
            "{basic} -q -o a.csv", "--level messages", has('^"frame","index"', '^54,4,.*,"publish"', of="a.csv")
        ),
        "--columns": Case("{basic} -q -o a.csv", "--columns time,type", every('"[^"]*","[^"]*"$', of="a.csv")),
        "--partition-by": Case(f"{FEW} -c 20 -o a --format csv", "--partition-by type", of_each_type),
        "--overwrite": Case(
            f"{FEW} -c 5 -o a --format csv --partition-by type",
            "--overwrite",
            replaced,
            before=f"{FEW} -c 9 -o a --format csv --partition-by type",
        ),
        "--compression": Case(
            f"{FEW} -o a.parquet",
            "--compression none",
            lambda plain, found: (compression(plain), compression(found)) == ("ZSTD", "UNCOMPRESSED"),
        ),
        "--row-group": Case(
            f"{FEW} -o a.parquet",
            "--row-group 50",
            lambda plain, found: (row_groups(plain), row_groups(found)) == (1, 3),
        ),
        "--csv-formulas": See("tests/cli/test_export.py::test_formulas_in_csv_can_be_guarded"),
        "-c": Case("{basic} -q -o a.csv", "-c 3", lines(lambda rows: rows[:4], of="a.csv")),
        "-Y": Case(
            "{basic} -q -o a.ndjson",
            "-Y frame.length>100",
            filtered("length", lambda length: length > 100, of="a.ndjson"),
        ),
        "--utc": utc("{basic} -q -o a.csv", has('"PeerProperties"', of="a.csv")),
        "--bytes": Case(
            "{basic} -q -o a.ndjson",
            "--bytes length",
            has('"data":"40 bytes"', gone=["6334335f62617369633a6d3a30"], of="a.ndjson"),
        ),
        "--ranges": Case("{basic} -q -o a.ndjson", "--ranges", with_ranges("a.ndjson")),
        "--ids": Case("{basic} -q -o a.ndjson", "--ids stable", stable_ids),
        "-2": See(f"{TWO_PASSES}::test_export_reads_twice"),
        "--show-secrets": Case(
            "{basic} -q -o a.ndjson",
            "--show-secrets",
            has("006775657374006775657374", gone=["<redacted 12 bytes>"], of="a.ndjson"),
        ),
        "--jobs": See("tests/cli/test_jobs.py::test_exported_records_equal_those_of_one_process"),
        "--summary-json": Case("{basic} -q -o a.csv", "--summary-json totals.json", totals_written),
        "-q": Case("{basic} -o a.csv", "-q", both(quiet, same("a.csv"))),
        "-v": Case("{basic} -o a.csv", "-v", VERBOSE),
    },
    "stats": {
        "--jobs": See("tests/stats/test_jobs.py::test_output_equals_that_of_one_process"),
        "--csv-formulas": See("tests/cli/test_export.py::test_formulas_in_csv_can_be_guarded"),
        "-2": See(f"{TWO_PASSES}::test_every_command_reads_twice"),
        **reading("stats"),
        **times(
            "stats",
            has(r" Heartbeat +client +3 ", gone=[r" Heartbeat +client +7 "]),
            has(r" Heartbeat +client +1 ", gone=[r" Heartbeat +client +7 "]),
        ),
        "--utc": utc("{basic} -q", has(r" Heartbeat +client +7 ")),
        "--table": Case(
            "{basic} -q",
            "--table latency",
            both(has(gone=["^frames by type"]), lambda plain, found: found.out.strip() in plain.out),
        ),
        "--interval": Case(
            "{basic} -q --table throughput",
            "--interval 10s",
            has(r" deliver +2026-11-20T19:45:00Z +32 ", gone=[r" deliver +2026-11-20T19:45:01Z +32 "]),
        ),
        "--hops": Case(
            "{cluster} -q --table latency",
            "--hops",
            has("ReplicationRequest .* 64 ", gone=["ReplicationRequest .* 32 "]),
        ),
        "--timeline": Case(
            "{basic} -q", "--timeline", has(r"^ +0\.000 s  opened +until 0.010 s: 2 conn", gone=["^frames by type"])
        ),
        "-Y": Case("{basic} -q --table frames", '-Y frame.type=="Publish"', has(gone=["Heartbeat", "PeerProperties"])),
        "--json": Case(
            "{basic} {quick}",
            "--json",
            lambda plain, found: sum(row["frames"] for row in json.loads(found.out)["frames"]) == 142,
        ),
        "--csv": Case("{basic} {quick}", "--csv", has('^"protocol","type"', '^"rabbitmq_stream","Tune"', gone=["─"])),
        "--color": Case("{basic} {quick}", "--color always", coloured),
        "-q": Case("{basic} --table frames", "-q", quiet),
        "-v": Case("{basic} --table frames", "-v", VERBOSE),
    },
    "check": {
        "-2": See(f"{TWO_PASSES}::test_every_command_reads_twice"),
        **reading("check"),
        **times("check", has("when .* 4 times$", gone=["when .* 6 times$"]), has(gone=["no-close"])),
        "-n": See("tests/check/test_choice.py::test_problems_of_one_connection"),
        "-Y": See("tests/check/test_choice.py::test_problems_of_connections_with_a_frame_that_matches"),
        "--time": Case("{shuffled}", "--time epoch", has(r"when +1795\d+\.\d+ \(\+0")),
        "--color": Case("{shuffled}", "--color always", coloured),
        "-w": Case("{shuffled}", "-w out.pcapng", writes("out.pcapng", b"\x0a\x0d\x0d\x0a")),
        "--utc": utc("{basic} --severity note", AFTER),
        "--severity": Case("{basic}", "--severity note", AFTER),
        "--fail-on": Case(
            "{shuffled}", "--fail-on warning", lambda plain, found: plain.code == 0 and plain.out == found.out, code=1
        ),
        "--timeline": Case("{basic}", "--timeline", has(r"^ +0\.000 s  opened +until 0.010 s: 2 conn")),
        "--json": Case("{shuffled}", "--json", rows_of("code", "tcp.loss", but="verdict")),
        "--facts": Case("{basic} --json", "--facts", has('^{"fact":"client","host":"127.0.0.1",.*"user":"guest"')),
        "-q": Case("{basic} -v", "-q", quiet),
        "-v": Case("{basic}", "-v", VERBOSE),
        **ON_INTERFACE,
    },
    "flows": {
        **reading("flows"),
        **times("flows", has(" wd-consumer +4 +32 ", gone=[" wd-consumer +32 +32 "]), has(gone=["c43_basic-stream"])),
        "--jobs": See("tests/cli/test_jobs.py::test_flows_equal_those_of_one_process"),
        "-2": See("tests/cli/test_flows.py::test_two_passes_give_the_same_rows"),
        "--topic": See("tests/cli/test_flows.py::test_topics_and_clients_are_chosen_by_part_of_their_name"),
        "--client": See("tests/cli/test_flows.py::test_topics_and_clients_are_chosen_by_part_of_their_name"),
        "--by": See("tests/cli/test_flows.py::test_seconds_count_from_the_first_packet"),
        "-Y": Case("{basic} -q --json", "-Y frame.type==Deliver", has('"published":0', gone=['"published":32'])),
        "--utc": utc("{basic} -q", has("c43_basic")),
        "--json": Case("{basic} -q", "--json", rows_of("protocol", "rabbitmq_stream")),
        "-T": See("tests/cli/test_flows.py::test_forms_of_tshark_have_the_same_rows"),
        "--color": Case("{basic} -q", "--color always", coloured),
        "-q": Case("{basic}", "-q", quiet),
        "-v": Case("{basic}", "-v", VERBOSE),
        **ON_INTERFACE,
    },
    "metrics": {
        **reading("metrics"),
        "-o": Case("{basic} {quick}", "-o m.txt", writes("m.txt", b"# HELP ")),
        "--step": See(f"{METRICS}::test_every_step_is_whole_openmetrics"),
        "--timeout": See(f"{METRICS}::test_a_request_is_unanswered_after_a_time"),
        "--max-series": See(f"{METRICS}::test_label_sets_are_bounded_and_the_limit_is_reported"),
        "--label-rule": Case(
            "{basic} {quick}", "--label-rule c43_=x_", has('"x_basic-stream"', gone=['"c43_basic-stream"'])
        ),
        "--listen": See(f"{METRICS}::test_an_interface_is_served"),
        "--otlp": See(f"{METRICS}::test_otlp_gets_the_same_values"),
        "--save-evidence": See(f"{METRICS}::test_the_packets_of_a_new_error_are_saved"),
        **ON_INTERFACE,
        **dict.fromkeys(
            ("-w", "--ring-size", "--ring-seconds", "--ring-files"),
            See(f"{METRICS}::test_packets_are_saved_with_w_and_ring_options"),
        ),
        "-q": Case("{basic} {quick}", "-q", quiet),
        "-v": Case("{basic} {quick}", "-v", VERBOSE),
    },
    "report": {
        **reading("report"),
        **times(
            "report",
            has(">[^<]* 4 times;", gone=[">[^<]* 6 times;"], of="r.html"),
            has(gone=["no-close"], of="r.html"),
        ),
        "--utc": utc("{basic} {quick}", has("no-close", of="r.html")),
        "-o": Case("{basic} {quick}", "-o other.html", writes("other.html", b"<!doctype html>")),
        "-Y": See("tests/report/test_report.py::test_only_matching_frames_count"),
        "-n": Case("{basic} {quick} -n 2", "-n 3", has("<p>Connection #3: ", gone=["<p>Connection #2: "], of="r.html")),
        "--title": Case("{basic} {quick}", "--title Ticket", has("<h1>Ticket</h1>", gone=["<h1>What"], of="r.html")),
        "-q": Case("{basic} {quick}", "-q", quiet),
        "-v": Case("{basic} {quick}", "-v", VERBOSE),
    },
    "anonymize": {
        **reading("anonymize"),
        "--keylog": NO_KEYS,
        "--keylog-dir": NO_KEYS,
        "-o": Case("{basic} {quick}", "-o other.pcapng", writes("other.pcapng", b"\x0a\x0d\x0d\x0a")),
        "--key": Case("{basic} {quick}", "--key {shuffled}", other_addresses),
        "--names": Case("{basic} {quick}", "--names", has(gone=["wd-admin"], of="out.pcapng")),
        "--bodies": Case("{basic} {quick}", "--bodies", has(gone=["c43_basic:m:0"], of="out.pcapng")),
        "--crypto-pan": Case("{basic} {quick} --key {shuffled}", "--crypto-pan", keeps_prefixes),
        "--keep-unknown": Case("{basic} {quick} -d 5552=nats", "--keep-unknown", has("wd-admin", of="out.pcapng")),
        "-q": Case("{basic} {quick}", "-q", both(quiet, same("out.pcapng"))),
        "-v": Case("{basic} {quick}", "-v", VERBOSE),
    },
    "trace": {
        "-2": See(f"{TWO_PASSES}::test_every_command_reads_twice"),
        **{
            option: replace(case, code=1) if isinstance(case, Case) and case.shows is NO_SUCH_MESSAGE else case
            for option, case in reading("trace").items()
        },
        "--from": Case("{basic} {quick}", "--from 0.5", has("^3 messages fit", gone=["^5 messages fit"])),
        "--to": Case("{basic} {quick}", "--to 0.3", has("^2 messages fit", gone=["^5 messages fit"])),
        "--own-clocks": See("tests/trace/test_clocks.py::test_clocks_are_not_shifted_on_request"),
        "--utc": utc("{basic} {quick}", has("^5 messages fit")),
        "--frame": Case("{basic} {quick}", "--frame 54", one_message("published: Publish, frame 54")),
        "--message": Case("{basic} --frame 54", "--message 5", one_message("Publish, frame 54, message 5")),
        "--id": Case("{basic} --frame 54", "--id 5", one_message("Publish, frame 54, message 5, sequence 5")),
        "--topic": Case("{shuffled} {quick}", "--topic c43_multi-1", has("^4 messages fit", gone=["c43_multi-0"])),
        "--text": Case("{basic} {quick}", "--text m:1", one_message("^ +c43_basic:m:1")),
        "--body-bytes": Case("{basic} {quick}", "--body-bytes 6d3a31", one_message("^ +c43_basic:m:1")),
        "--key": Case("{keyed} --topic foo --text v", "--key key-3", one_message("^foo, .*, key key-3,")),
        "--nth": Case("{basic} {quick}", "--nth 3", has("this is number 3", "^> +3 ", gone=["this is number 1"])),
        "--json": Case("{basic} {quick}", "--json", rows_of("matches", 5)),
        "-o": Case("{basic} {quick}", "-o spans.json", writes("spans.json", b'{"resourceSpans": [')),
        "--otlp": See("tests/metrics/test_spans.py::test_a_receiver_gets_spans"),
        "-q": Case("{basic} --text nowhere", "-q", quiet, code=1),
        "-v": Case("{basic} {quick}", "-v", VERBOSE),
    },
    "spark": {
        **{words.split()[0]: See("tests/cli/test_spark.py::test_every_option_reaches_the_job") for words, _ in OPTIONS},
        **dict.fromkeys(
            set(READING_OPTIONS) - {"--resolve"}, See("tests/cli/test_spark.py::test_decoding_options_reach_the_plan")
        ),
        "--keylog": See("tests/cli/test_spark.py::test_key_logs_reach_the_plan"),
        "--keylog-dir": See("tests/cli/test_spark.py::test_key_logs_reach_the_plan"),
        "--sandbox": See("tests/cli/test_sandbox.py::test_spark_starts_java_and_says_so"),
    },
    "spark stats": {
        **{
            words.split()[0]: See("tests/cli/test_spark.py::test_every_option_of_spark_stats_reaches_the_run")
            for words, _ in STATS
        },
        "--keylog": See("tests/cli/test_spark.py::test_key_logs_reach_the_plan"),
        "--keylog-dir": See("tests/cli/test_spark.py::test_key_logs_reach_the_plan"),
        "--sandbox": See("tests/cli/test_sandbox.py::test_spark_starts_java_and_says_so"),
    },
    "sql": {
        "--csv-formulas": See("tests/cli/test_export.py::test_formulas_in_csv_can_be_guarded"),
        "--jobs": See("tests/cli/test_jobs.py::test_queries_have_the_answers_of_one_process"),
        "-2": See(f"{TWO_PASSES}::test_export_reads_twice"),
        "--allow-files": See("tests/cli/test_sql_alone.py::test_files_are_readable_with_an_option"),
        **reading("sql"),
        **times("sql", counted(68, 4784, "ok"), counted(15, 791, "ok")),
        "--format": Case("{basic} {quick}", "--format csv", has('^"n","s","m"$', '^142,9692,"ok"$', gone=["^{"])),
        "-o": Case("{basic} {quick}", "-o answer.csv", both(nothing_left, writes("answer.csv", b'"n","s","m"\n142,'))),
        "--bytes": Case(
            "{basic} select~body~from~messages",
            "--bytes text",
            has('"c43_basic:m:0:x+"', gone=["6334335f62617369633a"]),
        ),
        "--show-secrets": Case(
            "{basic} select~layers.rabbitmq_stream.data~from~frames",
            "--show-secrets",
            has("006775657374006775657374", gone=["<redacted 12 bytes>"]),
        ),
        "--color": Case("{basic} {quick} --format table", "--color always", coloured),
        "--utc": utc("{basic} {quick}", counted(142, 9692, "ok")),
        "-Y": Case("{basic} {quick}", "-Y frame.length>100", counted(24, 6394, "ok")),
        "-q": See("tests/cli/test_sql.py::test_a_long_answer_is_shortened_on_terminals_only"),
        "-v": See("tests/cli/test_every_option.py::test_verbose_shows_the_traceback_of_a_bug"),
    },
    "ui": {
        **reading("ui"),
        "-Y": Case("{basic}", "-Y frame.length>100", has("^select frame.length>100$", of="err")),
        **dict.fromkeys(LIVE, See("tests/ui/test_command.py::test_options_reach_the_capture_and_the_saved_file")),
        "--follow-file": See("tests/ui/test_command.py::test_follow_opens_a_growing_file"),
        "--web": See("tests/ui/test_web.py::test_a_page_runs_the_screen_and_requests_without_token_are_refused"),
        "--listen": See("tests/ui/test_web.py::test_captures_that_cannot_be_served_are_errors"),
    },
    "config": {"--unset": See("tests/cli/test_settings.py::test_config_shows_sets_and_unsets")},
    "wireshark": {
        **dict.fromkeys(
            ("--install", "--uninstall", "--plugins", "--extcap"),
            See("tests/wireshark/test_places.py::test_installed_files_are_removed"),
        ),
        **dict.fromkeys(("--print", "-o"), See("tests/wireshark/test_places.py::test_print_and_output_write_the_same")),
    },
    "extcap": {
        "--extcap-interfaces": See(f"{EXTCAP}::test_interfaces_are_listed_after_a_version"),
        "--extcap-version": See(f"{EXTCAP}::test_interfaces_are_listed_after_a_version"),
        "--extcap-interface": See(f"{EXTCAP}::test_an_interface_has_one_link_type"),
        "--extcap-dlts": See(f"{EXTCAP}::test_an_interface_has_one_link_type"),
        "--extcap-config": See(f"{EXTCAP}::test_every_listed_option_is_accepted"),
        "--extcap-capture-filter": See(EXTCAP_CAPTURE),
        "--capture": See(EXTCAP_CAPTURE),
        "--fifo": See(EXTCAP_CAPTURE),
        "--no-promiscuous": See(f"{EXTCAP}::test_options_reach_the_capture"),
        "-s": See(f"{EXTCAP}::test_options_reach_the_capture"),
        "--via": See(f"{EXTCAP}::test_options_reach_the_capture"),
    },
    "help": {},
    "protocols": {},
    "fields": {
        "--json": Case(
            "nats.subject",
            "--json",
            lambda plain, found: [(row["name"], row["type"]) for row in found.rows()] == [("nats.subject", "string")],
        )
    },
}
