"""SNIP against mil-ad/snip and ganguli-lab/Synaptic-Flow."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from asni.pruning import saliency
from asni.pruning.masks import keep_largest
from tests.methods.official.reading import conv_bn, masks, mlp, tensors, vectors

NETWORKS = {"mlp": mlp, "conv_bn": conv_bn}
INPUTS, OUTPUTS = vectors("snip")


def model_and_batch(network: str) -> tuple[nn.Module, Tensor, Tensor]:
    given: dict[str, Any] = INPUTS[network]
    model = NETWORKS[network]().double()
    model.load_state_dict(tensors(given["state"]))
    return model, torch.tensor(given["images"], dtype=torch.float64), torch.tensor(given["labels"])


def assert_equal_to(program: str, network: str) -> None:
    theirs = OUTPUTS[network][program]
    sensitivity = saliency.snip(*model_and_batch(network))
    total = torch.stack([scores.sum() for scores in sensitivity.values()]).sum()
    ours = {name: scores / total for name, scores in sensitivity.items()}
    torch.testing.assert_close(ours, tensors(theirs["scores"]), rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(keep_largest(sensitivity, theirs["kept"]), masks(theirs["masks"]))


@pytest.mark.parametrize("network", NETWORKS)
def test_scores_and_masks_of_mil_ad(network: str) -> None:
    """In training mode: batch norm has the statistics of the mini-batch, as in the paper's first training step."""
    assert_equal_to("mil_ad_train_mode", network)


def test_scores_and_masks_of_ganguli_lab_without_batch_norm() -> None:
    assert_equal_to("ganguli_eval_mode", "mlp")


def test_ganguli_lab_scores_with_running_statistics_and_so_keeps_other_weights_with_batch_norm() -> None:
    theirs = OUTPUTS["conv_bn"]["ganguli_eval_mode"]
    ours, kept = keep_largest(saliency.snip(*model_and_batch("conv_bn")), theirs["kept"]), masks(theirs["masks"])
    assert sum(int((ours[name] != kept[name]).sum()) for name in kept) == 14
