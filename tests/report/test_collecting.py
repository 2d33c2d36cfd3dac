"""Any directory: runs that can be read are shown, others are named in warnings, and no number is made up."""

import json
import math
import os
import re
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from asni.errors import UsageError
from asni.report import collect, collecting
from tests.report.made_runs import WEIGHT, make_run, told, write
from tests.runs.sealing import seal

INITIAL = {"first.weight": WEIGHT}


def test_runs_are_found_wherever_they_lie_and_read_as_they_were_recorded(tmp_path: Path) -> None:
    make_run(tmp_path / "digits-fc" / "seed-3" / "asni-1", seed=3, initial=INITIAL)
    make_run(tmp_path / "deep" / "er" / "dense", stage="dense", accuracy=95.0, initial=INITIAL)
    found = collect(tmp_path)
    assert told(found) == []
    assert [(run.path, run.stage, run.seed, run.result["accuracy"]) for run in found.runs] == [
        ("deep/er/dense", "dense", 0, 95.0),
        ("digits-fc/seed-3/asni-1", "asni-1", 3, 91.5),
    ]
    (layer,) = found.runs[1].layers
    assert (layer.name, layer.weights, layer.survivors) == ("first", 8, 3)
    assert (layer.positive, layer.negative) == (0.625, -0.25)


def test_a_run_inside_another_is_found_too(tmp_path: Path) -> None:
    make_run(make_run(tmp_path / "mine") / "dense", stage="dense")
    assert [run.path for run in collect(tmp_path).runs] == ["mine", "mine/dense"]


def test_a_linked_directory_is_looked_into_once_and_a_circle_of_links_ends(tmp_path: Path) -> None:
    run = make_run(tmp_path / "there" / "run", initial=INITIAL)
    (tmp_path / "again").symlink_to(run)
    (tmp_path / "there" / "back").symlink_to(tmp_path)
    (tmp_path / "there" / "self").symlink_to(tmp_path / "there")
    found = collect(tmp_path)
    assert [run.path for run in found.runs] == ["again"]
    assert told(found) == []


def test_a_directory_that_cannot_be_looked_into_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path / "good", initial=INITIAL)
    make_run(tmp_path / "locked", seed=1)
    scandir = os.scandir

    def refuse_locked(path: str) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    # A test may run as root, to whom every directory is open.
    monkeypatch.setattr(os, "scandir", refuse_locked)
    found = collect(tmp_path)
    assert [run.path for run in found.runs] == ["good"]
    (warning,) = told(found)
    assert warning.startswith("locked ")
    assert "Permission denied" in warning


@pytest.mark.parametrize("file", ["request.json", "metrics.jsonl", "result.json"])
@pytest.mark.parametrize("content", [b"", b'{"recipe": ', b"[1, 2]", b"\xff\xfe", b'{"a": "b"}', None])
def test_a_run_whose_numbers_cannot_be_read_is_left_out_by_name(
    tmp_path: Path, file: str, content: bytes | None
) -> None:
    make_run(tmp_path / "good", initial=INITIAL)
    path = make_run(tmp_path / "bad", initial=INITIAL) / file
    if content is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(content)
    found = collect(tmp_path)
    assert [run.path for run in found.runs] == ["good"]
    (warning,) = told(found)
    assert warning.startswith("bad ")
    assert f"bad/{file}" in warning
    assert str(tmp_path) not in warning


@pytest.mark.parametrize("kept", ["environment.json", "metrics.jsonl", "result.json"])
def test_what_is_left_of_a_run_without_its_request_is_named(tmp_path: Path, kept: str) -> None:
    directory = make_run(tmp_path / "bad")
    for file in {"request.json", "environment.json", "metrics.jsonl", "result.json"} - {kept}:
        (directory / file).unlink()
    found = collect(tmp_path)
    assert found.runs == []
    assert "bad/request.json" in told(found)[0]


