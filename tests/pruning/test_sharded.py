"""Weights that are spread over processes (FSDP2, tensor parallelism) get the masks of one process, bit for bit."""

import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from asni.errors import AsniError
from asni.methods.gmp import GMP
from asni.pruning.budgets import Goal, keep_within
from asni.pruning.costs import Budget, Costs, Table
from asni.pruning.layers import prunable
from asni.pruning.layerwise import random_masks
from asni.pruning.masks import (
    count,
    floor_counts,
    full_masks,
    keep_largest,
    nearly_empty,
    nonzero_masks,
    require_same_on_every_rank,
    weight_count,
    weights_to_keep,
)
from asni.pruning.scores import lamp, magnitude, scored
from asni.pruning.sharded import local, spread_like
from tests.pruning.processes import failures

# On three processes: uneven shards, empty shards, a layer without weights.
SHAPES = [(7, 5), (2, 9), (4, 3, 3, 2), (6,), (1, 1), (0, 4), (5, 8), (13, 2, 3)]
LEVELS = [-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 1e-42, -1e-42]


def line() -> DeviceMesh:
    return init_device_mesh("cpu", (torch.distributed.get_world_size(),))


def square() -> DeviceMesh:
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


def network(draw: random.Random, dtypes: list[torch.dtype]) -> dict[str, Tensor]:
    """Layers of random shapes and formats; the values of some are all different, of the others mostly tied."""
    torch.manual_seed(draw.randrange(2**30))
    layers = {}
    for number in range(draw.randint(1, 5)):
        shape = draw.choice(SHAPES)
        tied = torch.tensor(LEVELS)[torch.randint(len(LEVELS), shape)]
        layers[f"layer {number}"] = draw.choice([tied, tied, torch.randn(shape)]).to(draw.choice(dtypes))
    return layers


def spread(draw: random.Random, layers: dict[str, Tensor], mesh: DeviceMesh) -> dict[str, Tensor]:
    """Some layers as they are, the others on the mesh in random ways; at least one."""
    spread_layers: dict[str, Tensor] = {}
    for name, tensor in layers.items():
        choices: list[Placement] = [Replicate(), *map(Shard, range(tensor.ndim))]
        placements = [draw.choice(choices) for _ in range(mesh.ndim)]
        plain = spread_layers and draw.random() < 0.2
        spread_layers[name] = tensor if plain else distribute_tensor(tensor, mesh, placements, src_data_rank=None)
    return spread_layers


def whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, weight in weights.items():
        assert torch.equal(whole(found[name]), expected[name]), name
        assert type(found[name]) is (DTensor if isinstance(weight, DTensor) else Tensor)
        if isinstance(weight, DTensor):
            here = found[name]
            assert isinstance(here, DTensor)
            assert (here.device_mesh, here.placements) == (weight.device_mesh, weight.placements)
            assert (here.shape, here.stride()) == (weight.shape, weight.stride())


def check_random_networks(mesh: DeviceMesh, seeds: range) -> None:
    for seed in seeds:
        draw = random.Random(seed)
        dtypes = draw.choice([[torch.float32], [torch.float64, torch.float32, torch.bfloat16], [torch.bfloat16]])
        layers = network(draw, dtypes)
        there = spread(draw, layers, mesh)
        by = draw.choice([torch.abs, torch.neg, lambda score: score])
        keep = draw.randint(0, weight_count(layers))
        outer, outer_there = keep_largest(layers, keep, by=by), keep_largest(there, keep, by=by)
        assert_same(outer_there, outer, there)
        assert count(outer_there) == keep
        fewer = draw.randint(0, keep)
        within = draw.choice([outer, outer_there])
        assert_same(
            keep_largest(there, fewer, within=within, by=by), keep_largest(layers, fewer, within=outer, by=by), there
        )
        floor = draw.choice([0.1, 1, 3])
        least = sum(floor_counts({name: layer.numel() for name, layer in layers.items()}, floor, keep=10**6).values())
        assert_same(
            keep_largest(there, max(keep, least), by=by, floor=floor),
            keep_largest(layers, max(keep, least), by=by, floor=floor),
            there,
        )


