"""The full screen in a browser: requests without the token are refused."""

from __future__ import annotations

import asyncio
import base64
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.ui.support import CAPTURES
from wiredecode.cli.app import run

aiohttp = pytest.importorskip("aiohttp", reason="textual-serve is not installed (extra web)")
pytest.importorskip("textual_serve", reason="textual-serve is not installed (extra web)")

BASIC = str(CAPTURES / "rabbitmq-stream/c43_basic.pcap")
SECONDS = 20
CHROMIUM = shutil.which("chromium")
BINARY = 2
"""The opcode of frames of a websocket that hold bytes."""
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"


@pytest.fixture(params=["127.0.0.1", pytest.param("127.0.0.2", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    listen = [] if request.param == "127.0.0.1" else ["--listen", f"{request.param}:0"]
    command = [sys.executable, "-m", "wiredecode", "ui", "--web", *listen, BASIC, "-Y", "frame.number > 5"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        yield server.stderr.readline().removeprefix("wiredecode: ").split()[0]
        server.send_signal(signal.SIGINT)
        assert server.wait(SECONDS) == 0 and not server.stderr.read()


def test_a_page_runs_the_screen_and_requests_without_token_are_refused(address: str) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.[12]:\d+/[\w-]{32}/", address)
    root = address.rpartition("/")[0].rpartition("/")[0]

    async def test() -> None:
        async with aiohttp.ClientSession() as session:
            for path in ("/", "/ws", "/static/js/textual.js", f"/{'A' * 32}/", f"/{'A' * 32}/ws"):
                async with session.get(root + path) as answer:
                    assert answer.status == 404, path
                with pytest.raises(aiohttp.WSServerHandshakeError):
                    await session.ws_connect(root + path)
            for origin in ("http://evil.example", "null", f"https://{root.partition('//')[2]}.evil.example"):
                foreign = {"Origin": origin}
                async with session.get(address, headers=foreign) as answer:
                    assert answer.status == 403, origin
                with pytest.raises(aiohttp.WSServerHandshakeError):
                    await session.ws_connect(f"{address.replace('http', 'ws')}ws?width=9&height=9", headers=foreign)
            async with session.get(address, headers={"Origin": root}) as page:
                text = await page.text()
                assert page.status == 200 and "connect-src 'self'" in page.headers["Content-Security-Policy"]
            found = re.search(r'data-session-websocket-url="([^"]*)"', text)
            assert found is not None and found[1] == f"{address.replace('http', 'ws')}ws"
            async with session.ws_connect(f"{found[1]}?width=120&height=40") as screen:
                shown = b""
                while not re.search(rb"137 match", shown) or b"SaslHandshake" not in shown:
                    shown += (await screen.receive(SECONDS)).data
                await screen.send_json(["stdin", "q"])
                while not screen.closed:
                    await screen.receive(SECONDS)

    asyncio.run(asyncio.wait_for(test(), 3 * SECONDS))


@contextmanager
def chromium(folder: Path) -> Iterator[str]:
    """A browser without a window; the address of its control, without the path."""
    command = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    command += [f"--user-data-dir={folder}", "--window-size=1000,600", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = next(line for line in process.stderr if "DevTools listening" in line)
            yield said.partition("ws://")[2].partition("/")[0]
        finally:
            process.terminate()
            process.stderr.read()


class Page:
    """A page of a browser, by the DevTools protocol."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._last, self.events = socket, 0, list[dict[str, Any]]()

    async def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """The result of a command; events meanwhile are kept."""
        self._last += 1
        await self._socket.send_json({"id": self._last, "method": method, "params": parameters})
        while "id" not in (message := await self._socket.receive_json(timeout=SECONDS)):
            self.events.append(message)
        assert message["id"] == self._last and "result" in message, message
        answer: dict[str, Any] = message["result"]
        return answer

    async def shown(self, text: str) -> None:
        """Wait until the screen was sent this text, and drawn."""
        while text not in self.screen():
            try:
                self.events.append(await self._socket.receive_json(timeout=SECONDS))
            except TimeoutError:
                raise AssertionError(f"{text!r} is not in {self.screen()[-2000:]}") from None
        await self.ask("Runtime.evaluate", expression=DRAWN, awaitPromise=True)

    def screen(self) -> str:
        """All that was sent to the screen so far, without colours."""
        got = [e["params"]["response"] for e in self.events if e["method"] == "Network.webSocketFrameReceived"]
        sent = b"".join(base64.b64decode(each["payloadData"]) for each in got if each["opcode"] == BINARY)
        return re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", sent.decode(errors="replace"))

    async def type(self, text: str) -> None:
        for letter in text:
            await self.ask("Input.dispatchKeyEvent", type="char", text=letter)

    async def picture(self) -> str:
        found: str = (await self.ask("Page.captureScreenshot"))["data"]
        return found


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian package chromium)")
@pytest.mark.parametrize("address", ["127.0.0.1"], indirect=True)
def test_a_browser_filters_without_a_click_and_asks_no_other_host(address: str, tmp_path: Path) -> None:
    """Keys did nothing until a click, a font was asked from elsewhere and blocked, and the icon was a 404."""

    async def test(control: str) -> None:
        async with aiohttp.ClientSession() as session:
            async with session.put(f"http://{control}/json/new?about:blank") as answer:
                target = (await answer.json())["webSocketDebuggerUrl"]
            async with session.ws_connect(target, max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Page", "Runtime", "Network", "Log"):
                    await page.ask(f"{domain}.enable")
                await page.ask("Page.navigate", url=address)
                await page.shown("137 match")
                before = await page.picture()
                await page.type("/")
                await page.shown("Tab completes")
                await page.type(" && frame.type == Publish\r")
                await page.shown("6 match")
                assert await page.picture() != before
        asked = [e["params"]["response"] for e in page.events if e["method"] == "Network.responseReceived"]
        assert {each["status"] for each in asked} <= {200, 101} and any("Roboto" in each["url"] for each in asked)
        root = address.rpartition("/")[0]
        wanted = {e["params"]["request"]["url"] for e in page.events if e["method"] == "Network.requestWillBeSent"}
        assert all(url.startswith((root, "data:")) for url in wanted), wanted
        entries = [e["params"]["entry"] for e in page.events if e["method"] == "Log.entryAdded"]
        assert not [entry for entry in entries if entry["level"] == "error"], entries
        assert "Runtime.exceptionThrown" not in {e["method"] for e in page.events}

    with chromium(tmp_path) as control:
        asyncio.run(asyncio.wait_for(test(control), 3 * SECONDS))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--listen", "127.0.0.1:0"], "--listen goes with --web"),
        (["--web", "--listen", "127.0.0.1:x"], "ADDR:PORT of this host is needed"),
        (["--web", "--listen", "192.0.2.1:0"], "ADDR:PORT of this host is needed"),
    ],
)
def test_captures_that_cannot_be_served_are_errors(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ui", BASIC, *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_no_program_is_started_from_the_sandbox() -> None:
    command = [sys.executable, "-m", "wiredecode", "ui", "--web", "--sandbox", BASIC]
    found = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    assert found.returncode == 2 and "--sandbox" in found.stderr


def test_another_address_warns_about_its_exposure(monkeypatch: pytest.MonkeyPatch) -> None:
    from wiredecode.ui import web

    said: list[str] = []
    monkeypatch.setattr(web.TokenServer, "serve_at", lambda server, listening: said.append(server.command))
    web.serve("0.0.0.0:0", ["ui", "--web", "a b.pcap"], said.append)
    assert len(said) == 2 and "0.0.0.0:0 can be reached from other hosts" in said[0] and "without encryption" in said[0]
    assert said[1].endswith("-m wiredecode ui --web 'a b.pcap'")
    web.serve("127.0.0.1:0", ["ui"], said.append)
    assert len(said) == 3, "this host only: nothing to say"
