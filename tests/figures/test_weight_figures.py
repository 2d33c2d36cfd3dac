from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from safetensors.numpy import save_file

from asni.errors import AsniError
from asni.figures import layer_distributions, network_distribution
from tests.figures.made_runs import make_run, random_weights


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def normal(scale: float) -> npt.NDArray[np.float32]:
    return (scale * np.random.default_rng(0).normal(size=(100, 100))).astype(np.float32)


def test_each_layer_shows_its_name_sparsity_and_two_centroids(tmp_path: Path) -> None:
    weights = {
        "first.weight": np.array([[0.5, 1.5], [-0.25, 0]], np.float32),
        "last.weight": np.eye(2, dtype=np.float32),
    }
    shown = texts(layer_distributions(make_run(tmp_path, weights)))[1:]
    assert shown == ["−0.25", "1", "first", "25.0 % pruned", "1", "last", "50.0 % pruned"]  # noqa: RUF001


def test_centroids_stand_between_the_weights_they_average(tmp_path: Path) -> None:
    figure = layer_distributions(make_run(tmp_path, random_weights("fc")))
    negative, positive = (patch for patch in figure.axes[0].get_children() if isinstance(patch, StepPatch))
    marks = [float(np.asarray(each.get_xdata())[0]) for each in figure.axes[0].get_lines()[:2]]
    for patch, mark in zip((negative, positive), marks, strict=True):
        _, edges, _ = patch.get_data()
        assert edges[0] < mark < edges[-1]


def test_layers_can_be_chosen_by_name(tmp_path: Path) -> None:
    run = make_run(tmp_path, random_weights("conv1", "conv2", "fc"))
    shown = texts(layer_distributions(run, ["fc", "conv1.weight"]))
    assert [name for name in shown if name in ("conv1", "conv2", "fc")] == ["fc", "conv1"]
    with pytest.raises(AsniError, match=r"convv2.*'conv2'"):
        layer_distributions(run, ["convv2"])


def test_fifty_four_layers_fit_a_page(tmp_path: Path) -> None:
    figure = layer_distributions(make_run(tmp_path, random_weights(*(f"layer{i}" for i in range(54)))))
    width, height = figure.get_size_inches()
    assert width < 7
    assert height < 10
    assert sum(text.startswith("layer") for text in texts(figure)) == 54


def test_a_layer_that_died_is_shown_as_pruned(tmp_path: Path) -> None:
    figure = layer_distributions(make_run(tmp_path, {"fc.weight": np.zeros((2, 2), np.float32)}))
    figure.savefig(tmp_path / "dead.png")
    assert "100.0 % pruned" in texts(figure)


def test_one_far_weight_does_not_hide_the_others(tmp_path: Path) -> None:
    weights = normal(0.01)
    weights[0, 0] = 50
    figure = network_distribution({"dense": make_run(tmp_path, {"fc.weight": weights})})
    assert figure.axes[0].get_xlim()[1] < 0.1


def test_every_network_is_drawn_with_area_one(tmp_path: Path) -> None:
    dense = make_run(tmp_path / "dense", {"fc.weight": normal(0.02)})
    sparse = make_run(tmp_path / "asni-1", {"fc.weight": np.where(np.abs(normal(0.02)) > 0.03, normal(0.02), 0)})
    save_file({"fc.weight": normal(0.05)}, dense / "initial.safetensors")
    axes = network_distribution({"initial": dense, "dense": dense, "asni-1": sparse}).axes[0]
    assert [each.get_label() for each in axes.get_lines()] == ["initial", "dense", "ASNI-I"]
    for drawn in axes.get_lines():
        x, y = np.asarray(drawn.get_xdata()), np.asarray(drawn.get_ydata())
        assert y.sum() * (x[1] - x[0]) == pytest.approx(1, abs=0.01)
    spreads = [np.asarray(drawn.get_ydata()).max() for drawn in axes.get_lines()[:2]]
    assert spreads[1] == pytest.approx(2.5 * spreads[0], rel=0.2)


def test_the_gap_that_pruning_leaves_is_empty(tmp_path: Path) -> None:
    weights = np.where(np.abs(normal(1)) > 1, normal(1), np.float32(0))
    drawn = network_distribution({"asni-1": make_run(tmp_path, {"fc.weight": weights})}).axes[0].get_lines()[0]
    x, y = np.asarray(drawn.get_xdata()), np.asarray(drawn.get_ydata())
    assert (y[np.abs(x) < 0.9] == 0).all()
    assert (y[(np.abs(x) > 1.1) & (np.abs(x) < 1.5)] > 0).all()


def test_a_peak_that_would_flatten_the_others_is_cut_and_its_height_written(tmp_path: Path) -> None:
    piled = np.where(np.abs(normal(1)) > 0.1, normal(1e-6), normal(1))
    runs = {
        "dense": make_run(tmp_path / "a", {"fc.weight": piled}),
        "asni-1": make_run(tmp_path / "b", {"fc.weight": normal(1)}),
    }
    figure = network_distribution(runs)
    (note,) = texts(figure)
    assert note.startswith("dense peaks at ")
    assert figure.axes[0].get_ylim()[1] < float(note.split()[-1])


def test_no_layers_and_no_networks_are_errors(tmp_path: Path) -> None:
    with pytest.raises(AsniError, match=r"no layers.*`only`"):
        layer_distributions(make_run(tmp_path, random_weights("fc")), only=[])
    with pytest.raises(AsniError, match="no networks"):
        network_distribution({})


def test_names_of_layers_and_networks_are_written_as_they_are(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", random_weights("x$a^$", "_$\\frac$"))
    layer_distributions(run).savefig(tmp_path / "layers.png")
    assert {"x\\$a^\\$", "_\\$\\frac\\$"} <= {*texts(layer_distributions(run))}
    networks = network_distribution({"_mine": run, "$\\frac$": run})
    networks.savefig(tmp_path / "networks.png")
    assert [text.get_text() for text in networks.legends[0].get_texts()] == [" _mine", "\\$\\frac\\$"]
