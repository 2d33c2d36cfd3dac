"""The scores against their definitions, written out the slow way in double precision."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from asni.networks.initial import initialise
from asni.pruning import saliency
from asni.pruning.layers import prunable


@pytest.fixture
def images() -> Tensor:
    return torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def labels() -> Tensor:
    return torch.tensor([0, 1, 0, 1, 1, 0])


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).double()


def loss_of(model: nn.Module, images: Tensor, labels: Tensor, temperature: float = 1.0) -> Callable[[Tensor], Tensor]:
    """The loss as a function of all prunable weights in one vector."""
    shapes = {name: weight.shape for name, weight in prunable(model).items()}

    def loss(flat: Tensor) -> Tensor:
        parts = flat.split([shape.numel() for shape in shapes.values()])
        given = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
        return cross_entropy(torch.func.functional_call(model, given, images) / temperature, labels)

    return loss


def flat(values: dict[str, Tensor]) -> Tensor:
    return torch.cat([value.detach().flatten() for value in values.values()])


def test_snip_is_the_weight_times_the_gradient_by_finite_differences(
    model: nn.Module, images: Tensor, labels: Tensor
) -> None:
    loss, weights, h = loss_of(model, images, labels), flat(prunable(model)), 1e-6
    nudges = h * torch.eye(len(weights), dtype=torch.float64)
    gradient = torch.stack([(loss(weights + nudge) - loss(weights - nudge)) / (2 * h) for nudge in nudges])
    torch.testing.assert_close(
        flat(saliency.snip(model, images, labels)), (weights * gradient).abs(), rtol=0, atol=1e-8
    )


def grasp_of_parts(model: nn.Module, images: Tensor, labels: Tensor, sizes: list[int]) -> Tensor:
    """The definition, with the sum of the parts' mean losses."""
    parts = zip(images.split(sizes), labels.split(sizes), strict=True)
    losses = [loss_of(model, *part, temperature=200.0) for part in parts]

    def loss(flat: Tensor) -> Tensor:
        return torch.stack([each(flat) for each in losses]).sum()

    weights = flat(prunable(model))
    gradient = torch.autograd.functional.jacobian(loss, weights)
    scores: Tensor = -weights * (torch.autograd.functional.hessian(loss, weights) @ gradient)
    return scores


def assert_same_up_to_rounding(one: Tensor, other: Tensor) -> None:
    # Both are of the order of the temperature to the minus three: compare by share, not by difference.
    scale = other.abs().max()
    assert scale > 0
    torch.testing.assert_close(one / scale, other / scale)


@pytest.mark.parametrize("halves", [[3, 3], [2, 3], [2, 2], [3], [2]])
def test_grasp_is_minus_the_weight_times_the_hessian_times_the_gradient_of_both_halves(
    halves: list[int], model: nn.Module, images: Tensor, labels: Tensor
) -> None:
    batch = images[: sum(halves)], labels[: sum(halves)]
    assert_same_up_to_rounding(flat(saliency.grasp(model, *batch)), grasp_of_parts(model, *batch, halves))


def test_grasp_of_one_image_sends_no_empty_half_through_the_network() -> None:
    model, sizes = nn.Linear(3, 2), []
    model.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    saliency.grasp(model, torch.ones(1, 3), torch.tensor([0]))
    assert set(sizes) == {1}


def test_grasp_takes_smaller_parts_where_halves_are_too_large(
    model: nn.Module, images: Tensor, labels: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saliency, "MOST_IN_HALVES", 5)
    monkeypatch.setattr(saliency, "AT_ONCE", 2)
    ours, in_thirds = flat(saliency.grasp(model, images, labels)), grasp_of_parts(model, images, labels, [2, 2, 2])
    assert_same_up_to_rounding(ours, in_thirds)


def test_snip_takes_the_whole_batch_at_once(model: nn.Module) -> None:
    """Batch norm has the statistics of the batch, however large it is."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(300, 3, dtype=torch.float64, generator=generator)
    labels = torch.randint(2, (300,), generator=generator)
    weights = flat(prunable(model))
    gradient = torch.autograd.functional.jacobian(loss_of(model, images, labels), weights)
    torch.testing.assert_close(flat(saliency.snip(model, images, labels)), (weights * gradient).abs())


def test_grasp_changes_with_the_temperature_by_more_than_a_factor(
    model: nn.Module, images: Tensor, labels: Tensor
) -> None:
    cold, hot = (flat(saliency.grasp(model, images, labels, temperature=t)) for t in (1.0, 200.0))
    assert not torch.allclose(cold / cold.abs().max(), hot / hot.abs().max(), atol=1e-2)


def test_synflow_is_conserved_from_layer_to_layer() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 2)
    )
    initialise(model)
    sums = [float(score.sum()) for score in saliency.synflow(model, (1, 6, 6)).values()]
    assert sums == pytest.approx([sums[0]] * 3, rel=1e-12)


def test_synflow_is_conserved_under_masks_and_gives_nothing_to_the_pruned() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5, bias=False), nn.ReLU(), nn.Linear(5, 2, bias=False))
    masks = {name: torch.rand(weight.shape) < 0.5 for name, weight in prunable(model).items()}
    flow = saliency.synflow(model, (6,), masks)
    assert all(not flow[name][~lives].any() for name, lives in masks.items())
    assert float(flow["0.weight"].sum()) == pytest.approx(float(flow["2.weight"].sum()), rel=1e-12)
    assert float(flow["0.weight"].sum()) > 0


def test_synflow_of_a_deep_network_leaves_the_range_of_single_precision() -> None:
    model = nn.Sequential(*(nn.Linear(1000, 1000, bias=False) for _ in range(16)), nn.Linear(1000, 1, bias=False))
    for weight in prunable(model).values():
        nn.init.constant_(weight, 1.0)
    flow = saliency.synflow(model, (1000,))["16.weight"].sum()
    assert float(flow) == pytest.approx(1000.0**17)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("score", ["snip", "grasp", "synflow"])
def test_the_model_stays_as_it_was(
    score: str, training: bool, model: nn.Module, images: Tensor, labels: Tensor
) -> None:
    model.train(training)
    cross_entropy(model(images), labels).backward()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    saliency.synflow(model, (3,)) if score == "synflow" else getattr(saliency, score)(model, images, labels)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), gradients, strict=True) if p.grad is not None)
    assert all(module.training is training for module in model.modules())


def test_batch_norm_of_snip_and_grasp_uses_the_batch_as_in_training(
    model: nn.Module, images: Tensor, labels: Tensor
) -> None:
    in_training = [score(model.train(), images, labels)["0.weight"] for score in (saliency.snip, saliency.grasp)]
    in_evaluation = [score(model.eval(), images, labels)["0.weight"] for score in (saliency.snip, saliency.grasp)]
    for one, other in zip(in_training, in_evaluation, strict=True):
        assert torch.equal(one, other)


def test_a_weight_that_the_output_does_not_depend_on_scores_nothing() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, images: Tensor) -> Tensor:
            output: Tensor = self.used(images)
            return output

    model, batch = Forgetful(), (torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))
    for flow in (saliency.snip(model, *batch), saliency.grasp(model, *batch), saliency.synflow(model, (3,))):
        assert not flow["unused.weight"].any()
        assert flow["used.weight"].any()
