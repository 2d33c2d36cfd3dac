"""Rows of the paper's Table 2: which, how long, and what is set beside the paper's numbers."""

import json
from pathlib import Path
from typing import Any

import pytest

from asni.errors import AsniError, UsageError
from asni.methods import VARIANTS
from asni.recipes import load, names
from asni.runs.reading import RESULT
from asni.runs.run import Experiment
from asni.studies.reproduction import chosen_rows, table
from asni.studies.study import Study
from tests.runs.sealing import seal

RECIPE = load("mnist-fc")
OWN = """
dataset = "digits"
network = "fc"
[training]
epochs = 2
batch_size = 50
optimizer = "adam"
lr = 0.1
[pruning]
sparsity = 0.9
[paper]
dense = 90.0
"""


def test_the_default_is_all_of_mnist_and_cifar() -> None:
    assert chosen_rows([]) == [name for name in names() if name.startswith(("mnist", "cifar10"))]


def test_rows_come_in_the_order_asked_and_once() -> None:
    assert chosen_rows(["7", "1-2", "mnist-fc"]) == ["cifar10-conv6", "mnist-fc", "mnist-conv2"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("13", "row '13'.* 1 to 12"),
        ("0", "row '0'"),
        ("7-5", "row '7-5'"),
        ("11-13", "row '11-13'"),
        ("x", "row or recipe 'x'"),
        ("mnist-cf", "'mnist-cf'.*'mnist-fc'"),
        ("digits-fc", r"digits-fc.*\[paper\]"),
        ("none.toml", r"none\.toml"),
    ],
)
def test_what_is_no_row_is_refused(asked: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        chosen_rows(["1", asked])


def test_a_recipe_of_unknown_data_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN.replace("digits", "cifra10"))
    with pytest.raises(UsageError, match=r"'cifra10'.*'cifar10'"):
        chosen_rows([str(tmp_path / "own.toml")])


def finish(experiment: Experiment, accuracies: dict[str, float], **more: float) -> None:
    """As if these variants had been trained."""
    for variant, accuracy in accuracies.items():
        run = experiment.run(variant)
        run.directory.mkdir(parents=True)
        nonzeros = 266_610 if variant == "dense" else 8_330
        (run.directory / "request.json").write_text(json.dumps(run.request))
        made = {"stage": variant, "rounds": [variant], "accuracy": accuracy, "nonzeros": nonzeros, **more}
        (run.directory / "result.json").write_text(json.dumps({**dict.fromkeys(RESULT, 0), **made}))
        seal(run.directory)


def made(root: Path, seeds: int, **changes: int) -> Study:
    return Study({"mnist-fc": RECIPE.override(**changes)}, range(seeds), VARIANTS, "fp32", root)


def seeds(study: Study) -> list[Experiment]:
    return study.experiments("mnist-fc")


def lines(study: Study) -> dict[str, dict[str, Any]]:
    return {row["variant"]: dict(row) for row in table(study).rows}


def test_the_papers_numbers_stand_beside_ours(tmp_path: Path) -> None:
    study = made(tmp_path, 2)
    finish(seeds(study)[0], {"dense": 98.0, "asni-1": 96.0, "asni-2": 95.0, "original": 94.0})
    finish(seeds(study)[1], {"dense": 98.0, "asni-1": 98.0, "asni-2": 97.0, "original": 90.0})
    rows = lines(study)
    assert list(rows) == ["dense", "asni-1", "asni-2", "original"]
    asni = rows["asni-1"]
    assert (asni["row"], asni["recipe"], asni["paper_accuracy"], asni["accuracy"]) == (1, "mnist-fc", 96.72, 97.0)
    assert asni["difference"] == pytest.approx(0.28)
    assert asni["spread"] == pytest.approx(2**0.5)
    assert (asni["seeds"], asni["nonzeros"], asni["paper_nonzeros"]) == (2, 8_330, 8_335)
    assert asni["accuracies"] == [96.0, 98.0]
    assert (asni["shortened"], asni["trained_for"]) == (False, "50")
    assert (rows["dense"]["nonzeros"], rows["dense"]["paper_nonzeros"]) == (266_610, 266_610)
    assert [rows[variant]["paper_accuracy"] for variant in VARIANTS] == [96.88, 96.72, 96.93, 96.75]


