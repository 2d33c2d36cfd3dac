"""An exact number of weights within a budget of multiplications: the masks, and a whole training with both."""

import math
import re
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim import SGD

from asni.errors import AsniError, UsageError
from asni.methods.asni import ASNI
from asni.methods.gmp import GMP
from asni.methods.magnitude import Magnitude
from asni.pruning.budgets import Goal, keep_within, require_possible
from asni.pruning.costs import Budget, Costs, Table, macs_budget
from asni.pruning.gradual import GradualMagnitude
from asni.pruning.layers import prunable
from asni.pruning.masks import count, count_each, full_masks, keep_largest
from asni.pruning.schedules import Step
from asni.pruning.scores import Score, keep_highest, lamp, magnitude
from tests.training.training_by_hand import two_layers, weights

SCORES: list[Score] = [magnitude, lamp]
METHODS: list[Callable[..., GradualMagnitude]] = [ASNI, GMP, Magnitude]

# Few distinct values, so that most examples are full of ties.
tied = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
prices = st.sampled_from([0.0, 1.0, 2.0, 5.0, 16.0])


def layers_of(values: st.SearchStrategy[float], unique: bool = False) -> st.SearchStrategy[dict[str, Tensor]]:
    layer = st.lists(values, min_size=1, max_size=5, unique_by=abs if unique else None)
    return st.lists(layer, min_size=1, max_size=4).map(
        lambda layers: {str(number): torch.tensor(layer, dtype=torch.float64) for number, layer in enumerate(layers)}
    )


def priced(layers: Mapping[str, Tensor], price_of_each: list[float], limit: float) -> Budget:
    """A budget for layers whose weights cost so much."""
    tables = {
        name: (Table.linear(layer.numel(), price),)
        for (name, layer), price in zip(layers.items(), price_of_each, strict=True)
    }
    costs = Costs(tables)
    return Budget(costs, limit, costs.dense)


def cost(masks: Mapping[str, Tensor], price_of_each: list[float]) -> float:
    return sum(price * kept for price, kept in zip(price_of_each, count_each(masks).values(), strict=True))


def same(masks: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(masks[name], others[name]) for name in others) and masks.keys() == others.keys()


def kept_values(layers: Mapping[str, Tensor], masks: Mapping[str, Tensor]) -> list[list[float]]:
    return [layers[name][mask].tolist() for name, mask in masks.items()]


FIRST, SECOND = [[1.0, -2.0], [3.0, 4.0]], [[1.5, 2.5], [-3.5, 4.5]]


def pruner_of(model: nn.Module, sparsity: float, **options: Any) -> GradualMagnitude:
    """One that prunes once."""
    optimizer = SGD(model.parameters(), lr=0.1)
    return GradualMagnitude(model, optimizer, schedule=Step(sparsity), steps=1, every=1, **options)


def pruned(model: nn.Module, sparsity: float, **options: Any) -> GradualMagnitude:
    pruner = pruner_of(model, sparsity, **options)
    pruner.prune(sparsity)
    return pruner


@pytest.mark.parametrize(
    ("macs", "first", "second"),
    [
        (1.0, [[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.0], [-3.5, 4.5]]),
        (0.5, [[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.0], [-3.5, 4.5]]),
        (0.49, [[0.0, 0.0], [0.0, 4.0]], [[0.0, 2.5], [-3.5, 4.5]]),
        (0.375, [[0.0, 0.0], [0.0, 4.0]], [[0.0, 2.5], [-3.5, 4.5]]),
    ],
)
def test_cheap_weights_take_the_place_of_dear_ones(
    macs: float, first: list[list[float]], second: list[list[float]]
) -> None:
    """Four of eight weights; those of the first layer cost three multiplications, and all together sixteen."""
    model = two_layers(FIRST, SECOND)
    pruned(model, 0.5, macs=macs, costs={"0.weight": 3, "1.weight": 1})
    assert weights(model) == [first, second]


