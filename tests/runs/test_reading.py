import json
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from asni.errors import AsniError
from asni.recipes import Recipe, load
from asni.runs import reading
from asni.runs.run import Run
from tests.runs.sealing import seal, sealed_line, sealed_metrics

ONE = np.ones((2, 2), np.float32)


FINISHED = {
    **{"stage": "dense", "rounds": ["dense"], "seed": 0, "epochs": 2, "steps": 8, "accuracy": 90.5, "nonzeros": 100},
    **{"sparsity": 0, "total_sparsity": 0.0, "seconds": 1.5},
}


def write_result(run: Path, **changes: object) -> None:
    (run / "result.json").write_text(json.dumps({**FINISHED, **changes}))
    seal(run)


def write_metrics(run: Path, *lines: str) -> None:
    (run / "request.json").write_text(sealed_line({"seed": 0}))
    (run / "metrics.jsonl").write_text("".join(f"{_sealed(run, line)}\n" for line in lines))


def _sealed(run: Path, line: str) -> str:
    try:
        return sealed_metrics(run, json.loads(line))
    except (ValueError, RecursionError, AttributeError):
        return line


def test_weights_are_those_of_convolutions_and_linear_layers_in_network_order(tmp_path: Path) -> None:
    convolution = np.ones((1, 1, 3, 3), np.float32)
    names = ["layer1.10.conv1", "layer1.2.conv1", "conv1", "layer1.2.downsample.0"]
    tensors = {f"{name}.weight": convolution for name in names} | {"fc.weight": ONE, "classifier.weight": ONE}
    others = {"bn1.weight": np.ones(3, np.float32), "fc.bias": np.ones(2, np.float32), "bn1.steps": np.array(3)}
    save_file(tensors | others, tmp_path / "weights.safetensors")
    assert [name.removesuffix(".weight") for name in reading.weights(tmp_path)] == [
        "conv1",
        "layer1.2.conv1",
        "layer1.2.downsample.0",
        "layer1.10.conv1",
        "classifier",
        "fc",
    ]


def test_the_masks_say_which_weights_are_prunable(tmp_path: Path) -> None:
    save_file({"fc.weight": ONE, "embedding.weight": ONE}, tmp_path / "weights.safetensors")
    assert list(reading.masked_weights(tmp_path)[0]) == ["embedding.weight", "fc.weight"]
    save_file({"fc.weight": ONE > 0}, tmp_path / "mask.safetensors")
    assert list(reading.masked_weights(tmp_path)[0]) == ["fc.weight"]


@pytest.mark.parametrize("content", [None, b"", b"\xff" * 100, b'\x08\0\0\0\0\0\0\0{"a":1}}'])
def test_weights_that_cannot_be_read_are_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "weights.safetensors").write_bytes(content)
    with pytest.raises(AsniError, match=r"weights\.safetensors"):
        reading.weights(tmp_path)


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "initial.safetensors"
    save_file({"fc.weight": ONE}, path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(AsniError, match=r"initial\.safetensors"):
        reading.weights(tmp_path, "initial.safetensors")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308, -1e39])
def test_a_weight_that_is_no_finite_float32_is_refused_by_layer(tmp_path: Path, bad: float) -> None:
    save_file({"fc.weight": np.array([[1, bad]], np.float64)}, tmp_path / "weights.safetensors")
    with pytest.raises(AsniError, match=r"weights\.safetensors: layer fc\.weight"):
        reading.weights(tmp_path)


def test_the_largest_float32_is_a_weight(tmp_path: Path) -> None:
    largest = np.finfo(np.float32).max
    save_file({"fc.weight": np.array([[-largest, largest]], np.float64)}, tmp_path / "weights.safetensors")
    assert reading.weights(tmp_path)["fc.weight"].tolist() == [[-largest, largest]]


def test_a_file_without_layers_is_refused(tmp_path: Path) -> None:
    save_file({"fc.bias": np.ones(2, np.float32)}, tmp_path / "weights.safetensors")
    with pytest.raises(AsniError, match="no weights"):
        reading.weights(tmp_path)


@pytest.mark.parametrize("mask", [{"fc.weight": np.ones((2, 3), bool)}, {"other.weight": ONE > 0}, {"fc.weight": ONE}])
def test_masks_that_do_not_fit_are_named(tmp_path: Path, mask: dict[str, np.ndarray]) -> None:
    save_file({"fc.weight": ONE}, tmp_path / "weights.safetensors")
    save_file(mask, tmp_path / "mask.safetensors")
    with pytest.raises(AsniError, match=r"mask\.safetensors: .*(fc|other)\.weight"):
        reading.masked_weights(tmp_path)


def test_metrics_are_columns_and_what_is_no_number_is_nan(tmp_path: Path) -> None:
    write_metrics(
        tmp_path,
        json.dumps({"epoch": 0, "accuracy": 90.5, "loss": 1}),
        '{"epoch": 1, "accuracy": NaN, "loss": Infinity}',
        '{"epoch": 2, "accuracy": null, "extra": 7}',
        '{"epoch": 3, "accuracy": 1' + "0" * 400 + "}",
    )
    found = reading.metrics(tmp_path)
    np.testing.assert_equal(found["epoch"], [0, 1, 2, 3])
    np.testing.assert_equal(found["accuracy"], [90.5, np.nan, np.nan, np.nan])
    np.testing.assert_equal(found["loss"], [1, np.nan, np.nan, np.nan])
    np.testing.assert_equal(found["extra"], [np.nan, np.nan, 7, np.nan])
    assert np.isnan(found["sparsity"]).all()


