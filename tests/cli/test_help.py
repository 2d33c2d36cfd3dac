"""The first things a user types: --help, --version, a mistyped word, and the tab key."""

import re
import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.cli.calling import Command


def test_the_version_names_torch_and_python(command: Command) -> None:
    python = ".".join(map(str, sys.version_info[:3]))
    assert command("--version").out == f"asni {version('asni')} (torch {version('torch')}, Python {python})\n"


def test_the_commands_stand_in_panels_one_line_each(command: Command) -> None:
    lines = command.on_terminal(80, "--help", no_color=True).out.splitlines()
    panels: dict[str, list[str]] = {}
    for line in (re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines):
        if title := re.match(r"╭─ (\w+) ─", line):
            panels[title[1]] = []
        elif row := re.match(r"│ (\S*)", line):
            panels[list(panels)[-1]].append(row[1])
    del panels["Options"]
    assert panels == {
        "Look": ["recipes", "methods", "plan", "inspect", "report", "doctor"],
        "Train": ["train", "investigate"],
        "Study": ["reproduce", "compare"],
        "Files": ["pack", "unpack", "export", "bench", "data"],
    }


def test_the_options_of_a_command_stand_in_panels_and_its_examples_below(command: Command) -> None:
    shown = command.on_terminal(80, "train", "--help", no_color=True).out
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert re.findall(r"╭─ ([\w ]+) ─", plain) == [
        "Arguments",
        "Options",
        "Changes to the recipe",
        "Execution",
        "Output",
    ]
    assert " Examples\n   asni train digits-fc\n" in re.sub(" +\n", "\n", plain)
    assert not re.search("<[a-z]+|<=", plain)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trian"], "no such command 'trian'. Did you mean 'train'? Try `asni --help`."),
        (["train", "--sed", "3"], "no option --sed; did you mean --seed? Try `asni train --help`."),
        (["train", "--epochs", "two"], "invalid value for '--epochs': not a whole number. Try `asni train --help`."),
        (["train", "--lr", "low"], "invalid value for '--lr': not a number. Try `asni train --help`."),
        (["plan"], "missing argument 'RECIPE'. Try `asni plan --help`."),
        (
            ["train", "digits-fc", "--seed", "-1"],
            "invalid value for '--seed': -1 is not in the range from 0 to 4294967295. Try `asni train --help`.",
        ),
        (["recipes", "all"], "got unexpected extra argument(s) (all). Try `asni recipes --help`."),
    ],
)
def test_a_wrong_command_line_is_answered_in_one_line(command: Command, arguments: list[str], said: str) -> None:
    answer = command(*arguments)
    assert (answer.status, answer.out, answer.err) == (2, "", f"asni: {said}\n")


def test_without_a_command_the_help_is_shown(command: Command) -> None:
    answer = command()
    assert (answer.status, answer.err) == (2, "")
    assert "Start here" in answer.out


COMPLETIONS = {
    "asni pl": ["plan"],
    "asni train digi": ["digits-fc"],
    "asni reproduce mnist-c": ["mnist-conv2", "mnist-conv4", "mnist-conv6"],
    "asni train digits-fc --method rig": ["rigl", "rigl-uniform"],
    "asni compare digits-fc --methods dense,sn": ["dense,snip"],
    "asni data get ci": ["cifar10"],
    "asni plan mnist-fc --ti": ["--time"],
    "asni train digits-fc --device c": ["cpu", "cuda"],
}


def test_the_tab_key_completes_names_without_torch() -> None:
    program = f"""if True:
        import os, sys
        from asni.cli import main
        os.environ["_ASNI_COMPLETE"] = "complete_bash"
        for line in {list(COMPLETIONS)!r}:
            os.environ.update(COMP_WORDS=line, COMP_CWORD=str(line.count(" ")))
            try: main()
            except SystemExit: print("--")
        assert not {{"torch", "numpy"}} & set(sys.modules)"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert [each.split() for each in answer.stdout.split("--\n")[:-1]] == list(COMPLETIONS.values())
