"""Options that several commands have, and what their values become.

Options that belong together are declared once, as a :func:`group`: a dataclass, which commands take as one parameter.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, dataclass_transform, get_type_hints

import typer
from typer import Argument, Option
from typer.models import ParameterInfo

from wiredecode.cli.completion import complete_decode_as, complete_limit
from wiredecode.dataclasses import dataclass, is_dataclass, replace

if TYPE_CHECKING:
    from wiredecode.dissect.dissector import Demand
    from wiredecode.filter import Filter
    from wiredecode.net.limits import Limits
    from wiredecode.protocols.registry import DecodeAs
    from wiredecode.settings import Settings
    from wiredecode.tls.keylog import KeyLog
    from wiredecode.view.times import Times


T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def group(cls: type[T]) -> type[T]:
    """Class decorator: the fields are options, declared as parameters of a typer command or as other groups."""
    declared = {name: value for name, value in vars(cls).items() if isinstance(value, ParameterInfo)}
    for name, info in declared.items():
        if info.default is ...:
            delattr(cls, name)
        else:
            setattr(cls, name, info.default)
    cls.declared = {**getattr(cls, "declared", {}), **declared}  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)


def with_groups(command: Callable[..., int]) -> Callable[..., int]:
    """``command`` as typer takes it: instead of a parameter that is a group it has a parameter per option."""
    options = _options(command)

    @wraps(command)
    def run(**values: Any) -> int:
        code: int = _call(command, values)
        return code

    run.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: option.annotation for name, option in options.items()}
    return run


@cache
def _kinds(of: Callable[..., Any]) -> dict[str, Any]:
    """The types of the parameters of a command or a group."""
    hints = get_type_hints(of, include_extras=True)
    return {name: hints[name] for name in inspect.signature(of).parameters}


def _options(of: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The options of a command or a group, by name: what two groups ask for is one option."""
    kinds, declared = _kinds(of), getattr(of, "declared", {})
    parameters: dict[str, inspect.Parameter] = {}
    for name, given in inspect.signature(of).parameters.items():
        if is_dataclass(kinds[name]):
            parameters |= _options(kinds[name])
        else:
            default = declared.get(name, given.default)
            parameters[name] = given.replace(kind=given.KEYWORD_ONLY, default=default, annotation=kinds[name])
    return parameters


def _call(of: Callable[..., Any], values: dict[str, Any]) -> Any:
    """Call a command or make a group, with the groups that it asks for."""
    kinds = _kinds(of)
    return of(**{name: _call(kinds[name], values) if is_dataclass(kinds[name]) else values[name] for name in kinds})


UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""click's: newer versions of typer have their own copy of click, and do not name it."""


def refuse(*cases: tuple[object, str]) -> None:
    """Raise UsageError with the text of the first case that is true."""
    for wrong, text in cases:
        if wrong:
            raise UsageError(text)


BytesForm = Literal["hex", "base64", "text", "sha256", "length"]


QUERY = re.compile(r"(select|from|with|describe|summarize)\s", re.IGNORECASE)
"""Beginnings of SQL."""


def expand_files(files: list[str] | None) -> list[str]:
    """Folders and patterns as the captures in them; a file whose name looks like a pattern is that file.

    A display filter in their place is refused, before anything is read.
    """
    names = [capture for name in files or () for capture in (_captures(name) if _stands_for_several(name) else [name])]
    for name in names:
        if re.search(r"[=<>!\s]", name) and "://" not in name and not os.path.lexists(name):
            advice = "a query comes last" if QUERY.match(name) else "a display filter goes with -Y"
            raise UsageError(f"{name}: does not exist; {advice}")
    return names


def _stands_for_several(name: str) -> bool:
    pattern = any(sign in name for sign in "*?[")
    if "://" in name:
        return pattern or name.endswith("/")
    return Path(name).is_dir() or (pattern and not Path(name).exists())


