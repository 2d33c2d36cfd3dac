"""Other runtimes give the results of the reference, so that only their speed is compared."""

from pathlib import Path

import numpy as np
import pytest
import torch

from asni.engine.comparing.bench import difference
from asni.engine.comparing.opponents import OPPONENTS, Opponent, chosen
from asni.engine.comparing.torch_steps import TorchSteps
from asni.engine.frontends.from_onnx import read_onnx_graph
from asni.engine.frontends.from_torch import graph_of_module
from asni.engine.fusing import fuse
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.engine.to_onnx import write_onnx
from asni.errors import UsageError
from tests.engine.graphs import normal
from tests.engine.small_networks import IMAGE, SMALL_NETWORKS


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of its weights are zeros."""
    network = SMALL_NETWORKS["basic_resnet"]()
    torch.manual_seed(0)
    for weight in network.parameters():
        if weight.ndim > 1:
            weight.data.mul_(torch.rand_like(weight) < 0.5)
    path = tmp_path_factory.mktemp("resnet") / "net.onnx"
    write_onnx(graph_of_module(network, torch.zeros(2, *IMAGE)), path)
    return path


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("name", OPPONENTS)
def test_a_runtime_gives_the_results_of_the_reference(
    resnet: Path, name: str, batch: int, capfd: pytest.CaptureFixture[str]
) -> None:
    opponent = OPPONENTS[name]
    if opponent.version is None:
        pytest.skip(f"{name} is not installed")
    x = normal(batch, *IMAGE)
    opponent.load()
    result = opponent.prepare(resnet, x, 1).run(x)
    assert difference(result, run(lower(read_onnx_graph(resnet)), [x])[0]) < 1e-4
    again = normal(batch, *IMAGE, seed=1)
    prepared = opponent.prepare(resnet, x, 2)
    prepared.run(x)
    assert difference(prepared.run(again), run(lower(read_onnx_graph(resnet)), [again])[0]) < 1e-4
    assert prepared.file_bytes > 1000
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("name", SMALL_NETWORKS)
def test_torch_runs_the_steps_of_every_kind_of_network(name: str) -> None:
    steps = fuse(lower(graph_of_module(SMALL_NETWORKS[name](), torch.zeros(2, *IMAGE))))
    x = normal(3, *IMAGE)
    for memory_format in (torch.contiguous_format, torch.channels_last):
        with torch.inference_mode():
            result = TorchSteps(steps, memory_format)(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(result, run(steps, [x])[0], rtol=1e-4, atol=1e-4)


def test_mnn_stands_for_both_of_its_forms() -> None:
    assert [each.name for each in chosen(["mnn", "torch"])] == ["mnn", "mnn-sparse", "torch"]
    assert [each.name for each in chosen(["mnn-sparse"])] == ["mnn-sparse"]


def test_a_runtime_that_is_not_installed_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Opponent("tvm", "no-such-package", "no_such_package", OPPONENTS["torch"].prepare)
    monkeypatch.setitem(OPPONENTS, "tvm", missing)
    with pytest.raises(UsageError, match=r"tvm is not installed. Run: pip install 'asni\[bench\]'"):
        chosen(["torch", "tvm"])


def test_an_unknown_runtime_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="no runtime 'onnx'; did you mean 'onnxruntime'"):
        chosen(["onnx"])
