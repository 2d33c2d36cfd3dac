"""Every block of code in README and docs/ does what it says, as it stands there."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from asni import Pruner
from asni.cli import app
from asni.recipes.checking import checked
from asni.recipes.recipe import Recipe
from tests.cli.calling import Command
from tests.documentation.blocks import PAGES, REPOSITORY, blocks, commands, inline_commands, programs

# What an excerpt takes for granted: the reader's own model and loop.
PREAMBLE = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import asni


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(20, 50), nn.Linear(50, 10)])

    def forward(self, inputs):
        for block in self.blocks:
            inputs = block(inputs)
        return inputs


model = Net()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(64, 20), torch.randint(10, (64,))), batch_size=8)
"""
EXCERPTS = ("README.md", "distributed.md", "how-it-works.md", "index.md")
NEEDS_MORE = re.compile(r"--(open|serve|executor|devices|precision [bf]|seeds)|mnist|cifar|imagenet")
"""Commands that need a screen, a cluster, several devices, minutes or a download."""

RECIPE = {
    "dataset": "digits",
    "network": "fc",
    "training": {"epochs": 2, "batch_size": 50, "optimizer": "adam", "lr": 1e-3},
    "pruning": {"sparsity": 0.9},
}

PYTHON = [(page, program) for page in PAGES for program in programs(page)]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _one_process(tmp_path: Path) -> Iterator[None]:
    """A process group of one, for what is shown of many; and no state of accelerate left behind."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()
    if "accelerate" in sys.modules:
        from accelerate.state import AcceleratorState, GradientState

        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()


@pytest.mark.filterwarnings("ignore:::(pytorch_lightning|lightning_utilities|peft|transformers|torch)")
@pytest.mark.usefixtures("_one_process")
@pytest.mark.parametrize(("page", "program"), PYTHON, ids=[page.name for page, _ in PYTHON])
def test_python_runs_and_every_pruner_reaches_its_target(page: Path, program: str) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec((PREAMBLE if page.name in EXCERPTS else "") + program, names)
    pruners = [getattr(value, "pruner", value) for value in names.values()]
    for pruner in pruners:
        if isinstance(pruner, Pruner) and pruner.steps and pruner.target is not None:
            assert pruner.alive == pruner.target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_understood(page: Path) -> None:
    for arguments in commands(page):
        parse(arguments)
    for arguments in inline_commands(page):
        try:
            parse(arguments)
        except Exception as refusal:
            if type(refusal).__name__ != "MissingParameter":  # `asni pack` in a sentence is a name
                raise


@pytest.mark.parametrize("wrong", ["shrink", "train mnist-fc --sparse 0.9", "train --seed one", "data fetch mnist"])
def test_a_command_that_does_not_exist_is_noticed(wrong: str) -> None:
    with pytest.raises(Exception, match=r"(?i)no such|valid integer"):
        parse(wrong.split())


def parse(arguments: list[str]) -> None:
    """Give the arguments to the command line, whose commands do nothing."""
    command = typer.main.get_command(app)
    leaves = [command]
    while leaves:
        each = leaves.pop()
        leaves += getattr(each, "commands", {}).values()
        each.callback = lambda **_: None
    command.main(list(arguments), standalone_mode=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_quick_commands_run(page: Path, command: Command) -> None:
    for arguments in commands(page):
        is_here = "digits-fc" in arguments or any(Path(each).exists() for each in arguments[1:])
        if (arguments in (["recipes"], ["methods"]) or is_here) and not NEEDS_MORE.search(" ".join(arguments)):
            answer = command(*arguments)
            assert answer.status == 0, answer.err


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_toml_is_a_recipe_or_a_part_of_one(page: Path) -> None:
    for block in blocks(page):
        if block.language == "toml":
            recipe: dict[str, Any] = dict(RECIPE)
            for key, value in tomllib.loads(block.text).items():
                recipe[key] = {**recipe.get(key, {}), **value} if isinstance(value, dict) else value
            checked(Recipe, recipe, page.name, name="recipe", overrides={})


def test_quoted_messages_are_what_the_source_can_write() -> None:
    known = [re.compile(pattern) for pattern in message_patterns()]
    quoted = [block for page in PAGES for block in blocks(page) if block.language == "text"]
    assert quoted
    for block in quoted:
        assert any(pattern.fullmatch(block.text.strip()) for pattern in known), block.text


def message_patterns() -> Iterator[str]:
    """Every f-string of the package that is a sentence, as a pattern."""
    for file in sorted((REPOSITORY / "src" / "asni").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*" for part in node.values]
                if sum(len(part) for part in parts if part != ".*") > 40:
                    yield "".join(parts)
