"""One page and its events over HTTP, for this machine only.

GET / is the page, GET /events?since=N what has happened after the first N events; it waits for the next one. Nothing
else is there: no file is read for a request. The Host header must be this server's own, so that a page of elsewhere
whose name was made to lead here (DNS rebinding) can't read it.
"""

import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread
from time import monotonic, sleep
from typing import Any
from urllib.parse import parse_qs

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.live_page.stream import Stream
from trainwreck.evaluation.pages.templates import hashes

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
PATIENCE = 10.0  # seconds that a reader waits for an event before the answer that there is none
GRACE = 0.5  # seconds at the end for a reader that was about to ask again
SILENCE = 10.0  # seconds after which a connection that says nothing, or takes nothing, is given up


@contextmanager
def serving(page: str, stream: Stream, port: int = 0) -> Iterator[str]:
    """Serve a page and its events; gives the address. After the context no thread is left, and readers have it all.

    port: 0 for any that is free. InputError for one that can't be had.
    """
    try:
        server = _Server(port, page, stream)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or "no such port"
        raise InputError(f"port: {port} is not allowed: {why}; allowed: 0 for any free one, or up to 65535") from None
    thread = Thread(target=server.serve_forever, args=(0.05,), name="trainwreck-page", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/"
    finally:
        stream.close()
        try:
            if monotonic() - server.asked < PATIENCE:
                sleep(GRACE)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def policy(page: str) -> str:
    """The Content-Security-Policy of a page: its own scripts and styles by their hashes, requests to its host."""
    scripts, styles = (re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL) for name in ("script", "style"))
    return (
        f"default-src 'none'; script-src {hashes(scripts)}; style-src {hashes(styles)}; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for replies under way
    allow_reuse_port = False  # a port that is taken is refused

    def __init__(self, port: int, page: str, stream: Stream) -> None:
        self.page, self.policy, self.stream = page.encode(), policy(page), stream
        self.connections: set[socket.socket] = set()
        self.asked = -PATIENCE  # when somebody last asked for events
        super().__init__((HOST, port), _Handler)
        ends = [f":{self.server_port}", *([""] if self.server_port == 80 else [])]  # browsers leave 80 out
        self.hosts = {name + end for name in NAMES for end in ends}

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's own asks the network what this machine is called
        self.server_name, self.server_port = HOST, int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):  # a page that was closed is no error
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        for connection in self.connections.copy():  # browsers open some ahead, and ask for nothing on them
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SILENCE
    server_version, sys_version = "trainwreck", ""

    def do_GET(self) -> None:
        where, _, query = self.path.partition("?")
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts:
            self._reply(403, "text/plain", b"forbidden: not the address of this page\n")
        elif where == "/":
            self._reply(200, "text/html", self.server.page)
        elif where == "/events":
            self._events(parse_qs(query).get("since", ["0"])[-1])
        else:
            self._reply(404, "text/plain", b"not found\n")

    def _events(self, since: str) -> None:
        if not re.fullmatch("[0-9]{1,9}", since):
            return self._reply(400, "text/plain", b"since: a number of events\n")
        self.server.asked = monotonic()
        self._reply(200, "application/json", self.server.stream.since(int(since), PATIENCE).encode())

    def _refused(self) -> None:
        self._reply(405, "text/plain", b"only GET\n", {"Allow": "GET"})

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refused

    def _reply(self, code: int, kind: str, content: bytes, more: dict[str, str] | None = None) -> None:
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": self.server.policy,
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        self.send_response(code)
        for name, value in (headers | (more or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """The terminal is the training's."""
