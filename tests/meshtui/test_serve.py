"""The console in a browser: what the page shows and does, and who is not let in."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from meshtui.core.clock import SystemClock
from meshtui.core.lane.create import create_run_dir
from meshtui.core.lane.lane import Lane
from tests.support.browser import LIMIT, Page, browser, find_chromium
from tests.support.cli import Cli, environment, start

pytest.importorskip("textual_serve", reason="the extra web is not installed")
CHROMIUM = find_chromium()
TOKEN = "a-token-nobody-guesses"


def command_line(process: psutil.Process) -> list[str]:
    """Its arguments; none once it is gone."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


class Served:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdout is not None
        text, end = b"", time.monotonic() + LIMIT
        while b"}" not in text:
            assert time.monotonic() < end
            assert process.poll() is None, process.stderr.read() if process.stderr else b""
            if select.select([process.stdout], [], [], 0.1)[0]:
                text += os.read(process.stdout.fileno(), 4096)
        self.said = json.loads(text)
        self.url = str(self.said["url"])
        self.host = self.url.removeprefix("http://").rstrip("/")

    def consoles(self) -> list[psutil.Process]:
        """The consoles behind its pages; what is still a copy of the server is none yet."""
        server = psutil.Process(self.process.pid)
        return [
            one for one in server.children(recursive=True) if command_line(one) not in ([], server.cmdline())
        ]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    where = create_run_dir(tmp_path / "lane", SystemClock())
    for name in ("first", "second"):
        Lane(where).enqueue({"kind": "phase", "prompt": "x", "id": f"the-{name}-one"})
    return where.root


@pytest.fixture
def serve(run_dir: Path, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    opened: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str, **env: str) -> Served:
        opened.append(
            start(
                "serve", "--json", "--port", "0", "--run-dir", str(run_dir), *arguments,
                cwd=tmp_path, env=environment(XDG_CONFIG_HOME=str(tmp_path), **env),
            )
        )  # fmt: skip
        return Served(opened[-1])

    yield begin
    for process in opened:
        process.kill()
        process.communicate()


async def status(url: str, **headers: str) -> int:
    import aiohttp

    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, allow_redirects=False) as got,
    ):
        return got.status


async def knocks(served: Served, **headers: str) -> int:
    """What a websocket is answered: 101 where it comes through."""
    import aiohttp

    async with aiohttp.ClientSession() as session:
        try:
            async with session.ws_connect(f"{served.url}ws", headers=headers):
                return 101
        except aiohttp.WSServerHandshakeError as error:
            return error.status


async def until(condition: Callable[[], object], what: str) -> None:
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0.05)
    assert condition(), what


async def within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.05)
    return True


async def painted(page: Page) -> bool:
    return bool(await page.evaluate("document.body.classList.contains('-first-byte')"))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
async def test_a_browser_shows_it_and_its_keys_work(
    serve: Callable[..., Served], run_dir: Path, tmp_path: Path
) -> None:
    assert CHROMIUM is not None
    served = serve("--allow-control")
    async with browser(CHROMIUM, tmp_path / "profile") as page:
        await page.go(served.url)
        async with asyncio.timeout(LIMIT):
            while not await painted(page):
                await asyncio.sleep(0.1)
        # Withdraw the selected one: the question, then yes. What counts is what is in the directory then.
        withdrawn = run_dir / "loop" / "withdrawn"
        async with asyncio.timeout(LIMIT):
            while True:
                await page.press("w")
                await page.press("y")
                if await within(2.0, lambda: bool(list(withdrawn.glob("*.json")))):
                    break
                # The first came before there was a row to withdraw.
                await page.press("Escape")
        if keep := os.environ.get("MESHTUI_PICTURES"):
            await page.picture(Path(keep) / "page.png")
        assert all(url.partition("://")[2].startswith(served.host) for url in page.requested), page.requested
        assert any(url.endswith(".ttf") for url in page.requested)
        assert any(url.startswith("ws://") for url in page.requested)
        await page.press("q")
        async with asyncio.timeout(LIMIT):
            while not await page.evaluate("document.body.classList.contains('-closed')"):
                await asyncio.sleep(0.1)
    await until(lambda: not served.consoles(), "the console's process ends")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
async def test_without_control_keys_change_nothing(
    serve: Callable[..., Served], run_dir: Path, tmp_path: Path
) -> None:
    assert CHROMIUM is not None
    served = serve()
    assert served.said["read_only"] is True
    before = sorted(path.name for path in run_dir.rglob("*"))
    async with browser(CHROMIUM, tmp_path / "profile") as page:
        await page.go(served.url)
        async with asyncio.timeout(LIMIT):
            while not await painted(page):
                await asyncio.sleep(0.1)
        for key in "wyiyesy":
            await page.press(key)
        # The console answers keys in their order: when it leaves, it has seen the others.
        await page.press("Escape")
        async with asyncio.timeout(LIMIT):
            while not await page.evaluate("document.body.classList.contains('-closed')"):
                await page.press("q")
                await asyncio.sleep(0.2)
    assert sorted(path.name for path in run_dir.rglob("*")) == before


