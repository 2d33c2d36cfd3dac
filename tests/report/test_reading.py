"""The values of a chart in a real browser: read by pointer, touch and key; and the chosen layer is marked."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asni.report import collect, page
from tests.report.browsing import card, coloured, drawn, find, written
from tests.report.made_runs import WEIGHT, make_run

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install '.[dev]'")
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
ActionBuilder = pytest.importorskip("selenium.webdriver.common.actions.action_builder").ActionBuilder
PointerInput = pytest.importorskip("selenium.webdriver.common.actions.pointer_input").PointerInput

ACCURACY = "[aria-label^='test accuracy (percent) over epochs']"
LAYER = "[aria-label^='surviving weights of a layer']"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense run, whose bars are black, with one layer twice as wide as the other."""
    runs = tmp_path_factory.mktemp("made") / "runs"
    weights = {"first.weight": WEIGHT, "second.weight": 2 * WEIGHT}
    make_run(runs / "dense", stage="dense", weights=weights)
    return written(runs)


def tap(browser: Any, target: Any) -> None:
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", target)
    touch = ActionBuilder(browser, mouse=PointerInput("touch", "finger"))
    touch.pointer_action.move_to(target).pointer_down().pointer_up()
    touch.perform()


def values(browser: Any, chart: str) -> str:
    return str(find(browser, f"{chart} + .values").text)


@pytest.mark.parametrize("chart", [ACCURACY, LAYER])
def test_values_stay_when_the_finger_lifts_and_go_with_a_tap_elsewhere(opened: Any, chart: str) -> None:
    at_rest = values(opened, chart)
    tap(opened, find(opened, chart))
    assert values(opened, chart) != at_rest
    tap(opened, find(opened, "h1"))
    assert values(opened, chart) == at_rest


def test_values_go_when_the_mouse_leaves(opened: Any) -> None:
    webdriver.ActionChains(opened).move_to_element(find(opened, ACCURACY)).perform()
    assert values(opened, ACCURACY).startswith(("epoch 2", "epoch 3"))
    webdriver.ActionChains(opened).move_to_element(find(opened, "h1")).perform()
    assert values(opened, ACCURACY).startswith("epoch 5")


def test_the_arrow_keys_read_how_many_weights_of_a_layer_lie_in_a_bin(opened: Any) -> None:
    find(opened, LAYER).send_keys(Keys.END)
    edges, count = values(opened, LAYER).splitlines()
    low, high = (float(edge) for edge in edges.split(" to "))
    assert low <= 0.75 < high
    assert count == "1 weight"
    find(opened, "[data-key=layer] option[value=second]").click()
    find(opened, LAYER).send_keys(Keys.END)
    low, high = (float(edge) for edge in values(opened, LAYER).splitlines()[0].split(" to "))
    assert low <= 1.5 < high


def test_a_screen_reader_announces_another_layer(opened: Any) -> None:
    announced = card(opened, "[data-key=layer]").find_element("css selector", "p[aria-live=polite]")
    assert "-0.2500 and 0.6250" in announced.text
    find(opened, "[data-key=layer] option[value=second]").click()
    assert "-0.5000 and 1.250" in announced.text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_chosen_layer_has_a_mark_beside_its_bar_in_the_colour_of_the_text(opened: Any, scheme: str) -> None:
    def place(css: str, index: int) -> dict[str, float]:
        box = "return arguments[0].getBoundingClientRect().toJSON()"
        shape = card(opened, "[data-key=layers-run]").find_elements("css selector", css)[index]
        return dict(opened.execute_script(box, shape))

    with coloured(opened, scheme):
        for index, name in enumerate(["first", "second"]):
            find(opened, f"[data-key=layer] option[value={name}]").click()
            mark, bar = place("path.picked", 0), place("rect.series", index)
            assert bar["left"] < mark["left"] < mark["right"] < bar["right"]
            assert mark["top"] >= bar["bottom"]
        ink = opened.execute_script("return getComputedStyle(document.body).color")
        assert find(opened, "path.picked").value_of_css_property("fill") == ink


def test_only_epochs_that_were_measured_are_read_however_large_their_numbers(chromium: Any, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "run")
    collection = collect(tmp_path / "runs")
    (run,) = collection.runs
    epochs = np.array([0, 1, 2, 3, 4, 100_000_000.0])
    collection.runs[:] = [replace(run, metrics={**run.metrics, "epoch": epochs})]
    (tmp_path / "report.html").write_text(page(collection), encoding="utf-8")
    chart = find(drawn(chromium, tmp_path / "report.html"), ACCURACY)
    webdriver.ActionChains(chromium).move_to_element(chart).perform()
    chart.send_keys(Keys.END)
    assert values(chromium, ACCURACY).startswith("epoch 100000000")
    chart.send_keys(Keys.ARROW_LEFT)
    assert values(chromium, ACCURACY).startswith("epoch 4\n")
