import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.calling import Command
from tests.report.answering import ask
from tests.report.made_runs import make_run
from tests.runs.sealing import change, seal


def test_report_writes_one_file_and_warns_of_what_it_left_out(command: Command, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "good")
    (make_run(tmp_path / "runs" / "bad") / "result.json").write_text("{")
    answer = command("report", str(tmp_path / "runs"), "-o", str(tmp_path / "page.html"))
    assert answer.status == 0
    assert "1 runs" in answer.out
    assert "bad/result.json" in answer.err
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_report_on_a_directory_without_runs_is_refused(command: Command, tmp_path: Path) -> None:
    answer = command("report", str(tmp_path), "-o", str(tmp_path / "page.html"))
    assert answer.status == 2
    assert f"{tmp_path} holds no runs" in answer.err
    assert not (tmp_path / "page.html").exists()


def test_report_shows_the_runs_of_this_directory_unless_told_otherwise(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "one")
    answer = command("report")
    assert answer.status == 0
    assert answer.out.startswith("report.html: 1 runs")
    assert (tmp_path / "report.html").exists()


def test_a_served_page_is_no_file(command: Command, tmp_path: Path) -> None:
    answer = command("report", str(tmp_path), "--serve", "-o", str(tmp_path / "page.html"))
    assert answer.status == 2
    assert "--serve" in answer.err
    assert "--out" in answer.err


def test_what_a_file_says_reaches_the_terminal_escaped(command: Command, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "good")
    bad = make_run(tmp_path / "runs" / "bad\x1b[2J\nwarning: all is well")
    recipe = json.loads((bad / "request.json").read_text())["recipe"]
    change(bad / "request.json", {"recipe": recipe | {"\x1b[31mred": 1}})
    seal(bad)
    answer = command("report", str(tmp_path / "runs"), "-o", str(tmp_path / "page.html"))
    assert answer.status == 0
    assert "1 runs" in answer.out
    assert "\x1b" not in answer.err
    assert r"bad\x1b[2J" in answer.err
    assert r"\x1b[31mred': no such key" in answer.err
    assert "\nwarning: all is well" not in answer.err


def test_serving_without_its_extra_says_what_to_install(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "asni.report.serving", raising=False)
    monkeypatch.setitem(sys.modules, "waitress", None)
    make_run(tmp_path / "one")
    answer = command("report", str(tmp_path), "--serve")
    assert answer.status == 2
    assert "--serve needs waitress: pip install 'asni[serve]'" in answer.err
    assert command("report", str(tmp_path), "-o", str(tmp_path / "page.html")).status == 0


def test_ctrl_c_stops_the_server(tmp_path: Path) -> None:
    make_run(tmp_path / "one")
    # A test may run where Ctrl-C is ignored, and so would be by the server.
    serve = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from asni.cli import main; main()"
    arguments = [sys.executable, "-c", serve, "report", str(tmp_path), "--serve"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[0]
        assert ask(address)[0] == 200
        server.send_signal(signal.SIGINT)
        assert server.communicate(timeout=60) == ("", "stopped\n")
    assert server.returncode == 0


def test_a_port_in_use_is_named(command: Command, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        answer = command("report", str(tmp_path), "--serve", "--port", port)
    assert answer.status == 1
    assert f"cannot listen on port {port}: Address already in use. Choose another --port." in answer.err