@pytest.mark.parametrize(
    ("file", "without"),
    [("weights.safetensors", "layers"), ("mask.safetensors", "layers"), ("environment.json", "environment")],
)
def test_a_damaged_file_beside_the_numbers_costs_only_what_it_held(tmp_path: Path, file: str, without: str) -> None:
    (make_run(tmp_path / "run", initial=INITIAL) / file).write_bytes(b"damaged")
    found = collect(tmp_path)
    assert [run.result["accuracy"] for run in found.runs] == [91.5]
    assert not getattr(found.runs[0], without)
    (warning,) = told(found)
    assert warning.startswith("run ")
    assert without in warning
    assert file in warning


def test_initial_weights_that_are_damaged_or_missing_are_named(tmp_path: Path) -> None:
    make_run(tmp_path / "good", initial=INITIAL)
    make_run(tmp_path / "none")
    (make_run(tmp_path / "bad", initial=INITIAL) / "initial.safetensors").write_bytes(b"damaged")
    found = collect(tmp_path)
    assert {run.path: run.initial is not None for run in found.runs} == {"bad": False, "good": True, "none": False}
    bad, none = told(found)
    assert bad.startswith("bad ")
    assert "bad/initial.safetensors" in bad
    assert none.startswith("none ")
    assert "none/initial.safetensors" in none
    assert all(run.layers for run in found.runs)


def test_a_sparse_run_without_its_mask_is_named_and_a_dense_one_has_none(tmp_path: Path) -> None:
    whole = {"sparsity": 0.0, "total_sparsity": 0.0, "nonzeros": 10}
    dense = make_run(tmp_path / "dense", stage="dense", result=whole, initial=INITIAL)
    sparse = make_run(tmp_path / "sparse", initial=INITIAL)
    for directory in (dense, sparse):
        (directory / "mask.safetensors").unlink()
    seal(dense)
    found = collect(tmp_path)
    assert [run.path for run in found.runs] == ["dense", "sparse"]
    (warning,) = told(found)
    assert warning.startswith("sparse ")
    assert "sparse/mask.safetensors" in warning


def keep_epochs(directory: Path, kept: slice) -> None:
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    (directory / "metrics.jsonl").write_text("\n".join(lines[kept]))
    seal(directory)


def test_a_finished_run_that_lost_some_of_its_epochs_is_named(tmp_path: Path) -> None:
    keep_epochs(make_run(tmp_path / "run", initial=INITIAL), slice(4))
    found = collect(tmp_path)
    assert [run.epochs_done for run in found.runs] == [4]
    (warning,) = told(found)
    assert re.search(r"^run .*6 epochs.*metrics\.jsonl.*4", warning)


@pytest.mark.parametrize(("stage", "kept"), [("lottery-rewind", slice(1, 6)), ("dense-until-10", slice(1))])
def test_a_round_that_is_a_part_of_the_training_is_whole(tmp_path: Path, stage: str, kept: slice) -> None:
    epochs = len(range(6)[kept])
    keep_epochs(make_run(tmp_path / "run", stage=stage, result={"epochs": epochs}), kept)
    found = collect(tmp_path)
    assert [run.epochs_done for run in found.runs] == [epochs]
    assert told(found) == []


