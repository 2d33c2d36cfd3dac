"""Served on this machine alone, and always as new as the runs."""

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from asni.errors import AsniError
from asni.report.serving import server
from tests.report.made_runs import make_run, write


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with server(tmp_path) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield listening.server_port
        listening.shutdown()
        thread.join()


def ask(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path, headers={"Host": f"{host}:{port}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_page_and_its_version_follow_the_runs(tmp_path: Path, port: int) -> None:
    before = ask(port, "/version")[1]
    assert '"groups":[]' in ask(port, "/")[1]
    directory = make_run(tmp_path / "run")
    with_run = ask(port, "/version")[1]
    page = ask(port, "/")[1]
    write(directory / "result.json", {"accuracy": 12.5, "seconds": 2.0})
    assert before != with_run != ask(port, "/version")[1]
    assert '"path":"run"' in page
    assert f'"version":"{with_run}"' in page
    assert '"path":"run"' not in ask(port, "/")[1]


def test_other_paths_and_other_names_are_refused(port: int) -> None:
    assert ask(port, "/../../etc/passwd")[0] == 404
    assert ask(port, "/", host="evil.example")[0] == 403
    assert ask(port, "/", host="localhost")[0] == 200


def test_a_directory_that_vanishes_is_an_answer(tmp_path: Path, port: int) -> None:
    tmp_path.rmdir()
    status, text = ask(port, "/")
    assert status == 500
    assert "is not a directory" in text


def test_a_port_in_use_is_told(tmp_path: Path, port: int) -> None:
    with pytest.raises(AsniError, match=f"port {port}"):
        server(tmp_path, port)
