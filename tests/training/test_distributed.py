"""Trainings of two real processes, started as a user starts them."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from typer.testing import CliRunner

import asni
from asni.cli import app
from asni.files import read_tensors
from asni.methods import METHODS
from asni.runs.reading import json_object

DENSE, SPARSE, RANDOM = (Path("small/seed-0", stage) for stage in ("dense", "asni-1", "random"))
SOURCES = str(Path(asni.__file__).parents[1])
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")

RECIPE = """
dataset = "digits"
network = "{network}"
[training]
epochs = {epochs}
batch_size = {batch_size}
optimizer = "sgd"
lr = 0.05
momentum = 0.9
lr_policy = "cosine"
warmup_epochs = {warmup}
{more}
[pruning]
sparsity = 0.9
"""

# A network with everything that a checkpoint must bring back: batch norm, drop-out. Where DIE_AT says so, process 1
# is killed in the middle of a step while process 0 waits for its gradients.
MORTAL = """
import os, signal
from torch import nn

class Mortal(nn.Sequential):
    steps = 0

    def forward(self, x):
        self.steps += self.training
        if os.environ.get("LOCAL_RANK") == "1" and self.steps == int(os.environ.get("DIE_AT", "-1")):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x)

def layers(classes):
    return nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(288, classes)

def mortal(shape, classes):
    return Mortal(*layers(classes))

def plain(shape, classes):
    return nn.Sequential(*layers(classes))
"""

# As above, where sparse kernels take the steps: they do not call the network.
MORTAL_STEPS = """
import os, signal
from asni.cli import main
from asni.sparse.stepper import Stepper

step, steps = Stepper.step, 0

def mortal(self, images, labels, *, weight):
    global steps
    steps += 1
    if os.environ.get("LOCAL_RANK") == "1" and steps == int(os.environ.get("DIE_AT", "-1")):
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, images, labels, weight=weight)

Stepper.step = mortal
main()
"""


def run_asni(folder: Path, *arguments: str, launcher: tuple[str, ...] = (), **environment: str) -> tuple[int, str, str]:
    return run_python(folder, *launcher, "asni", *arguments, **environment)


def run_python(folder: Path, *module: str, **environment: str) -> tuple[int, str, str]:
    answer = subprocess.run(
        [sys.executable, "-m", *module],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.returncode, answer.stdout, answer.stderr


# The first to be registered is the last to be called. A network that is part of a cycle is not deleted by itself.
LEAVING = """
import atexit, os
from pathlib import Path
import torch
from asni.training.processes import make_fabric

def threads_of_gloo():
    return sum("gloo" in each.read_text() for each in Path("/proc/self/task").glob("*/comm"))

@atexit.register
def tell():
    # One write: print would let the two processes mix their lines.
    line = f"{os.environ['LOCAL_RANK']} {torch.distributed.is_initialized()} {threads_of_gloo()}\\n"
    os.write(1, line.encode())

network = make_fabric("cpu", 2).setup_module(torch.nn.Linear(1, 1))
network(torch.ones(1, 1)).sum().backward()
network.itself = [network]
del network
assert torch.distributed.is_initialized()
assert threads_of_gloo() or not Path("/proc").exists()
"""

# The first process is killed while the second one waits for it to open their group.
ORPHANED = """
import os, signal
from asni.training.processes import make_fabric
import torch

if "LOCAL_RANK" not in os.environ:
    torch.distributed.init_process_group = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
