"""The page in a real browser: it draws, moves, sorts, and runs nothing but its own script."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asni.recipes import load
from asni.report import collect, page
from tests.report.made_runs import make_run, recipe

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install '.[dev]'")
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys

if not (shutil.which("chromium") and shutil.which("chromedriver")):
    pytest.skip("chromium is not installed: apt-get install chromium chromium-driver", allow_module_level=True)

EVIL = "</script><img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1200,900",
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (*CHROMIUM, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("made") / "runs <i>"
    for seed, accuracy in enumerate([91.5, 9.5, 90.5]):
        make_run(runs / f"seed-{seed}", seed=seed, accuracy=accuracy)
    make_run(runs / "dense", stage="dense", accuracy=95.0, result={"accuracy": float("nan")})
    make_run(runs / "evil <img src=x>", asked=recipe(name=EVIL, title=EVIL), stage=EVIL)
    sizes = {"nonzeros": 8330, "sparsity": 258_280 / 266_200, "total_sparsity": 258_280 / 266_610}
    make_run(runs / "mnist-fc", asked=load("mnist-fc"), result=sizes)
    (make_run(runs / "<u>broken") / "result.json").write_text("{")
    html = runs.parent / "report.html"
    html.write_text(page(collect(runs)), encoding="utf-8")
    return html


@pytest.fixture
def opened(chromium: Any, report: Path) -> Any:
    chromium.get(report.as_uri())
    wait = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
    chromium.execute_async_script(wait)  # the charts are drawn with the first frame
    return chromium


def find(browser: Any, css: str) -> Any:
    return browser.find_element("css selector", css)


def texts(browser: Any, css: str) -> list[str]:
    return [each.text for each in browser.find_elements("css selector", css)]


def test_it_loads_without_a_word_on_the_console_and_draws(opened: Any) -> None:
    assert opened.get_log("browser") == []
    assert len(opened.find_elements("css selector", "#recipe-0 path.series[d^=M]")) >= 4 * 2


def test_names_with_markup_are_shown_as_text_and_never_run(opened: Any) -> None:
    assert opened.title == "asni: runs <i>"
    assert opened.find_elements("css selector", "img, i, u") == []
    assert find(opened, "#recipe-1 h2").text.startswith(EVIL)
    assert "<u>broken is left out" in find(opened, ".warnings").text


@pytest.mark.parametrize("key", ["alpha", "beta", "gamma"])
def test_a_slider_moves_the_curve_and_the_nonzeros(opened: Any, key: str) -> None:
    slider = find(opened, f"#recipe-0-{key}")
    card = slider.find_element("xpath", "ancestor::div[@class='card']")

    def curve() -> str:
        return str(card.find_element("css selector", ".clipped path.series").get_attribute("d"))

    before = curve()
    assert find(opened, "#recipe-0-outcome b").text == "5"
    slider.send_keys(Keys.HOME if key == "alpha" else Keys.END)
    assert curve() != before
    assert find(opened, "#recipe-0-outcome b").text != "5"
    card.find_element("css selector", "button.reset").click()
    assert curve() == before
    assert find(opened, "#recipe-0-outcome b").text == "5"


def test_the_schedule_of_the_papers_first_row_leaves_its_nonzeros(opened: Any) -> None:
    outcome = find(opened, "#recipe-2-outcome").text
    assert outcome.startswith("8,330 nonzeros at the end")
    assert "paper: 8,335" in outcome


def test_the_table_sorts_by_click_and_by_key_with_nan_at_the_end(opened: Any) -> None:
    accuracy = "#recipe-0 [aria-label=runs] tbody td:nth-child(3)"
    heading = find(opened, "#recipe-0 [aria-label=runs] th:nth-child(3)")
    button = heading.find_element("css selector", "button")
    button.click()
    assert texts(opened, accuracy) == ["9.50 %", "90.50 %", "91.50 %", "NaN"]
    assert heading.get_attribute("aria-sort") == "ascending"
    button.send_keys(Keys.ENTER)
    assert texts(opened, accuracy) == ["91.50 %", "90.50 %", "9.50 %", "NaN"]
    assert heading.get_attribute("aria-sort") == "descending"


def test_seeds_are_taken_together_and_a_mean_over_nan_is_none(opened: Any) -> None:
    assert texts(opened, "#recipe-0 [aria-label='means over seeds'] tbody tr") == [
        "dense 1 NaN \u2013 5",
        "ASNI-I 3 63.83 % ± 47.06 5",
    ]


def test_a_method_can_be_switched_off(opened: Any) -> None:
    boxes = opened.find_elements("css selector", "#recipe-0 .switches input")
    count = "return document.querySelectorAll('#recipe-0 .clipped path.series').length"
    before = opened.execute_script(count)
    boxes[0].click()
    assert opened.execute_script(count) == before - 2


def test_the_arrow_keys_read_the_values_of_a_chart(opened: Any) -> None:
    find(opened, "#recipe-0 .chart[tabindex]").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    tip = find(opened, "#recipe-0 .tip").text
    assert tip.startswith("epoch 1")
    assert "87.50 %" in tip


def test_a_layer_shows_its_counts_and_centroids(opened: Any) -> None:
    about = find(opened, "#recipe-0-layer").find_element("xpath", "ancestor::div[@class='card']").text
    assert "3 of 8 weights live" in about
    assert "-0.2500 and 0.6250" in about


def test_a_phone_needs_no_sideways_scrolling(opened: Any) -> None:
    phone = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        assert opened.execute_script("return document.documentElement.scrollWidth") <= 360
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
