import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from asni.methods import METHODS
from tests.cli.calling import Command
from tests.recipes.test_paper_rows import PLANNED

SMALL = """
dataset = "digits"
network = "tests.methods.small_networks:normed"
[training]
epochs = 2
batch_size = 50
optimizer = "adam"
lr = 0.1
[pruning]
sparsity = 0.6
macs = 0.3
"""


@pytest.mark.parametrize(("recipe", "nonzeros"), PLANNED.items())
def test_the_plan_ends_at_the_paper_s_nonzeros(command: Command, recipe: str, nonzeros: int) -> None:
    assert json.loads(command("plan", recipe, "--json").out)["nonzeros"] == nonzeros


@pytest.mark.parametrize("epochs", [1, 2, 10, 333])
def test_a_plan_of_another_length_ends_at_the_same_nonzeros(command: Command, epochs: int) -> None:
    facts = json.loads(command("plan", "mnist-fc", "--epochs", str(epochs), "--json").out)
    assert facts["nonzeros"] == facts["schedule"][-1]["nonzeros"] == 8_335
    assert facts["gamma"] == epochs / 10


def test_a_plan_in_full(command: Command) -> None:
    facts = json.loads(command("plan", "mnist-fc", "--json").out)
    schedule = facts.pop("schedule")
    assert [entry["epoch"] for entry in schedule] == list(range(50))
    assert {key: facts[key] for key in ("parameters", "prunable", "epochs", "steps_per_epoch")} == {
        "parameters": 266_610,
        "prunable": 266_200,
        "epochs": 50,
        "steps_per_epoch": 1000,
    }
    assert facts["sparsity"] == pytest.approx(1 - 7_925 / 266_200)
    assert facts["total_sparsity"] == pytest.approx(1 - 8_335 / 266_610)
    assert facts["alpha"] == pytest.approx(98.0)


def test_a_plan_for_a_person(command: Command) -> None:
    printed = command("plan", "mnist-fc").out
    assert "266,610 parameters, 266,200 of them prunable" in printed
    assert "5.1 MiB in each process" in printed
    assert "ends with 8,335 nonzeros" in printed
    assert "\n266,200 multiplications per image; with 8,335 nonzeros 2.98 % of them\n" in printed


def test_a_plan_stands_beside_the_paper_and_says_what_it_leaves_open(command: Command) -> None:
    printed = command("plan", "cifar10-resnet18").out
    assert "ends with 431,108 nonzeros" in printed
    assert "the paper: 451,216 nonzeros" in printed
    assert re.search("^- row 11: .*nonzeros .*1,000 outputs", printed, re.MULTILINE)


def test_a_plan_draws_the_curve_and_lists_every_tenth_epoch(command: Command) -> None:
    lines = command("plan", "digits-fc").out.splitlines()
    assert lines[6].startswith("  95.0% ")
    assert lines[6].endswith("▅▆▆▇▇▇█████")
    table = lines[lines.index("after epoch  sparsity  nonzeros") + 1 :][:4]
    assert [line.split() for line in table] == [
        ["1", "0.0064", "50,287"],
        ["10", "0.1147", "44,851"],
        ["20", "0.7617", "12,373"],
        ["30", "0.9500", "2,920"],
    ]


def test_a_plan_with_a_budget_shows_it_epoch_by_epoch(command: Command) -> None:
    printed = command("plan", "cifar10-conv2", "--macs", "0.2").out
    lines = printed.splitlines()
    table = lines[lines.index("after epoch  sparsity   nonzeros  MACs %") + 1 :][:3]
    assert [line.split()[-1] for line in table] == ["99.16", "60.71", "20.00"]
    assert ", pruned every 100 steps" in printed
    assert re.search(r" nonzeros from \S+ % to \S+ % of them; at most 20 % by the budget$", printed, re.MULTILINE)


def test_a_plan_along_a_cubic_curve_says_so(command: Command) -> None:
    printed = command("plan", "digits-fc", "--epochs", "5", "--schedule", "cubic").out
    assert "\na cubic curve from 20 to 80 % of the training, pruned every 3 steps\n" in printed
    assert "alpha" not in printed


