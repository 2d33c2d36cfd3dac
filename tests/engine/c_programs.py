"""Exported networks, compiled to one program and run: natively, for ARM under QEMU, or on a Cortex-M4 of QEMU's."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from asni.engine.steps import Steps

Array = np.ndarray[Any, Any]

STRICT = ("-Wall", "-Wextra", "-Werror", "-std=c99", "-pedantic")
CORTEX_M = Path(__file__).parent / "cortex_m"
MACHINE = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
EMULATOR = (
    "qemu-system-arm", "-M", "mps2-an386", "-display", "none", "-monitor", "none", "-serial", "none", "-icount",
    "shift=0", "-semihosting-config", "enable=on,target=native", "-kernel",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """How a program is compiled, and what runs it."""

    compiler: tuple[str, ...]
    runner: tuple[str, ...] = ()

    @property
    def missing(self) -> str | None:
        """Why this target cannot be used here."""
        programs = (self.compiler[0], *self.runner[:1])
        absent = [program for program in programs if shutil.which(program) is None]
        return f"{', '.join(absent)} not installed" if absent else None


NATIVE = Target(("cc", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
TARGETS = {
    "gcc": Target(("gcc", "-O2")),
    "clang": Target(("clang", "-O2")),
    "arm": Target(("arm-linux-gnueabihf-gcc", "-O2", "-static"), ("qemu-arm",)),
    "aarch64": Target(("aarch64-linux-gnu-gcc", "-O2", "-static"), ("qemu-aarch64",)),
}
CORTEX = Target(("arm-none-eabi-gcc", "-O2", *MACHINE), EMULATOR)


def build(target: Target, sources: Sequence[Path], program: Path, *options: str) -> None:
    """Compile with every warning an error."""
    command = [*target.compiler, *STRICT, *options, *map(str, sources), "-o", str(program), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def build_for_cortex(sources: Sequence[Path], program: Path, *options: str) -> None:
    """Compile for a Cortex-M4 that prints and exits through its debugger."""
    objects = []
    for source in sources:
        objects.append(program.parent / f"{program.stem}-{source.stem}.o")
        build(CORTEX, [source], objects[-1], "-c", *options)
    script = ("--specs=rdimon.specs", "-T", str(CORTEX_M / "mps2.ld"))
    command = [*CORTEX.compiler, *script, str(CORTEX_M / "startup.c"), *map(str, objects), "-lm", "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True)


def run(target: Target, program: Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    command = [*target.runner, str(program)]
    return subprocess.run(command, input=given, capture_output=True, check=False, timeout=60, env=environment)


def outputs(
    folder: Path, networks: Sequence[Steps], inputs: Sequence[Sequence[Array]], target: Target = NATIVE
) -> list[tuple[int, list[Array]]]:
    """What the files net0, net1, ... in a folder return and give, all in one program, with memory of exact size."""
    driver, program = folder / "driver.c", folder / "program"
    driver.write_text(_driver(networks))
    build(target, [driver, *(folder / f"net{i}.c" for i in range(len(networks)))], program)
    given = b"".join(np.ascontiguousarray(array, np.float32).tobytes() for each in inputs for array in each)
    done = run(target, program, given)
    assert done.returncode == 0, done.stderr.decode()
    found, at = [], 0
    for steps in networks:
        status = int(np.frombuffer(done.stdout, np.int32, 1, at)[0])
        at += 4
        arrays = []
        for name in steps.outputs:
            shape = steps.shapes[name]
            arrays.append(np.frombuffer(done.stdout, np.float32, prod(shape), at).reshape(shape))
            at += 4 * prod(shape)
        found.append((status, arrays))
    assert at == len(done.stdout)
    return found


def _driver(networks: Sequence[Steps]) -> str:
    headers = "".join(f'#include "net{i}.h"\n' for i in range(len(networks)))
    bodies = "".join(_runs(f"net{i}", steps) for i, steps in enumerate(networks))
    return f"{headers}#include <stdio.h>\n#include <stdlib.h>\nint main(void)\n{{\n{bodies}return 0;\n}}\n"


def _runs(name: str, steps: Steps) -> str:
    arrays = [("input", i, prod(steps.shapes[value])) for i, value in enumerate(steps.inputs)]
    arrays += [("output", i, prod(steps.shapes[value])) for i, value in enumerate(steps.outputs)]
    lines = [f"float *scratch = malloc({name.upper()}_SCRATCH_FLOATS * sizeof(float));", "int status;"]
    lines += [f"float *{what}{i} = malloc({size} * sizeof(float));" for what, i, size in arrays]
    reads = [f"fread(input{i}, 4, {size}, stdin) != {size}" for what, i, size in arrays if what == "input"]
    lines += [f"if ({' || '.join(reads)}) return 2;"] if reads else []
    arguments = ", ".join(f"{what}{i}" for what, i, _ in arrays)
    lines += [f"status = {name}_run({arguments}, scratch);", "fwrite(&status, 4, 1, stdout);"]
    lines += [f"fwrite(output{i}, 4, {size}, stdout);" for what, i, size in arrays if what == "output"]
    lines += [f"free({what}{i});" for what, i, _ in arrays] + ["free(scratch);"]
    return "{\n" + "\n".join(lines) + "\n}\n"
