"""One connection in TLS: its handshake, and the records of both directions in the order in which they came."""

from typing import NamedTuple

from wiredecode.net.types import Chunk, Event
from wiredecode.tls import handshake
from wiredecode.tls.half import HEADER, KINDS, MAX_RECORD, MIN_RECORD, Half, Record
from wiredecode.tls.keylog import KeyLog

CHANGE_CIPHER, ALERT, HANDSHAKE, APPLICATION = 20, 21, 22, 23
CLIENT_HELLO, SERVER_HELLO, END_OF_EARLY_DATA, ENCRYPTED_EXTENSIONS, FINISHED, KEY_UPDATE = 1, 2, 5, 8, 20, 24
TLS_1_3 = 0x0304
MAX_WAITING = 1 << 20
"""Bytes of one direction that wait for data of the other one."""


MAX_GUESSES = 1 << 17
"""Keys and numbers that are tried for a connection without its handshake: less than a second."""


class RecordKeys(NamedTuple):
    """Keys and parameters that opened a record."""

    random: bytes
    suite: int
    secret: bytes
    from_client: bool
    sequence: int
    """Number of the record."""


class TlsConnection:
    """``client``: the side that sent the ClientHello; ``halves``: both directions from where they are.

    ``keys``: None if its secrets are missing: then only clear text is read, for ``records``.
    """

    def __init__(self, keys: KeyLog | None, client: int, random: bytes, halves: tuple[Half, Half]) -> None:
        self.keys, self.client, self.halves = keys, client, halves
        self.records: list[Record] = []
        """Handshake records and alerts; the reader empties the list."""
        self.random = random
        self.server_random = b""
        self.suite = 0
        self.version = 0
        self.mac_last = False
        self.early_data: bool | None = None
        """Whether the server takes early data; None: it has not said so yet."""
        self.key_at = 0
        """The packet with which the keys were known."""

    def resume(self, side: int, session: RecordKeys, packet: int) -> None:
        """Resume a connection that began before the capture: ``session`` decrypted a first record of ``side``."""
        self.version, self.suite, self.key_at = TLS_1_3, session.suite, packet
        label = "SERVER_TRAFFIC_SECRET_0" if session.from_client else "CLIENT_TRAFFIC_SECRET_0"
        for half, secret in ((self.halves[side], session.secret), (self.halves[1 - side], self._secret(label))):
            half.clear = half.begun = False
            half.lost, half.most_tries = MAX_GUESSES * MIN_RECORD, MAX_GUESSES
            self._use(half, secret)
            if half.opener is not None:
                half.opener.sequence = -1
        opener = self.halves[side].opener
        assert opener is not None
        opener.sequence, self.halves[side].lost = session.sequence - 1, 0

    def pump(self, out: list[Event]) -> None:
        """Read what records are there, those first that came first."""
        stalled = [False, False]
        while True:
            sizes = [0 if stalled[side] else self._next(side, out) for side in (0, 1)]
            if not any(sizes):
                break
            if all(sizes):
                first, second = (half.ready(size) for half, size in zip(self.halves, sizes, strict=True))
                side = self.client if first == second else int(second < first)
            else:
                side = 0 if sizes[0] else 1
            if self._record(side, sizes[side]):
                stalled = [False, False]
            else:
                stalled[side] = True
        for half in self.halves:
            half.flush(out)

    def _next(self, side: int, out: list[Event]) -> int:
        """Bytes of the next record of a direction, 0 when it is not there."""
        half = self.halves[side]
        while not (size := self._there(half, out)) and half.queue:
            item = half.queue.popleft()
            if isinstance(item, Chunk):
                half.feed(item)
            else:
                half.wire_gap(item.length)
        return size

    def _there(self, half: Half, out: list[Event]) -> int:
        """Bytes of the next record if it is among those fed; what comes before the first one is passed on."""
        if half.dead:
            half.drop(half.available())
            return 0
        if half.clear and half.peek(2) != b"\x15\x03":  # an alert may be the first
            start = half.find(b"\x16\x03")
            size = start if start >= 0 else half.available() - half.peek(half.available()).endswith(b"\x16")
            half.hand_on(half.peek(size), 0, size, 0)
            half.clear = start < 0
        if half.lost is not None and not self._search(half, out):
            return 0
        if half.available() < HEADER:
            return 0
        if half.peek(1) not in KINDS or half.peek(1, 1) != b"\3" or int.from_bytes(half.peek(2, 3)) > MAX_RECORD:
            half.dead = True
            return 0
        return half.record_size()

    def _search(self, half: Half, out: list[Event]) -> bool:
        """After a gap: find the next record that can be opened, by trying sequence numbers."""
        from cryptography.exceptions import InvalidTag

        opener = half.opener
        if opener is None:
            half.dead = True
            return False
        while half.available() >= HEADER:
            size = half.record_size()
            header = half.peek(HEADER)
            likely = header[0] in KINDS and header[1] == 3 and header[2] <= 4
            likely &= int.from_bytes(header[3:]) <= MAX_RECORD
            if likely and not size:
                return False
            assert half.lost is not None
            if likely and size >= MIN_RECORD:
                body = half.peek(size - HEADER, HEADER)
                for skipped in range(1, half.lost // MIN_RECORD + 2):
                    if half.tries == half.most_tries:
                        half.dead = True
                        return False
                    half.tries += 1
                    try:
                        opener.open(opener.sequence + skipped, header, body)
                    except (InvalidTag, ValueError):
                        continue
                    opener.sequence += skipped
                    half.gap(max(half.lost - skipped * (HEADER + opener.overhead), 1), size, out)
                    half.lost = None
                    half.handshake = b""
                    return True
            half.drop(1)
            half.lost += 1
        return False

    def _record(self, side: int, size: int) -> bool:
        """Read one record; False: it has to wait for data of the other side."""
        half = self.halves[side]
        header, body = half.peek(HEADER), half.peek(size - HEADER, HEADER)
        kind = header[0]
        if kind == CHANGE_CIPHER:
            if not self.version and not self.halves[1 - side].dead:
                return self._wait(half)
            half.drop(size)
            if self.version and self.version < TLS_1_3:
                self._change(side)
            return True
        if half.opener is None:
            if kind == APPLICATION:
                if not self.version or (self._early_secret(side) and self.early_data is None):
                    return self._wait(half)
                if self.version != TLS_1_3 or not self._begin(side):
                    half.dead = True
                    return True
            if half.opener is None:
                self._in_clear(side, kind, body, size)
                return True
        return self._open(side, header, body, size)

    def _wait(self, half: Half) -> bool:
        """Wait for data of the other side, which shows how to continue; True: it will not come, the direction ends."""
        half.dead = half.only_read or half.waiting() > MAX_WAITING
        return half.dead

    def _in_clear(self, side: int, kind: int, body: bytes, size: int, key_at: int = 0) -> None:
        half = self.halves[side]
        self.records.append(half.record(kind, body, size, key_at))
        ready = half.ready(size)
        half.drop(size)
        if kind == HANDSHAKE:
            self._messages(side, body, ready)

    def _open(self, side: int, header: bytes, body: bytes, size: int) -> bool:
        from cryptography.exceptions import InvalidTag

        half = self.halves[side]
        opener = half.opener
        assert opener is not None
        try:
            kind, data = opener.open(opener.sequence, header, body)
        except (InvalidTag, ValueError):
            if not self._skip_early(half, header):
                half.dead = True
            else:
                half.drop(size)
            return True
        opener.sequence += 1
        if kind == APPLICATION:
            half.hand_on(data, HEADER + opener.skip, size, self.key_at)
            return True
        self._in_clear(side, kind, data, size, max(self.key_at, 1))
        return True

    def _skip_early(self, half: Half, header: bytes) -> bool:
        """Early data that was refused comes before the client's first message."""
        opener = half.opener
        from_client = half is self.halves[self.client] and self.version == TLS_1_3 and header[0] == APPLICATION
        return from_client and opener is not None and opener.sequence == 0 and not half.handshake

    def _messages(self, side: int, data: bytes, ready: int) -> None:
        half = self.halves[side]
        half.handshake += data
        try:
            while (message := handshake.next_message(half.handshake)) is not None:
                kind, body, half.handshake = message
                self._message(side, kind, body, ready)
        except ValueError:  # the other side cannot have read it either
            half.dead = True
        half.dead |= len(half.handshake) > handshake.MAX_MESSAGE

    def _message(self, side: int, kind: int, body: bytes, ready: int) -> None:
        half = self.halves[side]
        if kind == CLIENT_HELLO and len(body) >= 34:
            self.random = body[2:34]
        elif kind == SERVER_HELLO:
            hello = handshake.server_hello(body)
            if hello.random != handshake.RETRY:
                self.version, self.server_random, self.suite = hello.version, hello.random, hello.cipher
                self.mac_last = handshake.ENCRYPT_THEN_MAC in hello.extensions
                self.key_at = max(self.key_at, ready)
        elif kind == ENCRYPTED_EXTENSIONS:
            self.early_data = handshake.EARLY_DATA in handshake.extensions(handshake.Cursor(body))
        elif kind == END_OF_EARLY_DATA and side == self.client:
            self._use(half, self._secret("CLIENT_HANDSHAKE_TRAFFIC_SECRET"))
        elif kind == FINISHED and self.version == TLS_1_3:
            label = "CLIENT_TRAFFIC_SECRET_0" if side == self.client else "SERVER_TRAFFIC_SECRET_0"
            self._use(half, self._secret(label))
        elif kind == KEY_UPDATE and self.version == TLS_1_3 and half.secret:
            from wiredecode.tls.ciphers import SUITES, next_secret

            self._use(half, next_secret(SUITES[self.suite], half.secret))

    def _begin(self, side: int) -> bool:
        """TLS 1.3: the direction continues with early data, or with its handshake secret."""
        label = "CLIENT_HANDSHAKE_TRAFFIC_SECRET" if side == self.client else "SERVER_HANDSHAKE_TRAFFIC_SECRET"
        self._use(self.halves[side], (self.early_data and self._early_secret(side)) or self._secret(label))
        return self.halves[side].opener is not None

    def _early_secret(self, side: int) -> bytes | None:
        return self._secret("CLIENT_EARLY_TRAFFIC_SECRET") if side == self.client else None

    def _secret(self, label: str) -> bytes | None:
        return None if self.keys is None else self.keys.secret(label, self.random)

    def _use(self, half: Half, secret: bytes | None) -> None:
        if secret is None:
            half.dead = True
            return
        from wiredecode.tls.ciphers import SUITES, opener_1_3

        suite = SUITES.get(self.suite)
        if suite is None or len(secret) != suite.prf().digest_size:
            half.dead = True
            return
        half.secret, half.opener = secret, opener_1_3(suite, secret)

    def _change(self, side: int) -> None:
        """TLS 1.2: from here on the direction is encrypted."""
        half, master = self.halves[side], self._secret("CLIENT_RANDOM")
        if master is None or len(master) != 48 or self.version != TLS_1_3 - 1:
            half.dead = True
            return
        from wiredecode.tls.ciphers import SUITES, openers_1_2

        suite = SUITES.get(self.suite)
        if suite is None:
            half.dead = True
            return
        pair = openers_1_2(suite, master, self.random, self.server_random, mac_last=self.mac_last)
        half.opener = pair[side != self.client]