def test_an_epoch_that_was_never_asked_for_leaves_the_run_out(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    with (directory / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 100000000, "accuracy": 90}\n')
    seal(directory)
    found = collect(tmp_path)
    assert found.runs == []
    (warning,) = told(found)
    assert re.search(r"^run .*run/metrics\.jsonl.*epoch 100000000.* 6 epochs", warning)


@pytest.mark.parametrize("other", [{"stage": "dense"}, {"seed": 99}, {"seed": None}])
def test_a_result_of_another_run_is_left_out(tmp_path: Path, other: dict[str, object]) -> None:
    make_run(tmp_path / "run", result=other)
    found = collect(tmp_path)
    assert found.runs == []
    (warning,) = told(found)
    assert re.search(r"^run .*run/result\.json.*asni-1 with seed 0", warning)


def test_the_weights_of_many_runs_are_counted_once_though_the_page_is_built_again_and_again(tmp_path: Path) -> None:
    run, many = make_run(tmp_path / "run", initial=INITIAL), tmp_path / "many"
    for number in range(300):
        shutil.copytree(run, many / str(number), copy_function=os.link)

    def counts() -> list[int]:
        return [each.cache_info().misses for each in (collecting._counted, collecting._counted_initial)]

    collect(many)
    before = counts()
    collect(many)
    assert counts() == before


def test_an_unfinished_run_shows_its_last_epoch_and_a_warning(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    (directory / "result.json").unlink()
    keep_epochs(directory, slice(2))
    found = collect(tmp_path)
    (run,) = found.runs
    assert not run.finished
    assert (run.result["accuracy"], run.result["nonzeros"], run.result["seconds"]) == (87.5, 9, 1.0)
    (warning,) = told(found)
    assert re.search(r"^run .*not finished.* 2 of 6 epochs", warning)


def test_nan_stays_nan(tmp_path: Path) -> None:
    make_run(tmp_path / "run", result={"accuracy": math.nan})
    assert math.isnan(collect(tmp_path).runs[0].result["accuracy"])


def test_a_result_without_one_of_its_numbers_is_left_out_not_completed(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    write(directory / "result.json", {"accuracy": 91.5, "seconds": 2.0})
    seal(directory)
    found = collect(tmp_path)
    assert found.runs == []
    assert "epochs, nonzeros, rounds, seed, sparsity, stage, steps, total_sparsity" in told(found)[0]


@pytest.mark.parametrize("release", ["9.9.0", "0.0", "", 9])
def test_a_run_of_another_version_is_named_and_left_out(tmp_path: Path, release: object) -> None:
    write(make_run(tmp_path / "run") / "environment.json", {"asni": release})
    seal(tmp_path / "run")
    found = collect(tmp_path)
    assert found.runs == []
    assert told(found)[0].startswith("run ")
    assert f"asni {release}, " in told(found)[0]


def test_a_run_of_an_unknown_version_is_shown_with_a_warning(tmp_path: Path) -> None:
    write(make_run(tmp_path / "run", initial=INITIAL) / "environment.json", {})
    seal(tmp_path / "run")
    found = collect(tmp_path)
    assert len(found.runs) == 1
    (warning,) = told(found)
    assert re.search(r"^run .*version of asni", warning)


def test_a_run_of_the_same_series_is_shown(tmp_path: Path) -> None:
    series = ".".join(version("asni").split(".")[:2])
    write(make_run(tmp_path / "run", initial=INITIAL) / "environment.json", {"asni": f"{series}.99"})
    seal(tmp_path / "run")
    found = collect(tmp_path)
    assert len(found.runs) == 1
    assert told(found) == []


def test_a_recipe_with_an_unknown_key_is_left_out(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    request = json.loads((directory / "request.json").read_text())
    write(directory / "request.json", {**request, "recipe": {**request["recipe"], "quantum": True}})
    seal(directory)
    found = collect(tmp_path)
    assert found.runs == []
    assert "quantum" in told(found)[-1]


def test_a_directory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"/nothing .*directory"):
        collect(tmp_path / "nothing")


@pytest.mark.parametrize("file", ["metrics.jsonl", "request.json"])
def test_a_file_of_another_unfinished_run_is_not_shown(tmp_path: Path, file: str) -> None:
    first, second = (make_run(tmp_path / name, seed=seed) for seed, name in enumerate(("first", "second")))
    for directory in (first, second):
        (directory / "result.json").unlink()
    shutil.copy(second / file, first / file)
    found = collect(tmp_path)
    assert [run.path for run in found.runs] == ["second"]
    assert re.search(r"^first .*metrics\.jsonl.*another run than the request\.json", told(found)[0])
