"""A served page in a real browser: it follows its runs, and keeps the reader's choices."""

from pathlib import Path
from typing import Any

import pytest

from asni.recipes import load
from tests.report.browsing import after_drawing, find, texts, unfold
from tests.report.made_runs import WEIGHT, make_run

Keys = pytest.importorskip("selenium.webdriver.common.keys", reason="selenium: pip install '.[dev]'").Keys
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
Stale = pytest.importorskip("selenium.common.exceptions").StaleElementReferenceException

LAYERS = {f"{name}.weight": WEIGHT for name in ("first", "second")}


@pytest.fixture
def served(chromium: Any, runs: Path, address: str) -> Any:
    """A page of two pruned runs."""
    for stage in ("asni-1", "original"):
        make_run(runs / "digits" / stage, stage=stage, weights=LAYERS)
    chromium.get(address)
    after_drawing(chromium)
    return chromium


def with_new_runs(browser: Any, runs: Path) -> Any:
    """Add another method and another recipe, which both come before the existing ones, and reload the page."""
    make_run(runs / "digits" / "dense", stage="dense", weights=LAYERS)
    make_run(runs / "another" / "asni-1", asked=load("mnist-fc"))
    browser.refresh()
    after_drawing(browser)
    return browser.find_element("xpath", "//section[starts-with(h2, 'digits-fc')]")


def chosen(section: Any, key: str) -> str:
    return str(find(section, f"select[data-key={key}]").get_property("value"))


def test_the_page_loads_again_by_itself_when_a_run_joins(served: Any, runs: Path) -> None:
    make_run(runs / "digits" / "dense", stage="dense")
    # The page may load again between finding an element and reading it.
    waiting = WebDriverWait(served, 60, ignored_exceptions=[Stale])
    waiting.until(lambda page: "3 runs of 1 recipe" in find(page, "main").text)
    assert served.get_log("browser") == []


def test_what_was_switched_off_stays_off_and_nothing_else(served: Any, runs: Path) -> None:
    find(served, "[data-key=stage] [data-key=asni-1]").click()
    section = with_new_runs(served, runs)
    off = "return [...document.querySelectorAll('[data-key=stage] input:not(:checked)')].map((box) => box.dataset.key)"
    assert served.execute_script(off) == ["asni-1"]
    assert not find(section, "[data-key=stage] [data-key=asni-1]").is_selected()


def test_a_slider_stays_where_it_was_put_and_with_its_recipe(served: Any, runs: Path) -> None:
    find(served, "[data-key=alpha]").send_keys(Keys.HOME)
    section = with_new_runs(served, runs)
    assert find(section, "[data-key=alpha]").get_property("value") == "0"
    (other,) = served.find_elements("xpath", "//section[starts-with(h2, 'mnist-fc')]//input[@data-key='alpha']")
    assert other.get_property("value") != "0"


def test_a_chosen_run_stays_chosen(served: Any, runs: Path) -> None:
    for key in ("layers-run", "schedule-run"):
        find(served, f"[data-key={key}] option[value='digits/original']").click()
    section = with_new_runs(served, runs)
    assert [chosen(section, key) for key in ("layers-run", "schedule-run")] == ["digits/original"] * 2


def test_a_chosen_run_that_is_gone_makes_room_for_the_first(served: Any, runs: Path) -> None:
    find(served, "[data-key=layers-run] option[value='digits/original']").click()
    (runs / "digits" / "original").rename(runs.parent / "away")
    section = with_new_runs(served, runs)
    assert chosen(section, "layers-run") == "digits/dense"
    assert served.get_log("browser") == []


def test_a_layer_that_was_chosen_by_its_bar_stays_chosen(served: Any, runs: Path) -> None:
    served.find_elements("css selector", ".chart [cursor=pointer]")[1].click()
    assert chosen(with_new_runs(served, runs), "layer") == "second"


def test_a_table_stays_sorted(served: Any, runs: Path) -> None:
    unfold(served)
    for _ in range(2):
        find(served, "[data-key=runs] [data-key=variant]").click()
    section = with_new_runs(served, runs)
    assert find(section, "[data-key=runs] [aria-sort]").get_attribute("aria-sort") == "descending"
    names = [cell.split(" shortened")[0] for cell in texts(section, "[data-key=runs] tbody td:first-child")]
    assert names == ["original initialisation", "dense", "ASNI-I"]


def test_what_was_opened_stays_open(served: Any, runs: Path) -> None:
    find(served, "[data-key='card How each run was made']").click()
    served.find_elements("css selector", "details.run summary")[1].click()
    section = with_new_runs(served, runs)
    (opened,) = texts(section, "details.run[open] summary")
    assert opened.endswith("digits/original")
    assert texts(section, "details.card[open] > summary") == ["How each run was made"]


@pytest.mark.parametrize(
    "focused",
    [
        "[data-key=beta]",
        "[data-key=stage] [data-key=original]",
        "[data-key=runs] [data-key=accuracy]",
        "[aria-label^='test accuracy (percent) over epochs']",
        "details.run:last-child summary",
        "button.reset",
    ],
)
def test_the_keyboard_stays_where_it_was(served: Any, runs: Path, focused: str) -> None:
    unfold(served)
    served.execute_script("arguments[0].focus()", find(served, focused))
    section = with_new_runs(served, runs)
    assert served.switch_to.active_element == find(section, focused)


def test_a_page_of_runs_that_were_away_comes_back_with_its_choices(served: Any, runs: Path) -> None:
    find(served, "[data-key=stage] [data-key=asni-1]").click()
    away = runs.rename(runs.parent / "away")
    served.refresh()
    assert "is not a directory" in find(served, "body").text
    away.rename(runs)
    WebDriverWait(served, 60).until(lambda page: page.find_elements("css selector", "section.recipe"))
    assert not find(served, "[data-key=stage] [data-key=asni-1]").is_selected()
