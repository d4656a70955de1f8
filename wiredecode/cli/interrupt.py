"""Ctrl-C (SIGINT), SIGTERM and SIGHUP end a command with KeyboardInterrupt.

Python raises it wherever it is. Destructors, callbacks and some imports lose exceptions, so it is raised again every
second until :func:`acknowledge` is called.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
"""Exit code."""
AGAIN_SECONDS = 1.0

_signal = 0
"""Number of the signal received; 0: none."""
_own = False


def is_own_process() -> bool:
    """Whether the process runs only the command, not a program that calls it: then it may drop its rights."""
    return _own


def install_handlers() -> None:
    """From now on signals raise KeyboardInterrupt, until :func:`acknowledge` is called."""
    global _own
    _own = True
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as in the background
        signal.signal(signal.SIGINT, _raise)
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise)
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _raise)
    sys.unraisablehook = _unraisable


def raise_on(number: signal.Signals) -> None:
    """Let a signal that would end the process raise KeyboardInterrupt, also if a program calls the command."""
    if signal.getsignal(number) is signal.SIG_DFL:
        signal.signal(number, signal.default_int_handler)


def acknowledge() -> None:
    """The interrupt is handled: do not raise it again."""
    if _signal and hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def is_interrupted() -> bool:
    """Whether a signal was received."""
    return _signal > 0


def exit_code() -> int:
    """Exit code that a shell gives a process that the signal ended: 130 for Ctrl-C."""
    return 128 + _signal


def ignore_signals() -> None:
    """The work is done: further signals do not change the exit code."""
    if _own:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_DFL:
                signal.signal(number, signal.SIG_IGN)
    acknowledge()


def exit_now(code: int) -> NoReturn:
    """End the process without cleanup: modules whose import was interrupted could fail or hang in it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader is gone
            stream.flush()
    os._exit(code)


def _raise(number: int, _frame: FrameType | None) -> None:
    global _signal
    if number != getattr(signal, "SIGALRM", None):
        _signal = number
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
    raise KeyboardInterrupt


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    if not _signal:  # else the interrupt, which is raised again
        sys.__unraisablehook__(lost)