async def test_strangers_are_kept_out(serve: Callable[..., Served]) -> None:
    served = serve("--name", "desk.example")
    port = served.host.rpartition(":")[2]
    assert await status(served.url) == 200
    assert await status(served.url, Host=f"localhost:{port}") == 200
    assert await status(served.url, Host="desk.example") == 200
    # A name of theirs that resolves to us is not our name.
    assert await status(served.url, Host=f"evil.example:{port}") == 403
    assert await status(served.url, Host="192.168.1.7") == 403
    assert await knocks(served, Origin=f"http://evil.example:{port}") == 403
    assert await knocks(served) == 403
    assert await knocks(served, Origin=f"http://{served.host}") == 101
    await until(lambda: not served.consoles(), "the console's process ends with its page")


async def test_a_token_opens_page_and_websocket(serve: Callable[..., Served]) -> None:
    import aiohttp

    served = serve("--host", "0.0.0.0", MESHTUI_SERVE_TOKEN=TOKEN)
    host = "127.0.0.1:" + served.host.rpartition(":")[2]
    url, origin = f"http://{host}/", {"Origin": f"http://{host}"}
    served.url = url
    assert await status(url) == 403
    assert await status(f"{url}static/js/textual.js") == 403
    assert await status(f"{url}?token=wrong-but-as-long-as-it") == 403
    assert await knocks(served, **origin) == 403
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(url, params={"token": TOKEN}) as got:
            assert got.status == 200
            assert str(got.url) == url
        async with session.ws_connect(f"{url}ws", headers=origin):
            await until(served.consoles, "a console starts")
            # Nobody finds the token in what runs.
            for one in served.consoles():
                assert TOKEN not in " ".join(one.environ().values()) + " ".join(one.cmdline())
    await until(lambda: not served.consoles(), "the console's process ends with its page")


async def test_the_end_of_the_server_ends_its_consoles(serve: Callable[..., Served]) -> None:
    import aiohttp

    served = serve()
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{served.url}ws", headers={"Origin": f"http://{served.host}"}) as socket,
    ):
        await until(served.consoles, "a console starts")
        children = served.consoles()
        served.process.send_signal(signal.SIGTERM)
        leaving = asyncio.create_task(asyncio.to_thread(served.process.wait, LIMIT))
        async for _ in socket:
            pass  # as a browser does: who does not answer the close is waited for
        assert await leaving == 130
        await until(lambda: not any(one.is_running() for one in children), "they end")


@pytest.mark.parametrize("control", [False, True])
async def test_several_directories_are_shown_together(
    serve: Callable[..., Served], tmp_path: Path, control: bool
) -> None:
    import aiohttp

    other = create_run_dir(tmp_path / "another", SystemClock()).root
    served = serve("--run-dir", str(other), *(["--allow-control"] if control else []))
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"{served.url}ws?width=100&height=30", headers={"Origin": f"http://{served.host}"}
        ) as socket,
        asyncio.timeout(LIMIT),
    ):
        shown = b""
        while b"another" not in shown or b"lane" not in shown:
            message = await socket.receive()
            assert message.type is aiohttp.WSMsgType.BINARY, message
            shown += message.data
        words = served.consoles()[0].cmdline()
        assert [words[at + 1] for at, word in enumerate(words) if word == "--run-dir"] == [
            str(tmp_path / "lane"),
            str(other),
        ]
        assert ("--read-only" in words) is not control


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--host", "0.0.0.0"), "can be reached by others: set a token"),
        (("--host", "0.0.0.0", "--token", "short"), "too short"),
        (("--port", "70000"), "70000"),
    ],
)
def test_it_refuses_to_be_open_to_everybody(cli: Cli, arguments: tuple[str, ...], complaint: str) -> None:
    cli("enqueue", "--prompt", "x")
    said = cli("serve", *arguments)
    assert said.code == 2
    assert complaint in said.complaint


def test_no_run_directory_is_said_at_once(cli: Cli) -> None:
    said = cli("serve")
    assert said.code == 3
    assert str(cli.run_dir) in said.complaint


def test_a_port_that_is_taken_is_named(cli: Cli) -> None:
    import socket

    cli("enqueue", "--prompt", "x")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = cli("serve", "--port", str(taken.getsockname()[1]))
    assert said.code == 4
    assert "name another --port" in said.complaint


def test_without_the_extra_it_says_how_to_get_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "meshtui.web", raising=False)
    said = cli("serve")
    assert said.code == 2
    assert "pip install 'meshtui[web]'" in said.complaint
