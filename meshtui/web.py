"""The console in a browser: one page, one websocket, and behind each page a console of its own.

Who may come in is decided here, before anything is started: the name the browser asked for has to be one of
ours (or a foreign page could reach a loopback server by having its name resolved anew), a websocket has to
come from our own page, and where a token is asked for both need it. Nothing is loaded from anywhere else.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.server import Server

MOST_SESSIONS = 8
"""How many consoles may be open at once; each is a process."""
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "font-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>meshtui</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/css/xterm.css">
<style>
@font-face {{ font-family: "Roboto Mono"; src: url("/static/fonts/RobotoMono-VariableFont_wght.ttf"); font-weight: 100 700; }}
@font-face {{ font-family: "Roboto Mono"; src: url("/static/fonts/RobotoMono-Italic-VariableFont_wght.ttf"); font-weight: 100 700; font-style: italic; }}
html, body {{ margin: 0; height: 100%; background: #1a1b26; color: #c0caf5; font: 16px "Roboto Mono", monospace; }}
#ended {{ display: none; position: absolute; inset: 0; z-index: 10; background: #1a1b26; padding: 3em; }}
body.-closed #ended {{ display: block; }}
a {{ color: #7aa2f7; }}
</style>
</head>
<body>
<div id="ended">This console has ended. <a href="/">Open it again</a></div>
<div id="terminal" class="textual-terminal" data-font-size="{font_size}"></div>
<script>
document.getElementById("terminal").dataset.sessionWebsocketUrl = location.origin.replace(/^http/, "ws") + "/ws";
</script>
<script src="/static/js/textual.js"></script>
<script>
new MutationObserver((_changes, watching) => {{
  const field = document.querySelector(".xterm-helper-textarea");
  if (field && document.body.classList.contains("-first-byte")) {{ watching.disconnect(); field.focus(); }}
}}).observe(document.body, {{ attributes: true, childList: true, subtree: true }});
</script>
</body>
</html>
"""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def is_loopback(host: str) -> bool:
    """Whether ``host`` can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Door:
    """Who may come in."""

    def __init__(self, host: str, *, token: str | None, names: Sequence[str] = ()) -> None:
        self._token = token
        self._pass = secrets.token_urlsafe(32)
        self._names = {host.lower(), *(name.lower() for name in names)}
        self._open = not is_loopback(host)
        if self._open:
            self._names.add(socket.gethostname().lower())
        else:
            self._names |= {"localhost", "127.0.0.1", "::1"}
        self.cookie = f"meshtui-{secrets.token_hex(4)}"

    def refusal(self, request: web.Request) -> str | None:
        """Why ``request`` may not come in, ``None`` if it may."""
        host = request.headers.get("Host", "")
        if not self._ours(host):
            return "this server does not go by that name; see --name"
        origin = request.headers.get("Origin")
        if request.path == "/ws" and origin is None:
            return "a websocket has to come from this server's own page"
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return "the request comes from another server's page"
        if self._token is not None and not self._passed(request):
            return "open it with the token: /?token=…"
        return None

    def knows(self, token: str) -> bool:
        """Whether ``token`` is the right one; takes as long for a wrong one."""
        return self._token is not None and hmac.compare_digest(token.encode(), self._token.encode())

    def let_in(self, response: web.StreamResponse) -> None:
        """Have the browser show its pass from now on, so that the token leaves the address bar."""
        response.set_cookie(self.cookie, self._pass, httponly=True, samesite="Strict", path="/")

    def _passed(self, request: web.Request) -> bool:
        shown = request.cookies.get(self.cookie, "")
        return hmac.compare_digest(shown.encode(), self._pass.encode())

    def _ours(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # A number cannot be resolved anew; on loopback the names above are all there are.
        return self._open or address.is_loopback


class ConsoleServer(Server):
    """Serves consoles that ``command``, a line for the shell, starts."""

    def __init__(
        self, command: str, host: str, port: int, *, token: str | None = None, names: Sequence[str] = ()
    ) -> None:
        super().__init__(command, host=host, port=port, title="meshtui")
        self.door = Door(host, token=token, names=names)
        self._sockets: set[asyncio.Task[object]] = set()

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        statics = str(files("textual_serve") / "static")
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/ws", self.handle_websocket),
                web.static("/static", statics),
            ]
        )
        app.on_shutdown.append(self.on_shutdown)
        return app

    async def run(self, ready: Callable[[int], None]) -> int:
        """Serve until a signal comes, 130; ``ready`` is called with the port once it can be reached."""
        runner = web.AppRunner(await self._make_app(), access_log=None, shutdown_timeout=5.0)
        await runner.setup()
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, ended.set)
        try:
            site = web.TCPSite(runner, self.host, self.port)
            await site.start()
            ready(runner.addresses[0][1])
            await ended.wait()
        finally:
            await runner.cleanup()
        return 130

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        token = request.query.get("token")
        if token is not None and request.path == "/" and self.door.knows(token):
            response = web.Response(status=303, headers={**HEADERS, "Location": "/"})
            self.door.let_in(response)
            return response
        why = self.door.refusal(request)
        if why is not None:
            return web.Response(status=403, text=f"meshtui: {why}\n", headers=HEADERS)
        return await handler(request)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        text = request.query.get("fontsize", "")
        size = int(text) if text.isascii() and text.isdigit() and 6 <= int(text[:4]) <= 60 else 16
        return web.Response(text=PAGE.format(font_size=size), content_type="text/html", headers=HEADERS)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        if len(self._sockets) >= MOST_SESSIONS:
            raise web.HTTPServiceUnavailable(text=f"meshtui: {MOST_SESSIONS} consoles are open already\n")
        task = asyncio.current_task()
        assert task is not None
        self._sockets.add(task)
        try:
            return await super().handle_websocket(request)
        finally:
            self._sockets.discard(task)

    async def on_shutdown(self, app: web.Application) -> None:
        # A console that lives on would keep its process: its task ends it on its way out.
        for task in self._sockets:
            task.cancel()
