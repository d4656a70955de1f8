"""Settings that users keep in a file: filters by name, colour rules, form of times, layout of the full screen.

The file is TOML, ``wiredecode/config.toml`` below ``$XDG_CONFIG_HOME`` or ``~/.config``. People may write it by hand:
a program changes one line, and comments stay.
"""

import os
import re
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from wiredecode.dataclasses import dataclass, field

TIMES = ("relative", "absolute", "delta", "epoch")
PLAIN: dict[str, tuple[type, str]] = {
    "time": (str, f"how times are shown where --time does not say it: {', '.join(TIMES)}"),
    "ui.theme": (str, "colours of the full screen; L goes through them"),
    "ui.ascii": (bool, "no characters but ASCII on the full screen; by default where the terminal has no UTF-8"),
    "ui.columns": (list, "columns of the list of frames, in order; K chooses them"),
}
"""Settings with one value: its type, and its meaning."""
TABLES = {
    "filters": "display filters by name, for -Y @NAME",
    "colors": "colour rules, the first that fits counts: 'STYLE: FILTER', as in 'bold red: latency > 5ms'",
}
NAME = re.compile(r"[A-Za-z_][\w-]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|@([A-Za-z_][\w-]*)')


class SettingsError(Exception):
    """Error in the file, or of a value for it: one clear line."""


@dataclass(frozen=True)
class Settings:
    """Contents of the file; each may be missing."""

    time: str | None = None
    theme: str | None = None
    ascii: bool | None = None
    columns: tuple[str, ...] | None = None
    filters: Mapping[str, str] = field(default_factory=dict)
    colors: Mapping[str, str] = field(default_factory=dict)
    """``STYLE: FILTER`` by name, in order."""
    unknown: tuple[str, ...] = ()
    """Names in the file that this version does not know: it goes without them."""

    def expand(self, text: str) -> str:
        """A filter with the saved ones that it names as ``@name``. Raises SettingsError for one that is not there."""
        alone = _TOKEN.fullmatch(text.strip())
        if alone is not None and alone[1]:
            return self._filter(alone[1], ())
        return self._expand(text, ())

    def _expand(self, text: str, inside: tuple[str, ...]) -> str:
        return _TOKEN.sub(lambda match: f"({self._filter(match[1], inside)})" if match[1] else match[0], text)

    def _filter(self, name: str, inside: tuple[str, ...]) -> str:
        if name in inside:
            raise SettingsError(f"the saved filter @{name} names itself")
        if name not in self.filters:
            names = ", ".join(f"@{each}" for each in self.filters) or "none yet"
            advice = f"wiredecode config filters.{name} FILTER saves one"
            raise SettingsError(f"no filter is saved as @{name}; there is {names} ({advice})")
        return self._expand(self.filters[name], (*inside, name))


def path() -> Path:
    """Where the file is, or would be."""
    return _folder("XDG_CONFIG_HOME", ".config") / "config.toml"


def _folder(variable: str, usual: str) -> Path:
    """The folder of this program in one of those of the XDG base directories; RuntimeError: there is no home."""
    base = os.environ.get(variable, "")
    return (Path(base) if base.startswith("/") else Path.home() / usual) / "wiredecode"


def _recent() -> Path:
    return _folder("XDG_STATE_HOME", ".local/state") / "recent-filters"


def recent_filters() -> list[str]:
    """The last filters of the full screen, which are no setting: it keeps them in the folder for states."""
    try:
        text = _recent().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, RuntimeError):
        return []
    return text.splitlines()


def keep_recent_filters(filters: Sequence[str]) -> None:
    """Keep the last filters for the next full screen, where that is possible."""
    with suppress(OSError, RuntimeError):
        file = _recent()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(file, "".join(f"{each}\n" for each in filters))


