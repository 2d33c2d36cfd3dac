"""What is not shown is told once for each cause; weights that were left out on purpose are no damage."""

from pathlib import Path

import pytest

from asni.report import collect, grouped
from tests.report.made_runs import WEIGHT, make_run, told

WEIGHTS = ("weights.safetensors", "mask.safetensors", "initial.safetensors")
INITIAL = {"first.weight": WEIGHT}


def without(directory: Path, *files: str) -> None:
    for file in files:
        (directory / file).unlink()


def test_runs_that_were_shared_without_their_weights_are_one_note(tmp_path: Path) -> None:
    for seed in range(20):
        without(make_run(tmp_path / f"seed-{seed:02}", seed=seed, initial=INITIAL), *WEIGHTS)
    found = collect(tmp_path)
    assert len(found.runs) == 20
    (group,) = grouped(found.notices)
    assert group.is_note
    assert group.summary == "20 runs without weights: their layers are not shown"
    assert group.details[:2] == ("seed-00", "seed-01")


@pytest.mark.parametrize("lost", WEIGHTS)
def test_a_run_that_has_lost_one_of_its_files_is_warned_about(tmp_path: Path, lost: str) -> None:
    without(make_run(tmp_path / "run", initial=INITIAL), lost)
    (group,) = grouped(collect(tmp_path).notices)
    assert not group.is_note
    assert f"run/{lost}" in group.summary


def test_a_link_to_weights_that_are_gone_is_no_purpose(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", initial=INITIAL)
    without(directory, *WEIGHTS)
    (directory / "weights.safetensors").symlink_to("gone")
    assert not any(group.is_note for group in grouped(collect(tmp_path).notices))


def test_warnings_come_before_notes_and_one_alone_says_everything(tmp_path: Path) -> None:
    for seed in (0, 1):
        (make_run(tmp_path / f"going-{seed}", seed=seed) / "result.json").unlink()
    (make_run(tmp_path / "bad") / "result.json").write_text("{")
    found = collect(tmp_path)
    warning, note = grouped(found.notices)
    assert [warning.summary] == [text for text in told(found) if text.startswith("bad")]
    assert warning.details == ()
    assert note.summary == "2 runs are not finished: their results are those of their last epoch"
    assert note.details == tuple(f"going-{seed}: its results are those after 6 of 6 epochs" for seed in (0, 1))
