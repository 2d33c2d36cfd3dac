"""GraSP against alecwangcq/GraSP."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import torch
from torch import Tensor

from asni.methods.grasp import first_of_each_class
from asni.pruning import saliency
from asni.pruning.masks import keep_largest
from tests.methods.official.reading import conv_bn, masks, mlp, tensors, vectors

if TYPE_CHECKING:
    from asni.training.trainer import Trainer

NETWORKS = {"mlp": mlp, "conv_bn": conv_bn}
INPUTS, OUTPUTS = vectors("grasp")


def chosen_images(given: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The images that the method takes of a training whose first batch is the one given."""
    settings = INPUTS["settings"]
    batch = torch.tensor(given["images"], dtype=torch.float64), torch.tensor(given["labels"])
    dataset = SimpleNamespace(info=SimpleNamespace(classes=settings["num_classes"]))
    trainer = SimpleNamespace(dataset=dataset, batches=lambda epoch: [batch])
    return first_of_each_class(cast("Trainer", trainer), settings["samples_per_class"])


@pytest.mark.parametrize("network", NETWORKS)
def test_the_images_are_sorted_by_class(network: str) -> None:
    images, labels = chosen_images(INPUTS[network])
    given = torch.tensor(INPUTS[network]["images"], dtype=torch.float64)
    assert torch.equal(images, given[OUTPUTS[network]["batch_order"]])
    assert labels.tolist() == OUTPUTS[network]["batch_labels"]


@pytest.mark.parametrize("network", NETWORKS)
def test_scores_and_masks(network: str) -> None:
    theirs = OUTPUTS[network]
    model = NETWORKS[network]().double()
    model.load_state_dict(tensors(INPUTS[network]["state"]))
    flow = saliency.grasp(model, *chosen_images(INPUTS[network]), temperature=INPUTS["settings"]["T"])
    ours = {name: scores / theirs["norm_factor"] for name, scores in flow.items()}
    torch.testing.assert_close(ours, tensors(theirs["scores"]), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(keep_largest(flow, theirs["kept"], by=torch.neg), masks(theirs["masks"]))
