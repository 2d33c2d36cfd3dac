"""asni.summary: what is prunable, alive, multiplied and left, on networks small enough to count by hand."""

import copy
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import pack_sequence

import asni
from asni.errors import AsniError, UsageError
from asni.pruning.macs import InputSize
from asni.pruning.summary import Row
from tests.pruning.processes import failures


def small_network() -> nn.Sequential:
    """Every other weight of the first layer is zero; the second has larger ones."""
    model = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        model.get_parameter("0.weight").copy_(torch.tensor([[0.0, 1.0, 0.0, 2.0], [0.0, 3.0, 0.0, 4.0]]))
        model.get_parameter("0.bias").zero_()
        model.get_parameter("2.weight").copy_(torch.tensor([[5.0, 6.0], [7.0, 8.0]]))
    return model


def rows(model: nn.Module, input_size: InputSize | None = None, **options: Any) -> dict[str, Row]:
    return {row.layer: row for row in asni.summary(model, input_size, **options).rows}


def dense_macs(model: nn.Module, input_size: InputSize) -> dict[str, int | None]:
    return {name: row.macs for name, row in rows(model, input_size).items() if row.shape}


def test_a_model_is_a_table() -> None:
    assert str(asni.summary(small_network(), (10, 4), sparsity=0.75)).splitlines() == [
        "12 weights in 2 layers, 66.7 % of 18 parameters; left out: 6 norm, bias or vector",
        "layer      kind    shape  weights  alive  prunable  MACs  MACs alive  left at 0.75  MACs left",
        "0.weight   Linear    2x4        8      4       yes    80          40           ! 0          0",
        "2.weight   Linear    2x2        4      4       yes    40          40             3         30",
        "3 vectors                       6      2        no     -           -             2          -",
        "total                          18     10             120          80             5         30",
        "MAC density 66.7 %; pruning to 0.75 now would leave 25.0 % of the dense network's MACs",
        "! 1 layer would nearly die: fewer than one living weight per ten outputs. "
        'Rank with score="lamp", keep some of each',
        "layer with floor=0.01, or exclude layers of large weights.",
    ]


def test_columns_that_were_not_asked_for_are_left_out() -> None:
    heading = str(asni.summary(small_network())).splitlines()[1]
    assert heading.split() == ["layer", "kind", "shape", "weights", "alive", "prunable"]


def test_a_notebook_shows_the_same_table() -> None:
    model = nn.ModuleDict({"<b>": nn.Linear(2, 2)})
    page = asni.summary(model, sparsity=0.5)._repr_html_()
    row = "<td>&lt;b&gt;.weight</td><td>Linear</td><td>2x2</td><td>4</td><td>4</td><td>yes</td><td>2</td>"
    assert row in re.sub(' style=".*?"', "", page)
    assert "left at 0.5</th>" in page
    assert "<b>" not in page


def test_what_is_not_prunable_says_why() -> None:
    model = nn.ModuleDict(
        {
            "words": nn.Embedding(3, 2),
            "frozen": nn.Linear(2, 2),
            "normed": weight_norm(nn.Linear(2, 2)),
            "head": nn.Linear(2, 3),
        }
    )
    model["frozen"].requires_grad_(False)
    reasons = {name: row.left_out for name, row in rows(model, exclude="head").items() if row.shape}
    assert reasons == {
        "words.weight": "embedding",
        "frozen.weight": "frozen",
        "normed.parametrizations.weight.original0": "parametrised",
        "normed.parametrizations.weight.original1": "parametrised",
        "head.weight": "excluded",
    }


def test_weights_that_are_zero_now_stay_zero_at_a_lower_sparsity() -> None:
    model = small_network()
    assert [row.left for row in rows(model, sparsity=0.1).values()] == [4, 4, 2]


def test_score_and_floor_are_those_of_a_pruner() -> None:
    model = small_network()
    assert asni.summary(model, sparsity=0.75).nearly_dead == ["0.weight"]
    assert asni.summary(model, sparsity=0.75, floor=1).nearly_dead == []
    assert rows(model, sparsity=0.75, score=lambda name, weight: -weight.abs())["0.weight"].left == 3


