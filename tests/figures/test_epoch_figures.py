from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asni.errors import AsniError
from asni.figures import schedule, training
from asni.pruning.schedules import Sigmoid
from asni.recipes import load
from asni.recipes.prunings import prunings
from tests.figures.made_runs import make_run, random_weights


def line(lines: list[Line2D], label: str) -> tuple[list[float], list[float]]:
    found = next(each for each in lines if each.get_label() == label)
    return np.asarray(found.get_xdata()).tolist(), np.asarray(found.get_ydata()).tolist()


def test_the_papers_five_schedules_start_apart_and_end_together() -> None:
    lines = schedule(90, 0.8).axes[0].get_lines()
    gammas = [f"$\\gamma$ = {gamma}" for gamma in ("1", "3", "9 (E/10)", "20", "100")]
    assert [str(each.get_label()) for each in lines] == gammas
    starts = [line(lines, label)[1][0] for label in gammas]
    assert starts == sorted(starts)
    assert starts[0] < 1e-9
    assert starts[-1] > 50
    assert [line(lines, label)[1][-1] for label in gammas] == pytest.approx([80] * 5)


def test_prunings_that_are_left_out_are_flat_in_the_curve() -> None:
    lines = schedule(90, 0.8, least=0.01).axes[0].get_lines()
    _, curve = line(lines, "$\\gamma$ = 9 (E/10)")
    assert list(curve[:2]) == [0, 0]
    assert list(curve) == [100 * Sigmoid(0.8, gamma=9, least=0.01)(epoch, 90) for epoch in range(90)]


def thick(figure: Figure) -> list[str]:
    return [str(each.get_label()) for each in figure.axes[0].get_lines() if each.get_linewidth() == 2]


def test_the_gamma_of_the_run_is_thick_and_named() -> None:
    assert thick(schedule(90, 0.8)) == ["$\\gamma$ = 9 (E/10)"]
    third = schedule(90, 0.8, gamma=3.0)
    assert thick(third) == ["$\\gamma$ = 3 (this run's)"]
    assert len(third.axes[0].get_lines()) == 5


def test_a_gamma_that_is_none_of_the_papers_is_drawn_among_them() -> None:
    drawn = [str(each.get_label()) for each in schedule(90, 0.8, gamma=12.0).axes[0].get_lines()]
    assert drawn == [f"$\\gamma$ = {gamma}" for gamma in ("1", "3", "9", "12 (this run's)", "20", "100")]


def test_the_sparsity_of_the_run_lies_on_top(tmp_path: Path) -> None:
    run = make_run(tmp_path, random_weights("fc"), sparsity=(0.0, 0.25, 0.5))
    assert line(schedule(3, 0.5, run=run).axes[0].get_lines(), "this run") == ([0, 1, 2], [0, 25, 50])


def test_the_curves_of_a_short_run_are_those_of_its_prunings_within_epochs(tmp_path: Path) -> None:
    run = make_run(tmp_path, random_weights("fc"), sparsity=(0.1, 0.4, 0.5))
    lines = schedule(3, 0.95, gamma=0.3, run=run).axes[0].get_lines()
    _, curve = line(lines, "$\\gamma$ = 0.3 (this run's)")
    recipe = load("digits-fc").override(epochs=3)
    assert recipe.gamma == 0.3
    assert curve == pytest.approx([100 * sparsity for sparsity in prunings(recipe, 30).sparsities])
    _, by_epoch = line(schedule(3, 0.95, gamma=0.3).axes[0].get_lines(), "$\\gamma$ = 0.3 (this run's)")
    assert curve[0] > 3 * by_epoch[0]


def test_a_run_along_a_cubic_curve_has_that_curve_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path, random_weights("fc"), schedule="cubic", sparsity=(0.1, 0.4, 0.5))
    lines = schedule(3, 0.95, run=run).axes[0].get_lines()
    assert [str(each.get_label()) for each in lines] == ["cubic (this run's)", "this run"]
    recipe = load("digits-fc").override(epochs=3, schedule="cubic")
    assert line(lines, "cubic (this run's)")[1] == [100 * sparsity for sparsity in prunings(recipe, 30).sparsities]


