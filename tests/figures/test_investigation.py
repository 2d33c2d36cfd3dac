import json
from pathlib import Path

import matplotlib
import pytest

from asni.errors import AsniError
from asni.figures import investigation, save, schedule
from tests.figures.made_runs import make_run, random_weights
from tests.runs.sealing import seal

WEIGHTS = random_weights("linear1", "linear2")


def test_an_investigation_draws_five_figures_as_png_and_svg(tmp_path: Path) -> None:
    for variant in ("dense", "asni-1", "asni-2", "original"):
        make_run(tmp_path / variant, WEIGHTS)
    paths = investigation(tmp_path, tmp_path / "figures")
    assert sorted(path.name for path in paths) == sorted(path.name for path in (tmp_path / "figures").iterdir())
    names = ["layer-distributions", "layer-sparsity", "network-distribution", "schedule", "training"]
    assert sorted(path.name for path in paths) == sorted(f"{name}.{kind}" for name in names for kind in ("png", "svg"))
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml")


def test_variants_that_are_missing_are_left_out(tmp_path: Path) -> None:
    make_run(tmp_path / "dense", WEIGHTS)
    assert {path.stem for path in investigation(tmp_path, tmp_path / "out")} == {"training", "network-distribution"}


def test_the_centroids_of_asni_2_are_not_taken_for_the_initial_network(tmp_path: Path) -> None:
    (make_run(tmp_path / "asni-2", WEIGHTS) / "initial.safetensors").unlink()
    assert {path.stem for path in investigation(tmp_path, tmp_path / "out")} == {"training", "network-distribution"}


def test_a_directory_without_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AsniError, match="dense, asni-1, asni-2, original"):
        investigation(tmp_path, tmp_path / "out")


@pytest.mark.parametrize("file", ["request.json", "metrics.jsonl", "weights.safetensors", "initial.safetensors"])
def test_a_missing_file_is_named_and_nothing_is_written(tmp_path: Path, file: str) -> None:
    (make_run(tmp_path / "asni-1", WEIGHTS) / file).unlink()
    with pytest.raises(AsniError, match=f"asni-1/{file}"):
        investigation(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_schedule_is_that_of_the_runs_own_recipe(tmp_path: Path) -> None:
    request = make_run(tmp_path / "asni-1", WEIGHTS) / "request.json"
    investigation(tmp_path, tmp_path / "usual")
    asked = json.loads(request.read_text())
    for key, value in {"beta": 0.25, "gamma": 1.0}.items():
        asked["recipe"]["pruning"][key] = value
        request.write_text(json.dumps(asked))
        seal(request.parent)
        investigation(tmp_path, tmp_path / key)
    usual, beta, gamma = ((tmp_path / name / "schedule.svg").read_bytes() for name in ("usual", "beta", "gamma"))
    assert len({usual, beta, gamma}) == 3


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    once = save(schedule(10, 0.9), tmp_path / "once")
    again = save(schedule(10, 0.9), tmp_path / "again")
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]


def test_the_users_own_matplotlib_settings_change_nothing_and_stay(tmp_path: Path) -> None:
    (plain, _) = save(schedule(10, 0.9), tmp_path / "plain")
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "black"}):
        (styled, _) = save(schedule(10, 0.9), tmp_path / "styled")
        assert matplotlib.rcParams["font.size"] == 20
    assert styled.read_bytes() == plain.read_bytes()


def test_a_name_with_a_dot_is_kept(tmp_path: Path) -> None:
    assert [path.name for path in save(schedule(10, 0.9), tmp_path / "gamma-0.5")] == ["gamma-0.5.png", "gamma-0.5.svg"]
