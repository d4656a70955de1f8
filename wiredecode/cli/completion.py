"""Completion for shells: what bash needs besides what typer does."""

import contextlib
import io
import os
import re
from collections.abc import Callable
from typing import Any

VARIABLE = "_WIREDECODE_COMPLETE"
"""Environment variable in which the shell asks for completion."""
SHELLS = ("bash", "zsh", "fish")
DETECTION_OFF = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"
"""typer's: with it ``--show-completion`` takes the name of a shell; without it a name is ignored without a word."""
BREAKS = "=:"
"""bash makes words of their own of these (COMP_WORDBREAKS)."""


def name_the_shell(words: list[str]) -> None:
    """Make ``--show-completion zsh`` be about zsh, in any shell."""
    if len(words) > 1 and words[0] in ("--show-completion", "--install-completion") and words[1] in SHELLS:
        os.environ[DETECTION_OFF] = "1"


def is_completion() -> bool:
    return os.environ.get(VARIABLE) == "complete_bash"


def answer_bash(complete: Callable[[], Any]) -> int:
    """Let ``complete`` print the completions of a word; bash wants only the part after its own last break."""
    word = join_words()
    match = re.match(rf"[^'\"]*[{BREAKS}]", word)
    typed = match[0] if match else ""
    printed = io.StringIO()
    code: Any = 0
    try:
        with contextlib.redirect_stdout(printed):
            complete()
    except SystemExit as end:
        code = end.code
    for line in printed.getvalue().splitlines():
        print(line.removeprefix(typed))
    return int(code or 0)


def join_words() -> str:
    """Put together again what bash has taken apart: ``-d 5552 = rab`` was one word; return the one in question."""
    words, current = os.environ.get("COMP_WORDS", "").split("\n"), os.environ.get("COMP_CWORD", "")
    if not current.isdigit() or int(current) >= len(words):
        return ""
    joined: list[str] = []
    glue = False
    for word in words[: int(current) + 1]:
        separate = word != "" and set(word) <= set(BREAKS)
        if joined and (separate or glue):
            joined[-1] += word
        else:
            joined.append(word)
        glue = separate
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)
    return joined[-1]


def complete_decode_as(incomplete: str) -> list[str]:
    """Protocols and dialects for ``-d PORT=``."""
    from wiredecode.protocols.registry import protocols

    port = incomplete.partition("=")[0]
    if not port.isdigit():
        return []
    names = [name for each in protocols() for name in (each.name, *(f"{each.name}/{d}" for d in each.dialects))]
    return [f"{port}={name}" for name in names if f"{port}={name}".startswith(incomplete)]


def complete_limit(incomplete: str) -> list[str]:
    """Names for ``--limit``."""
    from dataclasses import asdict

    from wiredecode.net.limits import DEFAULT_LIMITS

    return [f"{name}=" for name in asdict(DEFAULT_LIMITS) if f"{name}=".startswith(incomplete)]


def complete_field(incomplete: str) -> list[str]:
    """Beginnings of field names for ``wiredecode fields``."""
    from wiredecode.filter.names import Names

    return [name for name in Names().all() if name.startswith(incomplete)]
