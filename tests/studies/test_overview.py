"""How far several trainings are, and when all of them will be done."""

import io
import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from asni.recipes import load
from asni.studies.overview import Overview, Pace, Standing, seconds_left, standings
from asni.studies.reproduction import jobs_of


def training(
    stage: str, done: int, *, seconds: float = 2.0, recipe: str = "mnist-fc", seed: int = 0, epochs: int = 10
) -> Standing:
    numbers = {"loss": 0.5, "accuracy": 90.0, "nonzeros": 8330, "seconds": seconds}
    entries = [{"epoch": epoch, **numbers} for epoch in range(done)]
    return Standing(recipe, seed, stage, epochs, entries, finished=done == epochs)


def test_what_is_left_costs_what_the_epochs_so_far_have_cost() -> None:
    assert seconds_left([training("dense", 10), training("asni-1", 4), training("asni-2", 0)], 1) == (6 + 10) * 2.0


def test_a_recipe_without_an_epoch_costs_what_the_others_cost() -> None:
    known = [training("dense", 9, seconds=1.0), training("dense", 9, seconds=3.0, recipe="mnist-conv2")]
    assert seconds_left([*known, training("dense", 0, recipe="mnist-conv4")], 1) == 1.0 + 3.0 + 10 * 2.0


def test_side_by_side_takes_a_share_of_the_time_but_never_less_than_the_longest_seed() -> None:
    seeds = [training("dense", 5, seed=seed) for seed in range(4)]
    assert seconds_left(seeds, 2) == 4 * 5 * 2.0 / 2
    assert seconds_left(seeds, 8) == 5 * 2.0


def test_nothing_is_promised_before_an_epoch_is_done_and_nothing_is_left_at_the_end() -> None:
    assert seconds_left([training("dense", 0)], 1) is None
    assert seconds_left([training("dense", 10)], 1) == 0.0


def test_a_training_is_read_from_its_directory(tmp_path: Path) -> None:
    [job] = jobs_of(load("digits-fc").override(epochs=3), 1, "fp32", tmp_path)
    entry = {"epoch": 0, "loss": 1.0, "accuracy": 50.0, "nonzeros": 10, "seconds": 1.5}
    (tmp_path / "digits-fc--epochs-3" / "seed-0" / "dense").mkdir(parents=True)
    (tmp_path / "digits-fc--epochs-3" / "seed-0" / "dense" / "metrics.jsonl").write_text(json.dumps(entry) + "\n")
    dense, *others = standings(job)
    assert (dense.job, dense.stage, dense.entries, dense.epochs_left) == (
        "digits-fc--epochs-3 seed 0",
        "dense",
        [entry],
        2,
    )
    assert [each.epochs_left for each in others] == [3, 3, 3]


@pytest.mark.parametrize("damage", ['{"epoch": 0', "[]", '{"epoch": 0}', '{"epoch": null}', "\xff"])
def test_damaged_metrics_are_not_shown_and_stop_nothing(tmp_path: Path, damage: str) -> None:
    [job] = jobs_of(load("digits-fc"), 1, "fp32", tmp_path)
    (tmp_path / "digits-fc" / "seed-0" / "dense").mkdir(parents=True)
    (tmp_path / "digits-fc" / "seed-0" / "dense" / "metrics.jsonl").write_text(damage, encoding="latin-1")
    assert standings(job)[0].entries == []


def test_metrics_are_parsed_again_only_when_they_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [job] = jobs_of(load("digits-fc"), 1, "fp32", tmp_path)
    metrics = job.directory_of("dense") / "metrics.jsonl"
    metrics.parent.mkdir(parents=True)
    line = json.dumps({"epoch": 0, "loss": 1.0, "accuracy": 50.0, "nonzeros": 10, "seconds": 1.5}) + "\n"
    metrics.write_text(line)
    parsed: list[bytes] = []
    parse = json.loads

    def seen(text: bytes) -> Any:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr("asni.studies.overview.json.loads", seen)
    looks = [len(standings(job)[0].entries) for _ in range(3)]
    metrics.write_text(2 * line)
    looks += [len(standings(job)[0].entries) for _ in range(3)]
    assert looks == [1, 1, 1, 2, 2, 2]
    assert len(parsed) == 1 + 2


@pytest.fixture
def results(tmp_path: Path) -> list[Path]:
    """Of four methods, the first of which was trained before."""
    files = [tmp_path / f"{number}.json" for number in range(4)]
    files[0].touch()
    return files


def test_the_time_left_for_methods_is_told_by_the_pace_of_this_call(results: list[Path]) -> None:
    seconds = count(0, 60)  # a minute passes between two looks
    pace = Pace(results, clock=lambda: next(seconds))
    results[1].touch()
    assert pace.news() == "2 of 4 methods trained, about 2 min left"
    results[2].touch()
    assert pace.news() == "3 of 4 methods trained, about 1 min left"
    results[3].touch()
    assert pace.news() == "4 of 4 methods trained, about 0 s left"


def test_without_a_method_trained_in_this_call_there_is_no_news_and_no_pace(results: list[Path]) -> None:
    pace = Pace(results)
    assert pace.news() is None
    assert str(pace) == "1 of 4 methods trained, time left not known yet"
    results[1].touch()
    assert pace.news() is not None
    assert pace.news() is None


def shown(*updates: list[Standing], terminal: bool) -> str:
    text = io.StringIO()
    with Overview(1, Console(file=text, force_terminal=terminal, width=200)) as overview:
        for trainings in updates:
            overview.update(trainings, {"mnist-fc seed 0"})
    return text.getvalue()


def test_plain_lines_tell_each_training_once_when_it_is_finished() -> None:
    before = [training("dense", 10), training("asni-1", 4)]
    after = [training("dense", 10), training("asni-1", 10)]
    assert shown(before, after, after, terminal=False).splitlines() == [
        "1 of 2 trainings done, about 12 s left",
        "mnist-fc seed 0 asni-1: epoch 4/10  loss 0.5000  accuracy 90.00  nonzeros 8,330  "
        "[1 of 2 trainings done, about 12 s left]",
        "mnist-fc seed 0 asni-1: epoch 10/10  loss 0.5000  accuracy 90.00  nonzeros 8,330  "
        "[2 of 2 trainings done, about 0 s left]",
    ]


def test_a_terminal_shows_the_training_that_each_process_works_on() -> None:
    trainings = [training("dense", 4), training("asni-1", 0), training("dense", 2, seed=1)]
    drawn = shown(trainings, terminal=True)
    assert "mnist-fc seed 0 dense: epoch 4/10" in drawn
    assert "asni-1" not in drawn
    assert "seed 1" not in drawn