def _captures(name: str) -> list[str]:
    from wiredecode.capture import CaptureError
    from wiredecode.capture.listing import listing

    try:
        names = [file.name for file in listing(name)]
    except CaptureError as error:
        raise typer.BadParameter(str(error)) from None
    if not names:
        raise typer.BadParameter(f"{name}: the folder holds no file with the name of a capture (.pcap, .pcapng, .cap)")
    return names if "://" in name or Path(name).is_absolute() else [os.path.relpath(file) for file in names]


Level = Annotated[Literal["frames", "messages", "packets", "connections", "flows"], Option(help="Content of a row.")]
CsvFormulas = Annotated[
    Literal["keep", "guard"],
    Option(help="CSV for spreadsheets: guard puts ' before text that begins like a formula (= + - @)."),
]
FILES = (
    "pcap or pcapng, also compressed (gzip, zstd, lz4), also at s3:// and other URLs. Several files, or those of a "
    "folder or of a quoted pattern, are one capture in time order."
)
PIPE = f"{FILES} - is standard input."
Files = Annotated[list[str], Argument(metavar="FILE", show_default=False, callback=expand_files, help=PIPE)]
OptionalFiles = Annotated[
    list[str] | None, Argument(metavar="FILE", show_default=False, callback=expand_files, help=FILES)
]
Count = Annotated[int | None, Option("-c", "--count", min=1, metavar="N", help="Stop after N frames.")]
Bytes = Annotated[BytesForm, Option("--bytes", help="Form of bytes.")]
RecordRanges = Annotated[bool, Option("--ranges", help="With --json: byte range of every field.")]
TwoPasses = Annotated[
    bool, Option("-2", "--two-passes", help="Read the captures twice, so that requests know late responses.")
]
Jobs = Annotated[
    int | None,
    Option("--jobs", min=1, metavar="N", help="Decode in N processes. [default: all cores, up to 8, from 64 MB on]"),
]
READ_ONCE = "--two-passes reads the captures twice, and standard input can be read only once"
ShowSecrets = Annotated[bool, Option("--show-secrets", help="Show passwords and tokens.")]
Color = Annotated[
    Literal["auto", "always", "never"], Option(help="Colours; auto: on a terminal, unless NO_COLOR is set.")
]
Time = Annotated[
    Literal["relative", "absolute", "delta", "epoch"] | None,
    Option(help="Since the first packet, date and time, since the frame before, or since 1970. [default: relative]"),
]
Utc = Annotated[
    bool,
    Option("--utc", help="Times in UTC, not in the local time zone: those shown, and those given without a zone."),
]
Json = Annotated[bool, Option("--json", help="One JSON record per frame (NDJSON).")]
Verbose = Annotated[bool, Option("-v", "--verbose", help="Print more about the files, and a traceback on failure.")]


def require_folder(file: Path | None) -> Path | None:
    """Raise UsageError if there is no folder to write the file into; return the file."""
    from wiredecode.export.target import ExportError, check_folder

    try:
        if file is not None:
            check_folder(file)
    except ExportError as error:
        raise UsageError(str(error)) from None
    return file


SummaryJson = Annotated[
    Path | None, Option(metavar="FILE", dir_okay=False, callback=require_folder, help="Write the totals as JSON.")
]


def complete_filter(incomplete: str) -> list[str]:
    """Names that the last word of a filter may become, for the shell."""
    from wiredecode.filter.names import completions

    return completions(incomplete)


def _filter_option(help: str) -> Any:  # noqa: A002 - as typer calls it
    text = f"{help}; names: wiredecode fields."
    return Option("-Y", "--display-filter", metavar="FILTER", autocompletion=complete_filter, help=text)