def test_metrics_are_floats_even_where_all_of_a_column_is_whole(tmp_path: Path) -> None:
    write_metrics(tmp_path, '{"epoch": 3, "nonzeros": 100}', '{"epoch": 7, "nonzeros": 100}')
    assert {column.dtype for column in reading.metrics(tmp_path).values()} == {np.dtype(np.float64)}


@pytest.mark.parametrize("epoch", ["-1", "0", "1", "1.5", "null", "NaN", "1e999", "1" + 400 * "0"])
def test_an_epoch_that_does_not_come_after_the_one_before_is_refused(tmp_path: Path, epoch: str) -> None:
    write_metrics(tmp_path, '{"epoch": 1}', f'{{"epoch": {epoch}}}')
    with pytest.raises(AsniError, match=r"metrics\.jsonl, line 2: .*epoch is .*\b2$"):
        reading.metrics(tmp_path)


def test_a_training_has_no_epoch_before_the_first(tmp_path: Path) -> None:
    write_metrics(tmp_path, '{"epoch": -1}')
    with pytest.raises(AsniError, match=r"line 1: .*epoch is -1.*\b0$"):
        reading.metrics(tmp_path)


@pytest.mark.parametrize(
    "line",
    ['{"epoch": 1, "accu', "[1]", '{"accuracy": 3}', '{"epoch": 1, "loss": "low"}', '{"epoch": true}', "[" * 100_000],
)
def test_a_damaged_line_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    write_metrics(tmp_path, '{"epoch": 0}', line)
    with pytest.raises(AsniError, match=r"metrics\.jsonl, line 2"):
        reading.metrics(tmp_path)


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\xfa"])
def test_metrics_that_cannot_be_read_are_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "metrics.jsonl").write_bytes(content)
    with pytest.raises(AsniError, match=r"metrics\.jsonl"):
        reading.metrics(tmp_path)


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_result(tmp_path, note="mine")
    found = reading.result(tmp_path)
    assert found == {**FINISHED, "note": "mine", "mac_density": None}
    assert [type(found[key]) for key in ("nonzeros", "steps", "accuracy")] == [int, int, float]


@pytest.mark.parametrize("value", [None, math.nan, math.inf, 10**400])
def test_a_number_of_a_result_that_is_null_or_not_finite_is_nan(tmp_path: Path, value: float | None) -> None:
    write_result(tmp_path, accuracy=value)
    assert math.isnan(reading.result(tmp_path)["accuracy"])


def test_multiplications_that_a_run_did_not_record_are_none_and_damaged_ones_are_named(tmp_path: Path) -> None:
    write_result(tmp_path, mac_density=None)
    assert reading.finite_result(tmp_path)["mac_density"] is None
    write_result(tmp_path, mac_density=0.25)
    assert reading.finite_result(tmp_path)["mac_density"] == 0.25
    for damaged in (math.nan, "much"):
        write_result(tmp_path, mac_density=damaged)
        with pytest.raises(AsniError, match=r"result\.json: mac_density "):
            reading.finite_result(tmp_path)


def request(run: Path, recipe: Recipe, *, is_earlier: bool) -> None:
    asked = recipe.model_dump()
    if is_earlier:
        del asked["pruning"]["every"]
    (run / "request.json").write_text(sealed_line({"recipe": asked, "method": "asni-1", "stage": "asni-1", "seed": 0}))


@pytest.mark.parametrize("epochs", [10, 30])
def test_a_run_from_before_every_was_a_setting_was_pruned_once_an_epoch(tmp_path: Path, epochs: int) -> None:
    recipe = load("digits-fc").override(epochs=epochs)
    request(tmp_path, recipe, is_earlier=True)
    assert reading.recipe(tmp_path).pruning.every == "epoch"
    request(tmp_path, recipe, is_earlier=False)
    assert reading.recipe(tmp_path).pruning.every is None


@pytest.mark.parametrize(
    ("name", "epochs", "is_same"), [("digits-fc", 10, False), ("digits-fc", 30, True), ("mnist-fc", 10, True)]
)
def test_an_earlier_run_is_the_same_where_it_is_pruned_alike(
    tmp_path: Path, name: str, epochs: int, is_same: bool
) -> None:
    recipe = load(name).override(epochs=epochs)
    asked = {"recipe": recipe.model_dump(), "method": "asni-1", "stage": "asni-1", "seed": 0}
    request(tmp_path, recipe, is_earlier=True)
    if is_same:
        assert not Run(tmp_path, asked).finished
    else:
        with pytest.raises(
            AsniError, match=r"a different run: recipe\.pruning\.every is 'epoch' on disk, None requested"
        ):
            _ = Run(tmp_path, asked).finished


def test_the_steps_of_an_epoch_follow_from_the_recipe_and_its_data() -> None:
    recipe = load("digits-fc")
    own = recipe.model_copy(update={"dataset": "./flowers"})
    assert reading.steps_per_epoch(recipe, None) == 30
    assert reading.steps_per_epoch(recipe.override(steps_per_epoch=7), None) == 7
    assert reading.steps_per_epoch(own, {"train": 120}) == 3
    assert [reading.steps_per_epoch(own, data) for data in (None, {"train": "120"}, {"train": 20})] == [None] * 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"accuracy": "oops"}, "accuracy is 'oops'"),
        ({"nonzeros": True}, "nonzeros is True"),
        ({"stage": 3}, "stage is 3"),
    ],
)
def test_a_value_of_a_result_that_is_something_else_is_named(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    write_result(tmp_path, **change)
    with pytest.raises(AsniError, match=rf"result\.json: {said}"):
        reading.result(tmp_path)
