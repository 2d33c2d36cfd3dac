"""ASNI-I beside the authors' early program: sdamadi/image-classification, commit 91f7b48.

The program prunes a share of the living weights and rounds each share down to whole weights. The paper's line 6 takes a
percentile of all weights, so ours rounds once: the counts differ by at most one weight per pruning.
"""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from asni.pruning.gradual import GradualMagnitude
from asni.pruning.schedules import Sigmoid, kept
from tests.methods.official.reading import vectors

INPUTS, OUTPUTS = vectors("asni")
LEAST = 0.001
STAGES = INPUTS["stages"]
COUNTED = STAGES - 1
"""The program prunes once more after it has saved the network."""


def schedule(case: str, prunable: int | None = None) -> Sigmoid:
    settings = INPUTS["cases"][case]
    return Sigmoid.from_alpha(settings["alpha"], STAGES, INPUTS["beta"], settings["gamma"], LEAST, prunable)


def network() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 8))
    model.load_state_dict({name: torch.tensor(value) for name, value in INPUTS["state"].items()})
    return model


def bits(rows: list[str]) -> list[list[bool]]:
    return [[bit == "1" for bit in row] for row in rows]


@pytest.mark.parametrize("case", INPUTS["cases"])
def test_the_network_that_the_program_saves_has_the_nonzeros_that_alpha_gives(case: str) -> None:
    assert kept(1_520, schedule(case, prunable=1_520).final) == OUTPUTS[case][COUNTED - 1]["nonzero_weights"]


@pytest.mark.parametrize("case", INPUTS["cases"])
def test_the_same_prunings_are_left_out(case: str) -> None:
    planned = schedule(case)
    curve = [0.0, *(planned(epoch, STAGES) for epoch in range(COUNTED))]
    left_out = [after == before for before, after in pairwise(curve)]
    assert left_out == [stage["skipped"] for stage in OUTPUTS[case][:COUNTED]]


@pytest.mark.parametrize("case", INPUTS["cases"])
def test_the_counts_differ_by_at_most_one_weight_per_pruning(case: str) -> None:
    planned = schedule(case)
    for prunings, stage in enumerate(OUTPUTS[case][:COUNTED], 1):
        theirs, ours = stage["nonzero_weights"], kept(1_520, planned(stage["stage"], STAGES))
        assert 0 <= theirs - ours <= prunings


@pytest.mark.parametrize("case", INPUTS["cases"])
def test_the_same_weights_are_pruned_for_the_same_count(case: str) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pruner = GradualMagnitude(model, optimizer, schedule=schedule(case), steps=STAGES, every=1)
    compared = 0
    for stage in OUTPUTS[case]:
        pruner.prune(1 - stage["nonzero_weights"] / 1_520)
        expected: dict[str, Any] = stage.get("masks", {})
        for name, rows in expected.items():
            assert pruner.masks[name].tolist() == bits(rows)
            compared += 1
    assert compared == 14, "seven stages of two layers"
