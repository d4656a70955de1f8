"""A real browser, driven by the DevTools protocol: Chromium without a window."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
SECONDS = 20
BINARY = 2
"""The opcode of frames of a websocket that hold bytes."""
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"


@contextmanager
def chromium(folder: Path) -> Iterator[str]:
    """A browser without a window; the address of its control, without the path."""
    command = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    command += [f"--user-data-dir={folder}", "--window-size=1000,560", "about:blank"]
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

    async def picture(self) -> bytes:
        return base64.b64decode((await self.ask("Page.captureScreenshot"))["data"])


@asynccontextmanager
async def opened(control: str, url: str) -> AsyncIterator[Page]:
    """A page, whose requests, errors and frames of websockets are events."""
    import aiohttp

    async with aiohttp.ClientSession() as session:
        async with session.put(f"http://{control}/json/new?about:blank") as answer:
            target = (await answer.json())["webSocketDebuggerUrl"]
        async with session.ws_connect(target, max_msg_size=0) as socket:
            page = Page(socket)
            for domain in ("Page", "Runtime", "Network", "Log"):
                await page.ask(f"{domain}.enable")
            await page.ask("Page.navigate", url=url)
            yield page
