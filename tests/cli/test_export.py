"""asni export: C for a small device, ONNX and safetensors."""

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import load_file
from torch import nn

import asni
from asni.engine.packing import pack
from tests.cli.calling import Command
from tests.documentation.blocks import REPOSITORY, blocks
from tests.engine.c_programs import NATIVE, build, run


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sparse network packed with its graph, and without."""
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 30), nn.ReLU(), nn.Linear(30, 10))
    for weight in asni.prunable(model).values():
        weight.data *= weight.abs() > weight.abs().quantile(0.9)
    pack(model, folder / "my-net.asni", example=torch.zeros(2, 1, 8, 8))
    pack(model, folder / "bare.asni")
    return folder


@pytest.mark.parametrize("precision", ["exact", "half", "int8"])
def test_a_packed_network_becomes_c_that_checks_itself(
    precision: str, command: Command, files: Path, tmp_path: Path
) -> None:
    source = str(files / "my-net.asni")
    answer = command("export", source, "--to", "c", "-o", str(tmp_path / "device"), "--precision", precision)
    assert answer.status == 0
    assert sorted(path.name for path in (tmp_path / "device").iterdir()) == ["my_net.c", "my_net.h"]
    assert (
        "my_net_run(const float *input, float *output, float *scratch)"
        in (tmp_path / "device" / "my_net.h").read_text()
    )
    check = answer.out.splitlines()[1].removeprefix("check it: ")
    done = subprocess.run(check, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:4]) == (0, "PASS")


def test_an_onnx_file_goes_the_same_way(command: Command, files: Path, tmp_path: Path) -> None:
    through_onnx, direct = tmp_path / "my-net.onnx", tmp_path / "direct"
    assert command("export", str(files / "my-net.asni"), "--to", "onnx", "-o", str(through_onnx)).status == 0
    assert command("export", str(through_onnx), "--to", "c", "-o", str(tmp_path)).status == 0
    assert command("export", str(files / "my-net.asni"), "--to", "c", "-o", str(direct)).status == 0
    tables = [
        (folder / "my_net.c").read_text().partition("static const")[2].partition("int my_net_run")[0]
        for folder in (tmp_path, direct)
    ]
    numbers = [[word for word in table.replace(",", " ").split() if word[-1] == "f"] for table in tables]
    assert numbers[0] == numbers[1]


def test_onnx_and_safetensors_hold_the_dense_values(command: Command, files: Path, tmp_path: Path) -> None:
    packed = files / "my-net.asni"
    weights = asni.load(packed)
    command("export", str(packed), "--to", "onnx", "-o", str(tmp_path / "net.onnx"))
    command("export", str(packed), "--to", "safetensors", "-o", str(tmp_path / "net.safetensors"))
    command("export", str(tmp_path / "net.onnx"), "--to", "safetensors", "-o", str(tmp_path / "again.safetensors"))
    model = onnx.load(tmp_path / "net.onnx")
    onnx.checker.check_model(model)
    stored = [numpy_helper.to_array(each) for each in model.graph.initializer]
    restored, again = load_file(tmp_path / "net.safetensors"), load_file(tmp_path / "again.safetensors")
    for name, weight in weights.items():
        assert torch.equal(restored[name], weight)
        assert any(np.array_equal(weight.numpy(), each) for each in stored)
        assert any(torch.equal(weight, each) for each in again.values())


def test_wrong_requests_are_refused_before_anything_is_written(command: Command, files: Path, tmp_path: Path) -> None:
    packed, bare = str(files / "my-net.asni"), str(files / "bare.asni")
    (tmp_path / "file").write_text("precious")
    (tmp_path / "my_net.h").write_text("precious")
    for arguments, status, said in (
        ((bare, "--to", "c", "-o", str(tmp_path / "new")), 2, "asni pack RUN -o FILE --graph"),
        ((bare, "--to", "onnx", "-o", str(tmp_path / "new")), 2, "asni pack RUN -o FILE --graph"),
        ((packed, "--to", "c", "-o", str(tmp_path / "file")), 2, "this command writes a directory"),
        ((packed, "--to", "c", "-o", str(tmp_path)), 2, "my_net.h exists, and is not a file that `asni export` wrote"),
        ((packed, "--to", "onnx", "-o", str(tmp_path)), 2, "this command writes a file"),
        ((packed, "--to", "onnx", "-o", packed), 2, "is the file to read"),
        ((packed, "--to", "onnx", "-o", str(tmp_path / "new"), "--precision", "half"), 2, "goes with --to c"),
        ((packed, "--to", "rust", "-o", str(tmp_path / "new")), 2, "is not one of 'c', 'onnx', 'safetensors'"),
        ((packed, "-o", str(tmp_path / "new")), 2, "missing option '--to'. Choose from: c, onnx, safetensors."),
        ((str(tmp_path / "none.asni"), "--to", "c", "-o", str(tmp_path / "new")), 1, "none.asni: cannot be read"),
        ((str(tmp_path / "none.onnx"), "--to", "c", "-o", str(tmp_path / "new")), 1, "none.onnx: cannot be read"),
        ((str(tmp_path / "file"), "--to", "c", "-o", str(tmp_path / "new")), 1, "not an .asni file"),
        ((packed, "--to", "c", "-o", str(tmp_path / "file" / "below")), 1, "cannot create the directory"),
        ((packed, "--to", "onnx", "-o", str(tmp_path / "file" / "net.onnx")), 1, "cannot create the directory"),
    ):
        answer = command("export", *arguments)
        assert (answer.status, answer.out) == (status, ""), arguments
        assert said in answer.err
        assert answer.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "my_net.h"]
    assert (tmp_path / "file").read_text() == (tmp_path / "my_net.h").read_text() == "precious"


def test_the_program_on_the_page_runs(command: Command, tmp_path: Path) -> None:
    (program,) = (block.text for block in blocks(REPOSITORY / "docs" / "deploy.md") if block.language == "c")
    pack(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), tmp_path / "net.asni", example=torch.zeros(2, 1, 8, 8))
    assert command("export", str(tmp_path / "net.asni"), "--to", "c", "-o", str(tmp_path)).status == 0
    (tmp_path / "main.c").write_text(program)
    build(NATIVE, [tmp_path / "main.c", tmp_path / "net.c"], tmp_path / "program")
    assert run(NATIVE, tmp_path / "program").stdout[:6] == b"class "
