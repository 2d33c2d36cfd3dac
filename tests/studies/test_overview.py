"""How far a study is, and when all of it will be done."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from asni.recipes import load
from asni.runs import names, reading
from asni.studies.overview import Overview
from asni.studies.run_progress import RunProgress, fraction_done, progress_of, seconds_left
from asni.studies.study import PlannedRun, Study
from tests.drawing import drawn_lines
from tests.runs.sealing import seal, sealed_line, sealed_metrics


def run(done: int, *, seconds: float = 2.0, recipe: str = "mnist-fc", epochs: int = 10, rounds: int = 1) -> RunProgress:
    return RunProgress(recipe, rounds, epochs, done * (seconds,), finished=done == epochs)


def test_what_is_left_costs_what_the_epochs_so_far_have_cost() -> None:
    assert seconds_left([run(10), run(4), run(0)], 1) == (6 + 10) * 2.0


def test_a_method_of_two_rounds_costs_twice_as_much() -> None:
    assert seconds_left([run(10), run(0, rounds=2)], 1) == 2 * 10 * 2.0


def test_a_recipe_without_an_epoch_costs_what_the_others_cost() -> None:
    known = [run(9, seconds=1.0), run(9, seconds=3.0, recipe="mnist-conv2")]
    assert seconds_left([*known, run(0, recipe="mnist-conv4")], 1) == 1.0 + 3.0 + 10 * 2.0


def test_side_by_side_takes_a_share_of_the_time_but_never_less_than_the_longest_run() -> None:
    runs = [run(5) for _ in range(4)]
    assert seconds_left(runs, 2) == 4 * 5 * 2.0 / 2
    assert seconds_left(runs, 8) == 5 * 2.0


def test_nothing_is_promised_before_an_epoch_is_done_and_nothing_is_left_at_the_end() -> None:
    assert seconds_left([run(0)], 1) is None
    assert seconds_left([run(10)], 1) == 0.0
    assert [fraction_done([run(done)]) for done in (0, 10)] == [0.0, 1.0]


def test_the_share_that_is_done_counts_time_and_not_epochs() -> None:
    quick, slow = run(10, seconds=1.0), run(5, seconds=9.0, recipe="mnist-conv2")
    assert fraction_done([quick, slow]) == pytest.approx((10 * 1 + 5 * 9) / (10 * 1 + 10 * 9))


def test_the_epoch_in_progress_counts_but_never_more_than_a_whole_one() -> None:
    assert [seconds_left([replace(run(4), since=since)], 1) for since in (0.5, 100.0)] == [11.5, 10.0]


def study(root: Path, *methods: str) -> Study:
    return Study({"digits-fc": load("digits-fc").override(epochs=3)}, [0], methods, "fp32", root)


def write_epochs(planned: PlannedRun, epochs: int) -> None:
    planned.run.directory.mkdir(parents=True, exist_ok=True)
    (planned.run.directory / names.REQUEST).write_text(sealed_line(planned.run.request))
    measured = {"seconds": 1.5, "accuracy": 91.0, "nonzeros": 2920, "loss": 0.25}
    lines = [sealed_metrics(planned.run.directory, {"epoch": epoch, **measured}) for epoch in range(epochs)]
    (planned.run.directory / names.METRICS).write_text("\n".join(lines))


def finish(planned: PlannedRun, *earlier: str) -> None:
    write_epochs(planned, 3)
    numbers = {**dict.fromkeys(("seed", "epochs", "steps", "sparsity", "total_sparsity"), 0), "seconds": 4.5}
    rounds = [*earlier, planned.method.name]
    result = {"stage": planned.method.name, "rounds": rounds, "accuracy": 90.0, "nonzeros": 2920, **numbers}
    (planned.run.directory / names.RESULT).write_text(json.dumps(result))
    seal(planned.run.directory)


def test_a_run_is_read_from_its_directory(tmp_path: Path) -> None:
    first, second = study(tmp_path, "dense", "asni-1").runs
    write_epochs(first, 1)
    progress = progress_of(first)
    assert (len(progress.seconds), progress.epochs_left, progress.finished) == (1, 2, False)
    assert progress_of(second).epochs_left == 3


@pytest.mark.parametrize("damage", ['{"epoch": 0', "[]", '{"epoch": 0}', '{"seconds": null}', "\xff"])
def test_damaged_metrics_are_not_shown_and_stop_nothing(tmp_path: Path, damage: str) -> None:
    [planned] = study(tmp_path, "dense").runs
    planned.run.directory.mkdir(parents=True)
    (planned.run.directory / names.METRICS).write_text(damage, encoding="latin-1")
    assert progress_of(planned).seconds == ()


def test_metrics_are_parsed_again_only_when_they_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [planned] = study(tmp_path, "dense").runs
    read: list[Path] = []
    metrics = reading.metrics

    def seen(run: Path) -> Any:
        read.append(run)
        return metrics(run)

    monkeypatch.setattr(reading, "metrics", seen)
    looks = []
    for epochs in (1, 2):
        write_epochs(planned, epochs)
        looks += [len(progress_of(planned).seconds) for _ in range(3)]
    assert looks == [1, 1, 1, 2, 2, 2]
    assert len(read) == 2


def overview(asked: Study, text: io.StringIO, *, terminal: bool = False, width: int = 200) -> Overview:
    return Overview(asked.runs, console=Console(file=text, force_terminal=terminal, width=width))


def test_each_run_is_listed_once_when_it_is_finished_and_not_if_it_was_before(tmp_path: Path) -> None:
    asked = study(tmp_path, "dense", "asni-1", "asni-2")
    finish(asked.runs[0])
    text = io.StringIO()
    with overview(asked, text).shown() as shown:
        shown.list_finished()
        finish(asked.runs[1])
        shown.list_finished()
        shown.list_finished()
    assert text.getvalue() == (
        "digits-fc--epochs-3 seed 0 asni-1: accuracy 90.00, nonzeros 2,920  [2 of 3 runs done, about 4 s left]\n"
    )


def test_a_log_shows_a_run_in_progress_by_the_last_line_of_its_own_log(tmp_path: Path) -> None:
    asked = study(tmp_path, "dense", "asni-1")
    running, waiting = asked.runs
    write_epochs(running, 1)
    running.log.write_text("dense: epoch 1/3  loss 2.0\ndense: epoch 2/3  loss 1.0\n\n")
    text = io.StringIO()
    with overview(asked, text).shown() as shown:
        shown.show([running])
    assert "dense: epoch 2/3  loss 1.0" in text.getvalue()
    assert "epoch 1/3" not in text.getvalue()
    assert str(waiting) not in text.getvalue()
    assert "0 of 2 runs done, about 8 s left" in text.getvalue()


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_terminal_shows_the_runs_in_progress_and_which_of_how_many_they_are(tmp_path: Path, width: int) -> None:
    asked = Study({"digits-fc": load("digits-fc").override(epochs=3)}, [0, 1], ["dense", "asni-1"], "fp32", tmp_path)
    finish(asked.runs[0])
    write_epochs(asked.runs[1], 2)
    text = io.StringIO()
    with overview(asked, text, terminal=True, width=width).shown() as shown:
        shown.show(asked.runs[1:3])
    first, second, whole = drawn_lines(text)[-3:]
    assert re.match(r"seed 0 asni-1 .* \d+ % +\d s left +epoch 2/3", first)
    assert re.match(r"seed 1 dense .* 0 % +-- left +starting", second)
    assert re.match(r"runs 2, 3 of 4 .* \d+ % +\d+ s left +1 done", whole)
    assert max(map(len, (first, second, whole))) <= width


def test_a_run_of_several_trainings_is_shown_by_the_one_in_progress(tmp_path: Path) -> None:
    asked = study(tmp_path, "lottery")
    [planned] = asked.runs
    in_progress = tmp_path / "digits-fc--epochs-3" / "seed-0" / "lottery-round-2"
    in_progress.mkdir(parents=True)
    (in_progress / names.REQUEST).write_text(sealed_line({}))
    planned.log.write_text("lottery-round-2: epoch 1/3  loss 2.0\n")
    text = io.StringIO()
    with overview(asked, text, terminal=True).shown() as shown:
        shown.show(asked.runs)
    assert drawn_lines(text)[-2:][0].startswith("lottery-round-2  ")


def test_a_run_that_this_process_trains_is_numbered_and_draws_its_own_row(tmp_path: Path) -> None:
    asked = study(tmp_path, "dense", "asni-1")
    finish(asked.runs[0])
    text = io.StringIO()
    with overview(asked, text, terminal=True).shown() as shown:
        shown.begin(asked.runs[1])
    assert re.fullmatch(r"run 2 of 2 .* 50 %  4 s left  1 done", drawn_lines(text)[-1])


def test_a_method_whose_rounds_are_not_known_makes_the_time_left_a_lower_bound(tmp_path: Path) -> None:
    asked = study(tmp_path, "dense", "lottery")
    finish(asked.runs[0])
    assert "more than 4 s left" in str(overview(asked, io.StringIO()))


def test_a_method_of_several_trainings_took_the_time_of_all_of_them(tmp_path: Path) -> None:
    asked = study(tmp_path, "dense", "asni-1", "asni-2")
    text = io.StringIO()
    with overview(asked, text, terminal=True).shown() as shown:
        finish(asked.runs[1])
        finish(asked.runs[2], "asni-1")
        shown.list_finished()
    assert [line for line in drawn_lines(text) if line.startswith("asni-")] == [
        "asni-1      90.00 %  2,920 nonzeros  in 4.5 s",
        "asni-2      90.00 %  2,920 nonzeros  in 9.0 s",
    ]
