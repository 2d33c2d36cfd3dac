"""`pip install` gives a wheel for every Python of the platform, or without a compiler one without the native core."""

import os
import shutil
import subprocess
import sys
import tarfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

import asni
from tests.documentation.blocks import REPOSITORY

CORE = ("asni/engine/libasni.so", "asni/engine/libasni.dylib", "asni/engine/asni.dll")

pytestmark = pytest.mark.skipif(not shutil.which("cmake"), reason="there is no cmake")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What a wheel is made of; the sources of the core are empty, because compiling them takes its time."""
    project = tmp_path / "project"
    shutil.copytree(REPOSITORY / "src", project / "src", ignore=shutil.ignore_patterns("__pycache__", "libasni.*"))
    shutil.copytree(REPOSITORY / "native", project / "native")
    for source in (project / "native").glob("*.cpp"):
        source.write_text("")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(REPOSITORY / name, project)
    return project


def build(project: Path, kind: str, **environment: str) -> tuple[Path, str]:
    """What the backend makes, and what it says."""
    program = f"from scikit_build_core.build import build_{kind}; build_{kind}('made')"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout
    [made] = (project / "made").iterdir()
    return made, answer.stdout


def metadata(wheel: ZipFile) -> Message:
    return Parser().parsestr(wheel.read(f"asni-{asni.__version__}.dist-info/METADATA").decode())


@pytest.mark.skipif(not shutil.which("c++"), reason="there is no compiler")
def test_one_wheel_with_the_core_serves_every_python_of_a_platform(project: Path) -> None:
    made, said = build(project, "wheel")
    assert made.name.startswith(f"asni-{asni.__version__}-py3-none-")
    assert not made.name.endswith("-any.whl")
    assert "without its native core" not in said
    with ZipFile(made) as wheel:
        assert len({*CORE} & {*wheel.namelist()}) == 1


def test_without_a_compiler_there_is_a_wheel_without_the_core_and_that_is_said_once(project: Path) -> None:
    # As an editable install leaves it in the source tree; it is not of this build.
    (project / "src" / CORE[0]).write_bytes(b"an older core")
    made, said = build(project, "wheel", CXX=shutil.which("false") or "false")
    assert made.name == f"asni-{asni.__version__}-py3-none-any.whl"
    assert said.count("asni: installed without its native core") == 1
    with ZipFile(made) as wheel:
        names = set(wheel.namelist())
        assert {"asni/__init__.pyi", "asni/py.typed", "asni/recipes/digits-fc.toml", "asni/datasets/digits.npz"} < names
        assert not {*CORE} & names
        about = metadata(wheel)
    assert about["Version"] == asni.__version__
    assert about["Description-Content-Type"] == "text/markdown"
    text = str(about.get_payload())
    assert "# asni\n" in text
    assert "](docs/" not in text


def test_the_source_distribution_has_the_sources_of_the_core(project: Path) -> None:
    made, _ = build(project, "sdist")
    with tarfile.open(made) as archive:
        names = {Path(name).relative_to(f"asni-{asni.__version__}").as_posix() for name in archive.getnames()}
    assert {path.relative_to(project).as_posix() for path in (project / "native").iterdir()} <= names
    assert {"pyproject.toml", "README.md", "src/asni/__init__.py"} <= names
