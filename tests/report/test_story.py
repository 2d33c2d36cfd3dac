"""The sentence and the tiles at the head of a recipe say what its runs show, and no more."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asni import pack
from asni.recipes import load
from asni.report import collect, page
from asni.report.differences import difference
from tests.report.made_runs import make_run
from tests.report.test_building import data_of
from tests.runs.sealing import seal

PAPER = load("mnist-fc")
SPARSE = {"nonzeros": 8335, "sparsity": 258_275 / 266_200, "total_sparsity": 258_275 / 266_610}
DENSE = {"nonzeros": 266_610, "sparsity": 0.0, "total_sparsity": 0.0}


def run(root: Path, stage: str, accuracy: float = 97.5, seed: int = 0, **more: Any) -> Path:
    sizes = DENSE if stage == "dense" else SPARSE
    result = {**sizes, **more.pop("result", {})}
    name = f"{stage}-{seed}-{more.get('precision', '')}"
    made = {"asked": PAPER, "stage": stage, "accuracy": accuracy, "seed": seed, "result": result}
    return make_run(root / name, **{**made, **more})


def unfinished(directory: Path, epochs: int) -> None:
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    (directory / "result.json").unlink()
    (directory / "metrics.jsonl").write_text("\n".join(lines[:epochs]))
    seal(directory)


def in_bf16(directory: Path) -> None:
    request = json.loads((directory / "request.json").read_text())
    (directory / "request.json").write_text(json.dumps({**request, "precision": "bf16"}))
    seal(directory)


def story(root: Path) -> Any:
    (group,) = data_of(page(collect(root)))["groups"]
    return group["story"]


def sentence(root: Path) -> str:
    return str(story(root)["sentence"])


def tiles(root: Path) -> dict[str, tuple[str, str]]:
    return {tile["label"]: (tile["value"], tile["note"]) for tile in story(root)["tiles"]}


def test_a_sparse_network_is_compared_with_the_dense_one_and_trains_again(tmp_path: Path) -> None:
    run(tmp_path, "dense", 97.8)
    run(tmp_path, "asni-1", 97.5)
    run(tmp_path, "asni-2", 97.4)
    assert sentence(tmp_path) == "32 times fewer weights, 0.3 points lower; trains again from 2 numbers."
    assert story(tmp_path)["about"].startswith("ASNI-I against dense, seed 0. ASNI-II, which starts from at most two")
    assert story(tmp_path)["about"].endswith("reaches 97.40 %.")
    shown = tiles(tmp_path)
    assert shown["weights left"] == ("8,335", "of 266,610, 3.1 %")
    assert shown["points against dense"] == ("\N{MINUS SIGN}0.30", "97.50 % instead of 97.80 %")


def test_the_multiplications_that_are_left_are_told_if_every_seed_knows_them(tmp_path: Path) -> None:
    for seed, share in enumerate((0.02, 0.04)):
        run(tmp_path, "asni-1", seed=seed, result={"mac_density": share})
    assert tiles(tmp_path)["weights left"][1] == "of 266,610, 3.1 %; 3.0 % of the multiplications"
    run(tmp_path, "asni-1", seed=2)
    assert tiles(tmp_path)["weights left"][1] == "of 266,610, 3.1 %"


def test_a_training_that_falls_short_says_where_it_ends(tmp_path: Path) -> None:
    run(tmp_path, "asni-1", 97.5)
    run(tmp_path, "asni-2", 60.0)
    assert sentence(tmp_path) == "32 times fewer weights, 97.5 % accurate; trains again from 2 numbers to 60.0 %."


def test_the_numbers_to_start_from_are_known_without_the_weights_too(tmp_path: Path) -> None:
    run(tmp_path, "asni-1")
    directory = run(tmp_path, "asni-2")
    pair = {"positive": 0.5, "negative": -0.5}
    none = {"positive": 0.5, "negative": None}
    (directory / "centroids.json").write_text(json.dumps({"a.weight": pair, "b.weight": pair, "c.weight": none}))
    seal(directory)
    for file in ("weights.safetensors", "mask.safetensors"):
        (directory / file).unlink()
    assert sentence(tmp_path).endswith("; trains again from 5 numbers.")


@pytest.mark.parametrize("centroids", [None, "[]", '{"a": 1}', "{"])
def test_numbers_that_are_not_known_are_not_told(tmp_path: Path, centroids: str | None) -> None:
    run(tmp_path, "asni-1")
    directory = run(tmp_path, "asni-2")
    if centroids is not None:
        (directory / "centroids.json").write_text(centroids)
    seal(directory)
    for file in ("weights.safetensors", "mask.safetensors"):
        (directory / file).unlink()
    assert sentence(tmp_path) == "32 times fewer weights, 97.5 % accurate."


@pytest.mark.parametrize("result", [{"accuracy": 10.0}, {"accuracy": math.nan}])
def test_an_initialisation_that_does_not_train_is_not_praised(tmp_path: Path, result: dict[str, float]) -> None:
    run(tmp_path, "asni-1")
    run(tmp_path, "asni-2", result=result)
    assert sentence(tmp_path) == "32 times fewer weights, 97.5 % accurate."


@pytest.mark.parametrize(
    ("dense", "words"),
    [(97.3, "0.2 points higher"), (97.54, "0.04 points lower"), (97.5, "the same accuracy")],
)
def test_the_difference_in_words(tmp_path: Path, dense: float, words: str) -> None:
    run(tmp_path, "dense", dense)
    run(tmp_path, "asni-1", 97.5)
    assert sentence(tmp_path) == f"32 times fewer weights, {words}."


@pytest.mark.parametrize(
    ("sparse", "words", "value"),
    [
        ((97.0, 97.1, 97.2), "0.9 points lower", "\N{MINUS SIGN}0.90 ± 0.00"),
        ((97.6, 98.3, 98.0), "no measurable difference in accuracy", "\N{MINUS SIGN}0.03 ± 0.18"),
        ((97.9, 98.2, 98.2), "no measurable difference in accuracy", "+0.10 ± 0.06"),
        ((96.9, 96.9, 96.0), "about 1.4 points lower (not certain from 3 seeds)", "\N{MINUS SIGN}1.40 ± 0.35"),
        ((97.9, 98.0, 50.1), "about 16 points lower (not certain from 3 seeds)", "\N{MINUS SIGN}16.00 ± 16.00"),
    ],
)
def test_seeds_are_compared_one_by_one_and_noise_is_no_difference(
    tmp_path: Path, sparse: tuple[float, ...], words: str, value: str
) -> None:
    for seed, accuracy in enumerate((97.9, 98.0, 98.1)):
        run(tmp_path, "dense", accuracy, seed)
        run(tmp_path, "asni-1", sparse[seed], seed)
    assert sentence(tmp_path) == f"32 times fewer weights, {words}."
    assert story(tmp_path)["about"] == "ASNI-I against dense, mean of 3 seeds."
    shown, note = tiles(tmp_path)["points against dense"]
    assert shown == value
    assert note.endswith(" % instead of 98.00 % (± standard error, 3 seeds)")


def test_five_seeds_show_a_small_difference_that_all_of_them_have(tmp_path: Path) -> None:
    for seed, lost in enumerate((0.1, 0.2, 0.3, 0.3, 0.4)):
        run(tmp_path, "dense", 97.0, seed)
        run(tmp_path, "asni-1", 97.0 - lost, seed)
    assert sentence(tmp_path) == "32 times fewer weights, 0.3 points lower."


def test_more_seeds_than_the_table_of_quantiles_holds_are_compared(tmp_path: Path) -> None:
    by_seed = {seed: 90.0 + seed % 2 for seed in range(40)}
    assert str(difference(by_seed, dict.fromkeys(by_seed, 90.0))) == "0.5 points higher"
    assert str(difference(by_seed, dict.fromkeys(by_seed, 90.4))) == "no measurable difference in accuracy"


def test_without_dense_the_spread_over_seeds_says_what_it_is(tmp_path: Path) -> None:
    for seed, accuracy in enumerate((97.0, 97.5, 98.0)):
        run(tmp_path, "asni-1", accuracy, seed)
    assert tiles(tmp_path)["test accuracy"] == ("97.50 %", "± 0.50 standard deviation over 3 seeds")


def test_a_difference_that_rounds_to_zero_has_no_sign(tmp_path: Path) -> None:
    run(tmp_path, "dense", 97.503)
    run(tmp_path, "asni-1", 97.5)
    assert tiles(tmp_path)["points against dense"][0] == "0.00"


@pytest.mark.parametrize(
    ("accuracies", "why"),
    [
        ((10.0, 10.0, 10.0), "dense is at chance with 3 of 3 seeds: no comparison."),
        ((97.8, 10.0, 97.8), "dense is at chance with 1 of 3 seeds: no comparison."),
        ((97.8, math.nan, 97.8), "dense diverged with 1 of 3 seeds: no comparison."),
        ((10.0,), "dense is at chance: no comparison."),
    ],
)
def test_nothing_is_compared_with_a_dense_network_that_failed(
    tmp_path: Path, accuracies: tuple[float, ...], why: str
) -> None:
    for seed, accuracy in enumerate(accuracies):
        run(tmp_path, "dense", seed=seed, result={"accuracy": accuracy})
        run(tmp_path, "asni-1", seed=seed)
    assert sentence(tmp_path) == "32 times fewer weights, 97.5 % accurate."
    assert story(tmp_path)["caveats"] == [why]
    assert "against" not in story(tmp_path)["about"]
    assert "points against dense" not in tiles(tmp_path)


def test_a_network_at_chance_does_not_train_again_and_is_told_once(tmp_path: Path) -> None:
    for seed in range(3):
        run(tmp_path, "asni-1", 10.0, seed)
        run(tmp_path, "asni-2", 97.0, seed)
    assert sentence(tmp_path) == "ASNI-I is at chance: 10.0 %."
    assert story(tmp_path)["caveats"] == []
    assert story(tmp_path)["about"] == "ASNI-I, mean of 3 seeds."


def test_one_number_is_not_two_for_each_layer(tmp_path: Path) -> None:
    run(tmp_path, "asni-1")
    directory = run(tmp_path, "asni-2")
    (directory / "centroids.json").write_text(json.dumps({"a.weight": {"positive": 0.5, "negative": None}}))
    seal(directory)
    assert sentence(tmp_path).endswith("; trains again from 1 number.")
    assert "ASNI-II, which starts from one number, the mask and the signs, reaches" in story(tmp_path)["about"]


def test_counts_that_are_not_known_are_left_out(tmp_path: Path) -> None:
    run(tmp_path, "asni-1", result=dict.fromkeys(DENSE, math.nan))
    assert sentence(tmp_path) == "ASNI-I: 97.5 % accurate."


def test_a_little_less_is_a_percentage(tmp_path: Path) -> None:
    run(tmp_path, "asni-1", result={"nonzeros": 95, "sparsity": 0.06, "total_sparsity": 0.05})
    assert sentence(tmp_path) == "5 % fewer weights, 97.5 % accurate."


def test_networks_of_one_precision_are_compared_and_another_is_named(tmp_path: Path) -> None:
    run(tmp_path / "one", "dense", 97.8)
    for seed in (0, 1):
        in_bf16(run(tmp_path / "one" / "bf16", "asni-1", 97.0, seed))
    assert story(tmp_path / "one")["about"] == "ASNI-I (bf16) against dense (fp32), seed 0."
    run(tmp_path / "one", "asni-1", 97.5)
    assert story(tmp_path / "one")["about"] == "ASNI-I against dense, seed 0."


def test_different_seeds_are_said_to_be_different(tmp_path: Path) -> None:
    run(tmp_path, "dense", 97.8, seed=1)
    run(tmp_path, "asni-1", 97.5, seed=2)
    assert story(tmp_path)["about"] == "ASNI-I against dense, seed 2; dense has different seeds."


def test_only_seeds_that_both_have_are_compared(tmp_path: Path) -> None:
    run(tmp_path, "dense", 97.8, seed=1)
    run(tmp_path, "asni-1", 50.0, seed=0)
    run(tmp_path, "asni-1", 97.5, seed=1)
    assert sentence(tmp_path) == "32 times fewer weights, 0.3 points lower."
    assert story(tmp_path)["about"] == "ASNI-I against dense, seed 1."


def test_without_asni_the_most_accurate_method_is_named(tmp_path: Path) -> None:
    run(tmp_path, "dense", 97.8)
    run(tmp_path, "gmp", 97.0)
    run(tmp_path, "snip", 90.0)
    run(tmp_path, "rigl", result={"accuracy": math.nan})
    assert sentence(tmp_path) == "32 times fewer weights with GMP, 0.8 points lower."
    assert story(tmp_path)["about"] == "GMP, the most accurate of 3 methods, against dense, seed 0."


def test_a_small_factor_has_a_decimal(tmp_path: Path) -> None:
    run(tmp_path, "asni-1", result={"nonzeros": 40, "sparsity": 0.62, "total_sparsity": 0.6})
    assert sentence(tmp_path) == "2.5 times fewer weights, 97.5 % accurate."


def test_a_network_without_a_weight_left_is_told_without_a_factor(tmp_path: Path) -> None:
    run(tmp_path, "asni-1", 10.5, result={"nonzeros": 0, "sparsity": 1.0, "total_sparsity": 1.0})
    assert sentence(tmp_path) == "ASNI-I is at chance: 10.5 %."
    assert "weights left" not in tiles(tmp_path)


def test_a_dense_network_alone_is_no_success(tmp_path: Path) -> None:
    run(tmp_path, "dense", 97.8)
    assert sentence(tmp_path) == "266,610 weights, 97.8 % accurate; no sparse network yet."
    assert story(tmp_path)["tiles"] == []


@pytest.mark.parametrize("others", [(), ("dense",)])
def test_a_training_that_has_not_ended_says_how_far_it_is(tmp_path: Path, others: tuple[str, ...]) -> None:
    for stage in others:
        run(tmp_path, stage)
    unfinished(run(tmp_path, "asni-1"), 3)
    assert sentence(tmp_path) == "ASNI-I: 3 of 50 epochs trained."


def test_the_first_rounds_of_a_method_are_no_story(tmp_path: Path) -> None:
    run(tmp_path, "lottery-round-2", method="lottery")
    assert story(tmp_path) is None


@pytest.mark.parametrize(("seeds", "words"), [(1, "ASNI-I diverged."), (3, "ASNI-I diverged with 1 of 3 seeds.")])
def test_nan_is_told_as_what_it_is(tmp_path: Path, seeds: int, words: str) -> None:
    run(tmp_path, "dense")
    run(tmp_path, "asni-1", result={"accuracy": math.nan})
    run(tmp_path, "asni-2")
    for seed in range(1, seeds):
        run(tmp_path, "asni-1", seed=seed)
    assert sentence(tmp_path) == words
    assert "points against dense" not in tiles(tmp_path)


def test_a_diverged_dense_network_is_nothing_to_compare_with(tmp_path: Path) -> None:
    run(tmp_path, "dense", result={"accuracy": math.nan})
    run(tmp_path, "asni-1")
    assert sentence(tmp_path) == "32 times fewer weights, 97.5 % accurate."


def test_a_seed_at_chance_is_a_caveat(tmp_path: Path) -> None:
    for seed, accuracy in enumerate((97.5, 10.0)):
        run(tmp_path, "asni-1", accuracy, seed)
    assert story(tmp_path)["caveats"] == ["ASNI-I is at chance with 1 of 2 seeds."]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epochs": 6}, "Shortened: 6 of 50 epochs; not comparable with the paper."),
        ({"steps_per_epoch": 7}, "Shortened: 7 steps in each epoch; not comparable with the paper."),
    ],
)
def test_a_shortened_training_says_so(tmp_path: Path, changes: dict[str, int], words: str) -> None:
    run(tmp_path, "asni-1", asked=PAPER.override(**changes))
    assert story(tmp_path)["caveats"] == [words]


def test_the_packed_size_is_that_of_the_file_which_asni_pack_writes(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)
    directory = run(tmp_path / "runs", "asni-1", weights={"first.weight": np.where(values > 2.5, values, 0)})
    pack(directory, tmp_path / "net.asni")
    size = (tmp_path / "net.asni").stat().st_size
    assert size < 1000
    assert tiles(tmp_path / "runs")["packed file"] == (f"{size} bytes", "bit for bit, instead of 40 kB")


def test_without_weights_there_is_no_packed_size(tmp_path: Path) -> None:
    (run(tmp_path, "asni-1") / "weights.safetensors").write_bytes(b"damaged")
    assert "packed file" not in tiles(tmp_path)