DisplayFilter = Annotated[
    str | None, _filter_option("Only frames that match, as in 'frame.type == \"Publish\" && frame.length > 100'")
]
CheckFilter = Annotated[
    str | None,
    _filter_option("Only problems of connections with a frame that matches, as in 'nats.subject == \"a\"'"),
]
FollowFilter = Annotated[str | None, _filter_option("The connection with a frame that matches, as in 'latency > 5ms'")]


@group
class DecodingWithoutNames:
    """Options for decoding captures."""

    decode_as: list[str] | None = Option(
        None,
        "-d",
        "--decode-as",
        metavar="PORT=PROTOCOL[/DIALECT]",
        autocompletion=complete_decode_as,
        help="Protocol of a TCP port, if the bytes do not identify one. Repeatable.",
    )
    gap_timeout: float | None = Option(
        None,
        metavar="SECONDS",
        min=0,
        help="Time to wait for missing bytes after they are acknowledged, in capture time. In one-way captures the "
        "wait begins with the next bytes (limit gap_seconds). [default: 1]",
    )
    gap_buffer: int | None = Option(
        None,
        metavar="MIB",
        min=1,
        help="Buffer for the bytes after a gap, per direction (limit buffered_bytes). [default: 4]",
    )
    limit: list[str] | None = Option(
        None,
        metavar="NAME=VALUE",
        autocompletion=complete_limit,
        help="Change a limit of reassembly, as in fragment_seconds=5; an unknown name lists them all. Repeatable.",
    )
    keylog: list[Path] | None = Option(
        None, metavar="FILE", help="TLS secrets, as SSLKEYLOGFILE collects them. Repeatable."
    )
    keylog_dir: Path | None = Option(None, metavar="DIR", help="TLS secrets: all files of a directory.")
    sandbox: bool = Option(
        False,
        "--sandbox",
        help="Drop all rights except reading FILE and writing the output (landlock, Linux).",
    )
    """Kept by the command itself, before it runs: see :mod:`wiredecode.cli.sandbox`."""

    @property
    def resolves(self) -> bool:
        """True if connections get the names of their addresses."""
        return False

    @cached_property
    def ports(self) -> dict[int, DecodeAs]:
        """The protocols that ports speak."""
        from wiredecode.protocols.registry import decoding

        chosen = {}
        for choice in self.decode_as or ():
            port, equals, name = choice.partition("=")
            if port.isdigit() and not equals:
                message = f"{choice!r} names no protocol, as in {choice}=rabbitmq_stream"
                raise typer.BadParameter(message, param_hint="-d")
            if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
                message = f"{choice!r} does not begin with a port, as in 5552=rabbitmq_stream"
                raise typer.BadParameter(message, param_hint="-d")
            chosen[int(port)] = name
        try:
            return decoding(chosen)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="-d") from None

    @cached_property
    def limits(self) -> Limits:
        return _limits(self.gap_timeout, self.gap_buffer, self.limit)

    @cached_property
    def keys(self) -> KeyLog | None:
        """The TLS secrets, if some were given; a key log must be readable."""
        if not self.keylog and self.keylog_dir is None:
            return None
        from wiredecode.cli.output import say
        from wiredecode.extras import need
        from wiredecode.tls.keylog import KeyLog

        need("cryptography", "--keylog")
        try:
            return KeyLog(self.key_files)
        except OSError as error:
            say(f"wiredecode: --keylog: {error.filename} cannot be read: {error.strerror}")
            raise typer.Exit(2) from None

    @cached_property
    def key_files(self) -> list[Path]:
        """The key logs that were named."""
        folder = self.keylog_dir
        inside = [] if folder is None else sorted(path for path in folder.iterdir() if path.is_file())
        return [*(self.keylog or []), *inside]

    @property
    def demand(self) -> Demand:
        """A pass with these options."""
        from wiredecode.dissect.dissector import Demand

        return self.read(Demand())

    def read(self, demand: Demand) -> Demand:
        """``demand`` with these options."""
        return replace(demand, decode_as=self.ports, limits=self.limits, keys=self.keys, resolve=self.resolves)


