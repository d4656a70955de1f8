"""The command line: one module per command, which only turns options into calls.

Heavy imports wait until a command runs; this module imports next to nothing, so that Ctrl-C finds somebody at home.
"""

import io
import os
import sys

from wiredecode.cli import interrupt


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code.

    Without arguments they are those of the process, and Ctrl-C ends it at any moment, with exit code 130.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed before the start
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 - stays open, and pathlib takes a while
    if isinstance(sys.stdout.buffer, io.RawIOBase):  # PYTHONUNBUFFERED: what a signal interrupts would be cut short
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        sys.stdout = open(1, "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115 - stays open
    if arguments is not None:
        from wiredecode.cli.app import run

        return run(arguments)
    try:
        interrupt.begin()
        from wiredecode.cli.app import run

        code = run(sys.argv[1:])
        interrupt.end()
    except BaseException:  # an import can make another exception of an interrupt
        if not interrupt.came():
            raise
        code = interrupt.exit_code()
    if code and interrupt.came():
        interrupt.end()
        if (atomic := sys.modules.get("wiredecode.export.atomic")) is not None:
            atomic.discard_all()
        interrupt.leave(interrupt.exit_code())
    return code
