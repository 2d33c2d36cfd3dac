import json
import re
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from torch import nn

from asni.errors import AsniError, SparsityWarning, StoppedError, UsageError
from asni.methods.amenable import amenable, asni_2
from asni.methods.asni import asni_1
from tests.methods.small_recipe import small_recipe
from tests.training.training_setup import StopAfter, experiment
from tests.training.training_setup import trainer as small_trainer


def linear(*weights: float) -> nn.Linear:
    layer = nn.Linear(len(weights), 1)
    layer.weight.data.copy_(torch.tensor([weights]))
    layer.bias.data.fill_(7.0)
    return layer


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_weights_that_have_no_mean_are_refused_and_the_model_is_unchanged(broken: float) -> None:
    model = nn.Sequential(linear(1.0, 2.0), linear(1.0, broken, -1.0))
    with pytest.raises(UsageError, match=r"'1\.weight' holds NaN or infinity"):
        amenable(model)
    assert model.get_parameter("0.weight").tolist() == [[1.0, 2.0]]


def test_each_layer_gets_its_own_two_means() -> None:
    first, second = linear(1.0, 2.0, 0.0, -4.0), linear(0.5, -0.1, -0.3)
    numbers = amenable(nn.Sequential(first, second))
    assert first.weight.tolist() == [[1.5, 1.5, 0.0, -4.0]]
    torch.testing.assert_close(second.weight.data, torch.tensor([[0.5, -0.2, -0.2]]))
    assert numbers.c_plus == {"0.weight": 1.5, "1.weight": 0.5}
    assert numbers.c_minus["0.weight"] == -4.0


def test_biases_start_at_zero_and_norms_anew() -> None:
    layer, norm = linear(1.0, -1.0), nn.BatchNorm1d(1)
    model = nn.Sequential(layer, norm)
    model(torch.randn(4, 2))
    norm.weight.data.fill_(3.0)
    amenable(model)
    assert layer.bias.item() == 0.0
    assert norm.state_dict() == nn.BatchNorm1d(1).state_dict()


def test_a_sign_that_a_layer_lacks_has_no_centroid() -> None:
    empty = linear(0.0, 0.0)
    numbers = amenable(nn.Sequential(linear(1.0, 3.0), empty))
    assert numbers.c_minus == {}
    assert numbers.c_plus == {"0.weight": 2.0}
    assert empty.weight.tolist() == [[0.0, 0.0]]


def test_the_output_holds_what_was_learned_and_what_to_start_from() -> None:
    model = linear(1.0, 3.0, 0.0, -5.0)
    numbers = amenable(model)
    assert numbers.theta_hat["weight"].tolist() == [[1.0, 3.0, 0.0, -5.0]]
    assert numbers.theta_hat["bias"].tolist() == [7.0]
    assert numbers.theta_0["weight"].tolist() == model.weight.tolist() == [[2.0, 2.0, 0.0, -5.0]]
    assert numbers.mask["weight"].tolist() == [[True, True, False, True]]


def test_a_mask_is_carried_not_read_off_the_zeros() -> None:
    model = linear(1.0, 3.0, 0.0, -5.0)
    numbers = amenable(model, {"weight": torch.tensor([[True, False, True, True]])})
    assert model.weight.tolist() == [[1.0, 0.0, 0.0, -5.0]]
    assert numbers.mask["weight"].tolist() == [[True, False, True, True]]


def test_masks_of_another_network_are_refused_by_layer() -> None:
    with pytest.raises(AsniError, match=r"'weight'.* 1x4 .* 4\b"):
        amenable(nn.Linear(4, 1), {"weight": torch.ones(4, dtype=torch.bool)})


def test_the_centroids_are_on_disk_before_the_run_is_finished(tmp_path: Path) -> None:
    asni_1(small_trainer(tmp_path, small_recipe()))
    with pytest.raises(StoppedError):
        asni_2(small_trainer(tmp_path, small_recipe(), progress=StopAfter(5)))
    directory = experiment(tmp_path, small_recipe()).home / "asni-2"
    centroids = json.loads((directory / "centroids.json").read_text())
    assert [*centroids] == ["1.weight", "5.weight"]
    assert not (directory / "result.json").exists()


def test_the_numbers_are_a_table_for_a_person_in_a_notebook_too() -> None:
    model = nn.Sequential(OrderedDict({"first": nn.Linear(2, 2), "last<b>": nn.Linear(2, 1)}))
    with torch.no_grad():
        model.get_parameter("first.weight").copy_(torch.tensor([[0.5, -1.0], [0.0, 1.5]]))
        model.get_parameter("last<b>.weight").copy_(torch.tensor([[2.0, 0.0]]))
    numbers = amenable(model)
    assert repr(numbers).splitlines() == [
        "layer           c-  c+   alive",
        "first.weight    -1   1  3 of 4",
        "last<b>.weight   -   2  1 of 2",
    ]
    page = numbers._repr_html_()
    assert page.count("<tr>") == 3
    row = "<td>last&lt;b&gt;.weight</td><td>-</td><td>2</td><td>1 of 2</td>"
    assert row in re.sub(' style=".*?"', "", page)


class Language(nn.Module):
    """What a transformer has besides linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 8)
        self.norm = nn.RMSNorm(8)
        self.own_norm_scale = nn.Parameter(torch.ones(8))
        self.attention = nn.MultiheadAttention(8, 2)


def trained() -> tuple[Language, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    model = Language()
    initial = {name: value.clone() for name, value in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter))
    return model, initial


def test_a_transformer_starts_from_two_numbers_a_layer_and_its_initial_values() -> None:
    model, initial = trained()
    numbers = amenable(model, initial=initial)
    assert list(numbers.mask) == ["attention.in_proj_weight", "attention.out_proj.weight"]
    for name, value in model.state_dict().items():
        if name in numbers.mask:
            assert len(value.unique()) == 2
        elif "bias" in name:
            assert not value.any()
        else:
            assert torch.equal(value, initial[name]), name


def test_what_keeps_its_trained_values_is_named() -> None:
    model, _ = trained()
    words, scale = model.words.weight.clone(), model.own_norm_scale.clone()
    with pytest.warns(SparsityWarning, match=r"'own_norm_scale', 'words\.weight': 88 parameters keep.*initial="):
        amenable(model)
    assert torch.equal(model.norm.weight, torch.ones(8))
    assert torch.equal(model.words.weight, words)
    assert torch.equal(model.own_norm_scale, scale)


def test_the_initial_values_of_another_network_are_refused() -> None:
    model, initial = trained()
    del initial["words.weight"]
    with pytest.raises(UsageError, match=r"another network: it has no 'words\.weight'"):
        amenable(model, initial=initial)
