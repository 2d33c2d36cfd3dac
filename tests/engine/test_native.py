"""The engine runs on the best instruction set, on the one that the user asks for, or on NumPy, and says why."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import asni
from asni.engine import native
from asni.errors import EngineError

COMPILER = shutil.which("cc") or shutil.which("c++")
NAME = {"win32": "asni.dll", "darwin": "libasni.dylib"}.get(sys.platform, "libasni.so")

# A core without kernels, whose processor has SSE4.2 and AVX2.
STAND_IN = """
#include <string.h>
static const char* isa = "x86_64_v3";
int asni_abi(void) { return ABI; }
int asni_supported(const char* name) { return !strcmp(name, "x86_64_v2") || !strcmp(name, "x86_64_v3"); }
int asni_choose(const char* name) { isa = strdup(name); return 0; }
const char* asni_isa(void) { return isa; }
int asni_lanes(void) { return strcmp(isa, "x86_64_v3") ? 4 : 8; }
"""


def compiled(folder: Path, source: str, abi: int = native.ABI) -> Path:
    if COMPILER is None:
        pytest.skip("there is no compiler")
    (folder / "core.c").write_text(source)
    command = [COMPILER, "-x", "c", "-shared", "-fPIC", "-D_GNU_SOURCE", f"-DABI={abi}", "-o", NAME, "core.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


@pytest.fixture
def core(tmp_path: Path) -> Path:
    return compiled(tmp_path, STAND_IN)


def test_the_best_instruction_set_is_chosen(core: Path) -> None:
    library, choice = native.load(core, "")
    assert library is not None
    assert (choice.isa, choice.lanes, choice.why) == ("v3", 8, "AVX2: the best that this processor has")
    assert choice.supported == {"v2": True, "v3": True, "v4": False, "neon": False, "generic": False}


@pytest.mark.parametrize(("wanted", "isa", "lanes"), [("v2", "v2", 4), ("v3", "v3", 8), ("avx2", "v3", 8)])
def test_the_user_may_ask_for_another(core: Path, wanted: str, isa: str, lanes: int) -> None:
    library, choice = native.load(core, wanted)
    assert library is not None
    assert library.asni_isa() == f"x86_64_{isa}".encode()
    assert (choice.isa, choice.lanes, choice.why) == (isa, lanes, f"ASNI_ISA={wanted}")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("v4", "this processor or this build does not have it"),
        ("avx512", "this processor or this build does not have it"),
        ("neon", "this processor or this build does not have it"),
        ("avx3", "there is no such instruction set"),
        ("V3", "there is no such instruction set"),
    ],
)
def test_what_the_processor_lacks_is_refused_with_what_it_has(core: Path, wanted: str, reason: str) -> None:
    with pytest.raises(EngineError) as refusal:
        native.load(core, wanted)
    assert str(refusal.value) == f"ASNI_ISA={wanted}: {reason}. Possible here: v2, v3, numpy."


def test_without_a_core_numpy_runs_and_no_instruction_set_can_be_asked_for(tmp_path: Path) -> None:
    library, choice = native.load(tmp_path, "")
    assert library is None
    assert (choice.isa, choice.is_native) == ("numpy", False)
    assert choice.why.startswith("no native core: no C++ compiler worked when asni was installed")
    with pytest.raises(EngineError, match=r"^ASNI_ISA=v3: no native core: .* Possible here: numpy\.$"):
        native.load(tmp_path, "v3")


def test_numpy_can_be_asked_for_and_the_core_is_not_even_loaded(tmp_path: Path) -> None:
    folder = compiled(tmp_path, STAND_IN, abi=native.ABI + 1)
    assert native.load(folder, "numpy") == (None, native.Choice("numpy", 1, "ASNI_ISA=numpy"))


def test_a_file_that_cannot_be_loaded_is_as_none_and_the_reason_is_told(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"cut off")
    library, choice = native.load(tmp_path, "")
    assert library is None
    assert choice.why.startswith("no native core: it cannot be loaded: ")
    assert NAME in choice.why


def test_a_processor_older_than_all_instruction_sets_runs_numpy(tmp_path: Path) -> None:
    folder = compiled(tmp_path, STAND_IN.replace('!strcmp(name, "x86_64_v2") || !strcmp(name, "x86_64_v3")', "0"))
    library, choice = native.load(folder, "")
    assert (library, choice.isa, choice.why) == (None, "numpy", "no native core: it needs a newer processor")


@pytest.mark.parametrize(
    ("source", "abi", "said"),
    [
        (STAND_IN, native.ABI + 1, f"has version {native.ABI + 1} of the core's interface, .* needs {native.ABI}"),
        ("int other(void) { return 0; }", native.ABI, "is not the native core of asni"),
    ],
)
def test_the_core_of_another_version_is_refused(tmp_path: Path, source: str, abi: int, said: str) -> None:
    with pytest.raises(EngineError, match=rf"{NAME} {said}.*Install asni again\.$"):
        native.load(compiled(tmp_path, source, abi), "")


ASK_TWICE_FROM_MANY_THREADS = """
from concurrent.futures import ThreadPoolExecutor
from asni.engine import native
with ThreadPoolExecutor(8) as pool:
    assert len({id(each) for each in pool.map(lambda _: native.library(), range(100))}) == 1
print(native.choice().isa)
"""


def run(program: str, folder: Path, isa: str = "") -> subprocess.CompletedProcess[str]:
    """A Python program for which asni lies in a folder; -S, because an editable install would come first."""
    paths = [str(folder), sysconfig.get_path("purelib"), *filter(None, sys.path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "ASNI_ISA": isa}
    command = [sys.executable, "-S", "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def installed(folder: Path) -> Path:
    """A copy of the package, without its core."""
    shutil.copytree(Path(asni.__file__).parent, folder / "asni", ignore=shutil.ignore_patterns(NAME, "__pycache__"))
    return folder


def test_one_line_tells_that_there_is_no_core(tmp_path: Path) -> None:
    answer = run(ASK_TWICE_FROM_MANY_THREADS, installed(tmp_path))
    assert (answer.returncode, answer.stdout) == (0, "numpy\n")
    assert answer.stderr == (
        "asni: no native core: no C++ compiler worked when asni was installed (install it again where g++ or clang "
        "works). NumPy runs instead, more slowly.\n"
    )


@pytest.mark.parametrize(("isa", "printed"), [("numpy", "numpy\n"), ("avx2", "v3\n"), ("v2", "v2\n"), ("", "v3\n")])
def test_nothing_is_told_of_what_was_asked_for(core: Path, isa: str, printed: str) -> None:
    folder = installed(core)
    shutil.move(core / NAME, folder / "asni" / "engine" / NAME)
    answer = run(ASK_TWICE_FROM_MANY_THREADS, folder, isa)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, printed, "")


@pytest.mark.skipif(not (shutil.which("c++") and shutil.which("cmake")), reason="there is no compiler")
def test_where_a_compiler_works_asni_is_installed_with_its_core() -> None:
    """An install without it succeeds: this is where an error of the compiler is noticed."""
    library, choice = native.load(Path(native.__file__).parent, "")
    assert library is not None, choice.why
    assert choice.supported[choice.isa]
