"""`asni doctor` says what asni found on this machine, whatever that is."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from asni.engine import machine, native
from tests.cli.calling import Command


def test_it_names_versions_processor_engine_and_extras(command: Command) -> None:
    answer = command("doctor")
    assert (answer.status, answer.err) == (0, "")
    python = ".".join(map(str, sys.version_info[:3]))
    lines = dict(line.split(maxsplit=1) for line in answer.out.splitlines())
    assert lines["asni"] == f"{version('asni')} (Python {python}, torch {version('torch')}, numpy {version('numpy')})"
    assert lines["processor"].startswith(f"{machine.processor()}, {machine.cores()} core")
    assert lines["engine"].startswith(native.choice().isa)
    assert native.choice().why in lines["engine"]
    assert lines["onnx"] == f"onnx {version('onnx')}"


def test_json_has_all_of_it(command: Command) -> None:
    found = json.loads(command("doctor", "--json").out)
    assert found["versions"]["torch"] == version("torch")
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["memory"] is None or found["machine"]["memory"] > 2**20
    choice = native.choice()
    assert found["engine"] == {
        "isa": choice.isa,
        "why": choice.why,
        "lanes": choice.lanes,
        "native": choice.is_native,
        "supported": dict(choice.supported),
    }
    assert found["extras"]["slurm"] == {"submitit": version("submitit")}
    assert "dev" not in found["extras"]


WITHOUT_TORCH = """
import sys
from asni.cli import main
sys.argv = ["asni", "doctor", "--json"]
try: main()
except SystemExit as end: assert not end.code
assert "torch" not in sys.modules
"""


@pytest.mark.parametrize("name", ["", "numpy", *native.TITLES, "sse9"])
def test_every_instruction_set_can_be_asked_for_and_a_wrong_one_is_part_of_the_answer(name: str) -> None:
    environment = os.environ | {"ASNI_ISA": name}
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], env=environment, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    engine = json.loads(answer.stdout)["engine"]
    best = native.load(Path(native.__file__).parent, "")[1]
    if name in ("", "numpy") or best.supported.get(name):
        assert engine["isa"] == (name or best.isa)
        assert engine["native"] == (engine["isa"] != "numpy")
    else:
        assert engine["isa"] is None
        assert engine["why"].startswith(f"ASNI_ISA={name}: ")
        assert "numpy" in engine["why"]
