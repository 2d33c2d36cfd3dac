"""Early-Bird against RICE-EIC/Early-Bird-Tickets: equal masks, and the paper's queue instead of the program's."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from asni.methods.early_bird import EarlyBird, distance
from asni.pruning.masks import keep_largest
from tests.methods.official.reading import tensors, vectors

INPUTS, OUTPUTS = vectors("early_bird")
LAYERS = ("0.weight", "1.weight")
ALL = sum(INPUTS["batch_norms"])

every_percentage = pytest.mark.parametrize("percent", ["0.3", "0.5", "0.7"])


def scales(epoch: dict[str, Any]) -> dict[str, Tensor]:
    return tensors({name: [epoch[name]] for name in LAYERS})


def their_masks(percent: str) -> list[dict[str, Tensor]]:
    """The program writes the masks of both layers in one row."""
    rows = [torch.tensor([[place == "1" for place in epoch["mask"]]]) for epoch in OUTPUTS[percent]["epochs"]]
    return [dict(zip(LAYERS, row.split(INPUTS["batch_norms"], dim=1), strict=True)) for row in rows]


def differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> int:
    return sum(int((one[name] != other[name]).sum()) for name in LAYERS)


@every_percentage
def test_masks_of_every_epoch_for_the_same_count(percent: str) -> None:
    kept = OUTPUTS[percent]["epochs"][0]["kept"]
    ours = [keep_largest(scales(epoch), kept) for epoch in INPUTS["scales"]]
    torch.testing.assert_close(ours, their_masks(percent))


@every_percentage
def test_our_distance_is_theirs_as_a_share_of_the_kept(percent: str) -> None:
    """Theirs is the share of all places that differ, so where half is kept the two are the same."""
    epochs, masks = OUTPUTS[percent]["epochs"], their_masks(percent)
    for epoch in range(INPUTS["epoch_keep"] - 1, len(epochs)):
        ours = distance(masks[epoch - 1], masks[epoch])
        to_the_one_before = epochs[epoch]["distances"][-1]
        assert ours * 2 * epochs[epoch]["kept"] / ALL == pytest.approx(to_the_one_before, abs=1e-12)


def epoch_of_the_ticket(percent: str) -> int:
    """The first epoch in which the pruner draws its mask, when its weights are the scales of the vectors."""
    model = nn.ModuleList(nn.Linear(size, 1, bias=False) for size in INPUTS["batch_norms"]).double()
    kept = OUTPUTS[percent]["epochs"][0]["kept"]
    bird = EarlyBird(model, torch.optim.SGD(model.parameters()), keep=kept, epochs=100, steps_per_epoch=1)
    for given in INPUTS["scales"]:
        model.load_state_dict(scales(given))
        bird.after_epoch(given["epoch"])
        if bird.chosen:
            break
    return int(given["epoch"])


def epoch_of_five_published_distances(percent: str) -> int:
    """Algorithm 1 of the paper on their masks: five distances of neighbouring masks below 0.1 of all places."""
    masks = their_masks(percent)
    below = [10 * differing(*pair) < ALL for pair in pairwise(masks)]
    return next(epoch for epoch in range(5, len(masks)) if all(below[epoch - 5 : epoch]))


def epoch_of_four_masks_near_the_newest(percent: str) -> int:
    """The program's rule: none of the four masks before it is more than 0.1 of all places from the newest."""
    masks = their_masks(percent)
    return next(
        epoch
        for epoch, newest in enumerate(masks)
        if epoch >= 4 and all(10 * differing(before, newest) <= ALL for before in masks[epoch - 4 : epoch])
    )


@pytest.mark.parametrize(("percent", "published", "ours"), [("0.3", 10, 9), ("0.5", 9, 9), ("0.7", 8, 8)])
def test_the_ticket_is_drawn_by_the_queue_of_the_paper(percent: str, published: int, ours: int) -> None:
    """At 30 % pruned, 4 places change in epoch 5: 0.1 of all 40, but 2 new ones of the 27 kept are below 0.1."""
    assert epoch_of_five_published_distances(percent) == published
    assert epoch_of_the_ticket(percent) == ours


@every_percentage
def test_the_program_draws_earlier_since_its_queue_spans_four_epochs_and_admits_0_1(percent: str) -> None:
    assert epoch_of_four_masks_near_the_newest(percent) == OUTPUTS[percent]["first_found_at_epoch"] == 7
