"""The full screen in a browser: textual-serve runs one for each page; only addresses with a token are answered."""

import logging
import re
import shlex
import socket
import sys
from collections.abc import Callable, Sequence
from getpass import getuser
from ipaddress import ip_address
from secrets import token_urlsafe
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler
from textual_serve.server import Server

from wiredecode.frames.escape import escape

POLICY = "default-src 'self' 'unsafe-inline'; connect-src 'self' ws:; img-src 'self' data:; frame-ancestors 'none'"
HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
"""Nothing is fetched from elsewhere, and the address with its token goes nowhere."""

ELSEWHERE = re.compile(r"<link[^>]*https://fonts[^>]*>")
"""The page of textual-serve asks another host for its font, which it has itself."""
FONT = "static/fonts/RobotoMono-VariableFont_wght.ttf"
ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect width='16' height='16' rx='3' fill='%23123'/>"
    "<path d='M2 8h3l2-5 3 10 2-5h2' fill='none' stroke='%235de' stroke-width='1.6'/></svg>"
)
HEAD = f"""<link rel="icon" href="data:image/svg+xml,{ICON}">
<link rel="preload" href="{FONT}" as="font" type="font/ttf" crossorigin>
<style>@font-face {{ font-family: "Roboto Mono"; font-weight: 100 700; src: url("{FONT}"); }}</style>
<script>
  const focus = () => document.querySelector(".xterm-helper-textarea")?.focus();
  addEventListener("load", () => new MutationObserver(focus).observe(document.body, {{attributeFilter: ["class"]}}));
  addEventListener("focus", focus);
</script>
</head>"""
"""The page's font and icon, and keys that work without a click: its class changes when the screen appears."""


@web.middleware
async def own_pages_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what pages of other sites ask for; the page of a tunnel has the name that its browser asks for."""
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        raise web.HTTPForbidden
    return await handler(request)


class TokenServer(Server):
    """Serves ``command`` below a path that is a token; all other paths are unknown, also that of the websocket."""

    def __init__(self, command: str, host: str, port: int, say: Callable[[str], None]) -> None:
        super().__init__(command, host, port, title="wiredecode")
        self.path, self._say = f"/{token_urlsafe(24)}", say

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[own_pages_only])
        app.on_response_prepare.append(self._add_headers)
        app.add_subapp(self.path, await super()._make_app())
        return app

    @staticmethod
    async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(HEADERS)

    async def handle_index(self, request: web.Request) -> web.StreamResponse:
        """The page, with ``HEAD``; its addresses are those of this request, as through a tunnel."""
        self.public_url = f"{request.scheme}://{request.host}"
        page: web.StreamResponse = await super().handle_index(request)
        assert isinstance(page, web.Response)
        page.text = ELSEWHERE.sub("", page.text or "").replace("</head>", HEAD, 1)
        return page

    async def on_startup(self, app: web.Application) -> None:
        """Report nothing: connections come later."""

    def serve_at(self, listening: socket.socket) -> None:
        """Serve until Ctrl-C, report the address, and log no requests: they name the token."""
        logging.getLogger("asyncio").setLevel(logging.ERROR)
        begun = f"{self.public_url}{self.path}/  Ctrl-C ends"

        def say(text: str) -> None:  # aiohttp has a text of its own
            self._say(begun)

        web.run_app(self._make_app(), sock=listening, print=say, access_log=None, shutdown_timeout=1)
        sys.unraisablehook = lambda event: None  # screens may end later than the event loop


def serve(listen: str, words: Sequence[str], say: Callable[[str], None]) -> None:
    """Show what a command shows in browsers until Ctrl-C. Raises ValueError and OSError for an address."""
    url = urlsplit(f"//{listen}")
    family, kind, _, _, address = socket.getaddrinfo(url.hostname, url.port or 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        host, port = listening.getsockname()[:2]
        if not ip_address(host).is_loopback:
            say(
                f"{escape(listen)} can be reached from other hosts, without encryption: anyone with the address sees "
                f"the captures with their secrets, and saves files as {getuser()}"
            )
        if ip_address(host).is_unspecified:
            host = socket.gethostname()
        command = shlex.join([sys.executable, "-P", "-m", "wiredecode", *words])
        TokenServer(command, f"[{host}]" if ":" in host else host, port, say).serve_at(listening)