def _replace(file: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    new = file.with_name(f".{file.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


def load() -> Settings:
    """Contents of the file; nothing if there is none. Raises SettingsError."""
    settings = values()
    columns = settings.get("ui.columns")
    tables: dict[str, dict[str, str]] = {table: {} for table in TABLES}
    for name, value in settings.items():
        table, _, key = name.partition(".")
        if table in tables:
            tables[table][key] = value
    return Settings(
        time=settings.get("time"),
        theme=settings.get("ui.theme"),
        ascii=settings.get("ui.ascii"),
        columns=None if columns is None else tuple(columns),
        unknown=tuple(name for name in settings if not is_known(name)),
        **tables,
    )


def values() -> dict[str, Any]:
    """Contents of the file, by name, as ``filters.slow``; unknown ones, too. Raises SettingsError."""
    settings = flat(_parse(_text()))
    for name, value in settings.items():
        if is_known(name):
            check(name, value)
    return settings


def is_known(name: str) -> bool:
    """Whether this version knows a setting."""
    return name in PLAIN or name.partition(".")[0] in TABLES


def unknown(name: str) -> str:
    """The text about a setting that is not known."""
    names = ", ".join([*PLAIN, *(f"{each}.NAME" for each in TABLES)])
    return f"{path()}: no setting is called {name!r}; there is {names}"


def _text() -> str:
    try:
        return path().read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError, RuntimeError):  # RuntimeError: there is no home
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path()}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _parse(text: str) -> dict[str, Any]:
    import tomllib  # where there is no file, it is not needed

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{path()}: {error}") from None


def flat(found: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, as ``filters.slow``."""
    made: dict[str, Any] = {}
    for name, value in found.items():
        made |= {f"{name}.{inner}": each for inner, each in value.items()} if isinstance(value, dict) else {name: value}
    return made


def check(name: str, value: Any) -> None:
    """Whether a setting may have this value. Raises SettingsError."""
    table, _, key = name.partition(".")
    if table in TABLES:
        if not NAME.fullmatch(key):
            raise SettingsError(f"{path()}: {name!r} is no name; letters, digits, - and _, as in {table}.slow")
        if not isinstance(value, str):
            raise SettingsError(f"{path()}: {name} has to be a text")
        if table == "colors" and not value.partition(":")[2].strip():
            raise SettingsError(f"{path()}: {name} is no 'STYLE: FILTER', as in 'bold red: latency > 5ms'")
        return
    if name not in PLAIN:
        raise SettingsError(unknown(name))
    kind = PLAIN[name][0]
    texts = not isinstance(value, list) or all(isinstance(each, str) for each in value)
    if not isinstance(value, kind) or not texts:
        expected = {str: "a text", bool: "true or false", list: "a list of texts"}[kind]
        raise SettingsError(f"{path()}: {name} has to be {expected}")
    if name == "time" and value not in TIMES:
        raise SettingsError(f"{path()}: time is {value!r}: time is one of {', '.join(TIMES)}")


def write(name: str, value: str | bool | list[str] | None) -> None:
    """Change one setting, or with None take it away; all else in the file stays as it is. Raises SettingsError."""
    if value is not None:
        check(name, value)
    text, file = change_setting(_text(), name, value), path().resolve()  # a link stays one
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(file, text)
    except OSError as error:
        raise SettingsError(f"{file}: cannot be written: {error.strerror}") from None


def change_setting(text: str, name: str, value: str | bool | list[str] | None) -> str:
    """The text of a file with another value of one setting; comments and all else stay."""
    import tomlkit

    _parse(text)
    document = tomlkit.parse(text)
    table, _, key = name.rpartition(".")
    inside = document.setdefault(table, {}) if table else document
    if not isinstance(inside, MutableMapping):
        raise SettingsError(f"{path()}: {table} has to be a table: [{table}]")
    if value is not None:
        inside[key] = value
    elif inside.pop(key, None) is None and table and not inside:
        del document[table]
    return tomlkit.dumps(document)
