import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from asni.errors import AsniError
from asni.pruning.layers import prunable
from asni.pruning.masks import count, keep_largest, nearly_empty

# Few distinct values, so that most examples are full of ties.
layers = st.lists(
    st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]), min_size=1, max_size=12), min_size=1
)


def named(values: list[list[float]]) -> dict[str, Tensor]:
    return {str(number): torch.tensor(layer) for number, layer in enumerate(values)}


def flat(tensors: dict[str, Tensor]) -> list[float]:
    return [value for tensor in tensors.values() for value in tensor.flatten().tolist()]


def test_one_threshold_for_all_layers() -> None:
    masks = keep_largest({"a": torch.tensor([0.1, -0.9]), "b": torch.tensor([[0.5], [-0.2]])}, keep=2)
    assert masks["a"].tolist() == [False, True]
    assert masks["b"].tolist() == [[True], [False]]


def test_ties_go_to_the_lower_index_across_layers() -> None:
    masks = keep_largest({"a": torch.tensor([1.0, -1.0]), "b": torch.tensor([1.0, 1.0, 2.0])}, keep=3)
    assert masks["a"].tolist() == [True, True]
    assert masks["b"].tolist() == [False, False, True]


@given(layers, st.data())
def test_the_count_is_exact_and_the_threshold_parts(values: list[list[float]], data: st.DataObject) -> None:
    scores = named(values)
    total = len(flat(scores))
    keep = data.draw(st.integers(0, total))
    lives = flat(keep_largest(scores, keep))
    magnitudes = [abs(value) for value in flat(scores)]
    by_rank = sorted(range(total), key=lambda index: (-magnitudes[index], index))
    assert [index for index in range(total) if lives[index]] == sorted(by_rank[:keep])


@given(layers, st.data())
def test_the_order_of_signed_scores_is_kept_when_asked(values: list[list[float]], data: st.DataObject) -> None:
    scores = named(values)
    signed = flat(scores)
    keep = data.draw(st.integers(0, len(signed)))
    lives = flat(keep_largest(scores, keep, by=lambda score: score))
    by_rank = sorted(range(len(signed)), key=lambda index: (-signed[index], index))
    assert [index for index in range(len(signed)) if lives[index]] == sorted(by_rank[:keep])


@given(layers, st.data())
def test_masks_are_nested_when_one_is_chosen_within_another(values: list[list[float]], data: st.DataObject) -> None:
    scores = named(values)
    first = data.draw(st.integers(0, len(flat(scores))))
    second = data.draw(st.integers(0, first))
    outer = keep_largest(scores, first)
    inner = keep_largest(scores, second, within=outer)
    assert count(inner) == second
    assert all(not (mask & ~outer[name]).any() for name, mask in inner.items())


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_weight_that_is_not_a_number_is_refused_by_its_layer(bad: float) -> None:
    with pytest.raises(AsniError, match=r"1 of 2 .*'second'"):
        keep_largest({"first": torch.ones(3), "second": torch.tensor([1.0, bad])}, keep=2)


def test_more_than_there_is_cannot_be_kept() -> None:
    with pytest.raises(AsniError, match="4 of 3"):
        keep_largest({"a": torch.ones(3)}, keep=4)
    with pytest.raises(AsniError, match="2 of 1"):
        keep_largest({"a": torch.ones(3)}, keep=2, within={"a": torch.tensor([True, False, False])})


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_every_float_format_is_ranked_in_full_precision(dtype: torch.dtype) -> None:
    close = torch.tensor([1.0, 1.0 + torch.finfo(dtype).eps, 0.5], dtype=dtype)
    assert keep_largest({"a": close}, keep=1)["a"].tolist() == [False, True, False]


def test_convolution_and_linear_weights_are_prunable_and_nothing_else() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Embedding(3, 2), nn.Linear(2, 2))
    assert list(prunable(model)) == ["0.weight", "4.weight"]
    assert list(prunable(nn.Linear(2, 2))) == ["weight"]


def test_a_shared_weight_is_counted_once() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    assert list(prunable(model)) == ["0.weight"]
    assert list(prunable(copy.deepcopy(model))) == ["0.weight"]


def test_a_network_without_such_layers_is_refused() -> None:
    with pytest.raises(AsniError, match=r"ReLU .*prune"):
        prunable(nn.ReLU())


@pytest.mark.parametrize("coarse", [torch.bfloat16, torch.float16])
def test_layers_of_different_formats_are_ranked_by_their_values(coarse: torch.dtype) -> None:
    masks = keep_largest({"coarse": torch.tensor([1.0], dtype=coarse), "fine": torch.tensor([1.0001])}, 1)
    assert (masks["coarse"].tolist(), masks["fine"].tolist()) == ([False], [True])


def test_a_weight_that_is_computed_from_others_is_refused_by_name() -> None:
    normed = nn.Sequential(nn.Linear(3, 2), nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)))
    with pytest.raises(AsniError, match=r"'1\.weight'.*parametrisation"):
        prunable(normed)


def test_a_weight_without_a_shape_is_refused_by_name() -> None:
    with pytest.raises(AsniError, match=r"'0\.weight'.*shape"):
        prunable(nn.Sequential(nn.LazyLinear(3)))


def test_a_layer_that_never_had_weights_is_not_said_to_have_lost_them() -> None:
    masks = {"none": torch.ones(5, 0, dtype=torch.bool), "lost": torch.zeros(5, 2, dtype=torch.bool)}
    assert list(nearly_empty(masks)) == ["lost"]
