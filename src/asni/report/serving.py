"""Serve the page on localhost, to those who have its address; it is built again when a run has changed."""

import hashlib
import logging
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from waitress import create_server
from waitress.channel import HTTPChannel
from waitress.task import WSGITask

from asni.errors import AsniError
from asni.report.building import page
from asni.report.collecting import collect, stamps
from asni.report.finding import directories
from asni.report.fitting import fitted
from asni.runs import names

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_MOST_CONNECTIONS = 100  # further ones wait until one of them closes
_THREADS = 32  # of requests that wait for the same look at the runs
_IDLE_SECONDS = 20
_HEADERS = [
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
]


class _Task(WSGITask):  # type: ignore[misc]  # waitress has no types
    @property
    def has_body(self) -> bool:
        return bool(super().has_body) and self.request.command != "HEAD"


class _Channel(HTTPChannel):  # type: ignore[misc]
    """Every answer closes its connection, so that a whole request has the time that waitress grants each byte."""

    task_class = _Task

    def received(self, data: bytes) -> bool:
        self.last_activity = self.creation_time
        return bool(super().received(data))


class Server:
    """Listens on localhost only; with port 0 on any free port.

    `address` holds a token: other users of the machine can reach the port, but must not read the runs.
    """

    def __init__(self, root: Path, port: int = 0):
        listening = _listening(port)
        application = Application(root)
        self.address = f"http://127.0.0.1:{listening.getsockname()[1]}/{application.token}/"
        # A client that asks in vain, or too often, is no news to the user.
        logging.getLogger("waitress").setLevel(logging.ERROR)
        self.waitress = create_server(
            application,
            sockets=[listening],
            threads=_THREADS,
            connection_limit=_MOST_CONNECTIONS,
            channel_timeout=_IDLE_SECONDS,
            cleanup_interval=_IDLE_SECONDS // 4,
            max_request_body_size=1,
            log_socket_errors=False,
            ident=None,
        )
        self.waitress.channel_class = _Channel

    def run(self) -> None:
        """Answer until Ctrl-C."""
        self.waitress.run()


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise AsniError(
            f"cannot listen on port {port}: {os.strerror(error.errno or 0)}. Choose another --port."
        ) from None


class Application:
    """The page at /TOKEN/ and its version at /TOKEN/version, as a WSGI application."""

    def __init__(self, root: Path):
        self.token = secrets.token_urlsafe(16)
        self._root = root
        self._looking, self._building = Lock(), Lock()
        self._looked, self._version = 0.0, ""  # when, and the version found
        self._newest = "", ("", "")  # a version, and the status and text of its page

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterator[bytes]:
        status, kind, text = self._answer(environ)
        # The browser retries: a missing directory may come back, and a page that is too large may shrink.
        again = [("Refresh", "2")] if status.startswith("500") else []
        start_response(status, [("Content-Type", f"{kind}; charset=utf-8"), *_HEADERS, *again])
        # Not a list, whose length would be known: the server would then keep the connection for another request.
        return iter([text.encode()])

    def _answer(self, environ: "WSGIEnvironment") -> tuple[str, str, str]:
        """The status, the type and the text."""
        asked = monotonic()
        if environ.get("HTTP_HOST", "").partition(":")[0] not in ("127.0.0.1", "localhost"):
            # DNS rebinding: a page of another site must not read the runs.
            return "403 Forbidden", "text/plain", "use 127.0.0.1 or localhost as the host name\n"
        token, slash, place = environ["PATH_INFO"].removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return "403 Forbidden", "text/plain", ""
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return "405 Method Not Allowed", "text/plain", "only GET and HEAD are answered\n"
        if place == "version":
            return "200 OK", "text/plain", self._version_since(asked)
        if place or not slash:
            return "404 Not Found", "text/plain", "not found; the report is at /TOKEN/, with the slash\n"
        status, text = self._page_since(asked)
        return status, "text/html" if status == "200 OK" else "text/plain", text

    def _version_since(self, asked: float) -> str:
        """The version of the runs at the time `asked` or later: one look at them answers all who asked before it."""
        with self._looking:
            if self._looked < asked:
                self._looked, self._version = monotonic(), version(self._root)
            return self._version

    def _page_since(self, asked: float) -> tuple[str, str]:
        """The status and the text of the page; requests that come while it is built wait for it."""
        with self._building:
            # Computed before the runs are read, so that a change in between makes the page reload.
            seen = self._version_since(asked)
            if seen != self._newest[0]:
                self._newest = seen, self._built(seen)
            return self._newest[1]

    def _built(self, seen: str) -> tuple[str, str]:
        try:
            return "200 OK", page(fitted(collect(self._root)), version=seen)
        except AsniError as error:
            return "500 Internal Server Error", f"{error}\n"


def version(root: Path) -> str:
    """A hash that changes when a file of a run does, or when `root` comes or goes."""
    state = [(str(directory), stamps(directory, names.RUN_FILES)) for directory in directories(root)]
    return hashlib.sha256(repr((root.is_dir(), state)).encode("utf-8", "surrogateescape")).hexdigest()
