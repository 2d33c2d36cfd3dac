"""RigL against nollied/rigl-torch, and its layer densities against google-research/rigl (its updates: test_set.py)."""

import math

import pytest
import torch
from torch import nn

from asni.methods.rigl import RigL
from asni.pruning.layerwise import erk
from tests.methods.official.reading import masks, tensors, vectors

INPUTS, OUTPUTS = vectors("rigl")


@pytest.mark.parametrize("optimizer_name", ["sgd", "sgd_momentum"])
def test_masks_and_weights_of_rigl_torch_after_every_call(optimizer_name: str) -> None:
    model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.ReLU(), nn.Linear(8, 4, bias=False)).double()
    model.load_state_dict(tensors(INPUTS["weights"]))
    momentum = INPUTS["momentum"][optimizer_name]
    optimizer = torch.optim.SGD(model.parameters(), lr=INPUTS["lr"], momentum=momentum)
    schedule = {"epochs": 1, "steps_per_epoch": INPUTS["T_end"], "every": INPUTS["delta"]}
    pruner = RigL(model, optimizer, sparsity=0.5, drop=INPUTS["alpha"], until=1.0, **schedule)
    model.load_state_dict(tensors(INPUTS["weights"]))
    pruner.masks = masks(INPUTS["masks"])
    pruner.steps = 1  # rigl-torch counts from 1
    updates = []
    for gradients, theirs in zip(INPUTS["gradients"], OUTPUTS["calls"][optimizer_name], strict=True):
        for name, gradient in tensors(gradients).items():
            model.get_parameter(name).grad = gradient
        optimizer.step()
        torch.testing.assert_close(pruner.masks, masks(theirs["masks"]))
        torch.testing.assert_close(dict(model.state_dict()), tensors(theirs["weights"]), rtol=1e-12, atol=1e-15)
        updates.append(theirs["mask_update"])
    assert updates == [False, True, False, True, False, True, False]


@pytest.mark.parametrize("sparsity", INPUTS["erk_sparsities"])
@pytest.mark.parametrize("network", ["conv", "fc"])
def test_layer_densities_of_google_research(network: str, sparsity: float) -> None:
    """Their densities are not rounded; our counts are, to an exact total."""
    shapes = {name: torch.Size(shape) for name, shape in INPUTS["erk_shapes"][network].items()}
    total = sum(map(math.prod, shapes.values()))
    counts = erk(shapes, round(total * (1 - sparsity)))
    for name, density in OUTPUTS["erk_densities"][network][str(sparsity)].items():
        size = math.prod(shapes[name])
        assert abs(counts[name] - density * size) < 2
        assert (counts[name] == size) is (density == 1)
