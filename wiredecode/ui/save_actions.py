"""Output of the screen: filters, records, command lines, packets."""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from textual.app import App

from wiredecode.dataclasses import replace
from wiredecode.export.atomic import NewFile
from wiredecode.export.packets import ChosenPackets, PacketFile
from wiredecode.fields.layer import Style
from wiredecode.filter import Filter
from wiredecode.filter.literals import literal_of
from wiredecode.filter.model import Type
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import dumps, record_line
from wiredecode.ui.detail import Branch, TreePane
from wiredecode.ui.jobs import Job, JobStopped
from wiredecode.ui.model import CaptureModel
from wiredecode.view.notebook import frame_record

SHOWN_CHARACTERS = 50


def field_filter(frame: Frame, tree: TreePane, branch: Branch | None = None) -> str | None:
    """The filter that fits this value of a field, by default of the one under the cursor; None: there is none."""
    from wiredecode.filter.names import Names

    branch = branch or tree.branch
    field = Names().find(branch.path) if branch is not None and branch.path else None
    if branch is None or field is None or field.secret:
        return None
    if field.type is Type.PROTOCOL:
        return branch.path
    values = field.get(frame)
    same = [each for each in tree.every if each.path == branch.path]
    index = next(at for at, each in enumerate(same) if each is branch)
    if not values or field.type is Type.STRUCTURE:
        return branch.path if values else None
    value = values[min(index, len(values) - 1)]
    if value is None or isinstance(value, dict | list):
        return branch.path
    return f"{branch.path} == {literal_of(field.type, value)}"


def copy_text(
    kind: str, frame: Frame | None, tree: TreePane, files: list[str], select: Filter | None
) -> tuple[str | None, str]:
    """The text for the clipboard, and how it is shown; or None, and why there is none."""
    text: str | None = None
    if kind == "tree" and tree.branch is not None:
        text = tree.below(tree.branch)
    elif kind == "value" and tree.branch is not None:
        text = tree.branch.value
    elif kind == "filter" and select is not None:
        text = select.text
    elif kind == "record" and frame is not None:
        text = dumps(frame_record(frame, "hex")).decode().rstrip("\n")
    elif kind == "command":
        text = command(files, select)
    if text is None:
        return None, "there is no filter" if kind == "filter" else "nothing to copy"
    return text, text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text):,} characters)"


def command(files: list[str], select: Filter | None) -> str:
    """The command line that shows the same frames."""
    return shlex.join(["wiredecode", "pcap", *files, "--summary", *(["-Y", select.text] if select else [])])


def save_screen(app: App[Any], name: str) -> str:
    """Save the screen as a picture; return a message with the result."""
    try:
        with Path(name).expanduser().open("x") as file:
            file.write(app.export_screenshot())
    except OSError as error:
        return f"{name} cannot be written: {error.strerror}"
    return f"saved: {name}"


def save(model: CaptureModel, name: str, numbers: Iterable[int] | None, job: Job) -> str:
    """Save records (``.json``), a table (``.parquet``) or packets of some frames, by default of all: how many."""
    path = Path(name).expanduser()
    if path.exists():
        raise FileExistsError(f"{name} exists already; choose another name")
    wanted = None if numbers is None else set(numbers)
    with NewFile(path) as file:
        size = WRITERS.get(path.suffix, _packets)(model, file, wanted, job)
        if job.stopped:
            raise JobStopped
    return f"saved: {name}, {size}"


def _frames(model: CaptureModel, style: Style | None, wanted: set[int] | None, job: Job) -> Iterable[Frame]:
    demand = model.demand(style=style, link_responses=style is not None)
    for frame in model.frames(model.dissector(demand), job):
        if wanted is None or frame.number in wanted:
            yield frame


def _records(model: CaptureModel, file: BinaryIO, wanted: set[int] | None, job: Job) -> str:
    count = 0
    for frame in _frames(model, Style(), wanted, job):
        file.write(record_line(frame))
        count += 1
    return counted(count, "record")


def _packets(model: CaptureModel, file: BinaryIO, wanted: set[int] | None, job: Job) -> str:
    chosen, packets = ChosenPackets(whole=False), PacketFile(file)
    chosen.select(_frames(model, None, wanted, job))
    chosen.finish()
    packets.copy(model.files, chosen, 0, model.reading.limits)
    return str(packets)


def _table(model: CaptureModel, file: BinaryIO, wanted: set[int] | None, job: Job) -> str:
    import pyarrow as pa
    import pyarrow.compute as pc

    from wiredecode.export.writers import ParquetWriter, WriterSettings
    from wiredecode.tables.portable import portable_rows, portable_schema
    from wiredecode.tables.reader import LevelsReader

    packets = model.source.again(lambda: job.stopped, job.progress)
    table = LevelsReader(replace(model.reading, levels=("frames",)), blocks=False)
    columns = table.schemas["frames"]
    numbers = None if wanted is None else pa.array(sorted(wanted), columns.field("frame").type)
    count, schema = 0, portable_schema(columns)
    writer = ParquetWriter(file, schema, WriterSettings())
    for _, batch in table.rows(packets):
        chosen = batch if numbers is None else batch.filter(pc.is_in(batch.column("frame"), numbers))
        writer.write(portable_rows(chosen, "", schema))
        count += chosen.num_rows
    writer.close()
    return counted(count, "row")


WRITERS = {".json": _records, ".ndjson": _records, ".parquet": _table}
"""By the end of the name; all other names get packets."""
