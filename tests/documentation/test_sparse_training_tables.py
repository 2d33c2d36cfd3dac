"""The numbers on the page about training on the nonzeros are those that were measured."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sparse_training import multiple
from benchmarks.sparse_training_tables import PAGES, RESULTS, tables
from benchmarks.tables import filled, times
from tests.documentation.blocks import REPOSITORY


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_tables_that_the_results_give(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert filled(text, tables()) == text


def test_the_numbers_of_the_readme_are_those_of_the_results() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    speeds = json.loads((RESULTS / "speed.json").read_text())
    for network, mask in {
        "LeNet-300-100": "real",
        "Conv2": "real",
        "Conv6": "real",
        "VGG-16": "kaiming",
        "ResNet-18": "real",
    }.items():
        found = [multiple(row) for key, row in speeds.items() if key.startswith(f"{network}, {mask}, ")]
        assert re.search(rf"{network} {times(min(found))} to {times(max(found))}\b", text)
    rows = json.loads((RESULTS / "investigation.json").read_text())
    for row in [row for key, row in rows.items() if key.startswith("mnist-fc, ")]:
        seconds = {variant: found["seconds"] for variant, found in row["auto"].items()}
        assert f"{seconds['asni-1'] + seconds['asni-2']:.0f} s beside {seconds['dense']:.0f} s" in text


def made(folder: Path, file: str, rows: dict[str, Any]) -> dict[str, str]:
    (folder / f"{file}.json").write_text(json.dumps(rows))
    return tables(folder)


def timed(milliseconds: float) -> dict[str, float]:
    return {"quantile_ms": milliseconds, "median_ms": 2 * milliseconds}


def speed(isa: str, ours: float, processor: str = "Some CPU") -> dict[str, Any]:
    return {
        "batch": 60,
        "density": 0.0312,
        "mac_density": 0.6,
        "processor": processor,
        "instruction_set": isa,
        "versions": {"torch": "2.5"},
        "build_seconds": 1.25,
        "memory": {"values": 3_000_000, "scratch": 500_000, "tables": 500_000, "activations": 2_000_000},
        "steps": {"asni": timed(ours), "dense": timed(12.0), "dense, channels_last": timed(9.0)},
        "threads": {"1": timed(4.0), "2": timed(2.5)},
    }


def test_a_step_is_a_multiple_of_the_faster_dense_one_and_a_missed_aim_is_bold(tmp_path: Path) -> None:
    rows = {
        "Conv2, real, AVX2, A": speed("v3", 3.0, "A"),
        "Conv2, real, AVX2, B(R) CPU @ 2GHz": speed("v3", 4.5, "B(R) CPU @ 2GHz"),
        "Conv2, real, AVX-512, A": speed("v4", 2.0, "A"),
        "ResNet-18, kaiming, AVX2, A": speed("v3", 18.0, "A"),
        "ResNet-18, real, AVX2, A": speed("v3", 3.0, "A"),
    }
    found = made(tmp_path, "speed", rows)
    assert found["multiples"].splitlines() == [
        "| network | mask | nonzeros % | MACs % | A, AVX2 | A, AVX-512 | B, AVX2 | aim, AVX2 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| Conv2 | real | 3.12 | 60 | 3.0 | 4.5 | 2.0 | **2.5** |",
        "| ResNet-18 | kaiming | 3.12 | 60 | 0.50 | - | - | |",
        "| ResNet-18 | real | 3.12 | 60 | 3.0 | - | - | 2.5 |",
    ]
    assert found["costs"].splitlines()[3] == (
        "| Conv2, real, AVX2, B | 60 | 4.5 | 12 | 9 | 2.0 | 1.6x | 4.0 | 2.0 | 1.25 |"
    )
    assert found["setting"] == "A, AVX-512; A, AVX2; B(R) CPU @ 2GHz, AVX2. torch 2.5."


def test_both_tasks_are_compared_with_one_dense_training_of_the_same_kernels(tmp_path: Path) -> None:
    def variants(*seconds: float) -> dict[str, dict[str, float]]:
        names = ("dense", "asni-1", "asni-2", "original")
        return {name: {"seconds": taken} for name, taken in zip(names, seconds, strict=True)}

    row = {"epochs": 50, "steps_per_epoch": 1000, "processor": "A(R)", "auto": variants(10, 6, 1.5, 2.5)}
    other = row | {"dense": variants(10, 11, 12, 13), "auto": variants(10, 9, 5, 1)}
    found = made(tmp_path, "investigation", {"mnist-fc, A(R)": row, "cifar10-conv2, A(R)": other})
    assert found["investigation"].splitlines()[2:] == [
        "| mnist-fc | A | 50 x 1,000 | auto | 10 | 6 | 1.5 | 2.5 | 20 | 0.75 | 0.8 |",
        "| cifar10-conv2 | A | 50 x 1,000 | dense | 10 | 11 | 12 | 13 | 46 | 2.30 | |",
        "| cifar10-conv2 | A | 50 x 1,000 | auto | 10 | 9 | 5 | 1 | 25 | 1.40 | **1.3** |",
    ]


def test_distances_between_trainings_stand_beside_how_far_they_came(tmp_path: Path) -> None:
    runs = ("dense", "dense, channels_last", "asni")
    row = {
        "steps": {
            "10": {
                "moved": 0.25,
                "distance": {"dense, channels_last": 1e-4, "asni": 3e-5},
                "loss": dict.fromkeys(runs, 2.0),
            }
        },
        "last_losses": dict.fromkeys(runs, 1.5),
        "accuracy": dict.fromkeys(runs, 40.0),
    }
    assert made(tmp_path, "drift", {"cifar10-conv2": row})["drift"].splitlines() == [
        "| recipe | steps | moved | channels_last from dense | asni from dense | losses: dense | asni |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| cifar10-conv2 | 10 | 2.5e-01 | 1.0e-04 | 3.0e-05 | 2.0000 | 2.0000 |",
        "",
        "| recipe | loss, dense | loss, dense, channels_last | loss, asni | accuracy %, dense | "
        "accuracy %, dense, channels_last | accuracy %, asni |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| cifar10-conv2 | 1.5000 | 1.5000 | 1.5000 | 40.00 | 40.00 | 40.00 |",
    ]


def test_second_rounds_are_compared_with_the_full_one_of_the_same_seeds(tmp_path: Path) -> None:
    rows = {
        "digits-fc, seed 0, asni-1": {"accuracy": 96.0, "epochs": 30},
        "digits-fc, seed 0, 0.1": {"accuracy": 95.0, "epochs": 3},
        "digits-fc, seed 1, 0.1": {"accuracy": 96.0, "epochs": 3},
        "digits-fc, seed 0, 1.0": {"accuracy": 96.5, "epochs": 30},
        "digits-fc, seed 1, 1.0": {"accuracy": 96.75, "epochs": 30},
    }
    assert made(tmp_path, "amenable-length", rows)["lengths"].splitlines()[2:] == [
        "| digits-fc | ASNI-I | 30 | 96.00 | 96.00 | - |",
        "| digits-fc | ASNI-II, 0.1 | 3 | 95.50 | 95.00, 96.00 | -1.12 |",
        "| digits-fc | ASNI-II, 1 | 30 | 96.62 | 96.50, 96.75 | +0.00 |",
    ]


def test_what_is_not_measured_is_said_so(tmp_path: Path) -> None:
    assert set(tables(tmp_path).values()) == {"Not measured yet."}
