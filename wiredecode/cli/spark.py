"""``wiredecode spark``: captures of any size to tables, on Spark."""

from typing import Any

from wiredecode.cli.commands import GroupedCommand
from wiredecode.cli.options import names, with_groups
from wiredecode.cli.spark_options import SparkOptions


class SparkCommand(GroupedCommand):
    """``spark``, and the commands called ``spark stats`` and so on: their second word comes where an INPUT would."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """click's; a file that is called as such a command is named ``./stats``."""
        others = getattr(parent.command, "commands", {}) if parent is not None else {}
        name = f"{info_name} {args[0]}" if args else ""
        if name in others:
            return others[name].make_context(name, args[1:], parent=parent, **extra)
        return super().make_context(info_name, args, parent=parent, **extra)


COMMAND = SparkCommand


@with_groups
def spark(settings: SparkOptions) -> int:
    """Write captures of any size as partitioned Parquet, on Spark: this machine by default, or a cluster.

    Files of one capture point are one capture, in any order. OUT holds the tables frames (or
    messages, packets, connections), findings, totals and problems, and _SUCCESS when they are complete; another run
    replaces them. Files that cannot be read do not stop the others: they are decoded as far as possible, and the exit
    code is 2.
    """
    from wiredecode.cli.spark_job import run

    settings.check(secrets=settings.show_secrets)
    names(settings.columns, "--columns")
    return run(settings)
