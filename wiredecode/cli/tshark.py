"""Translates common tshark command lines if they mean the same here; otherwise one line names the way."""

import re
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wiredecode.cli.options import UsageError, refuse
from wiredecode.cli.output import complain
from wiredecode.data import tables_of

READERS = ("follow", "export", "stats", "sql", "check", "report")
"""Other commands that take ``-r FILE``."""
OUR_VALUED = "cdYwTeE"
VALUED = OUR_VALUED + "rRoNzOjJKHXCFSWUGtuifabBsyMA"
"""Short options that a value follows, as in tshark."""
NOTHING_TO_DO = frozenset("nl")
"""Names are never resolved, and lines are written as they come."""
_TABLES = tables_of(__package__, "tshark.toml")
TIMES: dict[str, list[str]] = _TABLES["times"]
"""Formats of ``-t``."""
WAYS: dict[str, str] = _TABLES["ways"]
"""Options of tshark's that are not taken, and what to type instead."""
COLORS = ("auto", "always", "never")
LONG = {"--read-file": "r", "--interface": "i", "--capture-filter": "f"}
CAPTURE = re.compile(r"-|[^\s=<>!&|]*(://|/|\.(pcap|pcapng|cap)\b)[^\s=<>!&|]*")
AS = re.compile(r"tcp\.port==(\d+),(.+)")


def translate(words: list[str], commands: Mapping[str, Any]) -> list[str]:
    """Translate a command line of tshark. ``commands``: click's, by name. Raises ``UsageError`` with advice."""
    if not words:
        return words
    first = words[0]
    if first == "pcap":
        return CommandLine(commands["pcap"], named=True).read(words[1:])
    if first == "sniff":
        return [first, *autostop(words[1:])]
    if first in READERS:
        return [first, *(word for word in words[1:] if word != "-r")]
    if first in commands or words == ["-h"] or first.startswith(("--help", "--version", "--install", "--show-comp")):
        return words
    if words == ["-v"]:
        return ["--version"]
    if first in ("-D", "--list-interfaces"):
        return ["interfaces", *words[1:]]
    if first == "-" or first.startswith("-") or names_a_file(first):
        return CommandLine(commands["pcap"], named=False).read(words)
    return words


def autostop(words: list[str]) -> list[str]:
    """Return the words of ``sniff`` with our options in place of ``-a CONDITION``."""
    ours, unread = [], deque(words)
    while unread:
        word = unread.popleft()
        ours += [word] if word != "-a" or not unread else stop_after(unread.popleft())
    return ours


def stop_after(condition: str) -> list[str]:
    """Return the options for a condition of ``-a``, such as ``duration:10``."""
    kind, _, value = condition.partition(":")
    option = {"duration": "--duration", "packets": "-c"}.get(kind)
    if option is None or not value:
        raise UsageError(WAYS["-a"])
    return [option, value]


def names_a_file(word: str) -> bool:
    """Whether a first word is a capture, and no command misspelled."""
    return "/" in word or "." in word or Path(word).exists()


def is_capture(word: str) -> bool:
    """Whether a word after ``-r FILE`` is a capture, too, and no filter."""
    return Path(word).exists() or bool(CAPTURE.fullmatch(word))


