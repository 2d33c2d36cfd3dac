"""Serve the page on localhost, rebuilt for each request so that it follows running trainings."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from asni.errors import AsniError
from asni.report.building import page
from asni.report.collecting import collect, directories, stamps
from asni.runs import names

_Pages = Mapping[str, Callable[[], tuple[str, str]]]  # by path: makes its content type and text on request


def server(root: Path, port: int = 0) -> ThreadingHTTPServer:
    """Return a server that listens on localhost only; with port 0 on any free port (see `server_port`)."""
    pages: _Pages = {
        "/": lambda: ("text/html", _newest(root)),
        "/version": lambda: ("text/plain", version(root)),
    }
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), _handler(pages))
    except OSError as error:
        raise AsniError(f"cannot listen on port {port}: {error.strerror}. Choose another --port.") from None


def _handler(pages: _Pages) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Host", "").partition(":")[0] not in ("127.0.0.1", "localhost"):
                # DNS rebinding: a page of another site must not read the runs.
                self._answer(403, "text/plain", "use 127.0.0.1 or localhost as the host name\n")
            elif self.path not in pages:
                self._answer(404, "text/plain", "not found; the report is at /\n")
            else:
                self._answer_with(pages[self.path])

        def _answer_with(self, made: Callable[[], tuple[str, str]]) -> None:
            try:
                kind, text = made()
            except AsniError as error:
                self._answer(500, "text/plain", f"{error}\n")
            else:
                self._answer(200, kind, text)

        def _answer(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            if status == 500:
                # The browser retries: a missing directory may come back, and a page that is too large may shrink.
                self.send_header("Refresh", "2")
            # A browser that has left the page closes the connection.
            with suppress(ConnectionError):
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: an open page sends a request every two seconds."""

    return Handler


def _newest(root: Path) -> str:
    # Computed before the runs are read, so that a change in between makes the page reload.
    seen = version(root)
    return page(collect(root), version=seen)


def version(root: Path) -> str:
    """A hash that changes when a file of a run does."""
    state = [(str(directory), stamps(directory, names.RUN_FILES)) for directory in directories(root)]
    return hashlib.sha256(repr(state).encode("utf-8", "surrogateescape")).hexdigest()