def test_by_lamp_the_product_of_what_layers_keep_is_the_largest() -> None:
    """Of four weights that cost at most 6, one of the first and three of the second, whatever their scale."""
    for scale in (0.001, 1.0, 1000.0):
        model = two_layers([[scale * value for value in row] for row in FIRST], SECOND)
        pruned(model, 0.5, score="lamp", macs=0.4, costs={"0.weight": 3, "1.weight": 1})
        assert weights(model)[1] == [[0.0, 2.5], [-3.5, 4.5]]
        assert [[value != 0 for value in row] for row in weights(model)[0]] == [[False, False], [False, True]]


@given(layers_of(tied), st.data())
def test_the_number_is_exact_the_cost_within_the_budget_and_the_masks_nested(
    layers: dict[str, Tensor], data: st.DataObject
) -> None:
    score = data.draw(st.sampled_from(SCORES))
    price_of_each = [data.draw(prices) for _ in layers]
    total = sum(layer.numel() for layer in layers.values())
    end_keep = data.draw(st.integers(len(layers), total))
    dense = priced(layers, price_of_each, math.inf)
    end = Goal(end_keep, Budget(dense.costs, data.draw(st.floats(0, dense.costs.dense)), dense.whole))
    try:
        require_possible(end)
    except UsageError:
        return
    within = full_masks(layers)
    for progress in (0.3, 0.7, 1.0):
        now = Goal(round(total + (end_keep - total) * progress), end.budget.on_the_way(0.9 * progress, 0.9))
        masks = keep_within(layers, score, now, within, end=end)
        assert count(masks) == now.keep
        assert all(bool((within[name] | ~masks[name]).all()) for name in layers)
        # On the way, both are rounded to whole weights.
        assert cost(masks, price_of_each) <= now.budget.limit + (max(price_of_each) if progress < 1 else 0)
        for name, mask in masks.items():
            one = {name: layers[name]}
            assert same({name: mask}, keep_largest(one, int(mask.sum()), within={name: within[name]}))
            assert score is magnitude or mask.any()
        within = masks


@given(layers_of(st.floats(0.001, 1000), unique=True), st.data())
def test_no_other_masks_of_that_number_and_cost_keep_more(layers: dict[str, Tensor], data: st.DataObject) -> None:
    """More energy for magnitude, and for LAMP a larger product of the layers' energies."""
    price_of_each = [data.draw(prices) for _ in layers]
    keep = data.draw(st.integers(len(layers), sum(layer.numel() for layer in layers.values())))
    squares = [layer.abs().sort(descending=True).values.square().cumsum(0).tolist() for layer in layers.values()]
    counts = [each for each in product(*(range(1, len(own) + 1) for own in squares)) if sum(each) == keep]
    costs = {each: sum(price * number for price, number in zip(price_of_each, each, strict=True)) for each in counts}
    limit = data.draw(st.sampled_from(sorted(costs.values())))

    def energies(each: tuple[int, ...]) -> list[float]:
        return [own[number - 1] for own, number in zip(squares, each, strict=True)]

    worth: dict[Score, Callable[[tuple[int, ...]], float]] = {
        magnitude: lambda each: sum(energies(each)),
        lamp: lambda each: sum(map(math.log, energies(each))),
    }
    for score, of in worth.items():
        goal = Goal(keep, priced(layers, price_of_each, limit), floor=1)
        masks = keep_within(layers, score, goal, full_masks(layers))
        found = tuple(count_each(masks).values())
        assert costs[found] <= limit
        best = max(of(each) for each in counts if costs[each] <= costs[found])
        assert of(found) == pytest.approx(best, abs=1e-9)
        free = tuple(count_each(keep_highest(layers, score, keep, floor=1)).values())
        assert found == free or limit - costs[found] < max(price_of_each)


@given(layers_of(tied), st.data())
def test_a_budget_that_the_number_alone_meets_changes_nothing(layers: dict[str, Tensor], data: st.DataObject) -> None:
    price_of_each = [data.draw(prices) for _ in layers]
    keep = data.draw(st.integers(0, sum(layer.numel() for layer in layers.values())))
    for score in SCORES:
        masks = keep_highest(layers, score, keep)
        goal = Goal(keep, priced(layers, price_of_each, cost(masks, price_of_each)))
        if score is magnitude or all(count_each(masks).values()):
            assert same(keep_within(layers, score, goal, full_masks(layers)), masks)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("score", SCORES)
