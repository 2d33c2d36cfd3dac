"""Networks by name and by import path, and what is said when that fails."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from asni.errors import UsageError
from asni.networks import build, check_output

SHAPE = (1, 4, 4)

OWN = """
from torch import nn

number = 3

def tiny(shape, classes, width=4):
    layer = nn.Linear(16, width)
    nn.init.constant_(layer.bias, 7.0)
    return nn.Sequential(nn.Flatten(), layer, nn.ReLU(), nn.Linear(width, classes))

def nothing(shape, classes):
    pass

def broken(shape, classes):
    return 1 / 0

def frozen(shape, classes):
    return tiny(shape, classes).requires_grad_(False)

def bare(shape, classes):
    return nn.Flatten()

def lazy(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))

class Crossed(nn.Linear):
    def forward(self, images):
        return super().forward(images)

    def __init__(self, shape, classes):
        super().__init__(7, classes)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "own_networks.py").write_text(OWN)
    (tmp_path / "own_broken.py").write_text("import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("own_networks", None)


@pytest.mark.usefixtures("own")
def test_a_network_of_the_current_directory_keeps_its_own_initialisation() -> None:
    model = build("own_networks:tiny", SHAPE, 3, {"width": 5})
    check_output(model, SHAPE, 3)
    assert torch.equal(model.get_parameter("1.bias"), torch.full((5,), 7.0))


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("vgg12", {}, "'vgg12'.*'vgg1"),
        ("fc", {"width": 4}, "'fc'.*options"),
        ("no_such_module:net", {}, "import 'no_such_module'.*No module named 'no_such_module'"),
        ("own_broken:net", {}, "import 'own_broken'.*'no_such_package'.*own_broken.py, line 1"),
        (":net", {}, "import ''"),
        ("own_networks:tny", {}, "'tny'.*'tiny'"),
        ("own_networks:number", {}, "'own_networks:number'.* int.*function"),
        ("own_networks:nothing", {}, r"'own_networks:nothing'.* None.*nn\.Module"),
        ("own_networks:broken", {}, "division by zero.*own_networks.py, line 15"),
        ("own_networks:tiny", {"wide": 4}, r"\(1, 4, 4\), 3, wide=4.*unexpected keyword argument 'wide'"),
    ],
)
def test_a_wrong_name_is_explained(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build(name, SHAPE, 3, options)


class Returns(nn.Module):
    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value

    def forward(self, images: Tensor) -> object:
        return self.value


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(16, 5)), "5 outputs.* 10 classes"),
        (nn.Linear(16, 10), r"\(1, 4, 4\).*RuntimeError"),
        (nn.Conv2d(1, 10, 1), r"\(2, 10, 4, 4\).*\(2, 10\)"),
        (Returns((torch.zeros(2, 10),)), "tuple.*tensor"),
        (Returns(torch.zeros(1, 10)), r"\(1, 10\).*\(2, 10\)"),
        (Returns(torch.zeros(10)), r"\(10,\).*\(2, 10\)"),
    ],
)
def test_a_network_that_does_not_fit_the_classes_is_refused(model: nn.Module, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_output(model, SHAPE, 10)


@pytest.mark.usefixtures("own")
def test_a_forward_that_fails_is_traced_to_the_users_line() -> None:
    with pytest.raises(UsageError, match=r"RuntimeError: mat1 and mat2.*own_networks\.py, line 28"):
        check_output(build("own_networks:Crossed", SHAPE, 3), SHAPE, 3)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_checking_the_output_changes_nothing(device: str) -> None:
    with torch.device(device):
        model = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(16, 10))
    model[2].eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    check_output(model, SHAPE, 10)
    assert [module.training for module in model] == [True, True, False, True]
    if device == "cpu":
        assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_network_that_cannot_take_the_images_of_a_training_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(UsageError, match=r"\(1, 4, 4\).*must have the same dtype"):
        check_output(nn.Sequential(nn.Flatten(), nn.Linear(16, 10)).to(dtype), SHAPE, 10)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("name", ["frozen", "bare"])
def test_a_network_without_anything_to_train_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"'own_networks:{name}'.*parameter"):
        build(f"own_networks:{name}", SHAPE, 3)


@pytest.mark.usefixtures("own")
def test_a_network_that_learns_its_shapes_from_the_first_images_has_them() -> None:
    weight = build("own_networks:lazy", SHAPE, 3).get_parameter("1.weight")
    assert weight.shape == (3, 16)


@pytest.mark.parametrize("shape", [(10**18, 10**18, 10**18), (10**30, 1, 1), (-1, 8, 8), ("a", "b", "c"), (None, 8, 8)])
@pytest.mark.parametrize("name", ["fc", "conv6", "vgg11", "resnet18"])
def test_a_shape_of_no_images_is_refused_in_words(name: str, shape: Any) -> None:
    with torch.device("meta"), pytest.raises(UsageError, match=rf"'{name}' cannot be built for images of shape"):
        build(name, shape, 10)
