"""The command line: one module per command, which only turns options into calls.

This module imports next to nothing, so that Ctrl-C is handled from the start; heavy imports wait for a command.
"""

import io
import os
import sys

from wiredecode.cli import interrupt


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code.

    ``None``: the arguments of the process, in which Ctrl-C exits with code 130 at any time.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed before the start
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 - stays open; pathlib imports slowly
    if isinstance(sys.stdout.buffer, io.RawIOBase):  # PYTHONUNBUFFERED: a signal would truncate a write
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        sys.stdout = open(1, "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115 - stays open
    if arguments is not None:
        from wiredecode.cli.app import run

        return run(arguments)
    try:
        interrupt.install_handlers()
        from wiredecode.cli.app import run

        code = run(sys.argv[1:])
        interrupt.ignore_signals()
    except BaseException:  # an import can turn an interrupt into another exception
        if not interrupt.is_interrupted():
            raise
        code = interrupt.exit_code()
    if code and interrupt.is_interrupted():
        interrupt.ignore_signals()
        if (atomic := sys.modules.get("wiredecode.export.atomic")) is not None:
            atomic.discard_all()
        interrupt.exit_now(interrupt.exit_code())
    return code