@pytest.mark.parametrize("score", ["magnitude", "lamp"])
def test_the_table_foretells_what_a_pruner_leaves(score: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 10))
    foretold = rows(model, sparsity=0.8, score=score)
    with asni.Magnitude(
        model, torch.optim.SGD(model.parameters(), lr=0.1), sparsity=0.8, total_steps=1, score=score
    ) as pruner:
        pruner.finish()
    after = rows(model)
    assert all(after[f"{layer}.weight"].alive == foretold[f"{layer}.weight"].left for layer in (0, 2))


def convolution_and_head() -> nn.Sequential:
    """A weight of the convolution is multiplied 16 times, one of the head once; those of the head are smaller."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Flatten(), nn.Linear(32, 10))
    with torch.no_grad():
        model.get_parameter("2.weight").mul_(0.01)
    return model


def test_a_budget_keeps_fewer_of_the_weights_that_are_multiplied_often() -> None:
    model = convolution_and_head()
    free = asni.summary(model, (1, 1, 4, 4), sparsity=0.8)
    within = asni.summary(model, (1, 1, 4, 4), sparsity=0.8, macs=0.3)
    dense = 18 * 16 + 320
    assert [row.left for row in free.rows][:2] == [18, round(0.2 * 338) - 18]
    assert free.left_mac_density == pytest.approx((18 * 16 + 50) / dense)
    left = [row.left or 0 for row in within.rows][:2]
    assert sum(left) == round(0.2 * 338)
    assert within.left_mac_density == pytest.approx((16 * left[0] + left[1]) / dense)
    assert 16 * left[0] + left[1] <= 0.3 * dense < 16 * (left[0] + 1) + left[1] - 1
    assert (
        str(within).splitlines()[-1].startswith("MAC density 100.0 %; pruning to 0.8 within macs=0.3 now would leave ")
    )


@pytest.mark.parametrize("score", ["magnitude", "lamp"])
def test_the_table_foretells_what_a_pruner_with_a_budget_leaves(score: str) -> None:
    model = convolution_and_head()
    foretold = rows(model, (1, 1, 4, 4), sparsity=0.8, macs=0.3, score=score)
    limits: Any = {"macs": 0.3, "example": (1, 1, 4, 4), "score": score}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with asni.Magnitude(model, optimizer, sparsity=0.8, total_steps=1, **limits) as pruner:
        pruner.finish()
    after = rows(model, (1, 1, 4, 4))
    for layer in ("0.weight", "2.weight"):
        assert (after[layer].alive, after[layer].alive_macs) == (foretold[layer].left, foretold[layer].left_macs)


def test_a_budget_that_cannot_be_met_or_that_nothing_tells_of_is_refused() -> None:
    model = convolution_and_head()
    with pytest.raises(UsageError, match=r"68 weights cannot keep to 0\.01 .* they take from "):
        asni.summary(model, (1, 1, 4, 4), sparsity=0.8, macs=0.01)
    for options in ({"input_size": (1, 1, 4, 4)}, {"sparsity": 0.8}):
        with pytest.raises(UsageError, match=r"needs sparsity= and input_size="):
            asni.summary(model, macs=0.3, **options)


def test_mac_density_is_unknown_without_an_input() -> None:
    found = asni.summary(small_network(), sparsity=0.5)
    assert (found.mac_density, found.left_mac_density) == (None, None)
    assert "MAC" not in str(found)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.unused = nn.Linear(3, 3), nn.Linear(3, 3)
        self.own = nn.Parameter(torch.ones(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.layer(input=self.layer(x)) @ self.own)


class Attention(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True, **options)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        return cast(Tensor, self.attention(x, memory, value=memory)[0])


@pytest.mark.parametrize(
    ("model", "input_size", "expected"),
    [
        (nn.Conv2d(3, 8, 3, stride=2), (2, 3, 9, 9), {"weight": 8 * 3 * 9 * 2 * 16}),
        (nn.Conv2d(4, 8, 3, groups=2, padding=1), (1, 4, 5, 5), {"weight": 8 * 2 * 9 * 25}),
        (nn.ConvTranspose1d(4, 2, 3, stride=2), (1, 4, 5), {"weight": 4 * 2 * 3 * 5}),
        (nn.Linear(4, 3), (2, 7, 4), {"weight": 12 * 14}),
        (nn.Bilinear(2, 3, 4), [(5, 2), (5, 3)], {"weight": 24 * 5}),
        (nn.GRU(2, 3), (7, 5, 2), {"weight_ih_l0": 18 * 35, "weight_hh_l0": 27 * 35}),
        (nn.LSTMCell(2, 3), (5, 2), {"weight_ih": 24 * 5, "weight_hh": 36 * 5}),
        (
            Attention(),
            [(1, 2, 4), (1, 5, 4)],
            {"attention.in_proj_weight": 16 * (2 + 5 + 5), "attention.out_proj.weight": 16 * 2},
        ),
        (
            Attention(kdim=3, vdim=3),
            [(1, 2, 4), (1, 5, 3)],
            {
                "attention.q_proj_weight": 16 * 2,
                "attention.k_proj_weight": 12 * 5,
                "attention.v_proj_weight": 12 * 5,
                "attention.out_proj.weight": 16 * 2,
            },
        ),
        (Twice(), (4, 3), {"own": None, "layer.weight": 9 * 8, "unused.weight": None}),
    ],
    ids=["conv", "grouped", "transposed", "sequence", "bilinear", "gru", "cell", "attention", "cross", "twice"],
)  # fmt: skip
def test_multiplications_are_counted(model: nn.Module, input_size: InputSize, expected: dict[str, int | None]) -> None:
    assert dense_macs(model, input_size) == expected


def test_the_layers_of_a_transformer_are_seen_although_torch_would_fuse_them() -> None:
    model = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    assert dense_macs(model, (1, 5, 4)) == {
        "self_attn.in_proj_weight": 48 * 5,
        "self_attn.out_proj.weight": 16 * 5,
        "linear1.weight": 32 * 5,
        "linear2.weight": 32 * 5,
    }


def test_padded_sequences_are_seen_as_the_layers_get_them() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1)
    padding = torch.tensor([[False, False, True], [False, True, True]])
    example = {"src": torch.ones(2, 3, 4), "src_key_padding_mask": padding}
    assert dense_macs(model, example)["layers.0.linear1.weight"] == 32 * 6


def test_of_attention_the_living_rows_count_by_what_they_multiply() -> None:
    model = Attention()
    with torch.no_grad():
        model.attention.in_proj_weight[4:8] = 0.0
    assert rows(model, [(1, 2, 4), (1, 5, 4)])["attention.in_proj_weight"].alive_macs == 16 * (2 + 5)


def test_a_total_with_unknown_parts_says_so() -> None:
    total = next(line for line in str(asni.summary(Twice(), (4, 3))).splitlines() if line.startswith("total"))
    assert total.split() == ["total", "33", "33", ">=", "72", ">=", "72"]


def test_the_conv1d_of_hugging_face_is_a_linear_layer() -> None:
    transformers = pytest.importorskip("transformers.pytorch_utils")
    assert dense_macs(transformers.Conv1D(6, 4), (2, 5, 4)) == {"weight": 24 * 10}


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return cast(Tensor, self.head(self.words(tokens)))


def test_tokens_are_given_as_an_example_and_looking_them_up_multiplies_nothing() -> None:
    tokens = torch.zeros(2, 5, dtype=torch.int64)
    assert dense_macs(nn.Embedding(9, 4), tokens) == {"weight": 0}
    assert dense_macs(Tied(), {"tokens": tokens}) == {"words.weight": 36 * 10}


def test_a_packed_sequence_counts_its_steps() -> None:
    model = nn.RNN(2, 3)
    example = pack_sequence([torch.zeros(3, 2), torch.zeros(1, 2)])
    assert dense_macs(model, {"input": example})["weight_ih_l0"] == 6 * 4


class Restless(nn.Module):
    """Changes what a forward can change: statistics, counters, random numbers."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.drop = nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.count = self.count + 1
        return cast(Tensor, self.drop(self.norm(self.layer(x)))) + torch.rand(())


