"""``wiredecode config``: place and values of settings."""

import json
from typing import Any

import typer
from typer import Argument, Option

from wiredecode import settings
from wiredecode.cli.options import UsageError
from wiredecode.frames.escape import escape


def config(
    name: str | None = Argument(None, metavar="NAME", show_default=False, help="A setting."),
    value: str | None = Argument(
        None, metavar="VALUE", show_default=False, help="The new value; separate lists with commas."
    ),
    unset: bool = Option(False, "--unset", help="Take the setting away."),
) -> int:
    """Show the settings file and its contents, or change a setting.

    Settings are named filters, colour rules, the time format, and the appearance of the full screen.
    """
    try:
        if name is None:
            if unset:
                raise UsageError("--unset needs the name of a setting")
            _show()
        elif value is None and not unset:
            values = settings.values()
            if name not in values:
                settings.check(name, None if name in settings.PLAIN else "")
                raise UsageError(f"{name} is not set")
            typer.echo(_text(values[name]))
        else:
            settings.write(name, None if unset else _value(name, value or ""))
    except settings.SettingsError as error:
        raise UsageError(str(error)) from None
    return 0


def _show() -> None:
    """The file, and every setting: its value, or a possible one."""
    file, values = settings.path(), settings.values()
    typer.echo(f"# {escape(str(file))}{'' if file.exists() else ' (not there yet)'}")
    for name, (_, meaning) in settings.PLAIN.items():
        typer.echo(f"{name} = {_text(values[name])}" if name in values else f"# {name}: {meaning}")
    for table, meaning in settings.TABLES.items():
        own = [f"{name} = {_text(value)}" for name, value in values.items() if name.startswith(f"{table}.")]
        typer.echo("\n".join(own) or f"# {table}.NAME: {meaning}")


def _text(value: Any) -> str:
    return escape(json.dumps(value, ensure_ascii=False))


def _value(name: str, text: str) -> str | bool | list[str]:
    """A value as it was typed, checked for what only its users know."""
    from wiredecode.filter import FilterError, compile_filter

    if name == "ui.ascii":
        if text not in ("true", "false"):
            raise settings.SettingsError("ui.ascii is true or false")
        return text == "true"
    if name == "ui.columns":
        return [each.strip() for each in text.split(",") if each.strip()]
    table = name.partition(".")[0]
    if table in settings.TABLES:
        filter_text = text if table == "filters" else text.partition(":")[2]
        try:
            compile_filter(settings.load().expand(filter_text.strip() or text))
        except FilterError as error:
            raise settings.SettingsError(f"{name}: {error.message}") from None
    return text
