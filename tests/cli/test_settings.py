"""The settings file: saved filters, invalid values, and changes that keep the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from wiredecode import settings
from wiredecode.settings import Settings, SettingsError, change_setting

CAPTURES = Path(__file__).parents[2] / "captures"
BASIC = CAPTURES / "rabbitmq-stream/c43_basic.pcap"
WRITTEN = """\
# mine
time = "absolute"  # as logs have it

[filters]
slow = "latency > 5ms"
mine = '''
frame.number > 3
'''

[colors]
late = "bold red: @slow"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "wiredecode" / "config.toml"


def test_changes_keep_comments_and_other_settings() -> None:
    made = change_setting(WRITTEN, "filters.slow", "latency > 7ms")
    assert made == WRITTEN.replace("5ms", "7ms")
    made = change_setting(WRITTEN, "filters.fast", 'x == "\\"'[:0] + "latency < 1ms")
    assert made.index("fast = ") < made.index("[colors]") and "# mine" in made
    assert change_setting(change_setting(WRITTEN, "ui.ascii", True), "ui.ascii", None).startswith(WRITTEN)
    assert change_setting(WRITTEN, "ui.ascii", None) == WRITTEN and change_setting("", "time", None) == ""
    assert change_setting("", "time", "delta") == 'time = "delta"\n'
    made = change_setting("[filters]\na = 'b'\n", "time", "delta")
    assert made.replace("\n\n", "\n") == "time = \"delta\"\n[filters]\na = 'b'\n"
    assert 'mine = "frame.number > 4"\n\n[colors]' in change_setting(WRITTEN, "filters.mine", "frame.number > 4")
    assert change_setting("filters = {a = 'x'}\n", "filters.a", "y") == 'filters = {a = "y"}\n'
    with pytest.raises(SettingsError, match="filters has to be a table"):
        change_setting("filters = 3\n", "filters.a", "y")


def test_saved_filters_expand_in_filters_but_not_in_strings() -> None:
    made = Settings(filters={"slow": "latency > 5ms", "odd": "@slow || frame.number == 1", "loop": "@loop"})
    assert made.expand(" @slow ") == "latency > 5ms"
    assert made.expand('@odd && nats.subject == "a@slow"') == (
        '((latency > 5ms) || frame.number == 1) && nats.subject == "a@slow"'
    )
    for text, error in (("@lost", "there is @slow, @odd"), ("@loop", "names itself")):
        with pytest.raises(SettingsError, match=error):
            made.expand(text)


def test_config_shows_sets_and_unsets(run: Run, home: Path) -> None:
    assert "not there yet" in run("config").out
    assert run("config", "filters.big", "frame.length > 100").code == 0
    assert run("config", "colors.big", "bold yellow: @big").code == 0
    assert run("config", "ui.columns", "number, length,details").code == 0
    assert settings.load().columns == ("number", "length", "details")
    assert run("config", "filters.big").out == '"frame.length > 100"\n'
    shown = run("config").out
    assert str(home) in shown and 'filters.big = "frame.length > 100"' in shown and "# time: how times" in shown
    whole = run("pcap", BASIC, "-q", "--summary", "-Y", "frame.length > 100").out
    assert run("pcap", BASIC, "-q", "--summary", "-Y", "@big").out == whole != ""
    assert run("config", "filters.big", "--unset").code == 0
    wrong = run("pcap", BASIC, "-Y", "@big")
    assert wrong.code == 2 and "no filter is saved as @big" in wrong.err


def test_the_time_setting_applies_unless_an_option_or_record_overrides_it(run: Run) -> None:
    usual = run("pcap", BASIC, "-q", "--summary", "-c", "1").out
    records = run("pcap", BASIC, "-q", "--json", "-c", "1").out
    run("config", "time", "epoch")
    assert run("pcap", BASIC, "-q", "--summary", "-c", "1").out != usual
    assert run("pcap", BASIC, "-q", "--summary", "-c", "1", "--time", "relative").out == usual
    assert run("pcap", BASIC, "-q", "--json", "-c", "1").out == records


def test_colour_rules_apply_to_lines_and_tree_headings_only(run: Run, home: Path) -> None:
    plain = run("pcap", BASIC, "-q", "--summary", "-c", "40").out
    rules = {
        "answered": 'bold yellow: frame.type == "Open" && frame.outcome == "ok"',  # known when its response is
        "field": 'black on white: rabbitmq_stream.virtual_host == "/"',
        "late": "blue: frame.time_relative > 10ms",
        "wrong": "red: frame.typ == 1",
    }
    home.parent.mkdir()
    home.write_text("[colors]\n" + "".join(f"{name} = '{rule}'\n" for name, rule in rules.items()))
    assert run("pcap", BASIC, "-q", "--summary", "-c", "40").out == plain
    found = run("pcap", BASIC, "-q", "--summary", "-c", "40", "--color", "always")
    lines, before = found.out.splitlines(), plain.splitlines()
    assert "the colour rule wrong" in found.err and len(lines) == len(before)
    painted = {each.split()[7]: line for line, each in zip(lines, before, strict=True)}
    assert painted["Open"].startswith("\x1b[1;33m ") and painted["Open"].endswith("\x1b[0m")
    late = [each for each in before if float(each.split()[1]) > 0.01 and each.split()[7] != "Open"]
    assert len(late) == sum(line.startswith("\x1b[34m") for line in lines) > 0
    tree = run("pcap", BASIC, "-q", "-Y", 'frame.type == "Open"', "-c", "1", "--color", "always").out
    assert "Frame" in tree.splitlines()[0] and "\x1b[1;33m" in tree.splitlines()[0]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("time = 5", "time has to be a text"),
        ('time = "now"', "time is one of"),
        ("[filters]\nx = 3", "filters.x has to be a text"),
        ("[colors]\nx = 'red'", "STYLE: FILTER"),
        ("[ui]\ncolumns = [1]", "a list of texts"),
        ("a = [", "config.toml: "),
    ],
)
def test_an_invalid_file_is_one_line(run: Run, home: Path, text: str, error: str) -> None:
    home.parent.mkdir()
    home.write_text(text)
    for words in (["config"], ["pcap", BASIC, "--summary"], ["pcap", BASIC, "-Y", "@x"]):
        found = run(*words)
        assert found.code == 2 and error in found.err and "Traceback" not in found.err


def test_an_unknown_setting_is_a_warning(run: Run, home: Path) -> None:
    """Issue 63: one that another version wrote made every command fail."""
    home.parent.mkdir()
    home.write_text('colour = 1\n[ui]\nrecent = ["a"]\n[filters]\nall = "frame"\n')
    found = run("pcap", BASIC, "--summary", "-q", "-Y", "@all")
    assert (found.code, len(found.lines)) == (0, 142)
    assert [line.split("; ")[0].split(": ")[-1] for line in found.err.splitlines()] == [
        "no setting is called 'colour'",
        "no setting is called 'ui.recent'",
    ]
    assert run("config", "colour", "--unset").code == run("config", "ui.recent", "--unset").code == 0
    assert run("pcap", BASIC, "--summary", "-q").err == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("filters.x", "frame.typ == 1"), ("filters.a b", "nats"), ("colors.x", "red"), ("ui.ascii", "yes"), ("x", "y")],
)
def test_invalid_values_are_refused(run: Run, home: Path, name: str, value: str) -> None:
    found = run("config", name, value)
    assert found.code == 2 and not home.exists()
