"""HTTP conversations: small requests and answers, which no protocol of wiredecode claims."""

from __future__ import annotations

import random

from tests.bench.wire import CLIENT, SERVER, Send, Speaker, Talk, Turn

PORT = 8080
REQUEST = b"GET /items/%d HTTP/1.1\r\nHost: shop.bench\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"


def browsing(rng: random.Random, group: int) -> Talk:
    """One request and its answer after the other, a packet each."""
    while True:
        body = b"x" * rng.randint(1, 30)
        asked = Send(CLIENT, REQUEST % rng.randrange(1_000_000))
        yield Turn([asked, Send(SERVER, ANSWER % (len(body), body))], 0)


BROWSER = Speaker(browsing, PORT)
