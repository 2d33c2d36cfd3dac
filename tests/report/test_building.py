"""The page is self-contained, loads nothing, and shows names as plain text."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from asni.errors import AsniError
from asni.recipes import load
from asni.recipes.prunings import prunings
from asni.report import building, collect, page
from asni.report.building import MOST_BYTES
from asni.report.collecting import Collection
from asni.studies.plan import plan
from tests.report.made_runs import make_run, recipe, write
from tests.runs.sealing import seal

EVIL = '</script><img src=x onerror="document.title=1"><script>alert(1)</script>'


def data_of(html: str) -> Any:
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(block)


def test_names_with_markup_never_reach_the_page_as_markup(tmp_path: Path) -> None:
    make_run(tmp_path / "<b>run<", asked=recipe(name=EVIL.replace("/", ""), title=EVIL), stage=EVIL)
    html = page(collect(tmp_path))
    assert "<img" not in html
    assert "<b>run" not in html
    assert html.count("</script>") == 2
    (group,) = data_of(html)["groups"]
    assert group["title"] == EVIL
    assert group["runs"][0]["stage"] == EVIL
    assert group["runs"][0]["path"] == "<b>run<"


def test_a_name_that_looks_like_a_place_in_the_template_stays_a_name(tmp_path: Path) -> None:
    make_run(tmp_path / "run", stage="{{SCRIPT}}{{DATA}}")
    assert data_of(page(collect(tmp_path)))["groups"][0]["runs"][0]["stage"] == "{{SCRIPT}}{{DATA}}"


def test_the_page_needs_no_network(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    html = page(collect(tmp_path))
    assert set(re.findall(r"https?://[^\"' ]*", html)) <= {"http://www.w3.org/2000/svg"}
    assert re.findall(r'(?:src|href)="([^"]*)"', html) == ["data:,"]
    assert "default-src 'none'" in html


def test_the_same_runs_give_the_same_bytes_wherever_they_lie(tmp_path: Path) -> None:
    for place in ("here", "there"):
        make_run(tmp_path / place / "runs" / "one")
        (make_run(tmp_path / place / "runs" / "two") / "mask.safetensors").write_bytes(b"damaged")
    here, there = (page(collect(tmp_path / place / "runs")) for place in ("here", "there"))
    assert here == there
    assert str(tmp_path) not in here


def test_recipes_are_grouped_and_variants_come_in_the_order_of_the_paper(tmp_path: Path) -> None:
    for stage in ("snip", "original", "dense", "asni-2", "asni-1"):
        make_run(tmp_path / "a" / stage, stage=stage)
    make_run(tmp_path / "b", asked=load("mnist-fc"))
    groups = data_of(page(collect(tmp_path)))["groups"]
    assert [(group["recipe"], [run["stage"] for run in group["runs"]]) for group in groups] == [
        ("digits-fc--epochs-6--sparsity-0.625", ["dense", "asni-1", "asni-2", "original", "snip"]),
        ("mnist-fc", ["asni-1"]),
    ]


def test_runs_on_other_data_of_the_same_name_are_a_group_of_their_own(tmp_path: Path) -> None:
    asked = recipe(dataset="/home/me/flowers")
    for seed, checksum in enumerate(("ab", "cd")):
        request = make_run(tmp_path / checksum, asked=asked, seed=seed) / "request.json"
        data = {"shape": [1, 8, 8], "classes": 10, "train": 5, "test": 5, "checksum": checksum}
        request.write_text(json.dumps(json.loads(request.read_text()) | {"data": data}))
        seal(request.parent)
    groups = data_of(page(collect(tmp_path)))["groups"]
    assert [group["facts"]["dataset"] for group in groups] == ["flowers (checksum ab)", "flowers (checksum cd)"]
    assert groups[0]["family"] != groups[1]["family"]


def test_recipes_that_differ_in_the_sparsity_alone_are_a_family_with_one_look_for_each_method(tmp_path: Path) -> None:
    asked = load("mnist-fc")
    for stage in ("asni-1", "gmp", "snip"):
        make_run(tmp_path / "a" / stage, asked=asked, stage=stage)
    for stage in ("asni-1", "snip"):
        make_run(tmp_path / "b" / stage, asked=asked.override(sparsity=0.9), stage=stage)
    make_run(tmp_path / "c", asked=asked.override(epochs=10))
    make_run(tmp_path / "d", asked=asked.override(epochs=10, sparsity=0.9))
    make_run(tmp_path / "e", asked=load("digits-fc"))
    groups = data_of(page(collect(tmp_path)))["groups"]
    assert [group["family"] for group in groups] == [0, 0, 1, 1, 2]
    assert list(groups[1]["stages"]) == ["asni-1", "snip"]
    assert groups[0]["stages"]["snip"] == groups[1]["stages"]["snip"]


def test_no_method_looks_like_the_initial_network(tmp_path: Path) -> None:
    for number in range(9):
        make_run(tmp_path / str(number), stage=f"method-{number}")
    (group,) = data_of(page(collect(tmp_path)))["groups"]
    drawn = [(look["colour"], look["dashes"], look["marker"]) for look in [group["initial"], *group["stages"].values()]]
    assert all(drawn.count(look) == 1 for look in drawn)


def test_seven_methods_have_a_hue_each_whatever_trainings_lead_to_them(tmp_path: Path) -> None:
    stages = ["dense", "asni-1", "asni-2", "original", "lottery", "rigl", "snip"]
    for stage in [*stages, "lottery-round-2", "lottery-round-3"]:
        make_run(tmp_path / stage, stage=stage, method=stage.split("-round")[0])
    (group,) = data_of(page(collect(tmp_path)))["groups"]
    assert len({group["stages"][stage]["colour"] for stage in stages}) == 7


def test_a_network_whose_loss_is_nan_has_no_accuracy(tmp_path: Path) -> None:
    metrics = make_run(tmp_path / "run") / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    metrics.write_text(
        "".join(f"{json.dumps({**row, 'loss': math.nan if row['epoch'] > 3 else 1.0})}\n" for row in rows)
    )
    seal(tmp_path / "run")
    (group,) = data_of(page(collect(tmp_path)))["groups"]
    assert group["runs"][0]["curves"]["accuracy"] == [86.5, 87.5, 88.5, 89.5, None, None]


def test_no_script_replaces_what_another_defines(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    names = re.findall(r"^(?:function|const|let) (\w+)", page(collect(tmp_path)), re.MULTILINE)
    assert len(names) == len(set(names)) > 100


def test_the_papers_number_stands_beside_its_own_variant(tmp_path: Path) -> None:
    for stage in ("dense", "asni-1", "asni-2", "original", "snip"):
        make_run(tmp_path / stage, asked=load("mnist-fc"), stage=stage)
    (group,) = data_of(page(collect(tmp_path)))["groups"]
    assert {run["stage"]: run["paper"] for run in group["runs"]} == {
        "dense": 96.88,
        "asni-1": 96.72,
        "asni-2": 96.93,
        "original": 96.75,
        "snip": None,
    }


def test_nan_is_shown_as_nan(tmp_path: Path) -> None:
    make_run(tmp_path / "run", accuracy=math.nan)
    (run,) = data_of(page(collect(tmp_path)))["groups"][0]["runs"]
    assert run["accuracy"] == "NaN"
    assert run["curves"]["accuracy"] == [None] * 6


def test_the_schedule_has_the_sizes_of_the_network_and_the_alpha_of_the_plan(tmp_path: Path) -> None:
    asked = load("mnist-fc")
    planned = plan(asked)
    sizes = {key: planned[key] for key in ("nonzeros", "sparsity", "total_sparsity")}
    make_run(tmp_path / "run", asked=asked, result=sizes)
    schedule = data_of(page(collect(tmp_path)))["groups"][0]["schedule"]
    assert (schedule["parameters"], schedule["prunable"]) == (266_610, 266_200)
    assert (schedule["alpha"], schedule["beta"], schedule["gamma"]) == (pytest.approx(98), 0.5, 5)
    assert (schedule["least"], schedule["planned"][-1]) == (0.001, pytest.approx(100 * (1 - 7_925 / 266_200)))


@pytest.mark.parametrize("changes", [{}, {"prune_every": 7}, {"least": 0.01}, {"macs": 0.5}])
def test_the_schedule_is_the_one_that_the_training_follows(tmp_path: Path, changes: dict[str, Any]) -> None:
    asked = recipe().override(**changes)
    sizes = {"nonzeros": 18_825, "sparsity": 31_375 / 50_200, "total_sparsity": 31_375 / 50_610}
    make_run(tmp_path / "run", asked=asked, result=sizes)
    schedule = data_of(page(collect(tmp_path)))["groups"][0]["schedule"]
    planned = prunings(asked, 30, 50_200)
    assert (schedule["steps_per_epoch"], schedule["every"], schedule["alpha"]) == (30, planned.every, planned.alpha)
    assert schedule["planned"] == pytest.approx([100 * sparsity for sparsity in planned.sparsities], rel=1e-5)
    assert schedule["planned"][-1] == 100 * planned.sparsities[-1]


def test_a_schedule_without_sliders_is_told_in_words_alone(tmp_path: Path) -> None:
    make_run(tmp_path / "run", asked=recipe().override(schedule="cubic", macs=0.3))
    (group,) = data_of(page(collect(tmp_path)))["groups"]
    assert group["schedule"] is None
    assert group["facts"]["schedule"] == "cubic, sparsity 0.625"
    assert group["facts"]["pruning"] == "score magnitude, macs 0.3"


def test_multiplications_stand_beside_the_sparsity_and_are_unknown_for_earlier_runs(tmp_path: Path) -> None:
    make_run(tmp_path / "new", result={"mac_density": 0.4})
    make_run(tmp_path / "old", seed=1)
    (group,) = data_of(page(collect(tmp_path)))["groups"]
    assert [run["mac_density"] for run in group["runs"]] == [0.4, None]


def test_histograms_count_every_weight(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_cauchy((100, 100)).astype(np.float32)
    directory = make_run(tmp_path / "run", stage="dense")
    (directory / "mask.safetensors").unlink()
    save_file({"fc.weight": weights}, directory / "weights.safetensors")
    seal(directory)
    (layer,) = data_of(page(collect(tmp_path)))["groups"][0]["runs"][0]["layers"]
    low, high = layer["first"] * layer["width"], (layer["first"] + len(layer["counts"])) * layer["width"]
    assert sum(layer["counts"]) == ((weights >= low) & (weights < high)).sum()
    assert sum(layer["counts"]) + layer["outside"] == weights.size
    assert layer["outside"] <= 0.001 * weights.size
    assert len(layer["counts"]) <= 80


def test_a_schedule_that_cannot_be_drawn_is_left_out(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run")
    request = json.loads((directory / "request.json").read_text())
    request["recipe"]["pruning"] |= {"beta": 1.0, "gamma": 1e-6}
    write(directory / "request.json", request)
    seal(directory)
    (group,) = data_of(page(collect(tmp_path)))["groups"]
    assert group["schedule"] is None
    assert group["runs"][0]["accuracy"] == 91.5


@pytest.fixture
def deep(tmp_path: Path) -> Collection:
    """Twenty runs of a network as deep as ResNet-50."""
    weights = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    directory = make_run(tmp_path / "run", stage="dense")
    (directory / "mask.safetensors").unlink()
    save_file({f"layer{index}.weight": weights for index in range(54)}, directory / "weights.safetensors")
    seal(directory)
    (run,) = collect(tmp_path).runs
    return Collection("deep", [replace(run, seed=seed) for seed in range(20)])


def test_many_runs_of_a_deep_network_stay_below_five_megabytes(deep: Collection) -> None:
    assert 200_000 < len(page(deep).encode()) < MOST_BYTES == 5_000_000


def test_bars_are_merged_where_the_page_would_become_too_large(
    deep: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = page(deep)
    monkeypatch.setattr(building, "MOST_BYTES", len(whole) - 1)
    smaller = page(deep)
    assert len(smaller) < len(whole)
    fine, coarse = (data_of(html)["groups"][0]["runs"][0]["layers"][0] for html in (whole, smaller))
    assert len(coarse["counts"]) < len(fine["counts"])
    assert sum(coarse["counts"]) + coarse["outside"] == sum(fine["counts"]) + fine["outside"] == 64 * 64
    monkeypatch.setattr(building, "MOST_BYTES", 1000)
    with pytest.raises(AsniError, match=r"20 runs.*1,000 bytes"):
        page(deep)
