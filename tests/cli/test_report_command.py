import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.calling import Command
from tests.report.answering import ask
from tests.report.made_runs import WEIGHT, make_run
from tests.runs.sealing import change, seal

# A test may run where Ctrl-C is ignored, and so would be by the server.
_STOPPABLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
ASNI = [sys.executable, "-c", f"{_STOPPABLE}; from asni.cli import main; main()"]


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
    arguments = [*ASNI, "report", str(tmp_path), "--serve"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[0]
        assert ask(address)[0] == 200
        server.send_signal(signal.SIGINT)
        assert server.communicate(timeout=60) == ("", "stopped\n")
    assert server.returncode == 0


def asni(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A process of its own, since the browser to open is looked up once in each."""
    variables = os.environ | environment
    return subprocess.run([*ASNI, *arguments], env=variables, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """A browser that writes down which address it opens."""
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    script.chmod(0o755)
    return script


def test_the_written_page_is_opened_in_the_browser(tmp_path: Path, browser: Path) -> None:
    make_run(tmp_path / "runs" / "one")
    page = tmp_path / "a page.html"
    answer = asni("report", str(tmp_path / "runs"), "-o", str(page), "--open", BROWSER=str(browser))
    assert answer.returncode == 0
    assert (tmp_path / "opened").read_text() == f"{page.as_uri()}\n"


def test_the_served_page_is_opened_in_the_browser(tmp_path: Path, browser: Path) -> None:
    # A browser in the terminal: the server must answer while it runs, and is stopped by it at the end.
    fetch = "import os, signal, sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()"
    stop = "os.kill(os.getppid(), signal.SIGINT)"
    browser.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{fetch}; {stop}" "$1"\n')
    make_run(tmp_path / "runs" / "one")
    answer = asni("report", str(tmp_path / "runs"), "--serve", "--open", BROWSER=str(browser))
    assert (answer.returncode, answer.stderr) == (0, "stopped\n")


@pytest.mark.parametrize("browser", ["none", "'none %s"])
def test_a_page_that_no_browser_opens_is_written_all_the_same(tmp_path: Path, browser: str) -> None:
    make_run(tmp_path / "runs" / "one", initial={"first.weight": WEIGHT})
    page = tmp_path / "page.html"
    nowhere = {"BROWSER": browser, "PATH": str(tmp_path), "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    answer = asni("report", str(tmp_path / "runs"), "-o", str(page), "--open", **nowhere)
    assert answer.returncode == 0
    assert answer.stderr == f"No browser could be opened. Open {page.as_uri()} yourself.\n"
    assert page.exists()


def test_what_is_not_shown_is_told_in_a_line_for_each_cause(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(8):
        directory = make_run(tmp_path / "runs" / f"shared-{seed}", seed=seed)
        (directory / "weights.safetensors").unlink()
        (directory / "mask.safetensors").unlink()
        (make_run(tmp_path / "runs" / f"bad-{seed}") / "result.json").write_text("{")
    monkeypatch.chdir(tmp_path)
    answer = command("report", "runs", "-o", "page.html")
    warning, *reasons, more, note = answer.err.splitlines()
    assert warning == "warning: 8 runs were skipped"
    assert [reason.split(":")[0] for reason in reasons] == [f"  bad-{seed}" for seed in range(5)]
    assert more == "  and 3 more, named in page.html"
    assert note == "note: 8 runs without weights: their layers are not shown"


def test_a_port_in_use_is_named(command: Command, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        answer = command("report", str(tmp_path), "--serve", "--port", port)
    assert answer.status == 1
    assert f"cannot listen on port {port}: Address already in use. Choose another --port." in answer.err
