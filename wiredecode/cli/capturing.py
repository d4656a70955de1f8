"""Live captures: where packets come from and where they are saved; options of ``sniff``, ``ui`` and ``extcap``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Exit, Option

from wiredecode.cli import interrupt, options
from wiredecode.cli.output import complain, say

if TYPE_CHECKING:
    from wiredecode.capture.live.pcapng_writer import Rotation
    from wiredecode.capture.live.sniffer import Sniffer
    from wiredecode.capture.live.source import LiveOptions, LiveSource

MAX_SNAPLEN = 262_144
Via = Literal["dumpcap", "tcpdump"]
Program = Annotated[Via | None, Option("--via", help="Let this program capture, with the rights that it has.")]
SnapLen = Annotated[
    int, Option("-s", "--snaplen", metavar="BYTES", min=1, max=MAX_SNAPLEN, help="Bytes captured of each packet.")
]


def complete_interface(incomplete: str) -> list[str]:
    """Interfaces that the word may become, for the shell."""
    from wiredecode.capture.live.interfaces import ANY, names

    return [name for name in (*names(), ANY) if name.startswith(incomplete)]


def interface_option(begin: str) -> Any:
    text, complete = f"{begin} (see wiredecode interfaces); any: everywhere.", complete_interface
    return Option("-i", "--interface", metavar="IFACE", help=text, autocompletion=complete, show_default=False)


@options.group
class LiveCapture:
    """Where and how packets are captured."""

    interface: Annotated[str, interface_option("Where to listen")]
    capture_filter: str = Option(
        "", "-f", "--capture-filter", metavar="BPF", help="Only packets that fit, as in 'port 5552'."
    )
    no_promiscuous: bool = Option(False, "-p", "--no-promiscuous", help="Only packets from and to this machine.")
    duration: float | None = Option(None, metavar="SECONDS", min=0.001, help="Stop after this time.")
    via: Program = None
    snaplen: SnapLen = MAX_SNAPLEN
    buffer: int = Option(32, "-B", "--buffer", metavar="MIB", min=1, max=2048, help="Kernel buffer size.")

    @property
    def wanted(self) -> LiveOptions:
        from wiredecode.capture.live.source import LiveOptions

        return LiveOptions(self.interface, self.capture_filter, not self.no_promiscuous, self.snaplen, self.buffer)

    def capturing(self, *, saves: bool) -> AbstractContextManager[Sniffer]:
        """:func:`capturing` with these options."""
        return capturing(self.wanted, self.via, self.duration, saves=saves)


@options.group
class OptionalLive(LiveCapture):
    """Where and how packets are captured, if they are."""

    interface: Annotated[str | None, interface_option("Listen there instead of reading files")] = None  # type: ignore[assignment]  # files, else

    @property
    def says_how(self) -> bool:
        """Whether more than the interface is given."""
        return bool(self.capture_filter) or self.duration is not None or self.via is not None


@options.group
class FilesOrLive(options.CaptureReading):
    """Captures, or an interface."""

    files: options.OptionalFiles = None  # type: ignore[assignment]  # else an interface
    live: OptionalLive

    def check_source(self, does: str, missing: str, alone: bool, refusal: str) -> None:
        """Refuse neither and both. ``alone``: options are given that go with files only; these ``refusal`` names."""
        if self.live.interface is not None:
            both = self.files, f"-i {does} an interface: leave out files"
            options.refuse(both, (alone or not self.span.is_whole, refusal))
        else:
            options.refuse((not self.files, missing), (self.live.says_how, "-f, --duration and --via need -i"))


@options.group
class Saving:
    """Where packets are saved."""

    save: Path | None = Option(None, "-w", "--write", metavar="FILE", help="Save the packets as pcapng, too.")
    ring_size: int | None = Option(None, metavar="MIB", min=1, help="With -w: start a new file at this size.")
    ring_seconds: float | None = Option(None, metavar="S", min=0.1, help="With -w: start a new file after this time.")
    ring_files: int | None = Option(None, metavar="N", min=1, help="With a ring: keep the last N files.")

    @cached_property
    def rotation(self) -> Rotation:
        """When a new file begins. Refuses options that exclude each other."""
        from wiredecode.capture.live.pcapng_writer import Rotation
        from wiredecode.capture.live.ring import MIB

        size = None if self.ring_size is None else self.ring_size * MIB
        rotation = Rotation(size, self.ring_seconds, self.ring_files)
        ring = rotation.wanted or self.ring_files
        options.refuse(
            (self.save is None and ring, "--ring-size, --ring-seconds and --ring-files go with -w"),
            (self.ring_files and not rotation.wanted, "--ring-files goes with --ring-size or --ring-seconds"),
            (str(self.save) == "-", "-w needs a file: standard output carries the frames"),
        )
        return rotation

    def begin(self, sniffer: Sniffer) -> None:
        """Save packets from now on, if asked for. Raises typer.Exit after a report."""
        if self.save is None:
            return
        try:
            sniffer.save(self.save, self.rotation)
        except OSError as error:
            complain(f"{error.filename}: cannot be written: {error.strerror}")
            raise Exit(2) from None


@contextmanager
def capturing(wanted: LiveOptions, via: Via | None, duration: float | None, *, saves: bool) -> Iterator[Sniffer]:
    """The capture, with no more rights than it needs from now on. Raises typer.Exit after a report."""
    from wiredecode.capture.live.interfaces import LiveError
    from wiredecode.capture.live.privileges import give_up
    from wiredecode.capture.live.sniffer import Sniffer
    from wiredecode.capture.live.source import HelperSource, RingSource

    try:
        source: LiveSource = RingSource(wanted) if via is None else HelperSource(via, wanted)
    except LiveError as error:
        complain(str(error))
        for line in error.advice:
            say(f"  {line}")
        raise Exit(2) from None
    if interrupt.is_own_process() and (remark := give_up(saves=saves, helper=via is not None)):
        complain(remark)
    with closing(Sniffer(source, duration=duration)) as sniffer:
        yield sniffer
