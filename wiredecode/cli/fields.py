"""``wiredecode fields``: every field that can be in a record; ``wiredecode protocols``: what it speaks."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from typer import Argument, Option

from wiredecode.cli.completion import complete_field
from wiredecode.cli.output import Output, complain
from wiredecode.frames.escape import wrap_escaped

if TYPE_CHECKING:
    from wiredecode.protocols.catalogue import FieldEntry


NAMED_MESSAGES = 2
"""Message types named in the table; beyond it only the number is shown."""


def fields(
    prefix: str = Argument(
        "",
        metavar="PREFIX",
        autocompletion=complete_field,
        help="Only names that begin so, as in rabbitmq_stream.chunk.",
    ),
    json: bool = Option(False, "--json", help="One JSON object per field (NDJSON)."),
) -> int:
    """List every field: filter name, type, messages that contain it, and meaning.

    In records the name is the path below "layers"; all elements of an array have the same name.
    """
    from wiredecode.protocols.catalogue import FRAME_ENTRIES, amqp_entries, catalogue, generated_entries
    from wiredecode.protocols.registry import protocols

    everything = (layer for protocol in protocols() for layer in protocol.layers())
    all_entries = [*catalogue(everything), *generated_entries(protocols()), *amqp_entries(), *FRAME_ENTRIES]
    entries = [entry for entry in all_entries if entry.name.startswith(prefix)]
    output = Output()
    if json:
        for entry in entries:
            output.json(entry.record())
    else:
        for line in table(entries, _width()):
            output.text(line + "\n")
    output.flush()
    if not entries:
        complain(f"no field begins with {prefix!r}; wiredecode fields lists all")
        return 2
    return 0


def _width() -> int | None:
    """Columns of the terminal; elsewhere a field is one line."""
    chosen = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return shutil.get_terminal_size().columns if chosen else None


MIN_MEANING = 30
"""Columns of the meaning beside the name; with fewer it is below."""


def table(entries: list[FieldEntry], width: int | None) -> list[str]:
    """The fields as aligned lines of ``width`` (None: any length); without room the meaning is below the name."""
    name_width = max((len(entry.name) for entry in entries), default=0)
    type_width = max((len(entry.type) for entry in entries), default=0)
    lines = []
    for entry in entries:
        front = f"{entry.name:<{name_width}}  {entry.type:<{type_width}}"
        beside = f"{front}  {_messages(entry):<36}  "
        if width is None:
            lines.append(f"{beside}{entry.description}".rstrip())
        elif width - len(beside) >= MIN_MEANING:
            lines += wrap_escaped(entry.description, beside, " " * len(beside), width) or [beside.rstrip()]
        else:
            meaning = f"{entry.description} [{_messages(entry)}]"
            lines += [*wrap_escaped(front, "", "  ", width), *wrap_escaped(meaning, "    ", "    ", width)]
    return lines


def _messages(entry: FieldEntry) -> str:
    names = entry.messages
    if entry.generated:
        return "generated"
    if not names:
        return "any message"
    return ", ".join(names) if len(names) <= NAMED_MESSAGES else f"{len(names)} messages"


def protocols() -> None:
    """List the protocols that are decoded, with their ports and dialects."""
    from wiredecode.protocols.registry import protocols as known

    rows = [("NAME", "PROTOCOL", "PORTS", "OVER TLS", "DIALECTS")]
    for protocol in known():
        ports, tls = (", ".join(map(str, numbers)) or "-" for numbers in (protocol.ports, protocol.tls_ports))
        rows.append((protocol.name, protocol.title, ports, tls, ", ".join(protocol.dialects) or "-"))
    output = Output()
    output.table(rows)
    output.flush()
