"""A server in a thread, and requests to it."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from waitress.wasyncore import close_all

from asni.report.serving import Server


@contextmanager
def answering(runs: Path) -> Iterator[Server]:
    """A server that answers until the block ends."""
    server = Server(runs)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.waitress.task_dispatcher.shutdown()
        # In the thread of the server, which ends when no connection is left. A request that ends just now may wake
        # it first: then the trigger is closed before it is pulled.
        with suppress(OSError):
            server.waitress.trigger.pull_trigger(lambda: close_all(server.waitress._map))
        thread.join()


def ask(
    address: str, place: str = "", *, method: str = "GET", host: str = "127.0.0.1"
) -> tuple[int, str, http.client.HTTPMessage]:
    """The status, the text and the headers of the answer about a place below the address."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=60)
    connection.request(method, f"{parts.path}{place}", headers={"Host": f"{host}:{parts.port}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer.headers
