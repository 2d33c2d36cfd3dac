import json
import os
import re
import runpy
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import asni
from tests.cli.calling import Command

EXAMPLES = Path(__file__).parents[1] / "examples"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
RESUMED = ("fine_tuning.py", "fsdp2.py")
LINE = re.compile(
    r"(?P<name>dense|sparse): (?P<measure>accuracy|loss) (?P<quality>[\d.]+)%?, "
    r"(?P<nonzeros>[\d,]+) nonzero.* weights, (?P<packed>[\d,]+) bytes packed, (?P<unpacked>[\d,]+) unpacked"
)


@dataclass(frozen=True)
class Printed:
    """What an example prints about a network."""

    measure: str
    quality: float
    nonzeros: int
    packed: int
    unpacked: int


def test_the_loop_runs_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "own_loop.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "ASNI-I: 1,110 weights" in printed
    assert "4 numbers" in printed
    assert "ASNI-II: 1,110 weights" in printed


def test_the_recipe_trains_as_it_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", list(sys.path))
    answer = Command(capsys, monkeypatch)("train", "own_recipe.toml", "--out", str(tmp_path / "run"), "--json")
    result = json.loads(answer.out)
    assert result["sparsity"] == pytest.approx(0.9, abs=1e-3)
    assert result["accuracy"] > 80


@pytest.mark.parametrize(
    ("example", "weights", "left"),
    [
        ("resnet.py", 77_072, 7_707),
        ("fine_tuning.py", 61_704, 6_170),
        ("lightning_callback.py", 50_200, 2_510),
        ("hugging_face_gpt.py", 98_304, 19_661),
        ("fsdp2.py", 71_168, 14_234),
    ],
)
def test_a_program_prunes_to_its_target_and_keeps_most_of_its_quality(example: str, weights: int, left: int) -> None:
    output = run(*(TORCHRUN if example == "fsdp2.py" else ()), str(EXAMPLES / example))
    networks = printed_networks(output)
    dense, sparse = networks["dense"], networks["sparse"]
    assert (dense.nonzeros, sparse.nonzeros) == (weights, left)
    assert sparse.packed < sparse.unpacked / 3
    assert sparse.packed < dense.packed < dense.unpacked == sparse.unpacked
    if dense.measure == "accuracy":
        assert min(dense.quality, sparse.quality) > 80
    else:
        assert max(dense.quality, sparse.quality) < 2.7
    assert ("the same weights" in output) == (example in RESUMED)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[torch.nn.Module, str]]:
    """A network, and the address at which it is served."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    asni.pack(network, tmp_path / "net.asni", example=torch.zeros(1, 3), graph=True)
    command = [sys.executable, str(EXAMPLES / "serve.py"), str(tmp_path / "net.asni"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            said = next(line for line in server.stderr if "running on" in line)
            yield network, said.split()[said.split().index("on") + 1]
        finally:
            server.terminate()
            server.stderr.read()


def post(address: str, body: bytes | None) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(address, body, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_a_packed_network_is_served_over_http(served: tuple[torch.nn.Module, str]) -> None:
    network, address = served
    items = [[1.0, 2.0, 3.0], [-4.0, 0.5, 6.0]]
    status, results = post(address, json.dumps(items).encode())
    assert status == 200
    assert results == [pytest.approx(row, abs=1e-5) for row in network(torch.tensor(items)).tolist()]
    for body, said in ((b"[[1, 2]]", "3"), (b"[[1, 2], [3]]", "inhomogeneous"), (b"{", "Expecting")):
        status, answer = post(address, body)
        assert status == 400
        assert said in answer["error"]
    assert post(address, None)[0] == 405


def run(*arguments: str) -> str:
    """What the program prints, in one thread, so that torchrun has nothing to warn about."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=300)
    assert ended.returncode == 0, ended.stderr
    said = ended.stderr.splitlines()
    assert all(line.startswith("asni: ") and " prunes " in line for line in said), ended.stderr
    return ended.stdout


def printed_networks(output: str) -> dict[str, Printed]:
    found = {}
    for match in LINE.finditer(output):
        nonzeros, packed, unpacked = (int(match[each].replace(",", "")) for each in ("nonzeros", "packed", "unpacked"))
        found[match["name"]] = Printed(match["measure"], float(match["quality"]), nonzeros, packed, unpacked)
    return found
