"""SynFlow against ganguli-lab/Synaptic-Flow."""

import pytest
import torch
from torch import nn

from asni.methods.synflow import synflow_masks
from asni.pruning import saliency
from tests.methods.official.reading import conv_bn, masks, mlp, tensors, vectors

NETWORKS = {"mlp": mlp, "conv_bn": conv_bn}
INPUTS, OUTPUTS = vectors("synflow")


def model_and_shape(network: str) -> tuple[nn.Module, tuple[int, ...]]:
    model = NETWORKS[network]().double()
    model.load_state_dict(tensors(INPUTS[network]["state"]))
    return model, tuple(INPUTS["input_shape"][network])


@pytest.mark.parametrize("network", NETWORKS)
def test_scores_of_the_dense_network(network: str) -> None:
    scores = saliency.synflow(*model_and_shape(network))
    torch.testing.assert_close(scores, tensors(OUTPUTS[network]["scores"]), rtol=1e-12, atol=0)


@pytest.mark.parametrize("density", ["0.5", "0.2"])
@pytest.mark.parametrize("network", NETWORKS)
def test_masks_after_100_iterations_to_the_same_count(network: str, density: str) -> None:
    theirs = OUTPUTS[network]["after_100"][density]
    ours = synflow_masks(*model_and_shape(network), theirs["kept"], INPUTS["iterations"])
    torch.testing.assert_close(ours, masks(theirs["masks"]))
