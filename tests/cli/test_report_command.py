from pathlib import Path

from tests.cli.calling import Command
from tests.report.made_runs import make_run


def test_report_writes_one_file_and_warns_of_what_it_left_out(command: Command, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "good")
    (make_run(tmp_path / "runs" / "bad") / "result.json").write_text("{")
    answer = command("report", str(tmp_path / "runs"), "-o", str(tmp_path / "page.html"))
    assert answer.status == 0
    assert "1 runs" in answer.out
    assert "bad is left out" in answer.err
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_report_on_a_directory_without_runs_is_refused(command: Command, tmp_path: Path) -> None:
    answer = command("report", str(tmp_path), "-o", str(tmp_path / "page.html"))
    assert answer.status == 2
    assert "holds no runs" in answer.err
    assert not (tmp_path / "page.html").exists()
