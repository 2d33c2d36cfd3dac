"""The head of the page in a real browser: the story, the ranked methods, folded tables and notices, on a phone too."""

import math
from pathlib import Path
from typing import Any

import pytest

from asni.recipes import load
from tests.report.browsing import coloured, drawn, find, phone, texts, unfold, written
from tests.report.made_runs import make_run

PAPER = load("mnist-fc")
SPARSE = {"nonzeros": 8335, "sparsity": 258_275 / 266_200, "total_sparsity": 258_275 / 266_610}
ACCURACIES = {
    "asni-1": (97.6, 97.7, 97.8),
    "asni-2": (97.4, 97.5, 97.6),
    "gmp": (97.2, 97.2, 97.2),
    "snip": (97.0, 97.0, 10.0),
    "random": (9.8, 9.8, 9.8),
    "rigl": (97.0, math.nan, 97.0),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Methods of one size, some of which failed, on a shortened recipe; and runs that are not shown whole."""
    runs = tmp_path_factory.mktemp("made") / "runs"
    for stage, accuracies in {"dense": (98.0, 98.1, 98.2), **ACCURACIES}.items():
        for seed, accuracy in enumerate(accuracies):
            make(runs / f"{stage}-{seed}", stage, accuracy, seed=seed, asked=PAPER.override(epochs=6))
    (make(runs / "going", "set", 50.0, asked=PAPER.override(epochs=6)) / "result.json").unlink()
    for name in ("bad", "worse"):
        (make_run(runs / name) / "result.json").write_text("{")
    return written(runs)


def make(directory: Path, stage: str, accuracy: float, **made: Any) -> Path:
    sizes = {"nonzeros": 266_610, "sparsity": 0.0, "total_sparsity": 0.0} if stage == "dense" else SPARSE
    return make_run(directory, **{"asked": PAPER, "stage": stage, "accuracy": accuracy, "result": sizes, **made})


def test_a_page_about_one_recipe_begins_with_its_title_and_its_story(opened: Any) -> None:
    assert find(opened, "main").text.splitlines()[:4] == [
        "FC (LeNet-300-100) on MNIST",
        "22 runs of 1 recipe, in runs",
        "32 times fewer weights, 0.4 points lower; trains again from 2 numbers.",
        "Shortened: 6 of 50 epochs; not comparable with the paper.",
    ]
    assert texts(opened, "h1") == ["FC (LeNet-300-100) on MNIST"]
    assert texts(opened, ".tile dt") == ["weights left", "points against dense", "packed file"]


def test_each_of_several_recipes_has_its_own_story(chromium: Any, tmp_path: Path) -> None:
    make(tmp_path / "runs" / "one", "asni-1", 97.5)
    make(tmp_path / "runs" / "two", "gmp", 97.5, asked=PAPER.override(lr=0.1))
    drawn(chromium, written(tmp_path / "runs"))
    assert texts(chromium, "h1") == ["runs"]
    assert [texts(section, "h2, .headline") for section in chromium.find_elements("css selector", "section")] == [
        ["mnist-fc", "32 times fewer weights, 97.5 % accurate."],
        ["mnist-fc--lr-0.1", "32 times fewer weights with GMP, 97.5 % accurate."],
    ]


@pytest.fixture(scope="module")
def namesakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recipes of one name that differ in the schedule, and one without a final network."""
    runs = tmp_path_factory.mktemp("namesakes") / "runs"
    later = PAPER.model_copy(update={"pruning": PAPER.pruning.model_copy(update={"beta": 0.7})})
    for name, asked, accuracy in (("first", PAPER, 97.5), ("second", later, 96.5)):
        for seed in (0, 1):
            make(runs / name / f"{seed}", "asni-1", accuracy, seed=seed, asked=asked)
            make(runs / name / f"dense-{seed}", "dense", 97.8, seed=seed, asked=asked)
    make(runs / "third", "lottery-round-2", 90.0, method="lottery", asked=PAPER.override(lr=0.1))
    return written(runs)


def test_a_page_about_several_recipes_begins_with_what_each_achieved(chromium: Any, namesakes: Path) -> None:
    drawn(chromium, namesakes)
    assert find(chromium, "main").text.splitlines()[:5] == [
        "runs",
        "9 runs of 3 recipes",
        "mnist-fc (1) 32 times fewer weights, 0.3 points lower.",
        "mnist-fc (2) 32 times fewer weights, 1.3 points lower.",
        "mnist-fc--lr-0.1",
    ]
    assert texts(chromium, "h2") == ["mnist-fc (1)", "mnist-fc (2)", "mnist-fc--lr-0.1"]


def test_recipes_of_one_name_can_be_told_apart(chromium: Any, namesakes: Path) -> None:
    drawn(chromium, namesakes)
    schedules = [find(section, ".facts").text for section in chromium.find_elements("css selector", "section")]
    assert "alpha 98.0, beta 0.5, every epoch, gamma 5" in schedules[0]
    assert "alpha 98.0, beta 0.7, every epoch, gamma 5" in schedules[1]
    keys = {section.get_attribute("data-key") for section in chromium.find_elements("css selector", "section")}
    assert len(keys) == 3


def test_methods_are_ranked_and_every_value_is_text(opened: Any) -> None:
    assert texts(opened, ".ranking li") == [
        "dense\n98.10 % ± 0.10",
        "ASNI-I\n97.70 % ± 0.10",
        "ASNI-II\n97.50 % ± 0.10",
        "GMP\n97.20 % ± 0.00",
        "SNIP 1 of 3 at chance\noff the axis, at 68.0 %, seeds 10.0 to 97.0 %\n68.00 % ± 50.23",
        "random at chance\noff the axis, at 9.8 %, seeds 9.8 to 9.8 %\n9.80 % ± 0.00",
        "RigL 1 of 3 diverged\nNaN",
    ]
    assert find(opened, ".ranking").find_element("xpath", "../h3").text == "Test accuracy (%) by method shortened"
    assert "Not finished: SET." in find(opened, ".ranking").find_element("xpath", "..").text


def test_methods_far_from_the_others_are_arrows_at_the_edge_and_do_not_squeeze_them(opened: Any) -> None:
    assert len(opened.find_elements("css selector", ".ranking path.edge")) == 2
    shares = """return [...document.querySelectorAll('.ranking li')].map((row) => {
        const mark = row.querySelector('path.mark');
        return mark && parseFloat(mark.parentNode.getAttribute('x'));
    })"""
    dense, *others = opened.execute_script(shares)
    assert dense > 80
    assert others[2] < 10
    assert others[3:] == [None, None, None]
    lines = "return [...document.querySelectorAll('.ranking line.dense')].map((line) => line.getAttribute('x1'))"
    assert opened.execute_script(lines) == 7 * [f"{dense}%"]


@pytest.mark.parametrize(("nonzeros", "sizes"), [(8340, 0), (9000, 1)])
def test_methods_of_one_size_are_ranked_and_not_drawn_against_their_size(
    chromium: Any, tmp_path: Path, nonzeros: int, sizes: int
) -> None:
    make(tmp_path / "runs" / "one", "asni-1", 97.5)
    make(tmp_path / "runs" / "two", "str", 97.4, result={**SPARSE, "nonzeros": nonzeros})
    drawn(chromium, written(tmp_path / "runs"))
    assert len(chromium.find_elements("css selector", "[data-key=size]")) == sizes
    assert ("9,000 nonzeros" in find(chromium, ".ranking").text) == (sizes == 1)


def test_a_deviation_beyond_100_percent_is_cut_and_is_no_arrow(chromium: Any, tmp_path: Path) -> None:
    for stage, accuracies in {"dense": (100.0, 100.0, 100.0), "asni-1": (100.0, 99.7, 100.0)}.items():
        for seed, accuracy in enumerate(accuracies):
            make(tmp_path / "runs" / f"{stage}-{seed}", stage, accuracy, seed=seed)
    drawn(chromium, written(tmp_path / "runs"))
    assert chromium.find_elements("css selector", ".ranking path.edge") == []
    bars = chromium.find_elements("css selector", ".ranking line.series")
    assert [bar.get_attribute("x2") for bar in bars] == ["97%", "97%"]


def test_a_mark_that_only_some_seeds_of_each_method_have_stays_with_the_methods(chromium: Any, tmp_path: Path) -> None:
    for stage in ("dense", "snip"):
        for seed, accuracy in enumerate((97.0, 10.0)):
            make(tmp_path / "runs" / f"{stage}-{seed}", stage, accuracy, seed=seed)
    drawn(chromium, written(tmp_path / "runs"))
    assert texts(chromium, ".ranking .mark:not(path)") == ["1 of 2 at chance"] * 2
    assert find(chromium, ".ranking").find_element("xpath", "../h3").text == "Test accuracy (%) by method"


def test_methods_of_different_seeds_say_how_many(chromium: Any, tmp_path: Path) -> None:
    for stage, accuracies in {"dense": (98.0, 98.0), "asni-1": (97.5, 97.5), "snip": (97.0,)}.items():
        for seed, accuracy in enumerate(accuracies):
            make(tmp_path / "runs" / f"{stage}-{seed}", stage, accuracy, seed=seed)
    (tmp_path / "runs" / "asni-1-1" / "result.json").unlink()
    drawn(chromium, written(tmp_path / "runs"))
    assert texts(chromium, ".ranking .value small") == ["2 seeds", "1 of 2 seeds", "1 seed"]


def test_below_a_story_tables_are_folded(opened: Any) -> None:
    assert texts(opened, "details.card > summary") == ["Means over seeds", "Every run", "How each run was made"]
    assert opened.find_elements("css selector", "details[open]") == []
    find(opened, "[data-key='card Every run']").click()
    first = texts(opened, "[data-key=runs] tbody tr")[0]
    assert first.startswith("dense shortened 98.00 % 266,610 0 ")


def test_without_a_story_the_tables_are_open(chromium: Any, tmp_path: Path) -> None:
    make(tmp_path / "runs" / "round", "lottery-round-2", 97.0, method="lottery")
    drawn(chromium, written(tmp_path / "runs"))
    assert texts(chromium, "details[open] > summary") == ["Every run"]


def test_notices_are_told_by_cause_and_name_their_runs_on_demand(opened: Any) -> None:
    assert texts(opened, ".warnings > *")[0] == "2 runs were skipped"
    assert texts(opened, ".notes > *") == ["going is not finished: its results are those after 6 of 6 epochs"]
    find(opened, ".warnings summary").click()
    assert [text.split(":")[0] for text in texts(opened, ".warnings details[open] li")] == ["bad", "worse"]


def test_a_phone_shows_the_columns_that_matter_and_that_there_are_more(chromium: Any, report: Path) -> None:
    with phone(chromium):
        drawn(chromium, report)
        unfold(chromium)
        region = find(chromium, "[data-key=runs]")
        inside = """const right = arguments[0].getBoundingClientRect().right;
            const ends = [...arguments[0].querySelectorAll('th')].map((each) => [each, each.getBoundingClientRect()]);
            return ends.filter(([, box]) => box.right <= right).map(([each]) => each.textContent)"""
        assert chromium.execute_script(inside, region) == ["variant", "accuracy", "nonzeros"]
        assert "inset" in region.value_of_css_property("box-shadow")
        scroll = "arguments[0].scrollLeft = 9999; requestAnimationFrame(() => requestAnimationFrame(arguments[1]))"
        chromium.execute_async_script(scroll, region)
        assert region.value_of_css_property("box-shadow") == "none"
        first = "return arguments[0].querySelector('td').getBoundingClientRect().left"
        assert chromium.execute_script(first, region) >= 0
        assert chromium.execute_script("return document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize(
    ("name", "scheme"), [("report", "light"), ("report", "dark"), ("report", "phone"), ("namesakes", "light")]
)
def test_axe_finds_no_violation_with_everything_unfolded(
    chromium: Any, name: str, scheme: str, request: pytest.FixtureRequest
) -> None:
    axe = pytest.importorskip("selenium_axe_python", reason="selenium-axe-python is not installed").Axe(chromium)
    with phone(chromium) if scheme == "phone" else coloured(chromium, scheme):
        drawn(chromium, request.getfixturevalue(name))
        unfold(chromium)
        axe.inject()
        violations = axe.run()["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in violations] == []
