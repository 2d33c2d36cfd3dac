from pathlib import Path

import pytest

from asni.errors import AsniError
from asni.figures import training
from asni.figures.naming import named
from tests.figures.made_runs import make_run, random_weights

WEIGHTS = random_weights("fc")


def names_in(runs: object) -> list[str]:
    figure = training(runs)  # type: ignore[arg-type]
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_runs_are_given_as_text_or_paths_alone_in_a_list_or_by_name(tmp_path: Path) -> None:
    dense, sparse = (make_run(tmp_path / name, WEIGHTS) for name in ("dense", "asni-1"))
    for kind in (str, Path):
        assert names_in(kind(sparse)) == ["ASNI-I"]
        assert names_in([kind(dense), kind(sparse)]) == ["dense", "ASNI-I"]
        assert names_in({"before": kind(dense), "after": kind(sparse)}) == ["before", "after"]


def test_a_directory_stands_for_its_methods_without_their_rounds(tmp_path: Path) -> None:
    for name in ("lottery-round-2", "lottery", "asni-1", "dense"):
        make_run(tmp_path / name, WEIGHTS)
    (tmp_path / "figures").mkdir()
    (tmp_path / "gmp").mkdir()
    assert list(named(str(tmp_path))) == ["dense", "asni-1", "lottery"]


def test_runs_of_the_same_name_are_told_apart_by_their_paths() -> None:
    assert list(named([Path("seed-0/gmp"), Path("seed-1/gmp")])) == ["seed-0/gmp", "seed-1/gmp"]


def test_a_directory_without_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AsniError, match="is no run and holds none"):
        named(tmp_path)
