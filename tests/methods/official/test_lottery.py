"""The lottery ticket's prunings against facebookresearch/open_lth and google-research/lottery-ticket-hypothesis."""

import torch

from asni.methods.lottery import counts, layer_by_layer
from asni.methods.tickets import globally
from asni.pruning.masks import Masks
from tests.methods.official.reading import masks, tensors, vectors

INPUTS, OUTPUTS = vectors("lottery")


def test_masks_of_open_lth_for_the_same_counts() -> None:
    within: Masks | None = None
    for given, theirs in zip(INPUTS["rounds"], OUTPUTS["open_lth_sparse_global"], strict=True):
        within = globally(tensors(given["weights"]), theirs["kept"], within)
        torch.testing.assert_close(within, masks(theirs["masks"]))


def test_open_lth_prunes_one_weight_more_than_20_percent_in_each_round() -> None:
    """Ours prune at most 20 %, by the same factor in each round, down to an exact count."""
    assert [theirs["kept"] for theirs in OUTPUTS["open_lth_sparse_global"]] == [90, 71, 55]
    assert counts(114, 59, rate=0.2) == [92, 73, 59]
    assert counts(114, 55, rate=0.2) == [95, 79, 66, 55], "three rounds of at most 20 % leave 59 or more"


def test_masks_of_google_research_layer_by_layer_but_for_the_layer_of_one_weight() -> None:
    """We prune to an exact total; they round in each layer. In each layer both keep the largest of what lived."""
    kept: list[dict[str, list[int]]] = []
    within: Masks | None = None
    for given, theirs in zip(INPUTS["rounds"], OUTPUTS["google_layerwise"], strict=True):
        weights, their_masks = tensors(given["weights"]), masks(theirs["masks"])
        ours = layer_by_layer(weights, sum(theirs["kept"].values()), within)
        for name, mask in ours.items():
            lived = torch.ones_like(mask) if within is None else within[name]
            smallest_kept, largest_gone = weights[name][mask].abs().min(), weights[name][lived & ~mask].abs().max()
            assert smallest_kept > largest_gone
        kept.append({name: [int(mask.sum()), theirs["kept"][name]] for name, mask in ours.items()})
        apart = {name: int((mask != their_masks[name]).sum()) for name, mask in ours.items()}
        assert apart == {name: abs(one - other) for name, (one, other) in kept[-1].items()}
        within = ours
    assert kept == [
        {"0.weight": [37, 37], "2.weight": [37, 37], "4.weight": [15, 15]},
        {"0.weight": [29, 29], "2.weight": [28, 29], "4.weight": [13, 12]},
        {"0.weight": [22, 22], "2.weight": [21, 22], "4.weight": [11, 10]},
    ]