def test_nothing_about_the_model_changes() -> None:
    model = Restless().train()
    model.norm.eval()
    before, flags = copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]
    versions = [weight._version for weight in model.parameters()]
    held, random_state, python_state = model.count, torch.get_rng_state(), random.getstate()
    asni.summary(model, (5, 4), sparsity=0.5)
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert model.count is held
    assert [module.training for module in model.modules()] == flags
    assert torch.equal(torch.get_rng_state(), random_state)
    assert random.getstate() == python_state
    assert [weight._version for weight in model.parameters()] == versions
    assert not any(module._forward_hooks for module in model.modules())


def test_a_batch_of_one_passes_a_model_in_training() -> None:
    assert dense_macs(Restless().train(), (1, 4)) == {"layer.weight": 12}


def test_a_model_that_fails_is_left_as_it_was_and_the_size_is_named() -> None:
    model = Restless().train()
    with pytest.raises(AsniError, match=r"Restless fails on an input of size 5x7: .*\n.*\(1, 3, 32, 32\)"):
        asni.summary(model, (5, 7))
    assert model.training
    assert model.count.item() == 0
    assert not any(module._forward_hooks for module in model.modules())


def test_a_network_in_training_shows_the_zeros_of_its_pruner() -> None:
    model = nn.Linear(10, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with asni.Magnitude(model, optimizer, sparsity=0.6, total_steps=2) as pruner:
        for _ in range(2):
            model(torch.randn(3, 10)).sum().backward()
            optimizer.step()
            assert rows(model)["weight"].alive == int(pruner.masks["weight"].sum())
    assert rows(model, (1, 10))["weight"].alive_macs == 40


def test_wrappers_are_neither_run_nor_named() -> None:
    def refuse(*arguments: object) -> Callable[..., object]:
        raise AssertionError("compiled")

    compiled = torch.compile(nn.DataParallel(nn.Sequential(nn.Linear(4, 2))), backend=refuse)
    assert dense_macs(cast(nn.Module, compiled), (3, 4)) == {"0.weight": 24}
    inside = nn.Linear(4, 2)
    inside.compile(backend=refuse)
    assert dense_macs(inside, (3, 4)) == {"weight": 24}


def one_process_asks_about_a_model_in_ddp() -> None:
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)))
    if torch.distributed.get_rank() == 1:
        assert dense_macs(model, (3, 4)) == {"0.weight": 24}


