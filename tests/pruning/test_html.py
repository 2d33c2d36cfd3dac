"""What a notebook shows of pruners and schedules."""

import re
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn

import asni
from asni.pruning.html import share, table

LENGTH: dict[str, Any] = {"sparsity": 0.5, "epochs": 10, "steps_per_epoch": 2}


def pruner_of(method: type[asni.Pruner], model: nn.Module, steps: int = 0, **settings: Any) -> asni.Pruner:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pruner = method(model, optimizer, **settings)
    for _ in range(steps):
        (0 * nn.utils.parameters_to_vector(model.parameters()).sum()).backward()
        optimizer.step()
    return pruner


def test_a_pruner_shows_its_schedule_and_its_layers() -> None:
    model = nn.Sequential(OrderedDict({"first": nn.Linear(4, 2), "last": nn.Linear(2, 1)}))
    with torch.no_grad():
        model.get_parameter("first.weight").copy_(torch.arange(1.0, 9.0).reshape(2, 4))
        model.get_parameter("last.weight").fill_(0.1)
    pruner = pruner_of(asni.ASNI, model, steps=18, **LENGTH)
    page = pruner._repr_html_()
    assert f"<p>{pruner!r}</p>" in page
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    assert [re.sub("<.*?>", " ", row).split() for row in rows] == [
        ["layer", "alive", "weights", "density"],
        ["first.weight", "5", "8", "62.5", "%"],
        ["last.weight", "0", "2", "0.0", "%"],
    ]
    assert "width:62.5%" in page


def test_the_dot_is_where_the_pruner_is() -> None:
    def place(steps: int) -> tuple[float, float]:
        page = pruner_of(asni.GMP, nn.Linear(10, 10), steps, **LENGTH)._repr_html_()
        ((x, y),) = re.findall(r'<circle cx="(.*?)" cy="(.*?)"', page)
        return float(x), float(y)

    (left, bottom), (middle, _), (right, top) = place(0), place(10), place(20)
    assert middle == pytest.approx((left + right) / 2)
    assert top < bottom
    assert "epoch 10</text>" in pruner_of(asni.ASNI, nn.Linear(10, 10), **LENGTH)._repr_html_()
    assert "step 20</text>" in pruner_of(asni.GMP, nn.Linear(10, 10), **LENGTH)._repr_html_()


@pytest.mark.parametrize(
    ("method", "settings", "has_schedule"),
    [
        (asni.ASNI, LENGTH, True),
        (asni.GMP, LENGTH, True),
        (asni.Magnitude, LENGTH, True),
        (asni.Continuous, LENGTH, True),
        (asni.RigL, LENGTH, False),
        (asni.SET, LENGTH, False),
        (asni.STR, {"decay": 1.0}, False),
        (asni.Hold, {}, False),
    ],
)
def test_every_pruner_shows_itself_and_names_are_text(
    method: type[asni.Pruner], settings: dict[str, Any], has_schedule: bool
) -> None:
    page = pruner_of(method, nn.ModuleDict({"<img src=x>": nn.Linear(8, 8)}), **settings)._repr_html_()
    assert "&lt;img src=x&gt;.weight</td>" in page
    assert "<img" not in page
    assert ("<svg" in page) == has_schedule


@pytest.mark.parametrize(("layers", "folded"), [(20, False), (21, True)])
def test_many_layers_are_folded(layers: int, folded: bool) -> None:
    page = pruner_of(asni.ASNI, nn.Sequential(*(nn.Linear(2, 2) for _ in range(layers))), **LENGTH)._repr_html_()
    assert (f"<details><summary>{layers} layers</summary>" in page) == folded
    assert page.count("<tr>") == layers + 1


def test_the_colours_are_those_of_the_page() -> None:
    page = pruner_of(asni.ASNI, nn.Linear(4, 4), **LENGTH)._repr_html_()
    assert "currentColor" in page
    assert not re.search(r"#[0-9a-fA-F]{3}|rgb|black|white(?!-space)|gr[ae]y", page)


@pytest.mark.parametrize("schedule", [asni.schedules.Sigmoid(0.8), asni.schedules.Polynomial(0.8)])
def test_a_schedule_shows_its_curve(schedule: asni.schedules.Sigmoid | asni.schedules.Polynomial) -> None:
    page = schedule._repr_html_()
    assert f"<p>{schedule!r}</p>" in page
    heights = [float(point.split(",")[1]) for point in re.findall(r'points="(.*?)"', page)[0].split()]
    assert heights == sorted(heights, reverse=True)
    assert ">80 % pruned</text>" in page


def test_one_living_weight_of_a_million_is_not_nothing() -> None:
    assert "&lt; 0.1 %" in share(1, 1_000_000)
    assert ">0.0 %" in share(0, 1_000_000)


def test_names_stand_left_and_numbers_right() -> None:
    page = table(["layer", "alive"], [["head", "96"]])
    assert '<td style="text-align:left">head</td><td style="text-align:right">96</td>' in page
