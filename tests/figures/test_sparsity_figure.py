from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from asni.figures import layer_sparsity
from tests.figures.made_runs import make_run, random_weights

RESNET = ["conv1", "layer1.0.conv1", "layer1.0.conv2", "layer2.0.conv1", "layer2.0.downsample.0", "linear"]


def bars(run: Path) -> list[Rectangle]:
    return [patch for patch in layer_sparsity(run).axes[0].patches if isinstance(patch, Rectangle)]


def test_bars_are_the_pruned_percent_of_each_layer(tmp_path: Path) -> None:
    weights = {"a.weight": np.array([[1, 0, 0, 0]], np.float32), "b.weight": np.array([[1, 1]], np.float32)}
    run = make_run(tmp_path, weights)
    assert [bar.get_height() for bar in bars(run)] == [75, 0]
    (level,) = layer_sparsity(run).axes[0].get_lines()
    assert level.get_label() == "whole network 50.0 %"
    assert np.asarray(level.get_ydata()).tolist() == pytest.approx([50, 50])


def test_the_legend_tells_how_many_multiplications_are_left_where_the_run_knows_it(tmp_path: Path) -> None:
    run = make_run(tmp_path, {"a.weight": np.array([[1, 0]], np.float32)}, mac_density=(1.0, 0.5, 0.125))
    (level,) = layer_sparsity(run).axes[0].get_lines()
    assert level.get_label() == "whole network 50.0 %, 12.5 % of its MACs left"


def test_a_percentage_stands_on_white_in_its_bar_or_above_one_too_short_for_it(tmp_path: Path) -> None:
    weights = {"a.weight": np.ones((1, 100), np.float32), "b.weight": np.ones((1, 100), np.float32)}
    weights["a.weight"][0, :60] = weights["b.weight"][0, :8] = 0
    inside, above = layer_sparsity(make_run(tmp_path, weights)).axes[0].texts
    assert (inside.get_text(), inside.get_position()[1] < 60) == ("60.0", True)
    assert (above.get_text(), above.get_position()[1] > 8) == ("8.0", True)
    for text in (inside, above):
        box = text.get_bbox_patch()
        assert box is not None
        assert to_hex(box.get_facecolor()) == "#ffffff"


def test_a_resnet_shows_stages_by_colour_and_special_layers_by_hatch(tmp_path: Path) -> None:
    run = make_run(tmp_path, random_weights(*RESNET))
    drawn = bars(run)
    colours = [to_hex(bar.get_facecolor()) for bar in drawn]
    assert colours[0] == colours[5] == "#000000"
    assert colours[1] == colours[2] != colours[3] == colours[4]
    stem, first, inner, second, skip, last = (bar.get_hatch() for bar in drawn)
    assert first == second
    assert len({first, skip, ""}) == 3
    assert not stem
    assert not inner
    assert not last
    assert [text.get_text() for text in layer_sparsity(run).axes[0].texts][-2:] == ["stage 1", "stage 2"]


def test_another_network_has_one_colour_and_no_hatch(tmp_path: Path) -> None:
    drawn = bars(make_run(tmp_path, random_weights("linear1", "linear2", "linear3")))
    assert len({bar.get_facecolor() for bar in drawn}) == 1
    assert not any(bar.get_hatch() for bar in drawn)


def test_a_layer_is_written_by_its_name_whatever_that_is(tmp_path: Path) -> None:
    figure = layer_sparsity(make_run(tmp_path, random_weights("x$a^$", "$\\frac$")))
    figure.draw_without_rendering()
    written = [text.get_text().replace("\\$", "$") for text in figure.axes[0].get_xticklabels()]
    assert sorted(written) == ["$\\frac$", "x$a^$"]