make_fabric("cpu", 2)
"""


def write_recipe(
    folder: Path, *, network: str = "fc", epochs: int = 1, batch_size: int = 50, warmup: int = 0, more: str = ""
) -> None:
    text = RECIPE.format(network=network, epochs=epochs, batch_size=batch_size, warmup=warmup, more=more)
    (folder / "small.toml").write_text(text)


@pytest.mark.parametrize(
    "batch_size",
    [
        pytest.param(83, id="unequal shares"),
        pytest.param(1499, id="an empty share: the last batch is one image"),
    ],
)
def test_two_processes_train_as_one_does(tmp_path: Path, batch_size: int) -> None:
    write_recipe(tmp_path, batch_size=batch_size)
    train = ("train", f"{tmp_path}/small.toml", "--method", "dense", "--device", "cpu", "--out")
    alone = CliRunner().invoke(app, [*train, f"{tmp_path}/one"])
    assert alone.exit_code == 0, alone.output
    status, output, messages = run_asni(tmp_path, *train, "two", "--devices", "2")
    assert status == 0, messages
    assert output.count("weights, masks and metrics") == 1, "process 0 alone prints"
    assert messages.count("epoch 1/1") == 1
    one, two = (read_tensors(tmp_path / name / DENSE / "weights.safetensors") for name in ("one", "two"))
    torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-6)
    first, second = (json_object(tmp_path / name / DENSE / "result.json") for name in ("one", "two"))
    assert first["accuracy"] == second["accuracy"]


def test_every_method_ends_at_the_same_nonzeros_in_two_processes_as_in_one(tmp_path: Path) -> None:
    write_recipe(tmp_path, epochs=2, batch_size=30, more="steps_per_epoch = 3")
    compare = ("compare", f"{tmp_path}/small.toml", "--macs", "0.5", "--device", "cpu", "--json", "--out")
    alone = CliRunner().invoke(app, [*compare, f"{tmp_path}/one"])
    assert alone.exit_code == 0, alone.output
    status, output, messages = run_asni(tmp_path, *compare, "two", "--devices", "2")
    assert status == 0, messages
    one, two = ({row["method"]: row["nonzeros"] for row in json.loads(rows)} for rows in (alone.stdout, output))
    assert one.keys() == two.keys() == METHODS.keys()
    # STR's count is what its search comes to.
    assert two.pop("str") == pytest.approx(one.pop("str"), rel=0.04)
    assert two == one


def test_a_killed_process_ends_the_training_and_the_same_command_resumes_it_bit_for_bit(tmp_path: Path) -> None:
    (tmp_path / "mortality.py").write_text(MORTAL)
    write_recipe(
        tmp_path, network="mortality:mortal", epochs=4, warmup=1, more='steps_per_epoch = 5\naugment = "crop-flip"'
    )
    train = ("train", "small.toml", "--device", "cpu", "--out")
    status, _, messages = run_asni(tmp_path, *train, "unhurt", launcher=TORCHRUN)
    assert status == 0, messages

    status, output, messages = run_asni(tmp_path, *train, "killed", "--devices", "2", DIE_AT="13")
    assert (status, output) == (1, "")
    assert "Traceback" not in messages
    assert re.search(r"process .* lost", messages)
    status, output, messages = run_asni(tmp_path, *train, "killed", "--devices", "2")
    assert status == 0, messages
    assert "step 10 of 20" in messages

    for file in ("weights.safetensors", "mask.safetensors"):
        assert (tmp_path / "killed" / SPARSE / file).read_bytes() == (tmp_path / "unhurt" / SPARSE / file).read_bytes()
    assert json_object(tmp_path / "killed" / SPARSE / "result.json")["nonzeros"] == 34 + 295, (
        "all but the weights, and a tenth of these"
    )


@pytest.mark.parametrize(
    "batch_size",
    [
        pytest.param(83, id="unequal shares"),
        pytest.param(1499, id="an empty share: the last batch is one image"),
    ],
)
def test_two_processes_train_as_one_does_on_sparse_kernels(tmp_path: Path, batch_size: int) -> None:
    write_recipe(tmp_path, batch_size=batch_size, epochs=4)
    train = ("train", "small.toml", "--method", "random", "--kernels", "sparse", "--device", "cpu", "--json", "--out")
    for name, more in {"one": (), "two": ("--devices", "2")}.items():
        status, _, messages = run_asni(tmp_path, *train, name, *more)
        assert status == 0, messages
        assert messages.count("sparse kernels") == 1
    results = [json_object(tmp_path / name / RANDOM / "result.json") for name in ("one", "two")]
    assert results[0]["sparse_steps"] == results[1]["sparse_steps"] == 4 * -(-1500 // batch_size) - 3
    one, two = (read_tensors(tmp_path / name / RANDOM / "weights.safetensors") for name in ("one", "two"))
    torch.testing.assert_close(two, one, rtol=1e-3, atol=1e-5)


def test_sparse_kernels_in_a_killed_process_resume_bit_for_bit(tmp_path: Path) -> None:
    (tmp_path / "mortality.py").write_text(MORTAL)
    (tmp_path / "mortal_asni.py").write_text(MORTAL_STEPS)
    write_recipe(tmp_path, network="mortality:plain", epochs=4, more='steps_per_epoch = 5\naugment = "crop-flip"')
    asked = ("small.toml", "--method", "random", "--kernels", "sparse", "--device", "cpu", "--devices", "2")
    train = ("mortal_asni", "train", *asked, "--out")
    status, _, messages = run_python(tmp_path, *train, "unhurt")
    assert status == 0, messages
    status, _, messages = run_python(tmp_path, *train, "killed", DIE_AT="10")
    assert status == 1
    assert re.search(r"process .* lost", messages)
    status, _, messages = run_python(tmp_path, *train, "killed")
    assert status == 0, messages
    assert "step 10 of 20" in messages
    for file in ("weights.safetensors", "mask.safetensors"):
        assert (tmp_path / "killed" / RANDOM / file).read_bytes() == (tmp_path / "unhurt" / RANDOM / file).read_bytes()
    for name in ("unhurt", "killed"):
        assert json_object(tmp_path / name / RANDOM / "result.json")["sparse_steps"] == 20 - 3


def test_what_stops_process_0_stops_all_with_one_message(tmp_path: Path) -> None:
    write_recipe(tmp_path)
    run = Path("taken") / SPARSE
    (tmp_path / run).mkdir(parents=True)
    with FileLock(tmp_path / run / ".lock"):
        status, output, messages = run_asni(
            tmp_path, "train", "small.toml", "--device", "cpu", "--out", "taken", "--devices", "2"
        )
    assert (status, output) == (1, "")
    assert str(run) in messages
    assert len(messages.splitlines()) == 1


def test_every_process_leaves_the_group_before_it_ends(tmp_path: Path) -> None:
    (tmp_path / "leaving.py").write_text(LEAVING)
    status, output, messages = run_python(tmp_path, "leaving")
    assert (status, sorted(output.splitlines())) == (0, ["0 False 0", "1 False 0"]), messages


def test_a_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    (tmp_path / "orphaned.py").write_text(ORPHANED)
    # The output ends when the last process that could write to it has ended.
    status, _, messages = run_python(tmp_path, "orphaned")
    assert status == -signal.SIGKILL, messages
