import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from asni.errors import AsniError, StoppedError, UsageError
from asni.files import read_checkpoint, write_checkpoint, write_json
from asni.methods import METHODS, VARIANTS
from asni.runs.checksums import digest, sealed
from asni.runs.run import Run
from asni.studies.plan import plan
from asni.training.progress import Progress
from tests.runs.sealing import change, seal
from tests.training.training_setup import StopAfter, diverging_in_step, experiment, short_digits, trainer


def looks_at_values(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """A network that is made of numbers it computes, as drop-path rates often are."""
    rates = [float(rate) for rate in torch.linspace(0, 0.5, 2)]
    return nn.Sequential(nn.Flatten(), nn.Dropout(rates[1]), nn.Linear(shape[1] * shape[2], classes))


def test_a_network_that_looks_at_values_can_be_planned() -> None:
    recipe = short_digits().model_copy(update={"network": f"{__name__}:looks_at_values"})
    assert plan(recipe)["prunable"] == 640


def equal(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.fixture(scope="module")
def investigation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("investigation")
    for method in VARIANTS:
        METHODS[method].train(trainer(root))
    return root


@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_a_training_ends_with_the_nonzeros_of_its_plan(tmp_path: Path, epochs: int) -> None:
    recipe = short_digits(epochs)
    run = METHODS["asni-1"].train(trainer(tmp_path, recipe))
    assert run.result["nonzeros"] == plan(recipe)["nonzeros"] == 2920
    assert sum(int(mask.sum()) for mask in run.masks.values()) == 2920 - 410
    assert all((run.weights[name][~mask] == 0).all() for name, mask in run.masks.items())


def test_the_metrics_follow_the_planned_schedule(investigation: Path) -> None:
    lines = (experiment(investigation).home / "asni-1" / "metrics.jsonl").read_text().splitlines()
    planned = [entry["nonzeros"] for entry in plan(short_digits())["schedule"]]
    assert [json.loads(line)["nonzeros"] for line in lines] == planned


def test_a_training_leaves_out_the_prunings_that_its_plan_leaves_out(tmp_path: Path) -> None:
    recipe = short_digits(8).override(least=0.05)
    run = METHODS["asni-1"].train(trainer(tmp_path, recipe))
    lines = (run.directory / "metrics.jsonl").read_text().splitlines()
    trained = [json.loads(line)["nonzeros"] for line in lines]
    assert trained == [entry["nonzeros"] for entry in plan(recipe)["schedule"]]
    assert trained[0] == 50_610 > trained[-1] == 2_920


def test_one_seed_gives_all_variants_the_same_start(investigation: Path) -> None:
    dense, sparse, control = (experiment(investigation).run(stage) for stage in ("dense", "asni-1", "original"))
    assert equal(dense.initial, sparse.initial)
    assert equal(sparse.initial, control.initial)


def test_another_seed_gives_another_start(tmp_path: Path, investigation: Path) -> None:
    other = METHODS["dense"].train(trainer(tmp_path, short_digits(1), seed=1))
    assert not equal(other.initial, experiment(investigation).run("dense").initial)


def test_asni_2_starts_from_two_numbers_a_layer_under_the_mask_of_asni_1(investigation: Path) -> None:
    sparse, amenable = (experiment(investigation).run(stage) for stage in ("asni-1", "asni-2"))
    centroids = json.loads((amenable.directory / "centroids.json").read_text())
    assert equal(amenable.masks, sparse.masks)
    for name, mask in sparse.masks.items():
        learned, start = sparse.weights[name], amenable.initial[name]
        assert set(start[mask].tolist()) == set(centroids[name].values())
        assert centroids[name]["positive"] == pytest.approx(learned[learned > 0].mean().item(), rel=1e-5)
        assert torch.equal(start.sign(), learned.sign())
    assert not amenable.initial["linear1.bias"].any()


def test_the_control_trains_the_same_mask(investigation: Path) -> None:
    sparse, control = (experiment(investigation).run(stage) for stage in ("asni-1", "original"))
    assert equal(control.masks, sparse.masks)
    assert all((control.weights[name][~mask] == 0).all() for name, mask in sparse.masks.items())


def test_a_run_records_what_made_it(investigation: Path) -> None:
    directory = experiment(investigation).home / "asni-1"
    assert json.loads((directory / "request.json").read_text())["recipe"]["training"]["epochs"] == 4
    recorded = json.loads((directory / "environment.json").read_text())
    assert (recorded["torch"], recorded["threads"]) == (torch.__version__, 1)
    assert not list(directory.glob("checkpoint*"))


def test_finished_work_is_not_done_again(investigation: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in investigation.rglob("*.safetensors")}
    console = Console(record=True, quiet=True)
    METHODS["asni-2"].train(trainer(investigation, progress=Progress(console)))
    assert {path: path.stat().st_mtime_ns for path in investigation.rglob("*.safetensors")} == before


def test_a_directory_with_another_request_is_refused_by_the_difference(investigation: Path) -> None:
    other = short_digits().model_copy(update={"title": "another"})
    with pytest.raises(AsniError, match=r"recipe\.title .*'another'"):
        METHODS["dense"].train(trainer(investigation, other))


def test_a_request_of_an_earlier_version_gets_the_defaults_of_what_it_does_not_say(
    investigation: Path, tmp_path: Path
) -> None:
    path = experiment(investigation).run("dense").directory / "request.json"
    request = json.loads(path.read_text())
    earlier = tmp_path / "dense"
    shutil.copytree(path.parent, earlier)
    # Without `every` it would be a training with one pruning an epoch, which is another one.
    pruning = {"sparsity": 0.95, "beta": 0.5, "every": None}
    change(earlier / "request.json", {"recipe": {**request["recipe"], "pruning": pruning}})
    seal(earlier)
    assert Run(earlier, experiment(investigation).run("dense", settings={}).request).finished


def test_a_second_process_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    run = experiment(tmp_path).run("dense")
    with run.locked(), pytest.raises(AsniError, match=f"another process .*{run.directory}"):
        METHODS["dense"].train(trainer(tmp_path))


def test_a_finished_run_is_used_while_another_process_holds_it_or_the_disk_cannot_be_written(
    investigation: Path,
) -> None:
    run = experiment(investigation).run("dense")
    with run.locked():
        assert METHODS["dense"].train(trainer(investigation)).result == run.result


@pytest.mark.parametrize(
    "foreign",
    [
        {"from": "somewhere else"},
        {"metrics": [], "model": {}, "optimizer": {}, "precision": {}, "pruner": {}},
        {"metrics": 1, "model": 2, "optimizer": 3, "precision": 4, "pruner": 5},
    ],
)
def test_a_checkpoint_of_something_else_is_named(tmp_path: Path, foreign: dict[str, Any]) -> None:
    with pytest.raises(StoppedError):
        METHODS["asni-1"].train(trainer(tmp_path, progress=StopAfter(40)))
    directory = experiment(tmp_path).run("asni-1").directory
    ours = {"files": {"request.json": digest(directory / "request.json")}}
    write_checkpoint(directory / "checkpoint-1.pt", {**ours, **foreign})
    with pytest.raises(AsniError, match=r"asni-1 .*does not match"):
        METHODS["asni-1"].train(trainer(tmp_path))


def test_a_result_of_something_else_is_named(tmp_path: Path) -> None:
    run = METHODS["dense"].train(trainer(tmp_path, short_digits(1)))
    write_json(run.directory / "result.json", sealed({"accuracy": 100.0}))
    with pytest.raises(AsniError, match=r"result\.json: epochs, nonzeros, .* missing"):
        _ = run.result


@pytest.mark.parametrize("step", [1, 30, 31, 75, 120])
def test_ctrl_c_keeps_the_work_and_says_how_to_resume(tmp_path: Path, investigation: Path, step: int) -> None:
    epoch = (step - 1) // 30 + 1
    with pytest.raises(StoppedError, match=rf"epoch {epoch} of 4 .*resume in epoch {epoch}\b"):
        METHODS["asni-1"].train(trainer(tmp_path, progress=StopAfter(step)))
    resumed = METHODS["asni-1"].train(trainer(tmp_path))
    undisturbed = experiment(investigation).run("asni-1")
    assert equal(resumed.weights, undisturbed.weights)
    assert equal(resumed.masks, undisturbed.masks)
    assert [_without_seconds(line) for line in _metrics(resumed.directory)] == [
        _without_seconds(line) for line in _metrics(undisturbed.directory)
    ]


def _metrics(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def _without_seconds(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in ("seconds", "checksum")}


def test_a_loss_that_turns_nan_names_epoch_and_step_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(AsniError, match=r"loss of broken is nan in epoch 2, step 11\. .*checkpoint .*/broken"):
        trainer(tmp_path).train("broken", diverging_in_step(40))
    [path] = experiment(tmp_path).run("broken").directory.glob("checkpoint*")
    checkpoint = read_checkpoint(path)
    assert len(checkpoint["metrics"]) == 1
    assert all(torch.isfinite(value).all() for value in checkpoint["model"].values())
    assert not (experiment(tmp_path).home / "broken" / "result.json").exists()


def test_nan_weights_at_a_pruning_are_reported_as_a_loss_too(tmp_path: Path) -> None:
    recipe = short_digits().override(lr=1e30, prune_every=30)
    with pytest.raises(AsniError, match=r"loss of asni-1 is (nan|inf) in epoch 1, step \d+\. .*--lr"):
        METHODS["asni-1"].train(trainer(tmp_path, recipe))


def test_a_batch_larger_than_the_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"batch_size = 1501 .*1500"):
        trainer(tmp_path, short_digits().override(batch_size=1501))


def test_a_sparsity_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"0\.999999 .*50,200"):
        METHODS["str"].train(trainer(tmp_path, short_digits().override(sparsity=0.999999)))
