"""Make the picture of the README from a real run: ``python docs/make_picture.py``.

The trees of a few frames of a capture of the repository, recorded by rich as SVG.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, RenderableType

from wiredecode.capture import open_capture
from wiredecode.dissect.demand import Demand
from wiredecode.dissect.dissector import Dissector
from wiredecode.fields.layer import Style
from wiredecode.view.tree import frame_tree
from wiredecode.view.values import Raw

HERE = Path(__file__).parent
CAPTURE = HERE.parent / "captures" / "rabbitmq-stream" / "c43_basic.pcap"
PICTURE = HERE / "images" / "tree.svg"
TYPES = ("DeclarePublisherResponse", "Publish", "PublishConfirm", "Deliver")
"""Shown: the first frame of each of these types."""
COLUMNS = 110


def trees(capture: Path) -> Iterator[tuple[str | None, RenderableType]]:
    """``(message type, tree)`` of every frame of the capture, in order."""
    first_ns = 0
    dissector = Dissector(Demand(style=Style(Raw)))
    for frame in dissector.frames(open_capture([capture])):
        first_ns = first_ns or dissector.totals.first_ns or 0
        yield frame.type, frame_tree(frame, first_ns)


def main() -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    wanted = list(TYPES)
    for name, tree in trees(CAPTURE):
        if name in wanted:
            wanted.remove(name)
            console.print(tree)
        if not wanted:
            break
    title = f"wiredecode pcap {CAPTURE.name}"
    # A fixed id keeps the file the same from run to run; without web fonts it loads nothing from elsewhere.
    svg = console.export_svg(title=title, unique_id="wiredecode")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))


if __name__ == "__main__":
    main()