def test_many_weights_are_ranked_as_without_a_budget(score: Score, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layers = {"a": torch.randn(40, 50).to(dtype), "b": 1e-3 * torch.randn(30, 30).to(dtype), "c": torch.zeros(0, 4)}
    for keep in (100, 1000, 2500):
        masks = keep_highest(layers, score, keep)
        limit = cost(masks, [3, 1, 7])
        assert same(keep_within(layers, score, Goal(keep, priced(layers, [3, 1, 7], limit)), full_masks(layers)), masks)
        fewer = keep_within(layers, score, Goal(keep, priced(layers, [3, 1, 7], limit - 20)), full_masks(layers))
        low = min(3 * keep, cost(masks, [3, 1, 7]) - 20)
        assert count(fewer) == keep
        assert keep == 2500 or low - 2 <= cost(fewer, [3, 1, 7]) <= low


@pytest.mark.parametrize(
    ("score", "dear", "middle"), [(magnitude, [10.0, 3.0], [10.0, 2.0]), (lamp, [10.0, 9.99], [10.0, 6.08])]
)
def test_a_gain_is_a_square_or_a_logarithm_not_the_score_itself(
    score: Score, dear: list[float], middle: list[float]
) -> None:
    """For each multiplication, the second weight of the dear layer gains more, though its score is less than twice."""
    layers = {name: torch.tensor(own) for name, own in (("dear", dear), ("middle", middle), ("free", [10.0, 0.2, 0.1]))}
    masks = keep_within(layers, score, Goal(5, priced(layers, [2, 1, 0], 5)), full_masks(layers))
    assert count_each(masks) == {"dear": 2, "middle": 1, "free": 2}


@pytest.mark.parametrize("score", SCORES)
def test_of_thousands_of_choices_the_one_for_a_limit_is_the_best_of_its_cost(score: Score) -> None:
    torch.manual_seed(0)
    layers = {name: scale * torch.randn(60).double() for name, scale in (("a", 1.0), ("b", 0.5), ("c", 2.0))}
    kept_energy = [layer.abs().sort(descending=True).values.square().cumsum(0) for layer in layers.values()]
    first, second = torch.meshgrid(torch.arange(1, 61), torch.arange(1, 61), indexing="ij")
    third = 90 - first - second
    possible = (third >= 1) & (third <= 60)
    counts = [each[possible] for each in (first, second, third)]
    energies = torch.stack([own[each - 1] for own, each in zip(kept_energy, counts, strict=True)])
    worth = energies.sum(0) if score is magnitude else energies.log().sum(0)
    costs = 3 * counts[0] + counts[1] + 7 * counts[2]
    for limit in (180, 220, 260, 300):
        masks = keep_within(layers, score, Goal(90, priced(layers, [3, 1, 7], limit), floor=1), full_masks(layers))
        found = cost(masks, [3, 1, 7])
        own = [each[int(mask.sum()) - 1] for each, mask in zip(kept_energy, masks.values(), strict=True)]
        value = sum(own) if score is magnitude else sum(each.log() for each in own)
        assert limit - 7 < found <= limit
        assert float(value) == pytest.approx(float(worth[costs <= found].max()))


def test_a_weight_that_does_not_live_does_not_come_back() -> None:
    layers = {"dear": torch.tensor([3.0, 2.0, 1.0]), "cheap": torch.tensor([0.1, 0.2, 0.3])}
    within = {"dear": torch.tensor([False, True, True]), "cheap": torch.tensor([True, True, False])}
    masks = keep_within(layers, magnitude, Goal(2, priced(layers, [5, 1], 6)), within)
    assert kept_values(layers, masks) == [[2.0], [pytest.approx(0.2)]]


def test_ties_go_to_the_cheaper_layer_and_then_to_the_lower_index() -> None:
    layers = {"dear": torch.ones(4), "cheap": torch.ones(4)}
    found = {
        limit: {name: mask.tolist() for name, mask in keep_within(layers, magnitude, goal, full_masks(layers)).items()}
        for limit, goal in ((limit, Goal(4, priced(layers, [3, 1], limit))) for limit in (12, 9, 4))
    }
    assert found[12] == {"dear": [True] * 4, "cheap": [False] * 4}
    assert found[9] == {"dear": [True, True, False, False], "cheap": [True, True, False, False]}
    assert found[4] == {"dear": [False] * 4, "cheap": [True] * 4}


@pytest.mark.parametrize("limit", [10.0, 40.0, math.inf])
def test_lamp_empties_no_layer_even_if_all_its_weights_are_equal(limit: float) -> None:
    layers = {"equal": torch.ones(50), "other": torch.arange(1.0, 11.0), "dear": 1e-6 * torch.ones(9)}
    masks = keep_within(layers, lamp, Goal(4, priced(layers, [1, 1, 5], limit)), full_masks(layers))
    assert count(masks) == 4
    assert all(count_each(masks).values())


def test_what_the_end_needs_is_not_pruned_on_the_way() -> None:
    """The cheap weights are small: by magnitude alone, none of them would be left at the end."""
    layers = {"dear": torch.arange(10.0, 20.0), "cheap": torch.arange(1.0, 11.0)}
    end = Goal(5, priced(layers, [10, 1], 14))
    within = keep_within(layers, magnitude, Goal(10, priced(layers, [10, 1], math.inf)), full_masks(layers), end=end)
    assert count_each(within) == {"dear": 6, "cheap": 4}
    assert kept_values(layers, keep_within(layers, magnitude, end, within)) == [[19.0], [7.0, 8.0, 9.0, 10.0]]


def test_a_budget_in_milliseconds_stays_within_reach_though_more_weights_take_no_longer() -> None:
    """Both layers are as fast with four weights as with all; at the end only one of them can be slow."""
    torch.manual_seed(0)
    table = Table((0, 1, 4, 20), (0.0, 0.0, 6.0, 6.0))
    layers = {"a": torch.randn(20), "b": torch.randn(20)}
    end = Goal(10, Budget(Costs({"a": (table,), "b": (table,)}, fixed=1.0, unit="ms"), limit=7.5, whole=13.0))
    require_possible(end)
    for score in SCORES:
        within = full_masks(layers)
        for keep in (30, 20, 13, 10):
            within = keep_within(
                layers, score, Goal(keep, end.budget.on_the_way((40 - keep) / 40, 0.75)), within, end=end
            )
            assert count(within) == keep
        assert 1.0 + sum(map(table.of, count_each(within).values())) <= 7.5


class Net(nn.Module):
    """Weights that are multiplied 36, 16 and 1 times: 36 * 36 + 144 * 16 + 256 = 3,856 multiplications."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4)
        )

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.layers(images))

    def multiplications(self) -> int:
        uses = (36, 16, 1)
        return sum(use * int((weight != 0).sum()) for use, weight in zip(uses, prunable(self).values(), strict=True))


EXAMPLE = (1, 1, 8, 8)
WEIGHTS, DENSE = 436, 3856


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, each: Callable[[], None]) -> None:
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        images, targets = torch.randn(8, 1, 8, 8, generator=generator), torch.randn(8, 4, generator=generator)
        optimizer.zero_grad()
        mse_loss(model(images), targets).backward()
        optimizer.step()
        each()


@pytest.mark.parametrize("score", ["magnitude", "lamp"])
@pytest.mark.parametrize("method", METHODS)
def test_a_training_ends_within_both_budgets_which_follow_the_schedule(
    method: Callable[..., GradualMagnitude], score: str
) -> None:
    model = Net()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
    pruner = method(model, optimizer, sparsity=0.9, macs=0.06, example=EXAMPLE, total_steps=60, score=score)
    before = pruner.masks

    def keeps_to_both() -> None:
        nonlocal before
        after = pruner.masks
        assert all(bool((before[name] | ~after[name]).all()) for name in after)
        before = after
        sparsity = pruner.planned(pruner.steps)
        assert pruner.alive == round(WEIGHTS * (1 - sparsity))
        assert model.multiplications() <= DENSE * (1 - (1 - 0.06) * sparsity / 0.9) + 36

    train(model, optimizer, 60, keeps_to_both)
    assert pruner.alive == pruner.target == 44
    assert 0.06 * DENSE - 36 < model.multiplications() <= 0.06 * DENSE
    assert score == "magnitude" or all(count_each(pruner.masks).values())


def test_a_training_that_ends_early_is_within_both_budgets() -> None:
    model = Net()
    optimizer = SGD(model.parameters(), lr=0.05)
    with ASNI(model, optimizer, sparsity=0.9, macs=0.06, example=EXAMPLE, total_steps=60) as pruner:
        train(model, optimizer, 20, lambda: None)
    assert pruner.alive == 44
    assert model.multiplications() <= 0.06 * DENSE


def test_an_example_leaves_the_network_and_the_random_numbers_alone() -> None:
    model = Net()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    ASNI(model, SGD(model.parameters(), lr=0.1), sparsity=0.9, macs=0.06, example=EXAMPLE, total_steps=60)
    assert torch.equal(torch.rand(3), expected)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("floor", [None, 0.05, 2])
def test_a_budget_out_of_reach_is_refused_with_the_range_that_is_not(floor: float | None) -> None:
    model = Net()
    optimizer = SGD(model.parameters(), lr=0.1)
    options: dict[str, Any] = {"sparsity": 0.9, "example": EXAMPLE, "total_steps": 60, "floor": floor}
    with pytest.raises(UsageError, match=r"44 weights cannot keep to 0\.01 of .* Raise the budget") as refused:
        ASNI(model, optimizer, macs=0.01, **options)
    assert not optimizer._optimizer_step_pre_hooks
    found = re.search(r"take from (\S+) to (\S+)\. ", str(refused.value))
    assert found is not None
    low, high = map(float, found.groups())
    pruner = ASNI(model, optimizer, macs=low, **options)
    pruner.finish()
    assert pruner.alive == 44
    assert low * DENSE - 36 < model.multiplications() <= low * DENSE
    # One weight in each layer at least: 36 + 16 + 42 and 36 * 36 + 7 * 16 + 1.
    if floor is None:
        assert (low, high) == (0.0244, 0.365)


def test_a_floor_is_kept_under_a_budget() -> None:
    model = Net()
    optimizer = SGD(model.parameters(), lr=0.05)
    pruner = ASNI(model, optimizer, sparsity=0.9, macs=0.09, example=EXAMPLE, total_steps=60, floor=0.05)
    train(model, optimizer, 60, lambda: None)
    kept = list(count_each(pruner.masks).values())
    assert sum(kept) == 44
    assert all(number >= least for number, least in zip(kept, (2, 8, 13), strict=True))
    assert model.multiplications() <= 0.09 * DENSE


def test_layers_that_are_left_out_take_their_share_of_the_budget() -> None:
    model = Net()
    optimizer = SGD(model.parameters(), lr=0.05)
    options: dict[str, Any] = {"sparsity": 0.9, "example": EXAMPLE, "total_steps": 60, "exclude": "layers.0"}
    with pytest.raises(UsageError, match=r"0\.3 of the dense multiplications: .* from 0\.3\d+ to"):
        ASNI(model, optimizer, macs=0.3, **options)
    pruner = ASNI(model, optimizer, macs=0.36, floor=1, **options)
    train(model, optimizer, 60, lambda: None)
    assert pruner.alive == 40
    assert 0.36 * DENSE - 16 < model.multiplications() <= 0.36 * DENSE


def test_rows_of_attention_have_the_prices_of_their_lengths() -> None:
    """Queries are short and words are long, so rows of queries take the place of the others."""
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(4, 2, bias=False)
    example = {"query": torch.ones(2, 1, 4), "key": torch.ones(90, 1, 4), "value": torch.ones(90, 1, 4)}
    choices: list[dict[str, Any]] = [{}, {"macs": 0.1, "example": example, "floor": 3}]
    plain, cheap = (pruner_of(attention, 0.75, **options) for options in choices)
    by_rows = [
        [int(rows.sum()) for rows in pruner._at_the_end(pruner.weights)["in_proj_weight"].chunk(3)]
        for pruner in (plain, cheap)
    ]
    kept = count_each(cheap._at_the_end(cheap.weights))
    assert sum(kept.values()) == 16
    assert kept["out_proj.weight"] >= 3
    assert by_rows[0][1] + by_rows[0][2] > by_rows[1][1] + by_rows[1][2] >= 2
    taken = 2 * (by_rows[1][0] + kept["out_proj.weight"]) + 90 * (by_rows[1][1] + by_rows[1][2])
    assert taken <= 0.1 * (2 * 32 + 90 * 32)


def test_a_layer_that_no_example_reaches_is_refused_by_name_and_leaves_the_optimiser_alone() -> None:
    model = Net()
    model.register_module("spare", nn.Linear(2, 2))
    optimizer = SGD(model.parameters(), lr=0.1)
    with pytest.raises(UsageError, match=r"'spare\.weight' is not multiplied"):
        GMP(model, optimizer, sparsity=0.9, macs=0.5, example=EXAMPLE, total_steps=60)
    assert not optimizer._optimizer_step_pre_hooks
    pruner = GMP(model, optimizer, sparsity=0.9, macs=0.5, example=EXAMPLE, total_steps=60, exclude="spare")
    assert "spare.weight" not in pruner.weights


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_weights_that_cannot_be_ranked_are_refused_by_their_layer(score: Score, bad: float) -> None:
    layers = {"good": torch.ones(4), "broken": torch.tensor([1.0, bad, 2.0])}
    with pytest.raises(AsniError, match=r"of 3 values of layer 'broken' are NaN or infinite"):
        keep_within(layers, score, Goal(3, priced(layers, [3, 1], 4)), full_masks(layers))
    # Too dear to be kept, so that no threshold would look at it.
    layers = {"broken": torch.full((9,), bad), "good": torch.ones(4)}
    with pytest.raises(AsniError, match=r"9 of 9 values of layer 'broken'"):
        keep_within(layers, score, Goal(3, priced(layers, [3, 1], 4)), full_masks(layers))


def test_more_weights_than_live_cannot_be_kept() -> None:
    layers = {"a": torch.ones(4), "b": torch.ones(4)}
    within = {**full_masks(layers), "b": torch.zeros(4, dtype=torch.bool)}
    for limit in (1, 9):
        with pytest.raises(AsniError, match="cannot keep 5 of 4"):
            keep_within(layers, magnitude, Goal(5, priced(layers, [1, 1], limit)), within)


def test_a_checkpoint_of_another_budget_is_refused() -> None:
    def made(macs: float | None) -> ASNI:
        model = Net()
        return ASNI(model, SGD(model.parameters(), lr=0.1), sparsity=0.9, macs=macs, example=EXAMPLE, total_steps=60)

    state = made(0.06).state_dict()
    made(0.06).load_state_dict(state)
    for other in (0.07, None):
        with pytest.raises(UsageError, match=rf"macs is 0\.06 in the state and {other} here"):
            made(other).load_state_dict(state)


def test_a_training_that_is_resumed_ends_with_the_same_masks() -> None:
    def made() -> tuple[Net, SGD, ASNI]:
        model = Net()
        optimizer = SGD(model.parameters(), lr=0.05)
        return model, optimizer, ASNI(model, optimizer, sparsity=0.9, macs=0.06, example=EXAMPLE, total_steps=60)

    model, optimizer, pruner = made()
    states: list[dict[str, Any]] = []

    def save() -> None:
        if pruner.steps == 30:
            states.append({"model": {key: value.clone() for key, value in model.state_dict().items()}})
            states[0]["pruner"] = pruner.state_dict()

    train(model, optimizer, 60, save)
    other, other_optimizer, resumed = made()
    other.load_state_dict(states[0]["model"])
    resumed.load_state_dict(states[0]["pruner"])
    for step in range(30, 60):
        generator = torch.Generator().manual_seed(step)
        images, targets = torch.randn(8, 1, 8, 8, generator=generator), torch.randn(8, 4, generator=generator)
        other_optimizer.zero_grad()
        mse_loss(other(images), targets).backward()
        other_optimizer.step()
    assert same(resumed.masks, pruner.masks)


def test_a_score_of_your_own_is_its_own_gain() -> None:
    model = two_layers(FIRST, SECOND)
    costs = {"0.weight": 3, "1.weight": 1}
    pruned(model, 0.5, score=lambda name, weight: weight, macs=0.4, costs=costs)
    assert weights(model) == [[[0.0, 0.0], [0.0, 4.0]], [[1.5, 2.5], [0.0, 4.5]]]
    model = two_layers(FIRST, SECOND)
    pruned(model, 0.5, score=lambda name, weight: -weight, macs=0.4, costs=costs)
    assert weights(model) == [[[0.0, -2.0], [0.0, 0.0]], [[1.5, 2.5], [-3.5, 0.0]]]


def test_macs_of_an_example_are_those_of_the_network() -> None:
    model = Net()
    budget = macs_budget(model, prunable(model), 0.5, EXAMPLE)
    assert (budget.whole, model.multiplications()) == (DENSE, DENSE)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"costs": {"0.weight": 1.0}}, "pass macs= too"),
        ({"macs": 0.5, "costs": [1.0, 2.0]}, "costs is a dict of the names"),
        ({"macs": 0.5, "example": (1, 3), "budget": Budget(Costs({}), 1.0, 1.0)}, "choose one"),
        ({"budget": 2.0}, "budget is what asni.latency_budget returns, not float"),
    ],
)
def test_what_would_limit_nothing_or_twice_is_refused(given: dict[str, Any], message: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    with pytest.raises(UsageError, match=message):
        ASNI(model, SGD(model.parameters(), 0.1), sparsity=0.5, total_steps=10, **given)


@pytest.mark.parametrize("limit", [math.nan, -1.0, "2"])
def test_a_limit_that_is_no_number_is_refused(limit: Any) -> None:
    with pytest.raises(UsageError, match="the limit of a budget must be a number"):
        Budget(Costs({}), limit, 1.0)


def test_a_checkpoint_of_other_times_is_refused() -> None:
    def made(price: float) -> GMP:
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        costs = Costs({"0.weight": (Table.linear(12, price),), "1.weight": (Table.linear(8, 1.0),)}, unit="ms")
        budget = Budget(costs, 15.0, costs.dense)
        return GMP(model, SGD(model.parameters(), 0.1), sparsity=0.5, budget=budget, total_steps=10)

    made(1.0).load_state_dict(made(1.0).state_dict())
    with pytest.raises(UsageError, match="budget is"):
        made(1.1).load_state_dict(made(1.0).state_dict())


@pytest.mark.parametrize("method", METHODS)
def test_where_all_weights_cost_the_same_a_budget_for_their_number_changes_nothing(
    method: Callable[..., GradualMagnitude],
) -> None:
    torch.manual_seed(0)
    inputs, targets = torch.randn(16, 64), torch.randn(16, 10)

    def masks(**budget: Any) -> dict[str, Tensor]:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(64, 30, bias=False), nn.ReLU(), nn.Linear(30, 10, bias=False))
        optimizer = SGD(model.parameters(), lr=0.1)
        pruner = method(model, optimizer, sparsity=0.95, total_steps=60, **budget)
        for _ in range(60):
            optimizer.zero_grad()
            mse_loss(model(inputs), targets).backward()
            optimizer.step()
        return pruner.masks

    assert same(masks(macs=0.05, example=(1, 64)), masks())