def random_networks_get_the_masks_of_one_process() -> None:
    check_random_networks(line(), range(20))


def random_networks_on_a_square_of_processes_get_the_masks_of_one() -> None:
    check_random_networks(square(), range(12))


def rows(*values: float) -> DTensor:
    """A column of values, spread by its rows."""
    return distribute_tensor(torch.tensor(values).view(-1, 1), line(), [Shard(0)], src_data_rank=None)


def columns(tensor: Tensor) -> DTensor:
    return distribute_tensor(tensor, line(), [Shard(1)], src_data_rank=None)


def ties_go_to_the_lower_index_of_the_whole_layer() -> None:
    masks = keep_largest({"a": columns(torch.ones(2, 4)), "b": rows(1.0, 1.0, 2.0)}, keep=6)
    assert whole(masks["a"]).tolist() == [[True] * 4, [True, False, False, False]]
    assert whole(masks["b"]).flatten().tolist() == [False, False, True]


def a_large_layer_is_ranked_piece_by_piece() -> None:
    """More weights in each process than it works on at a time, most of them tied."""
    torch.manual_seed(0)
    layers = {"a": torch.randint(-3, 4, (700, 601)).float(), "b": torch.randn(3, 5)}
    there = {"a": columns(layers["a"]), "b": columns(layers["b"])}
    within = {"a": torch.rand(700, 601) < 0.9, "b": torch.ones(3, 5, dtype=torch.bool)}
    expected = keep_largest(layers, 100_000, within=within)
    assert_same(keep_largest(there, 100_000, within=within), expected, there)


def a_bad_weight_in_one_process_is_refused_by_its_layer_in_all() -> None:
    for bad in (math.nan, math.inf, -math.inf):
        layers = {"first": rows(1.0, 2.0, 3.0), "second": rows(1.0, 2.0, 3.0, 4.0, 5.0, bad)}
        with pytest.raises(AsniError, match=r"1 of 6 .*'second'"):
            keep_largest(layers, keep=2)


def more_than_there_is_cannot_be_kept() -> None:
    with pytest.raises(AsniError, match="4 of 3"):
        keep_largest({"a": rows(1.0, 2.0, 3.0)}, keep=4)
    with pytest.raises(AsniError, match="2 of 1"):
        keep_largest({"a": rows(1.0, 2.0, 3.0)}, keep=2, within={"a": torch.tensor([[True], [False], [False]])})


def partial_sums_are_refused_by_name() -> None:
    summand = DTensor.from_local(torch.ones(2, 2), line(), [Partial()], run_check=False)
    for ask in (lambda layers: keep_largest(layers, keep=1), count):
        with pytest.raises(AsniError, match=r"'a second layer'.*Partial"):
            ask({"a layer": rows(1.0, 2.0), "a second layer": summand})


def a_shard_of_another_shape_than_its_placement_gives_is_refused_in_all() -> None:
    """The second process holds 3 rows and the others 1."""
    here = torch.ones(3 if torch.distributed.get_rank() == 1 else 1, 2)
    odd = DTensor.from_local(here, line(), [Shard(0)], run_check=False, shape=torch.Size([4, 2]), stride=(2, 1))
    with pytest.raises(AsniError, match=r"'odd'.*shape"):
        keep_largest({"odd": odd}, keep=1)


def a_process_outside_the_mesh_is_told() -> None:
    mesh = DeviceMesh("cpu", [0, 1])
    layers = {"a": distribute_tensor(torch.arange(4.0), mesh, [Shard(0)], src_data_rank=None)}
    if torch.distributed.get_rank() == 2:
        with pytest.raises(AsniError, match="process 2 is not in it"):
            keep_largest(layers, 1)
    else:
        assert count(keep_largest(layers, 1)) == 1


def counts_are_those_of_the_whole_network() -> None:
    weights = {"a": columns(torch.tensor([[1.0, 0.0, 3.0]])), "b": rows(*[0.0] * 11), "c": torch.ones(2)}
    assert weight_count(weights) == 16
    assert weights_to_keep(weights, sparsity=0.75, floor=1) == 4
    living = nonzero_masks(weights)
    assert count(living) == 4
    assert list(nearly_empty(living)) == ["b"]
    assert count(full_masks(weights)) == 16
    replicated = distribute_tensor(torch.eye(3), line(), [Replicate()], src_data_rank=None)
    assert count(nonzero_masks({"d": replicated})) == 3


