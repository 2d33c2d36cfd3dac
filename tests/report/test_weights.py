"""Weights on the page: counts are exact, networks share their bins, and layers have their positions."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asni.report import collect, page
from tests.report.made_runs import Weights, make_run
from tests.report.test_building import data_of


def group_of(runs: Path) -> Any:
    (group,) = data_of(page(collect(runs)))["groups"]
    return group


def random(seed: int, scale: float, size: int = 400) -> Weights:
    values = np.random.default_rng(seed).normal(scale=scale, size=(size, 10))
    return {"first.weight": values.astype(np.float32)}


def pruned(seed: int, scale: float) -> Weights:
    return {name: np.where(np.abs(w) > scale, w, np.float32(0)) for name, w in random(seed, scale).items()}


def test_networks_lie_in_the_same_bins_and_every_count_is_exact(tmp_path: Path) -> None:
    made = {"dense": random(0, 0.1), "asni-1": pruned(1, 0.2)}
    for stage, weights in made.items():
        make_run(tmp_path / stage, stage=stage, weights=weights)
    group = group_of(tmp_path)
    width, first = group["distribution"]["width"], group["distribution"]["first"]
    for shown in group["distribution"]["sets"]:
        values = made[group["runs"][shown["run"]]["stage"]]["first.weight"]
        values = values[values != 0]
        edges = (first + np.arange(len(shown["counts"]) + 1)) * width
        # Bins are half-open, except for NumPy's last one, which is closed; no weight lies on its edge.
        assert shown["counts"] == np.histogram(values, edges)[0].tolist()
        assert shown["weights"] == values.size
        assert sum(shown["counts"]) >= 0.995 * values.size
    assert len(group["distribution"]["sets"]) == 2


def test_pruned_weights_are_left_out_of_the_distribution(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    (shown,) = group_of(tmp_path)["distribution"]["sets"]
    assert shown["weights"] == sum(shown["counts"]) == 3


def test_the_initial_network_of_each_seed_comes_from_a_run_that_started_there(tmp_path: Path) -> None:
    for seed in (0, 1):
        make_run(tmp_path / f"dense-{seed}", stage="dense", seed=seed, initial=random(seed, 0.1, 30 + seed))
        make_run(tmp_path / f"asni-2-{seed}", stage="asni-2", seed=seed, initial=random(seed, 0.3))
    make_run(tmp_path / "no-start", stage="asni-1", seed=2)
    make_run(tmp_path / "centroids", stage="asni-2", seed=3, initial=random(3, 0.3))
    sets = group_of(tmp_path)["distribution"]["sets"]
    assert [(each["seed"], each["weights"]) for each in sets if each["run"] is None] == [(0, 300), (1, 310)]


def test_trainings_on_the_way_to_a_method_are_not_among_the_networks(tmp_path: Path) -> None:
    on_the_way = {"dense-until-18": "dense", "lottery-round-2": "lottery", "str-search-1": "str"}
    for stage in ("dense", "lottery", "str", *on_the_way):
        make_run(tmp_path / stage, stage=stage, method=on_the_way.get(stage))
    group = group_of(tmp_path)
    shown = [group["runs"][each["run"]]["stage"] for each in group["distribution"]["sets"]]
    assert shown == ["dense", "lottery", "str"]
    assert [stage for stage, about in group["stages"].items() if about["last"]] == shown


def test_the_bins_reach_as_far_as_the_networks_of_the_paper(tmp_path: Path) -> None:
    make_run(tmp_path / "asni-1", weights=random(0, 0.1))
    make_run(tmp_path / "far", stage="snip", weights=random(1, 10.0))
    distribution = group_of(tmp_path)["distribution"]
    assert -0.5 < distribution["first"] * distribution["width"] < -0.2
    assert [each["compared"] for each in distribution["sets"]] == [True, False]
    assert [each["weights"] for each in distribution["sets"]] == [4000, 4000]
    assert sum(distribution["sets"][1]["counts"]) < 400


def test_a_network_that_died_does_not_coarsen_the_others(tmp_path: Path) -> None:
    make_run(tmp_path / "dead", stage="snip", weights={"first.weight": np.zeros((2, 2), np.float32)})
    make_run(tmp_path / "run", weights=pruned(0, 0.01))
    distribution = group_of(tmp_path)["distribution"]
    assert len(distribution["sets"]) == 1
    assert distribution["width"] < 0.01


@pytest.mark.parametrize("damaged", [True, False])
def test_without_weights_there_is_no_distribution(tmp_path: Path, damaged: bool) -> None:
    directory = make_run(tmp_path / "run")
    if damaged:
        (directory / "weights.safetensors").write_bytes(b"damaged")
    else:
        (directory / "result.json").unlink()
    assert group_of(tmp_path)["distribution"] is None


def test_a_resnets_layers_have_their_stage_their_part_and_a_colour(tmp_path: Path) -> None:
    names = ["conv1", "layer1.0.conv1", "layer1.0.conv2", "layer2.0.conv1", "layer2.0.downsample.0", "linear"]
    make_run(tmp_path / "run", weights={f"{name}.weight": np.eye(3, dtype=np.float32) for name in names})
    (run,) = group_of(tmp_path)["runs"]
    places = {layer["name"]: layer["place"] for layer in run["layers"]}
    assert {name: place["stage"] for name, place in places.items()} == dict(
        zip(names, [None, 1, 1, 2, 2, None], strict=True)
    )
    assert [name for name, place in places.items() if place["skip"]] == ["layer2.0.downsample.0"]
    assert [name for name, place in places.items() if place["opens"]] == ["layer1.0.conv1", "layer2.0.conv1"]
    assert len({place["colour"] for place in places.values()}) == 3


def test_a_network_without_stages_has_no_places(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    (layer,) = group_of(tmp_path)["runs"][0]["layers"]
    assert "place" not in layer


def test_bins_of_networks_are_merged_with_those_of_layers_where_the_page_would_become_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "run", weights=random(0, 1.0))
    fine = group_of(tmp_path)["distribution"]
    monkeypatch.setattr("asni.report.building._BINS", (10,))
    coarse = group_of(tmp_path)["distribution"]
    ratio = round(coarse["width"] / fine["width"])
    assert ratio > 1
    assert len(coarse["sets"][0]["counts"]) <= 20 < len(fine["sets"][0]["counts"]) <= 160
    assert math.isclose(coarse["first"] * coarse["width"], fine["first"] * fine["width"], rel_tol=0.2)