class CommandLine:
    """Reads a command line of ``pcap``; ``named``: that command was said."""

    def __init__(self, command: Any, *, named: bool) -> None:
        self.named = named
        self.valued = {name for each in command.params if not getattr(each, "is_flag", False) for name in each.opts}
        """Options of ours that a value follows."""
        self.files: list[str] = []
        self.plain: list[str] = []
        """Arguments that are no options: files here, filters there."""
        self.words: list[str] = []
        self.live: list[str] = []
        """Options of a live capture."""
        self.statistic: str | None = None

    def read(self, words: list[str]) -> list[str]:
        unread = deque(words)
        while unread:
            word = unread.popleft()
            if word == "--":
                self.plain += unread
                break
            if word.startswith("--"):
                self._long(word, unread)
            elif word.startswith("-") and word != "-":
                self._short(word[1:], unread)
            else:
                self.plain.append(word)
        return self._command()

    def _command(self) -> list[str]:
        files = [*self.files, *self.plain]
        if self.files and self.plain and not any(map(is_capture, self.plain)):  # tshark's filter at the end
            if "-Y" in self.words:
                raise UsageError(f"{' '.join(self.plain)!r} is a second display filter: join it with that of -Y by &&")
            self.words += ["-Y", " ".join(self.plain)]
            files = self.files
        if self.live:
            if self.named or files or self.statistic:
                raise UsageError("to capture on an interface, use wiredecode sniff -i INTERFACE, without files")
            return ["sniff", *self.live, *self.words]
        if self.statistic is not None:
            return self._stats(files)
        if not self.named and not self.words and "-" not in files:
            self.words.append("--overview")
        dashed = any(file.startswith("-") and file != "-" for file in files)
        return ["pcap", *self.words, *(["--"] if dashed else []), *files]

    def _long(self, word: str, unread: deque[str]) -> None:
        name, equals, value = word.partition("=")
        if name in WAYS:
            raise UsageError(WAYS[name])
        if name in LONG:
            self._option_with_value(LONG[name], value if equals else self._next(name, unread))
            return
        if name == "--color" and not equals and (not unread or unread[0] not in COLORS):
            word = "--color=always"  # tshark's has no value
            equals = "="
        self.words.append(word)
        if not equals and name in self.valued and unread:
            self.words.append(unread.popleft())

    def _short(self, letters: str, unread: deque[str]) -> None:
        """A word of short options: the value of the last one follows, in the word or after it."""
        for index, letter in enumerate(letters):
            if letter in VALUED:
                rest = letters[index + 1 :]
                self._option_with_value(letter, rest or self._next(f"-{letter}", unread))
                return
            self._flag(letter)

    def _next(self, name: str, unread: deque[str]) -> str:
        if not unread:
            raise UsageError(f"{name} needs a value")
        return unread.popleft()

    def _flag(self, letter: str) -> None:
        if f"-{letter}" in WAYS:
            raise UsageError(WAYS[f"-{letter}"])
        if letter not in NOTHING_TO_DO:
            self.words.append(f"-{'q' if letter == 'Q' else letter}")

    def _option_with_value(self, letter: str, value: str) -> None:
        refuse(
            (letter == "t" and value not in TIMES, f"-t {value}: times are --time relative, absolute, delta or epoch"),
            (letter == "F" and value != "pcapng", f"-w writes pcapng, not {value}"),
            (letter == "u" and value != "s", "seconds are shown as a number: leave -u out"),
            (
                letter == "T" and value in ("psml", "ps", "jsonraw"),
                f"there is no -T {value}: records are -T json, -T ek and -T pdml, lines -T text and -T tabs",
            ),
            (letter != "a" and f"-{letter}" in WAYS, WAYS.get(f"-{letter}", "")),
        )
        if letter == "r":
            self.files.append(value)
        elif letter == "t":
            self.words += ["--time", *TIMES[value]]
        elif letter == "z":
            self.statistic = value
        elif letter in "ifBs":
            self.live += [{"B": "--buffer", "s": "--snaplen"}.get(letter, f"-{letter}"), value]
        elif letter == "a":
            self.live += stop_after(value)
        elif letter in OUR_VALUED:
            self.words += [f"-{letter}", decode_as(value) if letter == "d" else value]

    def _stats(self, files: list[str]) -> list[str]:
        """``-z``: the command that answers it."""
        words = [*statistic(self.statistic or ""), *self.words]
        if "-Y" in words[1:] and words.count("-Y") > 1:
            raise UsageError("-z and -Y both have a filter: join them in one -Y with &&")
        ours = [words[0], *files, *words[1:]]
        if "-q" not in self.words:
            complain(f"this is: wiredecode {' '.join(ours)}")
        return ours


def decode_as(value: str) -> str:
    """``tcp.port==5552,nats`` as ``5552=nats``."""
    match = AS.fullmatch(value.replace(" ", ""))
    if match is not None:
        return f"{match[1]}={match[2]}"
    if "==" in value:
        raise UsageError(
            f"-d {value}: set the protocol of a TCP port with -d tcp.port==PORT,PROTOCOL or -d PORT=PROTOCOL"
        )
    return value


SEVERITIES = {"error": "error", "warn": "warning", "note": "note", "chat": "note", "comment": "note"}
"""Severities of ``-z expert``; chats and comments are notes here."""
FOLLOWED = {"ascii": [], "utf-8": [], "raw": ["--raw"], "hex": ["--hex"]}
"""Forms of ``-z follow``, and options of ours."""


def statistic(wanted: str) -> list[str]:
    """The command, without files, that answers a ``-z``. Raises ``UsageError`` where one of its words has no answer."""
    kind, first, *rest = [*wanted.split(","), ""]
    display = ",".join(rest).rstrip(",")
    filtered = ["-Y", display] if display else []
    if (kind, first) == ("conv", "tcp"):
        return ["stats", "--table", "connections", *filtered]
    if kind == "expert":
        severity = SEVERITIES.get(first)
        if severity is None:  # the filter follows
            filtered = ["-Y", wanted.partition(",")[2]] if first else []
        return ["check", "--severity", severity or "note", *filtered]
    if (kind, first) == ("io", "phs"):
        return ["stats", "--table", "frames", *filtered]
    if first in ("srt", "rtd") and display.replace(",", "").isdigit() | (not display):
        return ["stats", "--table", "latency"]
    if (kind, first) == ("follow", "tcp") and len(rest) == 3 and rest[0] in FOLLOWED and rest[1].isdigit():
        return ["follow", "-n", str(int(rest[1]) + 1), *FOLLOWED[rest[0]]]
    raise UsageError(f"-z {wanted}: {INSTEAD.get((kind, first), INSTEAD['', ''])}")


INSTEAD = {
    ("io", "stat"): "packets are not counted by time; wiredecode stats FILE --table throughput counts messages",
    **dict.fromkeys(
        (("conv", "ip"), ("conv", "ipv6"), ("conv", "eth"), ("endpoints", "ip"), ("endpoints", "ipv6")),
        "connections are counted: wiredecode stats FILE --table connections, or -z conv,tcp",
    ),
    ("endpoints", "tcp"): "both ends are in one row: wiredecode stats FILE --table connections, or -z conv,tcp",
    ("", ""): "wiredecode stats FILE counts frames, latency, confirms, throughput, connections",
}
"""By the first words of a ``-z`` that is not answered, the command that is nearest to it."""