def ranks_must_agree_only_where_they_hold_the_same() -> None:
    rank = torch.distributed.get_rank()
    require_same_on_every_rank({"a": rows(1.0, 0.0, 1.0) != 0, "b": torch.ones(2, dtype=torch.bool)})
    replica = DTensor.from_local(torch.tensor([True, rank == 0]), line(), [Replicate()], run_check=False)
    with pytest.raises(AsniError, match="different masks"):
        require_same_on_every_rank({"a": rows(1.0, 0.0, 1.0) != 0, "b": replica})


def scores_are_those_of_one_process() -> None:
    torch.manual_seed(0)
    layers = {"a": torch.randn(5, 4), "b": torch.randn(2, 3).bfloat16()}
    there = {"a": columns(layers["a"]), "b": columns(layers["b"])}
    assert_same(scored(there, lamp), scored(layers, lamp), there)
    assert_same(scored(there, magnitude), scored(layers, magnitude), there)


def random_masks_are_those_of_one_process() -> None:
    layers, there = (
        {"a": torch.ones(5, 4), "b": torch.ones(7, 1)},
        {"a": columns(torch.ones(5, 4)), "b": rows(*[1.0] * 7)},
    )
    counts = {"a": 9, "b": 3}
    assert_same(random_masks(there, counts, seed=3), random_masks(layers, counts, seed=3), there)


def a_score_of_the_whole_layer_is_one_of_the_whole_layer() -> None:
    def share_of_the_sum(score: Tensor) -> Tensor:
        return score / score.sum()

    layers = {"a": torch.tensor([[1.0, 2.0, 3.0, 10.0]]), "b": torch.tensor([[0.25, 0.25, 0.5]])}
    there = {name: columns(layer) for name, layer in layers.items()}
    assert_same(keep_largest(there, 3, by=share_of_the_sum), keep_largest(layers, 3, by=share_of_the_sum), there)


def small_network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5), nn.Conv2d(3, 4, 3))


def check_model(model: nn.Module) -> None:
    """The masks of a network's weights, and that writing to the local part reaches the network."""
    layers, there = prunable(small_network()), prunable(model)
    expected, masks = keep_largest(layers, 30), keep_largest(there, 30)
    assert_same(masks, expected, there)
    for name, weight in there.items():
        before = local(weight)._version
        local(weight).mul_(local(masks[name]))
        assert local(weight)._version > before
        assert torch.equal(whole(weight.detach()), layers[name].detach() * expected[name])


def a_network_under_fsdp_gets_the_masks_of_one_process() -> None:
    model = small_network()
    fully_shard(model[2])
    fully_shard(model)
    check_model(model)


def a_network_under_fsdp_and_tensor_parallelism_gets_the_masks_of_one_process() -> None:
    model, mesh = small_network(), square()
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model[3], mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    check_model(model)


def a_network_with_hybrid_shards_counts_its_replicas_once() -> None:
    model = small_network()
    fully_shard(model, mesh=square())
    check_model(model)
    require_same_on_every_rank(keep_largest(prunable(model), 20))


def rows_that_both_divide_are_found() -> None:
    """FSDP2 divides the rows that tensor parallelism has divided; 6 and 7 rows do not come out even."""
    for size in (4, 6, 7):
        torch.manual_seed(size)
        plain = nn.Linear(3, size)
        model, mesh = nn.Sequential(nn.Linear(3, size)), square()
        model.load_state_dict({"0.weight": plain.weight, "0.bias": plain.bias})
        parallelize_module(model, mesh["tp"], {"0": ColwiseParallel()})
        fully_shard(model, mesh=mesh["dp"])
        weight = prunable(model)
        tied = keep_largest(weight, size, by=torch.zeros_like)
        expected = torch.arange(3 * size).view(size, 3) < size
        assert_same(tied, {"0.weight": expected}, weight)
        assert torch.equal(whole(spread_like(expected, weight["0.weight"])), expected)


