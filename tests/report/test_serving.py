"""Served on localhost only, to those who have the address, and always up to date with the runs."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from time import monotonic, time
from urllib.parse import urlsplit

import pytest

from asni.errors import AsniError
from asni.report import serving
from asni.report.collecting import Collection, collect
from tests.report.answering import answering, ask
from tests.report.made_runs import make_run, write


def connected(address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), timeout=60)


def ask_for_the_page(connection: socket.socket, address: str) -> None:
    connection.sendall(f"GET {urlsplit(address).path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


def everything(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def one_turn(server: serving.Server, action: Callable[[], object] = lambda: None) -> None:
    """Let the server look at its connections once, and then do something in its thread."""
    turned = Event()

    def act() -> None:
        action()
        turned.set()

    server.waitress.trigger.pull_trigger(act)
    turned.wait()


def test_the_page_and_its_version_follow_the_runs(runs: Path, address: str) -> None:
    before = ask(address, "version")[1]
    assert '"groups":[]' in ask(address)[1]
    directory = make_run(runs / "run")
    with_run = ask(address, "version")[1]
    page = ask(address)[1]
    write(directory / "result.json", {"accuracy": 12.5, "seconds": 2.0})
    assert before != with_run != ask(address, "version")[1]
    assert '"path":"run"' in page
    assert f'"version":"{with_run}"' in page
    assert '"path":"run"' not in ask(address)[1]


def test_a_run_that_ends_while_the_page_is_made_is_asked_for_again(
    runs: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def collect_before_the_end(root: Path) -> Collection:
        collection = collect(root)
        make_run(runs / "late")
        return collection

    monkeypatch.setattr(serving, "collect", collect_before_the_end)
    page = ask(address)[1]
    assert '"path":"late"' not in page
    assert f'"version":"{ask(address, "version")[1]}"' not in page


def test_many_requests_at_once_are_all_answered_and_the_page_is_built_once(
    runs: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Path] = []

    def counted(root: Path) -> Collection:
        built.append(root)
        return collect(root)

    monkeypatch.setattr(serving, "collect", counted)
    make_run(runs / "run")
    # All connections are open before the first one asks, more than the server holds at once.
    connections = [connected(address) for _ in range(150)]
    for connection in connections:
        ask_for_the_page(connection, address)
    with ThreadPoolExecutor(len(connections)) as pool:
        answers = list(pool.map(everything, connections))
    for connection in connections:
        connection.close()
    assert all(answer.startswith(b"HTTP/1.1 200 OK") and b"</html>" in answer for answer in answers)
    assert built == [runs]


@pytest.mark.parametrize("place", ["", "version", "anything"])
@pytest.mark.parametrize("token", ["", "wrong/", "%C3%A9/", "/", "%ED%A0%80/"])
def test_without_the_token_nothing_is_told(address: str, place: str, token: str) -> None:
    root = address.removesuffix(f"{urlsplit(address).path.split('/')[1]}/")
    assert ask(f"{root}{token}", place)[:2] == (403, "")


def test_each_server_has_a_token_of_its_own(runs: Path, address: str) -> None:
    with answering(runs) as other:
        tokens = {urlsplit(each).path for each in (address, other.address)}
    assert len(tokens) == 2
    assert all(len(token) > 20 for token in tokens)


def test_other_names_other_places_and_other_methods_are_refused(address: str) -> None:
    assert ask(address, host="evil.example")[0] == 403
    assert ask(address, host="localhost")[0] == 200
    assert ask(address, "../../etc/passwd")[0] == 404
    assert ask(address.removesuffix("/"))[0] == 404
    assert ask(address, method="POST")[0] == 405


def test_the_address_is_neither_stored_nor_sent_to_others(address: str) -> None:
    for place in ("", "version", "anything"):
        headers = ask(address, place)[2]
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "lines",
    [
        ["GET {path} HTTP/1.1", "Content-Length: abc"],
        ["GET {path} HTTP/1.1", "Content-Length: -1"],
        ["GET {path} HTTP/1.1", "Content-Length: 1", "Content-Length: 2"],
        ["GET {path} HTTP/1.1", "no colon"],
        ["GET {path} HTTP/1.1", "a b: c"],
        ["GET"],
        ["\x16\x03\x01"],
    ],
)
def test_a_malformed_request_is_answered_as_such(
    address: str, lines: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with connected(address) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).format(path=urlsplit(address).path).encode())
        assert everything(connection).startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    assert capfd.readouterr().err == ""


def test_a_body_is_refused_without_being_read(address: str) -> None:
    with connected(address) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n")
        assert b" 413 " in everything(connection).splitlines()[0]


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: "])
def test_an_idle_connection_is_closed(runs: Path, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_IDLE_SECONDS", 0)
    with answering(runs) as server, connected(server.address) as connection:
        connection.sendall(sent)
        # A reset, where the server has not read what was sent.
        with suppress(ConnectionResetError):
            assert everything(connection) == b""


def test_a_request_that_comes_byte_by_byte_is_closed_by_its_age(runs: Path) -> None:
    with answering(runs) as server, connected(server.address) as connection:
        while not server.waitress.active_channels:
            one_turn(server)
        (channel,) = server.waitress.active_channels.values()
        channel.creation_time -= 60
        connection.sendall(b"G")
        while channel.request is None:
            one_turn(server)
        one_turn(server, lambda: server.waitress.maintenance(time()))
        assert channel.will_close
        assert everything(connection) == b""


def test_head_is_answered_like_get_without_a_body(address: str) -> None:
    with connected(address) as connection:
        connection.sendall(f"HEAD {urlsplit(address).path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head, _, body = everything(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert body == b""


def test_further_connections_wait_until_one_is_closed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_MOST_CONNECTIONS", 5)
    with answering(runs) as server, ExitStack() as opened:
        *idle, last = [opened.enter_context(connected(server.address)) for _ in range(10)]
        ask_for_the_page(last, server.address)
        # In each turn the server could accept one.
        for _ in range(20):
            one_turn(server)
        assert len(server.waitress.active_channels) <= 5
        for connection in idle:
            connection.close()
        assert everything(last).startswith(b"HTTP/1.1 200 OK")


def test_one_look_at_the_runs_answers_all_who_asked_before_it(runs: Path) -> None:
    application = serving.Application(runs)
    asked = monotonic()
    seen = application._version_since(asked)
    make_run(runs / "run")
    assert application._version_since(asked) == seen
    assert application._version_since(monotonic()) != seen


def test_a_directory_that_vanishes_is_an_answer_that_the_browser_asks_for_again(runs: Path, address: str) -> None:
    assert "Refresh" not in ask(address)[2]
    runs.rmdir()
    status, text, headers = ask(address)
    assert status == 500
    assert "is not a directory" in text
    assert headers["Refresh"] == "2"
    runs.mkdir()
    assert ask(address)[0] == 200


def test_a_port_in_use_is_an_error_that_names_it(runs: Path, address: str) -> None:
    port = urlsplit(address).port
    assert port is not None
    with pytest.raises(AsniError, match=f"port {port}"):
        serving.Server(runs, port)
