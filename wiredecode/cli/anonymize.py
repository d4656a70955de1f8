"""``wiredecode anonymize``: the same conversation without secrets, addresses, names and bodies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.output import say
from wiredecode.dataclasses import replace
from wiredecode.frames.escape import counted

if TYPE_CHECKING:
    from wiredecode.anonymize import Anonymizer
    from wiredecode.anonymize.key import Key
    from wiredecode.cli.session import CaptureSession
    from wiredecode.export.atomic import NewFile


@options.group
class AnonymizeOptions(options.Reading):
    """Options of the replacements."""

    decoding: options.DecodingWithoutNames  # type: ignore[assignment]  # addresses are replaced
    files: options.Files
    out: Path = Option(..., "-o", "--output", metavar="OUT.pcapng", help="Write this file.")
    key: str = Option(
        "random",
        metavar="FILE|random",
        help="File with the key of the replacements: the same key gives the same ones. A file called random: ./random.",
    )
    names: bool = Option(
        False, "--names", help="Also streams, subjects, users, clients: part by part, as long as before."
    )
    bodies: bool = Option(False, "--bodies", help="Also messages and their keys: noise of the same size.")
    keep_unknown: bool = Option(
        False, "--keep-unknown", help="Keep undecoded bytes as they are: they may hold secrets."
    )
    crypto_pan: bool = Option(
        False, "--crypto-pan", help="Addresses as Crypto-PAn maps them, bit by bit; in texts they become zeros."
    )


def anonymize(settings: AnonymizeOptions) -> int:
    """Write a capture without secrets and addresses that decodes to the same messages.

    Lengths do not change, checksums are recomputed. Bytes that were not decoded are blanked, and counted on stderr.
    """
    if settings.decoding.keylog or settings.decoding.keylog_dir:
        raise options.UsageError("wiredecode anonymize decrypts no TLS: leave out --keylog and --keylog-dir")
    from wiredecode.anonymize.key import BadKey
    from wiredecode.export.atomic import NewFile

    options.check_out(settings.out, settings.files, refusal="the output is a file", named=str(settings.out))
    try:
        key = _key(settings)
    except BadKey as error:
        raise options.UsageError(str(error)) from None
    target = NewFile(settings.out)
    try:
        return _run(settings, key, target)
    finally:
        target.discard()


def _key(settings: AnonymizeOptions) -> Key:
    from wiredecode.anonymize.key import Key, read_key

    if not settings.crypto_pan:
        return Key(read_key(settings.key))
    from wiredecode.extras import need

    need("cryptography", "--crypto-pan")
    from wiredecode.anonymize.key import CryptoPan

    return CryptoPan(read_key(settings.key, exact=True))


def _run(settings: AnonymizeOptions, key: Key, target: NewFile) -> int:
    from wiredecode.anonymize import Anonymizer
    from wiredecode.cli.session import CaptureSession
    from wiredecode.dissect.dissector import FRAMES_ONLY

    anonymizer = Anonymizer(
        target.stream,
        key,
        settings.decoding.limits,
        names=settings.names,
        bodies=settings.bodies,
        keep_unknown=settings.keep_unknown,
        patches=not target.is_direct,
    )
    session = CaptureSession.of(
        settings,
        settings.files,
        demand=replace(FRAMES_ONLY, decrypt=False),
        on_events=anonymizer.events,
        on_decoded=anonymizer.over,
        to_stdout=False,
    )
    code = session.work(lambda: _work(session, anonymizer))
    if code == INTERRUPTED or (code and not anonymizer.written):
        return code
    target.commit()
    if not settings.verbosity.quiet:
        _report(settings, anonymizer)
    return code


def _work(session: CaptureSession, anonymizer: Anonymizer) -> None:
    from wiredecode.capture.errors import Postponed

    with Postponed() as damage:
        for batch in session.batches():
            anonymizer.add_packets(batch, session.capture.info.interfaces)
            anonymizer.add_frames(session.dissector.feed(batch))
    anonymizer.add_frames(session.dissector.finish())
    anonymizer.finish()
    damage.raise_again()


def _report(settings: AnonymizeOptions, anonymizer: Anonymizer) -> None:
    """Report the result, and the parts that could not be replaced."""
    say(f"{settings.out}: {counted(anonymizer.written, 'packet')}, {counted(anonymizer.frames, 'frame')}")
    others = ", ".join(f"{name} {count:,}" for name, count in anonymizer.others.most_common())
    if others:
        done = "kept as they are" if settings.keep_unknown else "blanked (--keep-unknown keeps them)"
        say(f"connections that are not decoded ({others}): {done}")
    for why, count in anonymizer.blanked.most_common():
        say(f"blanked: {count:,} {why}")
    kept = [kind for kind, given in (("names", settings.names), ("bodies", settings.bodies)) if not given]
    if kept:
        say(f"left as they are, but for addresses: {' and '.join(kept)} (--{' --'.join(kept)} replaces them)")
