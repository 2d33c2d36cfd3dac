"""asni bench."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from asni.engine.comparing import bench, opponents
from asni.engine.comparing.opponents import OPPONENTS, Opponent, Prepared
from asni.engine.graph import Array
from asni.engine.packing import pack
from tests.cli.calling import Command


@pytest.fixture(autouse=True)
def _little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SECONDS", 0.0)
    monkeypatch.setattr(bench, "TURN_SECONDS", 0.0)


@pytest.fixture
def network(tmp_path: Path) -> str:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    pack(model, tmp_path / "net.asni", example=torch.zeros(1, 6), graph=True)
    return str(tmp_path / "net.asni")


def garbage(path: Path, example: Array, threads: int) -> Prepared:
    return Prepared(lambda x: np.zeros((len(x), 2), np.float32), 1)


def test_a_packed_network_is_timed_beside_another_runtime(command: Command, network: str) -> None:
    answer = command("bench", network, "--batch", "1,3", "--against", "torch")
    assert (answer.status, answer.err) == (0, "")
    assert all(word in answer.out for word in ("batch 1, 1 thread", "batch 3, 1 thread", "items/s", "torch"))
    assert answer.out.count("as fast as the best other, torch") + answer.out.count("not faster here: torch") == 2


def test_a_runtime_with_other_results_is_shown_as_wrong(
    command: Command, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPPONENTS, "garbage", Opponent("garbage", "numpy", "numpy", garbage))
    answer = command("bench", network, "--batch", "2", "--against", "garbage")
    assert answer.status == 0
    (line,) = (line for line in answer.out.splitlines() if line.startswith("garbage"))
    assert line.endswith("wrong")
    assert "batch 2, 1 thread, garbage wrong: differs by 1 of the largest value" in answer.out
    assert "batch 2, 1 thread: nothing to compare with" in answer.out


def test_json_has_every_number_unrounded(command: Command, network: str) -> None:
    found = json.loads(command("bench", network, "--batch", "1,2", "--against", "torch", "--json").out)
    assert [(row["runtime"], row["batch"], row["state"]) for row in found["rows"]] == [
        ("asni", 1, "right"), ("torch", 1, "right"), ("asni", 2, "right"), ("torch", 2, "right"),
    ]  # fmt: skip
    ours, other = found["rows"][:2]
    assert other["speed_up"] == other["quantile_ms"] / ours["quantile_ms"]
    assert ours["file_bytes"] == Path(network).stat().st_size
    assert list(found["plans"]) == ["batch 1, 1 thread", "batch 2, 1 thread"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--batch", "0"], "--batch: '0' is not a list of numbers from 1 to 65,536, such as 1,64."),
        (["--batch", "1,,2"], "--batch: '1,,2' is not a list of numbers from 1 to 65,536, such as 1,64."),
        (["--threads", "many"], "--threads: 'many' is not a list of numbers from 1 to 1,024, such as 1,64."),
        (["--against", "tensorrt"], "no runtime 'tensorrt'"),
    ],
)
def test_a_wrong_option_is_refused(command: Command, network: str, arguments: list[str], said: str) -> None:
    answer = command("bench", network, *arguments)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith(f"asni: {said}")


def test_a_runtime_that_is_missing_is_named_with_the_remedy(
    command: Command, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPPONENTS, "tvm", Opponent("tvm", "no-such-package", "tvm", garbage))
    answer = command("bench", network, "--against", "tvm")
    assert (answer.status, answer.err) == (2, "asni: tvm is not installed. Run: pip install 'asni[bench]'\n")


def test_without_a_choice_those_that_are_missing_are_named_at_the_end(
    command: Command, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Opponent("tvm", "no-such-package", "tvm", garbage)
    monkeypatch.setattr(opponents, "OPPONENTS", {"torch": OPPONENTS["torch"], "tvm": missing})
    answer = command("bench", network, "--batch", "1")
    assert answer.status == 0
    assert answer.out.endswith("not installed: tvm. To compare with them too: pip install 'asni[bench]'\n")


def test_a_file_without_a_graph_is_refused_with_the_remedy(command: Command, tmp_path: Path) -> None:
    pack(torch.nn.Linear(3, 2), tmp_path / "net.asni")
    answer = command("bench", str(tmp_path / "net.asni"))
    assert (answer.status, answer.out) == (1, "")
    assert "net.asni: it holds no graph. Pack the network again, with --graph." in answer.err


@pytest.mark.parametrize("name", ["missing.asni", "missing.onnx", "text.onnx"])
def test_what_is_no_network_is_refused_by_its_name(command: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "text.onnx").write_text("no network")
    answer = command("bench", str(tmp_path / name))
    assert (answer.status, answer.out) == (1, "")
    assert name in answer.err
    assert "Traceback" not in answer.err


def test_a_terminal_shows_the_speed_up_whatever_its_width(command: Command, network: str) -> None:
    narrow = command.on_terminal(50, "bench", network, "--batch", "1", "--against", "torch", no_color=True).out
    assert "asni is" in narrow
    assert "not shown at 50 columns" in narrow
