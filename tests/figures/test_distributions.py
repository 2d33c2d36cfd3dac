import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from asni.figures.distributions import Histogram, Place, histogram, layers, places, surviving

finite = st.floats(-1e6, 1e6, width=32)
weights = arrays(np.float32, st.integers(1, 200), elements=finite)


@given(weights)
def test_every_weight_lies_in_the_bin_that_counted_it(values: npt.NDArray[np.float32]) -> None:
    counted = histogram([values])
    expected = np.zeros_like(counted.counts)
    for value in values.astype(np.float64):
        expected[int(np.searchsorted(counted.edges, value, side="right")) - 1] += 1
    assert counted.counts.tolist() == expected.tolist()
    assert counted.total == len(values)


@given(st.lists(weights, min_size=1, max_size=4))
def test_several_layers_count_as_one_network(parts: list[npt.NDArray[np.float32]]) -> None:
    together, joined = histogram(parts), histogram([np.concatenate(parts)])
    assert (together.first, together.counts.tolist()) == (joined.first, joined.counts.tolist())


def test_a_layer_larger_than_one_chunk_is_counted_whole() -> None:
    values = np.random.default_rng(0).normal(size=200_000).astype(np.float32)
    counted = histogram([values])
    expected, _ = np.histogram(values.astype(np.float64), counted.edges)
    assert counted.counts.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_float_type_is_counted(dtype: type) -> None:
    counted = histogram([np.array([-1.5, -0.5, 0.25, 1.5], dtype)]).merged(1.0)
    assert (counted.first, counted.counts.tolist()) == (-2, [1, 1, 1, 1])


@pytest.mark.parametrize("values", [[0.0, 0.0], [1e-40, -1e-40], [1e38, -1e38], [1e-30, 1.0, 3e38]])
def test_extreme_weights_are_counted_in_few_bins(values: list[float]) -> None:
    counted = histogram([np.array(values, np.float32)])
    assert counted.total == len(values)
    assert len(counted.counts) <= 2**16 + 1


@given(weights, st.integers(0, 12))
def test_merging_bins_loses_no_weight_and_keeps_signs_apart(values: npt.NDArray[np.float32], doublings: int) -> None:
    counted = histogram([values])
    merged = counted.merged(counted.width * 2**doublings)
    assert merged.total == len(values)
    assert merged.counts[: max(0, -merged.first)].sum() == (values < 0).sum()


def test_nothing_to_count() -> None:
    empty = histogram([np.zeros(0, np.float32)])
    assert empty.total == empty.merged(2.0).total == empty.within(1.0).total == 0


def test_reach_leaves_out_the_far_tail() -> None:
    assert Histogram(1.0, -2, np.array([0, 50, 49, 0, 0, 0, 1])).reach(0.99) == 1.0
    assert Histogram(1.0, -2, np.array([0, 50, 49, 0, 0, 0, 1])).reach(1.0) == 5.0


def test_within_keeps_only_whole_bins_inside() -> None:
    inside = Histogram(1.0, -2, np.array([1, 2, 3, 4])).within(1.0)
    assert (inside.first, inside.counts.tolist()) == (-1, [2, 3])


def test_survivors_are_the_masked_weights_even_where_they_are_zero() -> None:
    values = {"a.weight": np.array([0.0, 1.0, -2.0]), "b.weight": np.array([0.0, 3.0])}
    live = surviving(values, {"a.weight": np.array([True, True, False])})
    assert {name: found.tolist() for name, found in live.items()} == {"a.weight": [0.0, 1.0], "b.weight": [3.0]}


def test_centroids_are_the_means_of_each_sign_and_absent_without_that_sign() -> None:
    both, positive, none = layers(
        {
            "both.weight": np.array([1.0, 2.0, -4.0, 0.0], np.float32),
            "positive.weight": np.array([0.5, 0.0], np.float32),
            "none.weight": np.zeros(3, np.float32),
        },
        {},
    )
    assert (both.name, both.positive, both.negative, both.sparsity) == ("both", 1.5, -4.0, 0.25)
    assert (positive.positive, positive.negative) == (0.5, None)
    assert (none.positive, none.negative, none.sparsity, none.histogram.total) == (None, None, 1.0, 0)


def test_places_of_a_resnet() -> None:
    found = places(["conv1", "layer1.0.conv1", "layer1.0.conv2", "layer2.0.conv1", "layer2.0.downsample.0", "fc"])
    assert found == [
        Place(None),
        Place(1, opens=True),
        Place(1),
        Place(2, opens=True),
        Place(2, skip=True),
        Place(None),
    ]


def test_other_networks_have_no_stages() -> None:
    assert places(["features.conv1_1", "features.conv1_2", "linear"]) == [Place(None)] * 3
