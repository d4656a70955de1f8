"""Going back: states of dissectors at places of the capture, kept in files, so that reading resumes there."""

from __future__ import annotations

import io
import os
import pickle
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING, Any
from zlib import compress, decompress

from wiredecode.dissect.dissector import Dissector
from wiredecode.ui.packets import Position

if TYPE_CHECKING:
    from wiredecode.tls.keylog import KeyLog

EVERY_SECONDS = 0.1
"""Least dissecting, in CPU time, between two states: it is repeated to show a frame."""
COST_SHARE = 2
"""Dissecting between two states takes at least this many times as long as keeping one."""
MOST_STATES, MOST_BYTES = 4096, 512 << 20
"""When there are more, every second one is dropped and they are made half as often."""
PLAIN, SEALED, NONCE_BYTES = b"P", b"S", 12
COMPRESSION = 1
"""Level of zlib: a quarter of the bytes, for a fifth more time."""


@dataclass(frozen=True)
class State:
    """A dissector that has handed out all frames up to ``frame``."""

    frame: int
    place: Position
    path: Path
    size: int


class States:
    """Keeps states in ``folder``; one thread makes them, others ask."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._states = folder, list[State]()
        self._made, self._least = 0, EVERY_SECONDS
        self._every = self._least
        self._since = 0.0  # the thread that reads has just begun
        self._seal = Seal()

    def offer(self, dissector: Dissector, frame: int, place: Position) -> None:
        """Keep the state of ``dissector``, if it is time."""
        began = thread_time()
        if began - self._since < self._every:
            return
        try:
            data = self._seal.pack(dissector)
        except Exception:  # frames are read again from the last state, or from the beginning
            self._every = inf
            return
        path = self._folder / f"state-{self._made}"
        self._made += 1
        path.write_bytes(data)
        self._states = [*self._states, State(frame, place, path, len(data))]
        if len(self._states) > MOST_STATES or sum(state.size for state in self._states) > MOST_BYTES:
            self._drop(self._states[::2])
            self._least *= 2
        self._since = thread_time()
        self._every = max(self._least, COST_SHARE * (self._since - began))

    def drop(self, parts: int) -> None:
        """The first files are gone, and with them all that could be read on from their states."""
        self._drop([state for state in self._states if state.place.part < parts])

    def _drop(self, states: list[State]) -> None:
        self._states = [state for state in self._states if state not in states]
        for state in states:
            state.path.unlink(missing_ok=True)

    def edge(self, number: int) -> int:
        """The last frame before the state that leads to frame ``number``; 0: there is none."""
        return max((state.frame for state in self._states if state.frame < number), default=0)

    def first(self) -> tuple[Dissector, Position] | None:
        """The earliest one."""
        return self.before(self._states[0].frame + 1) if self._states else None

    def before(self, number: int) -> tuple[Dissector, Position] | None:
        """A dissector whose next frames lead to frame ``number``, and its position; None: at the beginning."""
        for state in reversed(self._states):
            with suppress(Exception):  # dropped meanwhile, or damaged: an earlier one does, or the beginning
                if state.frame < number:
                    return self._seal.unpack(state.path.read_bytes()), state.place
        return None


class Seal:
    """Dissectors as bytes; where TLS is decrypted they are encrypted, with a key that stays in memory as secrets do."""

    def __init__(self) -> None:
        self._logs: dict[int, KeyLog] = {}
        """Secrets, by the numbers that represent them in the bytes."""
        self._cipher: Any = None

    def pack(self, dissector: Dissector) -> bytes:
        """Raises the errors of objects that cannot be pickled."""
        if not dissector.decrypts:
            return PLAIN + compress(pickle.dumps(dissector, pickle.HIGHEST_PROTOCOL), COMPRESSION)
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if self._cipher is None:
            self._cipher = AESGCM(os.urandom(32))
        file, nonce = io.BytesIO(), os.urandom(NONCE_BYTES)
        pickler = _Pickler(file, pickle.HIGHEST_PROTOCOL)
        pickler.logs = self._logs
        pickler.dump(dissector)
        return SEALED + nonce + bytes(self._cipher.encrypt(nonce, compress(file.getvalue(), COMPRESSION), None))

    def unpack(self, data: bytes) -> Dissector:
        kind, data = data[:1], data[1:]
        if kind == SEALED:
            data = self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], None)
        unpickler = _Unpickler(io.BytesIO(decompress(data)))
        unpickler.logs = self._logs
        found: Dissector = unpickler.load()
        return found


class _Pickler(pickle.Pickler):
    logs: dict[int, KeyLog]

    def persistent_id(self, obj: Any) -> int | None:  # asked about every object: twice the time
        if type(obj).__name__ == "KeyLog":
            self.logs[id(obj)] = obj
            return id(obj)
        return None


class _Unpickler(pickle.Unpickler):
    logs: dict[int, KeyLog]

    def persistent_load(self, pid: int) -> KeyLog:
        return self.logs[pid]
