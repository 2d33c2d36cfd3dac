import math
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from asni.errors import AsniError
from asni.figures import accuracy_by_nonzeros
from asni.figures.methods import points


def result(method: str, nonzeros: int, accuracy: float | None, seed: int = 0) -> dict[str, Any]:
    return {"method": method, "nonzeros": nonzeros, "accuracy": accuracy, "seed": seed}


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_point_is_the_mean_and_standard_deviation_over_seeds() -> None:
    small, large = points([result("asni", 1000, 90), result("asni", 100, 80), result("asni", 100, 84, seed=1)])
    assert (small.nonzeros, small.mean, small.spread) == (100, 82, math.sqrt(8))
    assert (large.nonzeros, large.mean, large.spread) == (1000, 90, 0)


def test_sizes_within_ten_percent_are_one_point() -> None:
    assert [point.nonzeros for point in points([result("str", n, 90) for n in (100, 109, 112)])] == [104.5, 112]


def test_methods_are_lines_and_dense_is_a_level() -> None:
    figure = accuracy_by_nonzeros(
        [result("dense", 10_000, 99), result("asni", 1000, 97), result("asni", 500, 95), result("snip", 1000, 90)]
    )
    level, asni = figure.axes[0].get_lines()[:2]
    assert np.asarray(level.get_ydata()).tolist() == [99, 99]
    assert np.asarray(asni.get_xdata()).tolist() == [500, 1000]
    assert np.asarray(asni.get_ydata()).tolist() == [95, 97]
    assert sorted(legend(figure)) == ["ASNI-I", "SNIP", "dense"]


def test_the_axis_names_the_measured_sizes() -> None:
    figure = accuracy_by_nonzeros([result("asni", 8330, 97), result("gmp", 8331, 96), result("gmp", 101_998, 98)])
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["8.33 k", "102 k"]


@pytest.mark.parametrize("accuracy", [math.nan, None])
def test_a_diverged_seed_is_counted_not_averaged(accuracy: float | None) -> None:
    figure = accuracy_by_nonzeros([result("asni", 100, accuracy), result("asni", 100, 90, seed=1)])
    assert legend(figure) == ["ASNI-I (1 NaN)"]
    assert np.asarray(figure.axes[0].get_lines()[0].get_ydata()).tolist() == [90]


def test_nothing_but_diverged_seeds_still_draws() -> None:
    figure = accuracy_by_nonzeros([result("asni", 100, math.nan), result("dense", 100, math.nan)])
    figure.draw_without_rendering()
    assert sorted(legend(figure)) == ["ASNI-I (1 NaN)", "dense (1 NaN)"]


def test_no_results_is_an_error() -> None:
    with pytest.raises(AsniError, match="no results"):
        accuracy_by_nonzeros([])


@pytest.mark.parametrize(
    ("nonzeros", "left_out"), [(0, "without nonzeros"), (math.nan, "NaN"), (None, "NaN"), (math.inf, "NaN")]
)
def test_a_size_that_has_no_place_on_the_axis_is_counted_not_drawn(nonzeros: float | None, left_out: str) -> None:
    figure = accuracy_by_nonzeros([{**result("asni", 100, 90), "nonzeros": nonzeros}, result("asni", 100, 90, seed=1)])
    figure.draw_without_rendering()
    assert legend(figure) == [f"ASNI-I (1 {left_out})"]
    assert np.asarray(figure.axes[0].get_lines()[0].get_xdata()).tolist() == [100]


def test_nothing_but_empty_networks_still_draws() -> None:
    figure = accuracy_by_nonzeros([result("asni", 0, 10), result("asni", 0, math.nan)])
    figure.draw_without_rendering()
    assert legend(figure) == ["ASNI-I (1 without nonzeros, 1 NaN)"]


def test_a_method_is_written_by_its_name_whatever_that_is() -> None:
    figure = accuracy_by_nonzeros([result("$a_$", 100, 90), result("_b", 200, 90)])
    figure.draw_without_rendering()
    assert [text.replace("\\$", "$").strip() for text in legend(figure)] == ["$a_$", "_b"]
