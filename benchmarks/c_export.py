"""Bytes and instructions of networks as C, with and without their zeros.

Instructions of one item, which are the same in every run: on x86-64 as callgrind counts them, on a Cortex-M4 with its
floating-point unit as QEMU does. `gcc -O2` for both; bytes are those of `gcc -Os` for the Cortex-M4.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from asni.engine.c_export import Precision, write_c
from asni.engine.frontends.from_torch import graph_of_module
from asni.engine.fusing import fuse
from asni.engine.lowering import lower
from asni.engine.steps import Steps
from benchmarks.masked_networks import masked
from tests.engine.c_programs import CORTEX, MACHINE, build_for_cortex
from tests.engine.c_programs import run as run_program

CASES: tuple[tuple[str, str, Precision], ...] = (
    ("LeNet-300-100", "kaiming", "exact"),
    ("LeNet-300-100", "kaiming", "half"),
    ("LeNet-300-100", "kaiming", "int8"),
    ("Conv2", "kaiming", "int8"),
    ("Conv2", "real", "int8"),
    ("Conv2", "macs-0.10", "int8"),
)
"""A network, its mask (see `masked_networks`), and how its weights are stored."""
INSTRUCTIONS_OF_TICK = 40
"""The timer of the emulated device runs at 25 MHz, and each instruction takes a nanosecond."""

_DRIVER = """
#include "net.h"
int main(void)
{
    static float input[NET_INPUT_FLOATS], output[NET_OUTPUT_FLOATS], scratch[NET_SCRATCH_FLOATS];
    return net_run(input, output, scratch);
}
"""
_CORTEX_DRIVER = """
#include <stdint.h>
#include <stdio.h>
#include "net.h"
int main(void)
{
    static float input[NET_INPUT_FLOATS], output[NET_OUTPUT_FLOATS], scratch[NET_SCRATCH_FLOATS];
    volatile uint32_t *timer = (volatile uint32_t *)0xE000E010;
    uint32_t begin;
    timer[1] = 0xFFFFFF;
    timer[2] = 0;
    timer[0] = 5;
    while (timer[2] == 0)
        ;
    begin = timer[2];
    if (net_run(input, output, scratch) != 0)
        return 1;
    printf("%lu\\n", (unsigned long)(begin - timer[2]));
    return timer[0] >> 16 & 1; /* the timer started again */
}
"""


def run() -> dict[str, float]:
    """Bytes and instructions by network, precision and form, and how many times fewer the sparse form takes."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for network, mask, precision in CASES:
            case, steps = f"{network}, {mask}, {precision}", _steps(network, mask)
            for form in ("sparse", "dense"):
                print(f"{case}, {form} ...", file=sys.stderr)
                measured = _measured(steps, precision, form == "dense", Path(folder))
                found |= {f"{case}, {form}: {what}": number for what, number in measured.items()}
            for machine in ("x86-64", "Cortex-M4"):
                key = f"instructions, {machine}"
                dense, sparse = (found[f"{case}, {form}: {key}"] for form in ("dense", "sparse"))
                found[f"{case}: {key}, dense / sparse"] = round(dense / sparse, 3)
    return found


def _steps(network: str, mask: str) -> Steps:
    found = masked(network, mask)
    assert found is not None
    return fuse(lower(graph_of_module(found.module, torch.zeros(2, *found.shape))))


def _measured(steps: Steps, precision: Precision, dense: bool, folder: Path) -> dict[str, int]:
    written = write_c(steps, folder, "net", precision=precision, dense=dense)
    return {
        "bytes of tables": written.table_bytes,
        "bytes of tables and code, Cortex-M4": _object_bytes(written.source),
        "bytes of scratch memory": written.scratch_bytes,
        "bytes of the .c file": written.source.stat().st_size,
        "instructions, x86-64": _native_instructions(written.source),
        "instructions, Cortex-M4": _cortex_instructions(written.source),
    }


def _object_bytes(source: Path) -> int:
    made = source.with_suffix(".o")
    subprocess.run(["arm-none-eabi-gcc", "-Os", *MACHINE, "-c", str(source), "-o", str(made)], check=True)
    table = subprocess.run(["arm-none-eabi-size", str(made)], check=True, capture_output=True, text=True).stdout
    text, data, *_ = map(int, re.findall(r"\d+", table.splitlines()[1]))
    return text + data


def _native_instructions(source: Path) -> int:
    driver, program = source.with_name("driver.c"), source.with_name("program")
    driver.write_text(_DRIVER)
    subprocess.run(["gcc", "-std=c99", "-O2", str(driver), str(source), "-o", str(program), "-lm"], check=True)
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=net_run"]
    told = subprocess.run([*tool, str(program)], check=True, capture_output=True, text=True).stderr
    counted = re.search(r"Collected : (\d+)", told)
    assert counted is not None, told
    return int(counted[1])


def _cortex_instructions(source: Path) -> int:
    driver, program = source.with_name("driver.c"), source.with_name("program.elf")
    driver.write_text(_CORTEX_DRIVER)
    build_for_cortex([driver, source], program)
    done = run_program(CORTEX, program)
    assert done.returncode == 0, done.stderr
    return INSTRUCTIONS_OF_TICK * int(done.stdout)
