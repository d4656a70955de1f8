"""``wiredecode.read`` with pandas, polars, Arrow, ``len`` and patterns (issue 12, point 15)."""

from __future__ import annotations

import ast
import dataclasses
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import wiredecode
from tests.support import RABBITMQ
from wiredecode.api import exact_type
from wiredecode.extras import NotInstalled
from wiredecode.frames import frame as frame_module

BASIC = RABBITMQ / "c43_basic.pcap"
PUBLISH = 'frame.type == "Publish"'


@pytest.mark.parametrize("level", ["frames", "messages", "packets", "connections"])
@pytest.mark.parametrize("name", ["rabbitmq-stream/c43_basic.pcap", "kafka/errors.pcap.zst"])
def test_every_column_has_the_same_values_in_pandas_csv_and_the_table(level: str, name: str, tmp_path: Path) -> None:
    """Issue 63: beside missing values, pandas makes integers floats, which hold 53 bits."""
    capture = wiredecode.read(RABBITMQ.parent / name, level=level)
    table, frame, constructed = capture.table(), capture.to_pandas(), pd.DataFrame(capture)
    assert table.column_names == list(frame.columns) == list(constructed.columns)
    assert len(frame) == len(constructed) == len(table) == len(capture)
    assert pa.Table.from_pandas(frame, table.schema, preserve_index=False).equals(table)
    out = tmp_path / "a.csv"
    export = [str(RABBITMQ.parent / name), "--level", level, "-o", str(out), "-q"]
    subprocess.run([sys.executable, "-m", "wiredecode", "export", *export], check=True)
    text = pd.read_csv(out, dtype="string", keep_default_na=False)
    for each in table.schema:
        if pa.types.is_integer(each.type):
            exact = table[each.name].to_pylist()
            assert [None if pd.isna(value) else int(value) for value in constructed[each.name]] == exact
            assert text[each.name].tolist() == ["" if value is None else str(value) for value in exact]


def test_integers_of_64_bits_stay_exact_beside_missing_ones() -> None:
    large = pa.table({"a": pa.array([2**63 + 1, None], pa.uint64()), "b": [[2**53 + 1, None], None]})
    frame = large.to_pandas(types_mapper=exact_type)
    assert (frame["a"].dtype, frame["a"][0]) == ("UInt64", 2**63 + 1)
    assert frame["b"][0] == [2**53 + 1, None]


def test_pandas_accepts_a_list_of_frames() -> None:
    frames = list(wiredecode.read(BASIC))
    found = pd.DataFrame(frames)
    assert list(found["src"]) == [frame.source for frame in frames]
    assert {*found} - {*wiredecode.read(BASIC).schema.names} == {"time_ns", "fields"}
    assert found["fields"][30] == frames[30].fields


def test_frames_of_pandas_polars_and_arrow_have_the_requested_columns() -> None:
    capture = wiredecode.read(BASIC, columns=["frame", "type", "nats.subject"], filter=PUBLISH)
    names = ["frame", "type", "layers.nats.subject"]
    pandas, polars, arrow = capture.to_pandas(), capture.to_polars(), capture.to_arrow()
    assert isinstance(pandas, pd.DataFrame)
    assert isinstance(polars, pl.DataFrame)
    assert list(pandas.columns) == polars.columns == arrow.column_names == names
    assert pandas["frame"].tolist() == polars["frame"].to_list() == arrow["frame"].to_pylist() != []
    assert set(polars["type"]) == {"Publish"}


def in_arrays(kind: pa.DataType, prefix: str) -> Iterator[tuple[str, str]]:
    """The outermost arrays of structures, and a path in each for every field below it."""
    for field in kind if pa.types.is_struct(kind) else ():
        place, element = f"{prefix}.{field.name}", getattr(field.type, "value_type", None)
        found = below(element, "") if element is not None else ()
        yield from ((place, path) for path in found)
        yield from in_arrays(field.type, place)


def below(kind: pa.DataType, prefix: str) -> Iterator[str]:
    while pa.types.is_list(kind):
        kind = kind.value_type
    for field in kind if pa.types.is_struct(kind) else ():
        yield f"{prefix}.{field.name}"
        yield from below(field.type, f"{prefix}.{field.name}")


def leaves(kind: pa.DataType, value: Any, path: list[str]) -> Iterator[Any]:
    """All values at a path below a value of a type."""
    if pa.types.is_list(kind):
        for each in value or ():
            yield from leaves(kind.value_type, each, path)
    elif path:
        yield from leaves(kind.field(path[0]).type, (value or {}).get(path[0]), path[1:])
    else:
        yield value


@pytest.mark.parametrize(
    "file", ["kafka/small.pcap", "rabbitmq-stream/c43_basic.pcap", "liftbridge/34-lb-replication.pcap.zst"]
)
def test_a_field_in_nested_arrays_is_a_column_with_all_its_values(captures: Path, file: str) -> None:
    whole = wiredecode.read(captures / file).to_arrow()
    protocols = set(whole["protocol"].to_pylist()) - {None}
    found = {
        f"{place}{path}": (place, path[1:].split("."))
        for protocol in protocols
        for place, path in in_arrays(whole.schema.field("layers").type.field(protocol).type, f"layers.{protocol}")
    }
    chosen = wiredecode.read(captures / file, columns=list(found)).to_arrow()
    arrays = wiredecode.read(captures / file, columns=[place for place, _ in found.values()]).to_arrow()
    held = {place: arrays[place].to_pylist() for place in arrays.schema.names}
    filled = 0
    for name, (place, path) in found.items():
        kind = arrays.schema.field(place).type
        expected = [None if rows is None else [*leaves(kind, rows, path)] for rows in held[place]]
        assert chosen[name].to_pylist() == expected, name
        filled += any(expected)
    assert filled > 1


