"""The numbers on the pages about the engine are those that were measured."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engine_tables import PAGES, tables
from benchmarks.tables import filled


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_tables_that_the_results_give(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert filled(text, tables()) == text


def layer(name: str, kernel: str, milliseconds: float, peak: float | None) -> dict[str, Any]:
    weights = {"density": 0.25, "gmacs": 40 * peak} if peak else {"density": None, "gmacs": None}
    return {"name": name, "kind": "conv", "kernel": kernel, "milliseconds": milliseconds, "peak": peak, **weights}


def row(batch: int, **milliseconds: float | None) -> dict[str, Any]:
    runtimes = {
        name.replace("_on_two", ", 2 threads"): {"memory_bytes": 3_000_000} | ({"quantile_ms": time} if time else {})
        for name, time in milliseconds.items()
    }
    return {
        "batch": batch,
        "density": 0.0312,
        "mac_density": 0.6,
        "processor": "Some CPU",
        "instruction_set": "v3",
        "versions": {"onnxruntime": "1.2", "mnn": "3.4"},
        "compile_seconds": 1.25,
        "plan": [layer("first", "sparse direct", 3.0, 0.5), layer("pool", "", 9.0, None), layer("last", "W", 1.0, 0.9)],
        "runtimes": runtimes,
    }


@pytest.fixture
def made(tmp_path: Path) -> dict[str, str]:
    rows = {
        "Conv2, kaiming, batch 1": row(1, asni=2.0, onnxruntime=4.0, mnn=3.0, openvino=None),
        "Conv2, kaiming, batch 64": row(64, asni=4.0, onnxruntime=2.0, mnn=100.0, openvino=8.0, asni_on_two=2.5),
    }
    (tmp_path / "speed.json").write_text(json.dumps(rows))
    return tables(tmp_path)


def test_multiples_are_those_of_onnx_runtime_and_a_wrong_result_has_none(made: dict[str, str]) -> None:
    assert made["kaiming"].splitlines() == [
        "| | Conv2 |",
        "| --- | --- |",
        "| mnn | 1.3 / 0.02 |",
        "| openvino | wrong / 0.25 |",
        "| asni | 2.0 / 0.50 |",
        "| **asni beside the best other** | 1.5 / 0.50 |",
    ]


def test_costs_name_the_best_other_and_the_gain_of_a_second_thread(made: dict[str, str]) -> None:
    assert made["costs"].splitlines()[2:] == [
        "| Conv2, kaiming, batch 1 | 3.12 | 60 | 2 | mnn, 3 | - | 3.0 | 3.0 | 1.25 | 60 |",
        "| Conv2, kaiming, batch 64 | 3.12 | 60 | 4 | onnxruntime, 2 | 1.6x | 3.0 | 3.0 | 1.25 | 60 |",
    ]


def test_layers_with_weights_are_listed_for_both_batch_sizes(made: dict[str, str]) -> None:
    assert made["layers"].splitlines()[4:] == [
        "| first | 25 | sparse direct | 3 | 50 | sparse direct | 3 | 50 |",
        "| last | 25 | W | 1 | 90 | W | 1 | 90 |",
    ]
    assert made["setting"] == "Some CPU, instruction set v3. mnn 3.4, onnxruntime 1.2."


def test_what_is_not_measured_is_said_so(made: dict[str, str]) -> None:
    assert made["nodes"] == made["trainings"] == "Not measured yet."