@pytest.mark.parametrize("words", [["plan"], ["train", "--method", "dense"], ["train"]])
def test_a_budget_that_cannot_be_met_is_refused_before_anything_is_trained(
    command: Command, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    out = ["--out", str(tmp_path / "runs")] if "train" in words else []
    answer = command(words[0], str(tmp_path / "small.toml"), *words[1:], *out)
    assert answer.status == 2
    assert "355 weights cannot keep to 0.3 of the dense multiplications" in answer.err
    assert not list(tmp_path.rglob("metrics.jsonl"))


def test_a_timed_plan_needs_no_data_and_writes_nothing(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASNI_DATA", str(tmp_path / "data"))
    seconds = json.loads(command("plan", "mnist-fc", "--time", "--json").out)["seconds"]
    assert all(math.isfinite(value) and value > 0 for value in seconds.values())
    assert seconds["training"] == pytest.approx(50 * (1000 * seconds["step"] + seconds["evaluation"]))
    assert seconds["investigate"] == pytest.approx(4 * seconds["training"])
    said = command("plan", "digits-fc", "--time").out
    assert re.search(r"^about .* here; about .* for the 4 trainings of `asni investigate` \(random data\)$", said, re.M)
    assert list(tmp_path.iterdir()) == []


def test_the_schedule_can_be_set_from_the_command_line(command: Command) -> None:
    words = ("--alpha", "90", "--beta", "0.4", "--gamma", "6", "--least", "0.01", "--lottery-rounds", "3", "--json")
    facts = json.loads(command("plan", "mnist-fc", *words).out)
    assert [facts[key] for key in ("alpha", "beta", "gamma", "least", "lottery_prunings")] == [90, 0.4, 6, 0.01, 3]
    assert facts["sparsity"] == pytest.approx(0.9 / (1 + math.exp(-(48 - 20) / 6)), abs=0.01)
    assert facts["schedule"][1]["sparsity"] == facts["schedule"][0]["sparsity"], "a share of 0.5 % is left out"


def test_a_plan_counts_parameters_gradients_optimiser_state_and_masks(command: Command) -> None:
    adam, sgd = (json.loads(command("plan", name, "--json").out) for name in ("mnist-fc", "imagenet-resnet50-80"))
    # The masks of a small network are as wide as its weights.
    assert adam["memory_bytes"] == 4 * 4 * 266_610 + 4 * 266_200
    # With momentum, and one byte of mask a weight.
    assert sgd["memory_bytes"] == 3 * 4 * 25_557_032 + 25_502_912


def test_the_recipes_stand_beside_the_paper(command: Command) -> None:
    lines = command("recipes").out.splitlines()
    assert len(lines) == 15
    conv6 = next(line for line in lines if line.startswith("cifar10-conv6"))
    assert conv6.split() == ["cifar10-conv6", "2,262,602", "30", "1,000", "60", "164,627", "164,624", "7"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", "mnits-fc"], "'mnist-fc'"),
        (["plan", "mnist-fc", "--epoch", "3"], "--epochs"),
        (["plan", "mnist-fc", "--sparsity", "97"], "sparsity = 97.0"),
        (["plan", "mnist-fc", "--sparsity", "1"], "sparsity = 1.0"),
        (["plan", "mnist-fc", "--epochs", "0"], "epochs = 0"),
        (["plan", "mnist-fc", "--epochs", "9" * 23], "100000 "),
        (["plan", "mnist-fc", "--steps-per-epoch", "9" * 23], "10000000 "),
        (["plan", "digits-fc", "--batch-size", "5000"], "batch_size = 5000"),
        (["train", "digits-fc", "--seed", "9" * 23], "--seed"),
        (["plan", "nowhere.toml"], "'nowhere.toml'"),
        (["train", "digits-fc", "--method", "asni"], "'asni-1'"),
        (["train", "digits-fc", "--lr", "-1"], "lr = -1.0"),
        (["train", "digits-fc", "--precision", "fp8"], "fp8"),
        (["data", "get", "minst"], "'mnist'"),
        (["trian", "digits-fc"], "train"),
    ],
)
def test_a_mistake_is_reported_with_the_nearest_right_word(command: Command, arguments: list[str], said: str) -> None:
    answer = command(*arguments)
    assert answer.status == 2
    assert said in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("arguments", [["recipes"], ["methods"], ["--help"], ["train", "--help"], ["--version"]])
def test_what_needs_no_network_does_not_wait_for_torch(arguments: list[str]) -> None:
    program = f"import sys; from asni.cli import main; sys.argv = ['asni', *{arguments!r}]\n"
    program += "try: main()\nfinally: assert not {'torch', 'numpy', 'PIL', 'matplotlib'} & set(sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_the_methods_are_listed_with_their_cost(command: Command) -> None:
    listed = {each["name"]: each for each in json.loads(command("methods", "--json").out)}
    assert listed.keys() == METHODS.keys()
    assert [listed[name]["trainings"] for name in ("asni-1", "asni-2", "magnitude-rewind", "str")] == [1, 2, 3, None]


def test_the_methods_stand_under_their_tasks_with_a_few_words_each(command: Command) -> None:
    lines = command.on_terminal(80, "methods", no_color=True).out.splitlines()
    places = {line.split()[0]: place for place, line in enumerate(lines) if line}
    second = next(place for place, line in enumerate(lines) if "Task 2: a sparse network" in line)
    assert places["rigl"] < second < places["asni-2"]
    assert lines[places["rigl"]] == "rigl               drops small weights, grows by gradient                1"
    assert all(method.does for method in METHODS.values())


def test_a_plan_of_one_epoch_is_not_one_of_epochs(command: Command) -> None:
    assert (
        "\n1 epoch of 1 step, batches of "
        in command("plan", "digits-fc", "--epochs", "1", "--steps-per-epoch", "1").out
    )