@group
class Decoding(DecodingWithoutNames):
    """Options for decoding captures, for commands that show addresses."""

    resolve: Literal["none", "capture"] = Option(
        "none", help="Names for addresses, from DNS answers and name blocks of the capture. No queries are sent."
    )

    @property
    def resolves(self) -> bool:
        return self.resolve == "capture"


@group
class TimeSpan:
    """The time that frames are shown of."""

    from_: str | None = Option(
        None,
        "--from",
        metavar="TIME",
        help="Start at this time: RFC 3339, local time without a zone, or seconds from the first packet.",
    )
    to: str | None = Option(None, metavar="TIME", help="Stop at this time.")
    utc: Utc = False

    @cached_property
    def start(self) -> TimePoint | None:
        return _time_point(self.from_, "--from", utc=self.utc)

    @cached_property
    def end(self) -> TimePoint | None:
        start, end = self.start, _time_point(self.to, "--to", utc=self.utc)
        if start is not None and end is not None and start.relative == end.relative and end.ns < start.ns:
            raise UsageError(f"--to {self.to} is before --from {self.from_}")
        return end

    @property
    def is_whole(self) -> bool:
        """Whether frames of all times are meant."""
        return self.start is None and self.end is None

    def since(self, first_ns: int) -> tuple[int | None, int | None]:
        """Begin and end, nanoseconds since the epoch, of a capture that began at ``first_ns``."""
        start = None if self.start is None else self.start.since(first_ns)
        return start, None if self.end is None else self.end.since(first_ns)


@group
class Verbosity:
    """Options for the output on standard error."""

    quiet: bool = Option(False, "-q", "--quiet", help="No totals, no progress, no hints; errors only.")
    verbose: Verbose = False


@group
class Reading:
    """Options for decoding packets, and for reports about it."""

    decoding: Decoding
    verbosity: Verbosity


@group
class CaptureReading(Reading):
    """Captures, how they are decoded, and the time that matters."""

    files: Files
    span: TimeSpan

    def processes(self, jobs: int | None, *reasons: tuple[object, str]) -> int:
        """Number of processes that decode: that of ``--jobs``, else the usual one where they can.

        ``reasons``: whether something keeps several from it, and what. Raises UsageError if they were asked for.
        """
        from wiredecode.cli import processes

        files = self.files or []
        reasons = *processes.reasons(files), *reasons
        if jobs is None:
            jobs = 1 if any(given for given, _ in reasons) else processes.usual(files)
        elif jobs > 1:
            refuse(*((given, f"--jobs {why}") for given, why in reasons))
        if jobs > 1:
            _ = self.decoding.keys  # read them before there are processes
        return jobs


@dataclass(frozen=True)
class TimePoint:
    """A point in time: nanoseconds since the epoch, or since the first packet."""

    ns: int
    relative: bool

    def since(self, first_ns: int) -> int:
        """Nanoseconds since the epoch, for a capture that began at ``first_ns``."""
        return self.ns + first_ns if self.relative else self.ns


def times(choice: str | None, *, utc: bool, records: bool) -> Times:
    """Form of times; ``records``: the output has its own times."""
    from wiredecode.view.times import Times

    if choice and records:
        raise UsageError("--time is for people; records always have time, in UTC, and time_ns")
    chosen = choice or ("absolute" if utc else None if records else settings().time)
    return Times(chosen or "relative", utc=utc)


def _time_point(text: str | None, option: str, *, utc: bool) -> TimePoint | None:
    """Read a ``--from`` or ``--to``."""
    if text is None:
        return None
    from wiredecode.net.limits import MAX_SECONDS

    with suppress(ValueError):
        seconds = float(text)
        if not abs(seconds) <= MAX_SECONDS:
            raise typer.BadParameter(f"{text!r} is not a time", param_hint=option)
        return TimePoint(round(seconds * 1e9), relative=True)
    from wiredecode.filter.values import time_ns

    ns = time_ns(text, utc=utc)
    if ns is None:
        hint = "2026-01-31T12:00:00Z, or seconds since the first packet"
        raise typer.BadParameter(f"{text!r} is not a time such as {hint}", param_hint=option)
    return TimePoint(ns, relative=False)