def a_budget_is_met_by_the_masks_of_one_process() -> None:
    for seed, score in enumerate((magnitude, lamp, magnitude, lamp)):
        draw = random.Random(seed)
        layers = network(draw, [torch.float32, torch.bfloat16])
        there = spread(draw, layers, line())
        tables = {name: (Table.linear(layer.numel(), draw.choice([0.0, 1.0, 7.0])),) for name, layer in layers.items()}
        costs = Costs(tables)
        keep = draw.randint(len(layers), weight_count(layers))
        end = Goal(keep // 2, Budget(costs, 0.5 * costs.dense, costs.dense), floor=draw.choice([None, 0.05]))
        within, within_there = full_masks(layers), full_masks(there)
        for number, share in ((keep, 0.7), (keep // 2, draw.choice([0.1, 0.3, 1.0]))):
            goal = Goal(number, Budget(costs, share * costs.dense, costs.dense), end.floor)
            within = keep_within(layers, score, goal, within, end=end)
            within_there = keep_within(there, score, goal, within_there, end=end)
            assert_same(within_there, within, there)
            assert count(within_there) == number


def a_bad_weight_under_a_budget_is_refused_by_its_layer_in_all() -> None:
    layers = {"first": rows(1.0, 2.0, 3.0), "second": rows(1.0, 2.0, 3.0, 4.0, 5.0, math.nan)}
    costs = Costs({"first": (Table.linear(3, 2.0),), "second": (Table.linear(6, 1.0),)})
    with pytest.raises(AsniError, match=r"1 of 6 .*'second'"):
        keep_within(layers, magnitude, Goal(3, Budget(costs, 4.0, 12.0)), full_masks(layers))


Check = Callable[[], None]


def times_that_each_process_measures_are_those_of_the_first() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    price = 1.0 + torch.distributed.get_rank()
    costs = Costs({"0.weight": (Table.linear(64, price),), "1.weight": (Table.linear(64, 1.0),)}, unit="ms")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    pruner = GMP(model, optimizer, sparsity=0.5, budget=Budget(costs, 70.0, costs.dense), total_steps=10)
    pruner.finish()
    assert pruner.cost == 64


ANY_NUMBER: list[Check] = [
    random_networks_get_the_masks_of_one_process,
    ties_go_to_the_lower_index_of_the_whole_layer,
    a_large_layer_is_ranked_piece_by_piece,
    a_bad_weight_in_one_process_is_refused_by_its_layer_in_all,
    more_than_there_is_cannot_be_kept,
    partial_sums_are_refused_by_name,
    a_shard_of_another_shape_than_its_placement_gives_is_refused_in_all,
    counts_are_those_of_the_whole_network,
    ranks_must_agree_only_where_they_hold_the_same,
    scores_are_those_of_one_process,
    random_masks_are_those_of_one_process,
    a_score_of_the_whole_layer_is_one_of_the_whole_layer,
    a_budget_is_met_by_the_masks_of_one_process,
    a_bad_weight_under_a_budget_is_refused_by_its_layer_in_all,
    a_network_under_fsdp_gets_the_masks_of_one_process,
    times_that_each_process_measures_are_those_of_the_first,
]
CHECKS: dict[int, list[Check]] = {
    2: ANY_NUMBER,
    3: [*ANY_NUMBER, a_process_outside_the_mesh_is_told],
    4: [
        random_networks_on_a_square_of_processes_get_the_masks_of_one,
        a_network_under_fsdp_and_tensor_parallelism_gets_the_masks_of_one_process,
        a_network_with_hybrid_shards_counts_its_replicas_once,
        rows_that_both_divide_are_found,
    ],
}


@pytest.mark.parametrize("processes", CHECKS)
def test_in_several_processes(tmp_path: Path, processes: int) -> None:
    found = failures({check.__name__: check for check in CHECKS[processes]}, processes, tmp_path)
    assert not any(found.values()), "\n".join(f"{name}:\n{text[0]}" for name, text in found.items() if text)