def test_a_shortened_row_is_marked_in_data_and_on_the_page(tmp_path: Path) -> None:
    study = made(tmp_path, 1, epochs=10)
    finish(seeds(study)[0], dict.fromkeys(VARIANTS, 90.0))
    shown = table(study)
    assert {(row["shortened"], row["epochs"], row["paper_epochs"]) for row in shown.rows} == {(True, 10, 50)}
    assert {cells[-1] for cells in shown.cells} == {"shortened (10 of 50)"}


def test_epochs_of_fewer_steps_are_a_shortened_row_too(tmp_path: Path) -> None:
    shown = table(made(tmp_path, 1, epochs=50, steps_per_epoch=100))
    assert {(row["shortened"], row["steps_per_epoch"], row["paper_steps_per_epoch"]) for row in shown.rows} == {
        (True, 100, 1_000)
    }
    assert {cells[-1] for cells in shown.cells} == {"shortened (50 of 50, 100 of 1,000 steps each)"}


def test_more_steps_than_the_papers_are_a_lengthened_row_in_fewer_epochs_too(tmp_path: Path) -> None:
    shown = table(made(tmp_path, 1, epochs=26, steps_per_epoch=2_000))
    assert {row["shortened"] for row in shown.rows} == {False}
    assert {cells[-1] for cells in shown.cells} == {"lengthened (26 of 50, 2,000 of 1,000 steps each)"}


def test_only_seeds_with_all_four_variants_count_so_that_means_stay_paired(tmp_path: Path) -> None:
    study = made(tmp_path, 2)
    finish(seeds(study)[0], dict.fromkeys(VARIANTS, 90.0))
    finish(seeds(study)[1], {"dense": 10.0})
    assert {(row["seeds"], row["accuracy"], row["spread"]) for row in lines(study).values()} == {(1, 90.0, None)}


def test_a_row_without_a_finished_seed_has_no_numbers_of_its_own(tmp_path: Path) -> None:
    shown = table(made(tmp_path, 1))
    assert shown.cells[1] == ["1", "mnist-fc", "asni-1", "96.72", "-", "-", "-", "0", "8,335", "-", "-", "50"]


def test_multiplications_are_averaged_and_unknown_where_a_run_was_recorded_without_them(tmp_path: Path) -> None:
    known, unknown = made(tmp_path / "known", 2), made(tmp_path / "unknown", 2)
    for study in (known, unknown):
        finish(seeds(study)[0], dict.fromkeys(VARIANTS, 90.0), mac_density=0.02)
    finish(seeds(known)[1], dict.fromkeys(VARIANTS, 90.0), mac_density=0.04)
    finish(seeds(unknown)[1], dict.fromkeys(VARIANTS, 90.0))
    shown = [table(study) for study in (known, unknown)]
    column = shown[0].headings.index("MACs %")
    assert [{cells[column] for cells in each.cells} for each in shown] == [{"3.00"}, {"-"}]
    assert {row["mac_density"] for row in shown[0].rows} == {0.03}


def test_runs_are_in_the_directories_of_investigate(tmp_path: Path) -> None:
    [_, second] = made(tmp_path, 2, epochs=10).experiments("mnist-fc")
    assert second.run("asni-2").directory == tmp_path / "mnist-fc--epochs-10" / "seed-1" / "asni-2"


def test_a_result_without_its_numbers_is_named(tmp_path: Path) -> None:
    study = made(tmp_path, 1)
    finish(seeds(study)[0], dict.fromkeys(VARIANTS, 90.0))
    (seeds(study)[0].run("asni-1").directory / "result.json").write_text("{}")
    seal(seeds(study)[0].run("asni-1").directory)
    with pytest.raises(AsniError, match=r"asni-1/result\.json: accuracy, epochs, .* missing"):
        table(study)


@pytest.mark.parametrize("damage", ["null", '"oops"', "true", "NaN", "Infinity"])
def test_a_damaged_number_is_named_before_anything_is_trained_and_never_shown(tmp_path: Path, damage: str) -> None:
    study = made(tmp_path, 1)
    finish(seeds(study)[0], {"dense": 90.0, "asni-1": 12.25})
    path = seeds(study)[0].run("asni-1").directory / "result.json"
    path.write_text(path.read_text().replace("12.25", damage))
    seal(path.parent)
    with pytest.raises(AsniError, match=r"asni-1/result\.json: accuracy "):
        study.missing()
    with pytest.raises(AsniError, match=r"asni-1/result\.json: accuracy "):
        table(study)
