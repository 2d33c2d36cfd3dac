"""The numbers on the page about budgets are those that were measured."""

import json
from pathlib import Path
from typing import Any

from benchmarks.budget_tables import PAGE, draw, tables
from benchmarks.tables import filled


def row(accuracy: float, mac_density: float = 1.0, nonzeros: int = 100) -> dict[str, Any]:
    return {"accuracy": accuracy, "mac_density": mac_density, "nonzeros": nonzeros}


MACS = {
    "Conv2, dense, seed 0": row(90.0, nonzeros=4000),
    "Conv2, magnitude, seed 0": row(80.0, 0.5),
    "Conv2, magnitude, seed 1": row(81.0, 0.6),
    "Conv2, magnitude, macs 0.15, seed 0": row(79.0, 0.15),
}
SPEED = {"Conv2, dense, seed 0": {"1": 4.0, "64": 100.0}, "Conv2, magnitude, seed 0": {"1": 2.0, "64": 40.0}}


def made(folder: Path, **files: Any) -> dict[str, str]:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return tables(folder)


def test_the_page_has_the_tables_that_the_results_give() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert filled(text, tables()) == text


def test_each_point_has_its_seeds_its_multiplications_and_its_speed(tmp_path: Path) -> None:
    assert made(tmp_path, macs=MACS, speed=SPEED)["macs"].splitlines()[2:] == [
        "| Conv2 | dense | 4,000 | 100 | 90.00 | 1 | 1.0x | 1.0x |",
        "| Conv2 | magnitude | 100 | 55 | 80.50 ± 0.71 | 2 | 2.0x | 2.5x |",
        "| Conv2 | magnitude, macs 0.15 | 100 | 15 | 79.00 | 1 | - | - |",
    ]


def test_numbers_of_prunings_stand_beside_numbers_of_epochs(tmp_path: Path) -> None:
    rows = {"5 epochs, cubic, seed 0": row(97.0), "50 epochs, cubic, seed 0": row(98.0)}
    found = made(tmp_path, prunings=rows)["prunings"].splitlines()
    assert found[0] == "| seeds: 1 | 5 epochs | 10 epochs | 20 epochs | 50 epochs |"
    assert "| cubic | 97.00 | - | - | 98.00 |" in found


def test_what_was_chosen_on_held_out_images_stands_beside_the_test(tmp_path: Path) -> None:
    rows = {
        "mnist-conv4, held out, LAMP, seed 0": row(97.0),
        "mnist-conv4, test, LAMP, seed 0": row(96.0),
        "mnist-conv4, test, LAMP, seed 1": row(98.0),
    }
    assert made(tmp_path, emptied=rows)["emptied"].splitlines()[2:] == [
        "| mnist-conv4 | LAMP | 97.00 | 97.00 ± 1.41 | 2 |"
    ]


def test_what_is_not_measured_is_said_so(tmp_path: Path) -> None:
    assert set(tables(tmp_path).values()) == {"Not measured yet."}


def test_the_figure_has_a_panel_for_each_network_and_a_line_for_each_score() -> None:
    first, _ = draw(MACS).axes
    assert first.get_title() == "Conv2"
    assert {line.get_label() for line in first.get_lines()} >= {"magnitude", "LAMP", "dense"}
