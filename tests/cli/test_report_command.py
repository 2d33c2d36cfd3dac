from pathlib import Path

import pytest

from tests.cli.calling import Command
from tests.report.made_runs import make_run


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
