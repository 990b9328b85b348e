"""A real headless Chromium, steered through its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

LIMIT = 30.0
"""Seconds until a condition counts as never met."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """The program, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)


class Page:
    """One page of the browser."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._next = 0
        self.requested: list[str] = []
        """Every address that the page asked for."""

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol; its result."""
        self._next += 1
        number = self._next
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(LIMIT):
            while True:
                message = json.loads((await self._socket.receive()).data)
                if message.get("method") == "Network.requestWillBeSent":
                    self.requested.append(message["params"]["request"]["url"])
                elif message.get("method") == "Network.webSocketCreated":
                    self.requested.append(message["params"]["url"])
                if message.get("id") == number:
                    assert "error" not in message, message
                    result: dict[str, Any] = message["result"]
                    return result

    async def evaluate(self, expression: str) -> Any:
        """The value of a line of JavaScript."""
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return result["result"].get("value")

    async def go(self, url: str) -> None:
        """Open ``url``."""
        await self.call("Network.enable")
        await self.call("Page.enable")
        # A headless window never has the focus of a desktop.
        await self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        await self.call("Page.navigate", url=url)

    async def press(self, key: str) -> None:
        """Press one key that types a character, or Enter or Escape."""
        code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key)
        text = {"Enter": "\r"}.get(key, key if code is None else "")
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                text=text if kind == "keyDown" else "",
                windowsVirtualKeyCode=code or ord(key.upper()),
            )

    async def picture(self, target: Path) -> None:
        """Write what is shown to the PNG ``target``."""
        result = await self.call("Page.captureScreenshot", format="png")
        target.write_bytes(base64.b64decode(result["data"]))


@asynccontextmanager
async def browser(chromium: str, folder: Path) -> AsyncIterator[Page]:
    """A browser with one empty page, 1200 by 800 pixels."""
    import aiohttp

    process = subprocess.Popen(
        [
            chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-dev-shm-usage",
            "--remote-debugging-port=0", f"--user-data-dir={folder}", "--window-size=1200,800", "about:blank",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        named = folder / "DevToolsActivePort"
        async with asyncio.timeout(LIMIT):
            while not named.exists() or "\n" not in named.read_text():
                assert process.poll() is None, "chromium ended at once"
                await asyncio.sleep(0.05)
        port = named.read_text().split("\n")[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
                pages = await response.json()
            address = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
            async with session.ws_connect(address, max_msg_size=0) as socket:
                yield Page(socket)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
