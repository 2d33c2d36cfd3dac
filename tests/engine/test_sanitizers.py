"""The native core reads and writes no memory but its own, and its threads never meet in it: sanitizers watch it run."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "native").glob("*.cpp"))
ISA = ("v3", "x86_64_v3", "-march=x86-64-v3") if platform.machine() == "x86_64" else ("generic", "generic", "-O1")
FLAGS = [
    "-std=c++17", "-O0", "-g1", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-fno-omit-frame-pointer",
    "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", ISA[2], f"-DASNI_ISA_NAME={ISA[1]}",
    f"-DASNI_HAVE_{ISA[0].upper()}",
]  # fmt: skip

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sanitizers of GCC are preloaded, on Linux")


@pytest.mark.parametrize(
    ("runtime", "sanitizers", "networks"), [("libasan", "address,undefined", 150), ("libtsan", "thread", 80)]
)
def test_random_networks_and_trainings_run_without_a_mistake(
    runtime: str, sanitizers: str, networks: int, tmp_path: Path
) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++")
    asked = subprocess.run([compiler, f"-print-file-name={runtime}.so"], capture_output=True, text=True, check=True)
    preloaded = asked.stdout.strip()
    if not Path(preloaded).is_absolute():
        pytest.skip(f"{runtime} is not installed")
    sanitized = [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    subprocess.run([compiler, *FLAGS, *sanitized, *SOURCES, "-o", tmp_path / "libasni.so"], check=True)
    environment = {"LD_PRELOAD": preloaded, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    for module, amount in (("tests.engine.sanitized", [str(networks)]), ("tests.sparse.sanitized", [])):
        command = [sys.executable, "-m", module, str(tmp_path), *amount]
        answer = subprocess.run(
            command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
        )
        if "unexpected memory mapping" in answer.stderr:
            pytest.skip("this kernel places memory where ThreadSanitizer does not expect it")
        assert (answer.returncode, answer.stderr) == (0, "")