def all_processes_ask_about_sharded_weights() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.TransformerEncoderLayer(3, 1, 5, batch_first=True))
    whole = asni.summary(model, (2, 6, 4), sparsity=0.5)
    fully_shard(model[0])
    fully_shard(model)
    spread = asni.summary(model, (2, 6, 4), sparsity=0.5)
    assert [replace(row, kind="") for row in spread.rows] == [replace(row, kind="") for row in whole.rows]


def test_two_processes_need_not_ask_together_unless_the_weights_are_spread_over_them(tmp_path: Path) -> None:
    checks = {"ddp": one_process_asks_about_a_model_in_ddp, "shards": all_processes_ask_about_sharded_weights}
    assert failures(checks, 2, tmp_path) == {"ddp": [], "shards": []}


def test_half_precision_gets_an_input_of_its_own_type() -> None:
    assert dense_macs(nn.Linear(4, 2).bfloat16(), (3, 4)) == {"weight": 24}


def test_long_names_are_shortened_to_fit_the_table() -> None:
    model: nn.Module = nn.Linear(2, 2)
    for _ in range(20):
        model = nn.ModuleDict({"encoder": model})
    lines = str(asni.summary(model)).splitlines()
    assert max(map(len, lines)) == 120
    assert lines[2].startswith("encoder.encoder.")
    assert "….encoder." in lines[2]
    assert ".encoder.weight  Linear " in lines[2]


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (nn.ReLU(), {}, "ReLU has no parameters"),
        (nn.LazyLinear(3), {}, "'weight' has no shape yet"),
        (nn.Linear(3, 3, device="meta"), {}, "'weight' is on the meta device"),
        (nn.Linear(3, 3), {"sparsity": 90}, "fraction above 0 and below 1"),
        (nn.Embedding(3, 3), {"sparsity": 0.5}, "nothing to prune"),
        (nn.Linear(3, 3), {"input_size": 3}, "input_size is the size of a whole batch"),
        (nn.Linear(3, 3), {"input_size": (0, 3)}, "input_size is the size of a whole batch"),
        ("model.pt", {}, "must be a torch.nn.Module"),
    ],
)
def test_what_cannot_be_shown_is_said(model: nn.Module, options: dict[str, Any], said: str) -> None:
    with pytest.raises(AsniError, match=said):
        asni.summary(model, **options)


def test_a_model_that_cannot_be_pruned_still_has_a_table() -> None:
    assert (
        asni.summary(nn.Embedding(3, 4)).headline
        == "0 weights in 0 layers, 0.0 % of 12 parameters; left out: 12 embedding (weight)"
    )


def test_a_wrong_size_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="'3x32x32'"):
        asni.summary(nn.Linear(3, 3), "3x32x32")  # type: ignore[arg-type]
