"""A budget on the command line: which method keeps to it, and who is told that it changes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import Command

RECIPE = """
dataset = "digits"
network = "tests.methods.small_networks:convolutional"
[training]
epochs = 2
batch_size = 30
steps_per_epoch = 25
optimizer = "adam"
lr = 1e-3
threads = 1
[pruning]
sparsity = 0.8
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "small.toml").write_text(RECIPE)
    return str(tmp_path / "small.toml")


def result(directory: Path, method: str) -> dict[str, Any]:
    [path] = directory.glob(f"runs/*/seed-0/{method}/result.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_training_within_a_budget_is_asni_1_macs(command: Command, recipe: str, tmp_path: Path) -> None:
    train = ("train", recipe, "--device", "cpu", "--out", str(tmp_path / "runs"))
    assert command(*train).status == 0
    answer = command(*train, "--macs", "0.15")
    assert answer.status == 0, answer.err
    assert "changes nothing" not in answer.err
    plain, within = result(tmp_path, "asni-1"), result(tmp_path, "asni-1-macs")
    assert within["mac_density"] <= 0.15 < plain["mac_density"]
    assert within["nonzeros"] == plain["nonzeros"]


def test_so_it_is_with_the_budget_of_a_recipe(command: Command, recipe: str, tmp_path: Path) -> None:
    Path(recipe).write_text(RECIPE + "macs = 0.15\n")
    answer = command("train", recipe, "--device", "cpu", "--out", str(tmp_path / "runs"))
    assert answer.status == 0, answer.err
    assert result(tmp_path, "asni-1-macs")["mac_density"] <= 0.15


def test_asni_1_of_the_paper_says_that_it_has_no_budget(command: Command, recipe: str, tmp_path: Path) -> None:
    train = ("train", recipe, "--device", "cpu", "--out", str(tmp_path / "runs"), "--method", "asni-1")
    assert (
        "asni: warning: --macs changes nothing for asni-1: it is for asni-1-macs, gmp, magnitude."
        in command(*train, "--macs", "0.15").err
    )
    Path(recipe).write_text(RECIPE + "macs = 0.15\n")
    assert (
        "asni: warning: macs of the recipe changes nothing for asni-1: it is for asni-1-macs, gmp, magnitude."
        in command(*train).err
    )


def test_an_investigation_says_so_too(command: Command, recipe: str, tmp_path: Path) -> None:
    investigate = ("investigate", recipe, "--device", "cpu", "--out", str(tmp_path / "runs"))
    refused = command(*investigate, "--macs", "0.15")
    assert refused.status == 2
    assert "--macs changes nothing for dense, asni-1, asni-2, original: it is for asni-1-macs" in refused.err
    assert not (tmp_path / "runs").exists()
    Path(recipe).write_text(RECIPE + "macs = 0.15\n")
    answer = command(*investigate)
    assert answer.status == 0
    assert "asni: warning: macs of the recipe changes nothing for dense, asni-1, asni-2, original: " in answer.err


def test_a_method_that_needs_a_budget_is_refused_without_one(command: Command, recipe: str, tmp_path: Path) -> None:
    for asked in (("train", recipe, "--method"), ("compare", recipe, "--methods")):
        answer = command(*asked, "asni-1-macs", "--out", str(tmp_path / "runs"))
        assert "asni: asni-1-macs needs a budget: --macs 0.15, --latency 2ms or --speedup 4." in answer.err
        assert answer.status == 2
    assert not list(tmp_path.glob("runs/*/*/*/result.json"))


def test_what_is_not_in_the_paper_is_compared_under_names_of_its_own(
    command: Command, recipe: str, tmp_path: Path
) -> None:
    variants = ["asni-1", "asni-1-fine", "asni-1-lamp", "asni-1-macs"]
    compare = ("compare", recipe, "--device", "cpu", "--macs", "0.15", "--prune-every", "5", "--json")
    answer = command(*compare, "--methods", ",".join(variants), "--out", str(tmp_path / "runs"))
    assert answer.status == 0, answer.err
    rows = {row["method"]: row for row in json.loads(answer.out)}
    assert [*rows] == variants
    assert len({row["nonzeros"] for row in rows.values()}) == 1
    shares = {name: result(tmp_path, name)["mac_density"] for name in variants}
    assert shares["asni-1-macs"] <= 0.15 < min(shares["asni-1"], shares["asni-1-fine"], shares["asni-1-lamp"])
    # The recipe says how often to prune: the first two do the same, under two names.
    assert shares["asni-1"] == shares["asni-1-fine"] != shares["asni-1-lamp"]


def test_only_the_papers_method_is_called_asni_i(command: Command) -> None:
    titles = {row["name"]: (row["title"], row["paper"]) for row in json.loads(command("methods", "--json").out)}
    assert [name for name, (title, _) in titles.items() if title == "ASNI-I"] == ["asni-1"]
    for name in ("asni-1-fine", "asni-1-lamp", "asni-1-macs"):
        assert titles[name] == (name, "not in the paper")


def test_a_budget_of_time_is_told_beside_what_the_network_takes(
    command: Command, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    train = ("train", recipe, "--device", "cpu", "--out", str(tmp_path / "runs"))
    answer = command(*train, "--speedup", "1.5", "--latency-batch", "64")
    assert answer.status == 0, answer.err
    within = result(tmp_path, "asni-1-macs")
    assert within["asked_ms"] == pytest.approx(within["dense_ms"] / 1.5)
    assert within["predicted_ms"] <= within["asked_ms"]
    assert within["got_ms"] > 0
    assert f"(batch 64, 1 thread): asked for {within['asked_ms']:.3g} ms" in answer.out


def test_a_time_that_no_masks_reach_is_refused_before_training(
    command: Command, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    answer = command("train", recipe, "--device", "cpu", "--out", str(tmp_path / "runs"), "--latency", "0.01us")
    assert answer.status == 2
    assert "cannot keep to 1e-05 ms" in answer.err
    assert "epoch 1/" not in answer.err


def test_another_curve_is_that_of_a_variant_since_asni_1_has_the_sigmoid(
    command: Command, recipe: str, tmp_path: Path
) -> None:
    train = ("train", recipe, "--device", "cpu", "--out", str(tmp_path / "runs"), "--schedule", "cubic")
    assert command(*train).status == 0
    assert result(tmp_path, "asni-1-fine")["sparsity"] == pytest.approx(0.8, abs=1e-3)
    answer = command(*train, "--method", "asni-1")
    assert answer.status == 2
    assert "asni-1 is the paper's, which follows a sigmoid" in answer.err
