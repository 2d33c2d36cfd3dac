"""Served on localhost only, and always up to date with the runs."""

import http.client
from pathlib import Path

import pytest

from asni.errors import AsniError
from asni.report import serving
from asni.report.collecting import Collection, collect
from tests.report.made_runs import make_run, write


def ask(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path, headers={"Host": f"{host}:{port}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer.headers


def test_the_page_and_its_version_follow_the_runs(runs: Path, port: int) -> None:
    before = ask(port, "/version")[1]
    assert '"groups":[]' in ask(port, "/")[1]
    directory = make_run(runs / "run")
    with_run = ask(port, "/version")[1]
    page = ask(port, "/")[1]
    write(directory / "result.json", {"accuracy": 12.5, "seconds": 2.0})
    assert before != with_run != ask(port, "/version")[1]
    assert '"path":"run"' in page
    assert f'"version":"{with_run}"' in page
    assert '"path":"run"' not in ask(port, "/")[1]


def test_a_run_that_ends_while_the_page_is_made_is_asked_for_again(
    runs: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def collect_before_the_end(root: Path) -> Collection:
        collection = collect(root)
        make_run(runs / "late")
        return collection

    monkeypatch.setattr(serving, "collect", collect_before_the_end)
    page = ask(port, "/")[1]
    assert '"path":"late"' not in page
    assert f'"version":"{ask(port, "/version")[1]}"' not in page


def test_other_paths_and_other_names_are_refused(port: int) -> None:
    assert ask(port, "/../../etc/passwd")[0] == 404
    assert ask(port, "/", host="evil.example")[0] == 403
    assert ask(port, "/", host="localhost")[0] == 200


def test_a_directory_that_vanishes_is_an_answer_that_the_browser_asks_for_again(runs: Path, port: int) -> None:
    assert "Refresh" not in ask(port, "/")[2]
    runs.rmdir()
    status, text, headers = ask(port, "/")
    assert status == 500
    assert "is not a directory" in text
    assert headers["Refresh"] == "2"


def test_a_port_in_use_is_an_error_that_names_it(runs: Path, port: int) -> None:
    with pytest.raises(AsniError, match=f"port {port}"):
        serving.server(runs, port)
