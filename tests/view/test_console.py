"""Trees in files and pipes are written without rich, and equal what its console writes."""

import io

import pytest
from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from tests.conftest import CAPTURES
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Style
from wiredecode.view.console import UNBOUNDED_WIDTH, plain_text, tree_console
from wiredecode.view.theme import TreeOptions
from wiredecode.view.tree import frame_tree
from wiredecode.view.values import Raw


class Sink(io.StringIO):
    encoding = "utf-8"

    def text(self, text: str) -> None:
        self.write(text)


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def by_rich(shown: RenderableType) -> str:
    sink = Sink()
    tree_console(sink, color=False, terminal=False).print(shown)
    return sink.getvalue()


@pytest.mark.parametrize("path", ["rabbitmq-stream/c43_basic.pcap", "liftbridge/31-lb-all-types.pcap", "hostile"])
@pytest.mark.parametrize("hexdump", [False, True])
def test_trees_of_frames_with_wide_characters_and_dumps_are_those_of_rich(path: str, hexdump: bool) -> None:
    folder = CAPTURES / path
    files = sorted(folder.glob("*.pcap"))[:4] if folder.is_dir() else [folder]
    options = TreeOptions(full=True, hexdump=hexdump)
    for file in files:
        for frame in Dissector(Demand(style=Style(Raw))).frames(open_capture([str(file)])):
            if frame.number > 60:
                break
            shown = frame_tree(frame, options)
            assert plain_text(shown) == by_rich(shown)


def test_guides_of_last_branches_below_others() -> None:
    tree = Tree("root")
    first = tree.add("first")
    first.add("one").add("deep")
    first.add("二").add("deep")
    tree.add("last").add("below").add("deep")
    shown = Group(tree, Text("a dump\nof two lines"), Text())
    assert plain_text(shown) == by_rich(shown)


@pytest.mark.parametrize("label", ["a\tb", "a\nb", "x" * UNBOUNDED_WIDTH])
def test_what_rich_would_fold_or_expand_is_left_to_rich(label: str) -> None:
    tree = Tree("root")
    tree.add(Text(label))
    assert plain_text(tree) is None
