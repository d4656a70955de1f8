"""Secrets in the NSS key log format (draft-ietf-tls-keylogfile), by client random. They are never shown or written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

MAX_SECRETS = 1 << 20
"""Secrets remembered; the oldest are forgotten first."""

MAX_GUESSED = 2048
"""Secrets that are tried on a connection whose handshake was not captured."""


class KeyLog:
    """Secrets by ``(label, client random)``, from files that may still grow and from captures."""

    def __init__(self, files: Iterable[Path] = ()) -> None:
        self._secrets: dict[tuple[str, bytes], bytes] = {}
        self._randoms: dict[bytes, None] = {}
        self._read: dict[Path, int] = dict.fromkeys(files, 0)
        self._rest: dict[Path, bytes] = {}
        self.refresh()

    def __repr__(self) -> str:
        return f"KeyLog({len(self._secrets)} secrets)"

    def __getstate__(self) -> dict[str, Any]:
        """Without files: the process that continues has its own, see :meth:`follow`."""
        return {**vars(self), "_read": {}, "_rest": {}}

    def follow(self, other: KeyLog) -> None:
        """Read the files of another one, too, when a secret is missed."""
        self._read = dict.fromkeys(other._read, 0) | self._read

    def refresh(self) -> None:
        """Read what was appended to the files. Raises OSError."""
        for path, done in self._read.items():
            if path.stat().st_size != done:
                with path.open("rb") as file:
                    file.seek(done)
                    data = file.read()
                self._read[path] = done + len(data)
                whole, _, self._rest[path] = (self._rest.get(path, b"") + data).rpartition(b"\n")
                self.add(whole)
                self.add(self._rest[path])  # the last line may be incomplete

    def add(self, text: bytes) -> None:
        """Add lines ``label client-random secret``; comments and other lines are ignored."""
        for line in text.splitlines():
            words = line.split()
            if len(words) != 3 or line.startswith(b"#"):
                continue
            try:
                random, secret = bytes.fromhex(words[1].decode()), bytes.fromhex(words[2].decode())
            except ValueError:
                continue
            if len(random) == 32:
                self._secrets[words[0].decode("ascii", "replace"), random] = secret
                self._randoms[random] = None
        while len(self._secrets) > MAX_SECRETS:
            del self._secrets[next(iter(self._secrets))]

    @property
    def grows(self) -> bool:
        """Whether it has files, which somebody may still write to."""
        return bool(self._read)

    @property
    def empty(self) -> bool:
        """Whether no secret is known yet."""
        return not self._secrets

    def knows(self, random: bytes) -> bool:
        """Whether there is any secret of a connection."""
        if random not in self._randoms:
            try:
                self.refresh()
            except OSError:
                return False
        return random in self._randoms

    def traffic(self) -> list[tuple[str, bytes, bytes]]:
        """Label, client random and secret of content in TLS 1.3, the newest sessions."""
        secrets = [(*key, secret) for key, secret in self._secrets.items() if key[0].endswith("_TRAFFIC_SECRET_0")]
        return secrets[-MAX_GUESSED:]

    def secret(self, label: str, random: bytes) -> bytes | None:
        return self._secrets.get((label, random))