@pytest.mark.parametrize(
    ("level", "filtered"),
    [
        ("frames", None),
        ("messages", None),
        ("packets", None),
        ("frames", "tcp.port == 37512"),
        ("packets", "tcp.port == 37512"),
    ],
)
def test_length_is_the_number_of_items(level: str, filtered: str | None) -> None:
    capture = wiredecode.read(BASIC, level=level, filter=filtered)
    assert len(capture) == sum(1 for _ in capture) > 0
    assert len(capture.messages()) == sum(1 for _ in capture.messages())


def test_length_of_a_damaged_capture_counts_items_before_the_damage() -> None:
    damaged = RABBITMQ / "d_cutfile.pcap"
    capture = wiredecode.read(damaged, strict=False)
    with pytest.warns(wiredecode.api.DamagedCapture):
        frames = sum(1 for _ in capture)
    assert len(capture) == len(wiredecode.read(damaged)) == frames > 0


def test_a_stream_has_no_length_and_is_not_read_for_one() -> None:
    capture = wiredecode.read(io.BytesIO(BASIC.read_bytes()))
    with pytest.raises(TypeError, match="can be read once"):
        len(capture)
    assert bool(capture)
    assert len(list(capture)) == 142


def test_a_capture_without_frames_is_not_false() -> None:
    capture = wiredecode.read(BASIC, filter="frame.number > 142")
    assert len(capture) == 0
    assert bool(capture)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_one_line(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    convert = getattr(wiredecode.read(BASIC), f"to_{package}")
    with pytest.raises(NotInstalled) as caught:
        convert()
    assert str(caught.value) == f"to_{package}() needs {package}, which is not installed: pip install {package}"


def test_patterns_are_the_files_that_match_in_order(tmp_path: Path) -> None:
    for name in ("b.pcap", "a.pcap", "c.txt"):
        (tmp_path / name).write_bytes(BASIC.read_bytes())
    (tmp_path / "[x].pcap").write_bytes(BASIC.read_bytes())
    files = [str(tmp_path / name) for name in ("[x].pcap", "a.pcap", "b.pcap")]
    assert wiredecode.read(tmp_path / "*.pcap").paths == files
    assert wiredecode.read([f"{tmp_path}/[ab].pcap", files[1]]).paths == [*files[1:], files[1]]
    assert wiredecode.read(files[0]).paths == files[:1], "a file of that name is that file"
    with pytest.raises(ValueError, match=r"no file matches '.*\*\.cap'"):
        wiredecode.read(tmp_path / "*.cap")


def test_star_imports_of_the_public_api_give_only_its_own_names() -> None:
    """Of modules that pages import, except message types: ``np`` and ``Any`` came along."""
    pages = "".join(page.read_text() for page in (RABBITMQ.parent.parent / "docs").glob("*.md"))
    modules = set(re.findall(r"^(?:import|from) (wiredecode[.\w]*)", pages, re.MULTILINE)) | {"wiredecode.results"}
    for module in {each for each in modules if not each.endswith(".layers")}:
        names: dict[str, object] = {}
        exec(f"from {module} import *", names)
        del names["__builtins__"]
        for name, value in names.items():
            place = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", module)
            assert str(place).startswith(("wiredecode", "builtins")), f"{module}: {name}"


def test_every_attribute_of_frames_and_findings_is_documented() -> None:
    tree = ast.parse(Path(frame_module.__file__).read_text())
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name not in ("Frame", "Inner"):
            continue
        for one, following in zip(node.body, node.body[1:], strict=False):
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                said = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                assert said, f"{node.name}.{one.target.id}"
            if isinstance(one, ast.FunctionDef) and not one.name.startswith("__"):
                assert ast.get_docstring(one), f"{node.name}.{one.name}"


def test_dataclass_fields_of_a_frame_are_plain_values() -> None:
    (frame, *_) = wiredecode.read(BASIC)
    row = dataclasses.asdict(frame)
    assert (row["frame"], row["type"], row["src"]) == (1, frame.type, frame.source)
    assert all(hasattr(type(frame), name) for name in row)


@pytest.mark.parametrize("name", ["gap_seconds=-1", "connections=0", "connections=2.5", "speed=1"])
def test_impossible_limits_are_refused(name: str) -> None:
    limit, value = name.split("=")
    with pytest.raises(ValueError, match="limit"):
        wiredecode.read(RABBITMQ / "c43_basic.pcap", limits={limit: float(value)})


@pytest.mark.parametrize("name", ["nats/50-server-links.pcap", "cursus/produce.pcap", "stories/leader-killed.pcap.zst"])
def test_frames_inside_others_have_records_too(name: str) -> None:
    for frame in islice(wiredecode.read(RABBITMQ.parent / name, strict=False), 2000):
        assert frame.record()["type"] == frame.type
