"""Commands of Cursus as its clients send them, ready to build."""

from __future__ import annotations

from wiredecode.protocols.cursus.layers import Argument, Command, CursusFrame, MessageTail, PositionalCommand, Word


def command(name: str, message: str | None = None, envelope: str | None = "", **parameters: object) -> CursusFrame:
    """A ``key=value`` command as current clients send it. ``envelope=None`` sends it raw."""
    pieces = [Argument(gap=" ", key=key, equals="=", **_text(key, str(given))) for key, given in parameters.items()]
    fields = {"command_name": name, "arguments": pieces}
    if envelope is not None:
        fields["envelope_topic"] = envelope
    if message is None:
        return Command(**fields)
    return Command(**fields, gap=" ", tail=MessageTail(message=message))


def positional(name: str, *words: object) -> CursusFrame:
    """A command with positional words, as in the older document."""
    return PositionalCommand(command_name=name, words=[Word(gap=" ", value=str(word)) for word in words])


def _text(key: str, given: str) -> dict[str, str | bytes]:
    return {"secret": given.encode()} if key.endswith("token") else {"value": given}
