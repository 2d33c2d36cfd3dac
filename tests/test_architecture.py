"""The rooms of `src/asni` are read from left to right, and docs/architecture.md draws them as they are."""

import ast
import doctest
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path

import pytest

import asni

SOURCES = Path(asni.__file__).parent
PAGE = SOURCES.parents[1] / "docs" / "architecture.md"

ROOMS = (
    "errors",
    "display",
    "files",
    "pruning",
    "recipes",
    "datasets",
    "networks",
    "runs",
    "training",
    "methods",
    "packing",
    "engine",
    "sparse",
    "figures",
    "studies",
    "integrations",
    "report",
    "cli",
)
"""Nothing imports what stands to its right."""


PUBLIC = (
    "ASNI",
    "Amenable",
    "AsniError",
    "Continuous",
    "Engine",
    "EngineError",
    "GMP",
    "GradualMagnitude",
    "Hold",
    "Magnitude",
    "PackError",
    "Pruner",
    "RigL",
    "SET",
    "STR",
    "SparsityWarning",
    "Summary",
    "amenable",
    "compile",
    "figures",
    "keep_largest",
    "latency_budget",
    "layer_times",
    "load",
    "load_engine",
    "pack",
    "prunable",
    "schedules",
    "sparse_training",
    "summary",
    "timed",
)


def room_of(file: Path) -> str:
    return file.relative_to(SOURCES).parts[0].removesuffix(".py")


def imports(file: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it, also for a type checker alone."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules() -> list[Path]:
    return [file for file in sorted(SOURCES.rglob("*.py")) if room_of(file) in ROOMS]


@cache
def graph() -> dict[str, set[str]]:
    """Which rooms each room imports."""
    needs: dict[str, set[str]] = {room: set() for room in ROOMS}
    for file in modules():
        ours = (name.split(".")[1] for name in imports(file) if name.startswith("asni."))
        needs[room_of(file)] |= {room for room in ours if room != room_of(file)}
    return needs


def longest_chain(room: str) -> list[str]:
    """The most rooms that lie behind one another, from this one to one that imports no other."""
    return [room, *max(map(longest_chain, sorted(graph()[room])), key=len, default=[])]


def test_every_module_stands_in_a_room() -> None:
    folders = {entry.name for entry in SOURCES.iterdir() if entry.is_dir() and entry.name != "__pycache__"}
    files = {entry.name for entry in SOURCES.glob("*.py")}
    assert folders | {name.removesuffix(".py") for name in files} == {*ROOMS, "__init__", "__main__"}
    assert len(folders) <= 16
    assert len(files) <= 4


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_to_its_left(room: str) -> None:
    assert graph()[room] <= set(ROOMS[: ROOMS.index(room)])


def test_pruning_costs_a_user_s_loop_nothing_but_torch_and_numpy() -> None:
    names = {name.split(".")[0] for file in modules() if room_of(file) == "pruning" for name in imports(file)}
    assert names - set(sys.stdlib_module_names) == {"asni", "numpy", "torch"}


IMPORTING = """
import sys
import asni
assert not {"torch", "numpy", "onnx"} & set(sys.modules)
asni.load_engine, asni.EngineError
assert "numpy" in sys.modules
assert not {"torch", "onnx"} & set(sys.modules)
"""


def test_importing_asni_waits_for_nothing_and_the_engine_for_numpy_alone() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_a_framework_is_imported_by_its_callback_alone() -> None:
    frameworks = {"accelerate", "peft", "pytorch_lightning", "transformers"}
    users = {file for file in modules() if frameworks & {name.split(".")[0] for name in imports(file)}}
    assert users == {SOURCES / "integrations" / "lightning.py", SOURCES / "integrations" / "transformers.py"}
    assert graph()["integrations"] <= {"errors", "files", "pruning", "methods"}


def test_the_page_lists_the_rooms_in_their_order_and_draws_the_longest_chain() -> None:
    page = PAGE.read_text()
    places = [page.index(f"| `{room}") for room in ROOMS]
    assert places == sorted(places)
    assert " → ".join(longest_chain("cli")) in page


@pytest.mark.parametrize("folder", [SOURCES / "engine", SOURCES.parents[1] / "native"], ids=lambda folder: folder.name)
def test_the_page_says_what_each_part_of_the_engine_and_of_its_core_is(folder: Path) -> None:
    left_out = {"__init__.py", "__pycache__", "CMakeLists.txt"}
    named = set(re.findall(r"`([\w.]+)/?`", "".join(re.findall(r"(?m)^\| (`.*?) \|", PAGE.read_text()))))
    parts = {entry.name for entry in folder.iterdir() if entry.suffix not in (".so", ".dylib", ".dll")}
    assert parts - left_out <= named


@pytest.mark.parametrize("room", [room for room in ROOMS if (SOURCES / room).is_dir()])
def test_a_room_has_a_docstring_and_a_mirror_among_the_tests(room: str) -> None:
    assert ast.get_docstring(ast.parse((SOURCES / room / "__init__.py").read_text()))
    assert (Path(__file__).parent / room).is_dir()


def test_every_public_name_is_there() -> None:
    assert asni.__all__ == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(asni, name) is not None
    assert asni.__version__ == version("asni")
    assert asni.schedules.Polynomial(0.8)(100, 10) == 0.8
    with pytest.raises(AttributeError):
        asni.plug  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", [*PUBLIC, *(f"figures.{name}" for name in asni.figures.__all__)])
def test_every_public_name_has_an_example_that_the_tests_run(name: str) -> None:
    examples = doctest.DocTestFinder(recurse=False).find(attrgetter(name)(asni), name)
    assert [each for each in examples if each.examples]