def test_training_shows_the_multiplications_of_runs_that_know_them_as_thin_lines(tmp_path: Path) -> None:
    old = make_run(tmp_path / "old", random_weights("fc"))
    new = make_run(tmp_path / "new", random_weights("fc"), mac_density=(1.0, None, 0.25))
    above, below = training({"old": old, "new": new}).axes
    assert (len(above.get_lines()), len(below.get_lines())) == (2, 3)
    *thick, thin = below.get_lines()
    np.testing.assert_equal(np.asarray(thin.get_ydata()), [100, np.nan, 25])
    assert thin.get_linewidth() < 1 < thick[1].get_linewidth()
    assert thin.get_color() == thick[1].get_color()
    assert below.get_ylabel() == "pruned weights (%)\nMACs left (%, thin)"
    assert training({"old": old}).axes[1].get_ylabel() == "pruned weights (%)"


def test_training_shows_accuracy_and_sparsity_of_every_run(tmp_path: Path) -> None:
    dense = make_run(tmp_path / "a", random_weights("fc"), (90.0, 97.0), (0.0, 0.0))
    sparse = make_run(tmp_path / "b", random_weights("fc"), (80.0, 96.0), (0.1, 0.9))
    above, below = training({"dense": dense, "asni-1": sparse}).axes
    assert line(above.get_lines(), "dense") == ([0, 1], [90, 97])
    assert line(above.get_lines(), "ASNI-I") == ([0, 1], [80, 96])
    assert line(below.get_lines(), "ASNI-I") == ([0, 1], [10, 90])


def test_runs_differ_in_more_than_colour(tmp_path: Path) -> None:
    run = make_run(tmp_path, random_weights("fc"))
    lines = training({f"method {number}": run for number in range(9)}).axes[0].get_lines()
    assert len({(each.get_color(), each.get_marker()) for each in lines}) == 9
    assert len({(each.get_marker(), str(each.get_linestyle())) for each in lines[:7]}) == 7


def test_a_nan_is_a_gap_and_the_point_between_two_gaps_is_marked(tmp_path: Path) -> None:
    accuracy = [90.0] * 97 + [None, 95.0, None]
    run = make_run(tmp_path, random_weights("fc"), accuracy, [0.5] * 100)
    figure = training({"asni-1": run})
    drawn = figure.axes[0].get_lines()[0]
    assert np.flatnonzero(np.isnan(np.asarray(drawn.get_ydata()))).tolist() == [97, 99]
    marked = drawn.get_markevery()
    assert isinstance(marked, list)
    assert 98 in marked
    figure.savefig(tmp_path / "gaps.png")


def test_a_run_of_nothing_but_nan_still_draws(tmp_path: Path) -> None:
    run = make_run(tmp_path, random_weights("fc"), [None, None], [None, None])
    training({"asni-1": run}).savefig(tmp_path / "nan.png")
    schedule(2, float("nan"), run=run).savefig(tmp_path / "nan.svg")
    assert (tmp_path / "nan.png").stat().st_size > 0


def test_the_accuracy_axis_holds_every_epoch_after_the_first_tenth(tmp_path: Path) -> None:
    accuracy = [10.0, 20.0, *[95.0] * 17, 60.0]
    low, high = training({"asni-1": make_run(tmp_path, random_weights("fc"), accuracy, [0.5] * 20)}).axes[0].get_ylim()
    assert 20 < low < 60
    assert high > 95


def test_no_runs_is_an_error() -> None:
    with pytest.raises(AsniError, match="no runs"):
        training({})


def test_a_name_is_written_as_it_is_and_never_lost_from_the_legend(tmp_path: Path) -> None:
    run = make_run(tmp_path, random_weights("fc"))
    figure = training({"_mine": run, "$\\frac$": run, "a$b": run})
    figure.savefig(tmp_path / "names.png")
    written = [text.get_text().strip() for text in figure.legends[0].get_texts()]
    assert [text.replace("\\$", "$") for text in written] == ["_mine", "$\\frac$", "a$b"]