def names(text: str | None, option: str) -> list[str] | None:
    """The names of a list with commas between; none twice."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not name or names.count(name) > 1:
            problem = f"names {name} twice" if name else "has an empty name"
            raise typer.BadParameter(f"{text!r} {problem}", param_hint=option)
    return names


def check_out(out: Path, files: list[str], *, refusal: str, named: str) -> None:
    """Refuse to write packets to standard output, or to what is read; ``named``: the output in errors."""
    if str(out) == "-":
        raise UsageError(f"{refusal}; to pass packets on, write to /dev/stdout")
    require_folder(out)
    for file in files:
        with suppress(OSError):
            if out.exists() and out.samefile(file):
                raise UsageError(f"{named} is an input; choose another name")


def check_writing(files: list[str], out: Path, *, selects: bool = True) -> None:
    """Refuse to write packets to ``out`` if it is no file, or if the captures cannot be read twice and ``selects``."""
    check_out(out, files, refusal="-w needs a file", named=f"-w {out}")
    for file in files:
        if selects and not Path(file).is_file():
            input_name = "standard input" if file == "-" else f"{file} (no regular file)"
            raise UsageError(
                f"-w with a selection reads twice, and {input_name} can be read once: save it first, as with tee a.pcap"
            )


def display_filter(text: str | None, *, secrets: bool = False, utc: bool = False) -> Filter | None:
    """Read a ``-Y``; a wrong one is explained, with the place, and ends the command. ``utc``: times without a zone."""
    if text is None:
        return None
    from wiredecode.cli.output import say
    from wiredecode.filter import FilterError, compile_filter
    from wiredecode.settings import SettingsError

    try:
        return compile_filter(settings().expand(text) if "@" in text else text, secrets=secrets, utc=utc)
    except SettingsError as error:
        raise UsageError(f"-Y: {error}") from None
    except FilterError as error:
        say(f"wiredecode: -Y: {error.explain()}")
        raise typer.Exit(2) from None


def settings() -> Settings:
    """The user's settings file."""
    from wiredecode.settings import SettingsError, load, unknown

    try:
        found = load()
    except SettingsError as error:
        raise UsageError(str(error)) from None
    for name in found.unknown:
        _warn_once(f"{unknown(name)}; wiredecode config {name} --unset takes it away")
    return found


@cache
def _warn_once(text: str) -> None:
    from wiredecode.cli.output import complain

    complain(text)


def _limits(gap_seconds: float | None, gap_buffer: int | None, others: list[str] | None) -> Limits:
    """The limits of reassembly, where options change them."""
    from wiredecode.net.limits import DEFAULT_LIMITS, MIB

    chosen: dict[str, float] = {}
    for choice in others or ():
        name, _, text = choice.partition("=")
        try:
            chosen[name] = int(text) if text.isdecimal() else float(text)
        except ValueError:
            raise typer.BadParameter(f"{choice!r} needs a number, as in gap_seconds=2", param_hint="--limit") from None
    _check_limits(chosen, "--limit")
    if gap_seconds is not None:
        chosen["gap_seconds"] = gap_seconds
    if gap_buffer is not None:
        total = max(chosen.get("buffered_total", DEFAULT_LIMITS.buffered_total), gap_buffer * MIB)
        chosen |= {"buffered_bytes": gap_buffer * MIB, "buffered_total": total}
    return _check_limits(chosen, "--gap-timeout, --gap-buffer")


def _check_limits(chosen: Mapping[str, float], option: str) -> Limits:
    from wiredecode.net.limits import limits_of

    try:
        return limits_of(chosen)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
