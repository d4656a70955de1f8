"""Ctrl-C at any moment, and likewise the end of the terminal or a polite kill.

Python raises KeyboardInterrupt wherever it is just then. Destructors, callbacks and some imports lose what is raised in
them, so it is raised again until it has arrived.
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

_came = 0
"""The signal that came."""
_own = False


def is_own_process() -> bool:
    """Whether the process is the command's own, not that of a program that calls it: its rights may be given up."""
    return _own


def begin() -> None:
    """From now on SIGINT raises KeyboardInterrupt, again after a while until :func:`arrived` is called."""
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


def begin_at(number: signal.Signals) -> None:
    """Where a program calls a command: a signal that would end it raises KeyboardInterrupt."""
    if signal.getsignal(number) is signal.SIG_DFL:
        signal.signal(number, signal.default_int_handler)


def arrived() -> None:
    """The interrupt is being dealt with: it is not raised again."""
    if _came and hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def came() -> bool:
    """Whether an interrupt was raised."""
    return _came > 0


def exit_code() -> int:
    """Exit code that a shell gives a process that the signal ended: 130 for Ctrl-C."""
    return 128 + _came


def end() -> None:
    """The work is done: what comes now does not change the exit code."""
    if _own:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_DFL:
                signal.signal(number, signal.SIG_IGN)
    arrived()


def leave(code: int) -> NoReturn:
    """End the process immediately: modules whose import was interrupted could complain at its end, or wait for ever."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader is gone
            stream.flush()
    os._exit(code)


def _raise(number: int, _frame: FrameType | None) -> None:
    global _came
    if number != getattr(signal, "SIGALRM", None):
        _came = number
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
    raise KeyboardInterrupt


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    if not _came:  # else it is the interrupt, which comes again
        sys.__unraisablehook__(lost)
