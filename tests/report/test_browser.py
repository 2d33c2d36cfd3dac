"""The page in a real browser: it draws, reacts, sorts, and runs no script but its own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asni.recipes import load
from asni.recipes.prunings import prunings
from tests.report.browsing import card, coloured, drawn, find, texts, unfold, written
from tests.report.made_runs import WEIGHT, make_run, recipe

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install '.[dev]'")
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
ActionChains = webdriver.ActionChains

RESNET = ["conv1", "layer1.0.conv1", "layer1.0.conv2", "layer2.0.conv1", "layer2.0.downsample.<img src=x>", "linear"]
EVIL = "</script><img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("made") / "runs <i>"
    for seed, accuracy in enumerate([91.5, 9.5, 90.5]):
        make_run(runs / f"seed-{seed}", seed=seed, accuracy=accuracy)
    make_run(runs / "dense", stage="dense", accuracy=95.0, result={"accuracy": float("nan")})
    make_run(runs / "evil <img src=x>", asked=recipe(name=EVIL.replace("/", ""), title=EVIL), stage=EVIL)
    sizes = {"nonzeros": 8330, "sparsity": 258_280 / 266_200, "total_sparsity": 258_280 / 266_610}
    make_run(runs / "mnist-fc", asked=load("mnist-fc"), result=sizes)
    (make_run(runs / "<u>broken") / "result.json").write_text("{")
    return written(runs)


@pytest.fixture(scope="module")
def resnets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small ResNet at two sparsities, with two seeds each; the second of SNIP has diverged."""
    runs = tmp_path_factory.mktemp("made") / "resnets"
    for nonzeros, asked in {1000: recipe(), 4000: recipe().override(sparsity=0.5)}.items():
        for seed in (0, 1):
            for stage, lost in {"dense": 0, "asni-1": 1, "asni-2": 2, "snip": 5, "lottery-round-2": 3}.items():
                scale = np.float32(4 if stage == "snip" else 1 - seed / 4)
                make_run(
                    runs / f"{nonzeros}" / f"seed-{seed}" / stage,
                    asked=asked,
                    stage=stage,
                    method="lottery" if stage == "lottery-round-2" else stage,
                    seed=seed,
                    accuracy=95.0 + seed - lost - 1000 / nonzeros,
                    result={
                        "nonzeros": 10_000 if stage == "dense" else nonzeros,
                        **({"accuracy": float("nan")} if (stage, seed) == ("snip", 1) else {}),
                    },
                    weights={f"{name}.weight": WEIGHT * scale for name in RESNET},
                    initial={"conv1.weight": WEIGHT / np.float32(2 + seed)},
                )
    return written(runs)


@pytest.fixture
def opened_resnets(chromium: Any, resnets: Path) -> Any:
    return drawn(chromium, resnets)


def test_it_loads_without_a_word_on_the_console_and_draws(opened: Any) -> None:
    assert opened.get_log("browser") == []
    assert len(opened.find_elements("css selector", "#recipe-0 path.series[d^=M]")) >= 4 * 2


def test_names_with_markup_are_shown_as_text_and_never_run(opened: Any) -> None:
    assert opened.title == "asni: runs <i>"
    assert opened.find_elements("css selector", "img, i, u") == []
    assert find(opened, "#recipe-1 h2").text.startswith(EVIL.replace("/", ""))
    assert "<u>broken" in find(opened, ".warnings").text


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
    assert outcome.startswith("8,335 nonzeros")
    assert "paper: 8,335" in outcome


def test_the_schedule_of_a_shortened_row_leaves_the_same_nonzeros(chromium: Any, tmp_path: Path) -> None:
    sizes = {"nonzeros": 8335, "sparsity": 258_275 / 266_200, "total_sparsity": 258_275 / 266_610}
    make_run(tmp_path / "runs" / "short", asked=load("mnist-fc").override(epochs=10), result=sizes)
    drawn(chromium, written(tmp_path / "runs"))
    assert find(chromium, "#recipe-0-outcome").text.startswith("8,335 nonzeros")


def test_a_short_training_is_drawn_as_it_is_pruned_within_its_epochs(chromium: Any, tmp_path: Path) -> None:
    asked = load("digits-fc").override(epochs=6, least=0.01)
    sizes = {"nonzeros": 2_920, "sparsity": 0.95, "total_sparsity": 47_690 / 50_610}
    make_run(tmp_path / "runs" / "short", asked=asked, result=sizes)
    drawn(chromium, written(tmp_path / "runs"))
    # A hair beside the recipe's own gamma, so that the page calculates the curve itself.
    calculate = """
        const own = JSON.parse(document.getElementById("data").textContent).groups[0].schedule;
        return scheduled({ ...own, gamma: own.gamma * (1 + 1e-9) }, own);
    """
    expected = [100 * sparsity for sparsity in prunings(asked, 30, 50_200).sparsities]
    assert chromium.execute_script(calculate) == pytest.approx(expected, abs=0.1)


def test_the_density_of_multiplications_is_a_column_where_a_run_knows_it(chromium: Any, tmp_path: Path) -> None:
    for seed in (0, 1):
        make_run(tmp_path / "runs" / f"{seed}", seed=seed, result={"mac_density": 0.25} if seed else {})
    drawn(chromium, written(tmp_path / "runs"))
    unfold(chromium)
    headings = texts(chromium, "#recipe-0 [data-key=runs] th")
    place = headings.index("MAC density") + 1
    assert texts(chromium, f"#recipe-0 [data-key=runs] tbody td:nth-child({place})") == ["\u2013", "25.00 %"]
    assert "MAC density" in texts(chromium, "#recipe-0 [data-key='means over seeds'] th")


def test_the_table_sorts_by_click_and_by_key_with_nan_at_the_end(opened: Any) -> None:
    unfold(opened)
    accuracy = "#recipe-0 [data-key=runs] tbody td:nth-child(2)"
    heading = find(opened, "#recipe-0 [data-key=runs] th:nth-child(2)")
    button = heading.find_element("css selector", "button")
    button.click()
    assert texts(opened, accuracy) == ["9.50 %", "90.50 %", "91.50 %", "NaN"]
    assert heading.get_attribute("aria-sort") == "ascending"
    button.send_keys(Keys.ENTER)
    assert texts(opened, accuracy) == ["91.50 %", "90.50 %", "9.50 %", "NaN"]
    assert heading.get_attribute("aria-sort") == "descending"


def test_seeds_are_taken_together_and_a_mean_over_nan_is_none(opened: Any) -> None:
    unfold(opened)
    assert texts(opened, "#recipe-0 [data-key='means over seeds'] tbody tr") == [
        "dense shortened diverged NaN 5 \u2013 1",
        "ASNI-I shortened 1 of 3 at chance 63.83 % 5 ± 47.06 3",
    ]


def test_a_seed_that_was_trained_twice_counts_once_and_the_page_says_which_is_left_out(
    chromium: Any, tmp_path: Path
) -> None:
    make_run(tmp_path / "runs" / "new" / "dense", stage="dense", accuracy=99.0)
    make_run(tmp_path / "runs" / "new" / "dense-1", stage="dense", accuracy=97.0, seed=1)
    make_run(tmp_path / "runs" / "new" / "asni-1")
    make_run(tmp_path / "runs" / "old" / "dense", stage="dense", accuracy=10.0)
    drawn(chromium, written(tmp_path / "runs"))
    unfold(chromium)
    means = card(chromium, "[data-key='means over seeds']")
    assert texts(means, "tbody td:nth-child(2)")[0] == "98.00 %"
    assert "old/dense" in means.text
    assert "old/dense" in card(chromium, ".ranking").text


def test_no_run_is_said_to_be_left_out_where_recipes_share_their_dense_one(opened_resnets: Any) -> None:
    for recipe_id in ("recipe-0", "recipe-1"):
        for control in ("[data-key='means over seeds']", ".ranking"):
            assert "/dense" not in card(opened_resnets, f"#{recipe_id} {control}").text
    assert "/dense" not in card(opened_resnets, "[data-key=size]").text


def test_a_method_can_be_switched_off(opened: Any) -> None:
    boxes = opened.find_elements("css selector", "#recipe-0 .switches input")
    count = "return document.querySelectorAll('#recipe-0 .clipped path.series').length"
    before = opened.execute_script(count)
    boxes[0].click()
    assert opened.execute_script(count) == before - 2


def test_the_arrow_keys_read_the_values_of_a_chart(opened: Any) -> None:
    find(opened, "#recipe-0 .chart[tabindex]").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    values = find(opened, "#recipe-0 .values").text
    assert values.splitlines() == [
        "epoch 1",
        *("dense (diverged)", "91.00 %"),
        *("ASNI-I (1 of 3 at chance)", "59.83 %"),
    ]


def test_a_layer_shows_its_counts_and_centroids(opened: Any) -> None:
    about = card(opened, "#recipe-0 [data-key=layer]").text
    assert "3 of 8 weights" in about
    assert "-0.2500 and 0.6250" in about


def lines(chart: Any) -> list[str]:
    return [path.get_attribute("d") for path in chart.find_elements("css selector", ".clipped path.series")]


def test_four_networks_are_overlaid_and_another_seed_has_other_ones(opened_resnets: Any) -> None:
    networks = card(opened_resnets, "#recipe-0 [data-key=distribution-seed]")
    first = lines(networks)
    assert len(first) == 4
    checked = "return [...arguments[0].querySelectorAll('input:checked')].map((box) => box.parentNode.textContent)"
    assert opened_resnets.execute_script(checked, networks) == ["initial", "dense", "ASNI-I", "ASNI-II"]
    find(opened_resnets, "#recipe-0 [data-key=distribution-seed] option[value='1']").click()
    second = lines(networks)
    assert len(second) == 4
    assert all(before != after for before, after in zip(first, second, strict=True))


def test_another_network_can_join_the_overlay(opened_resnets: Any) -> None:
    networks = card(opened_resnets, "#recipe-0 [data-key=distribution-seed]")
    networks.find_element("css selector", "input:not(:checked)").click()
    assert len(lines(networks)) == 5
    assert "SNIP, seed 0: 100.00 %" in networks.text


def test_the_arrow_keys_read_the_share_of_weights_in_a_bin(opened_resnets: Any) -> None:
    networks = card(opened_resnets, "#recipe-0 [data-key=distribution-seed]")
    networks.find_element("css selector", ".chart").send_keys(Keys.END)
    values = networks.find_element("css selector", ".values").text.splitlines()
    low, high = (float(edge) for edge in values[0].split(" to "))
    assert low <= 0.75 < high
    assert values[1:] == [
        *("initial, seed 0", "0.00 % (0)"),
        *("dense, seed 0", "33.33 % (6)"),
        *("ASNI-I, seed 0", "33.33 % (6)"),
        *("ASNI-II, seed 0", "33.33 % (6)"),
    ]


def test_stages_are_coloured_special_layers_hatched_and_the_legend_says_so(opened_resnets: Any) -> None:
    layers = card(opened_resnets, "#recipe-0 [data-key=layers-run]")

    def count(css: str) -> int:
        return len(layers.find_elements("css selector", f".chart {css}"))

    assert (count("rect.series"), count("[fill='url(#hatch-opens)']"), count("[fill='url(#hatch-skip)']")) == (6, 2, 1)
    assert opened_resnets.execute_script("return document.querySelectorAll('pattern#hatch-skip path').length") == 1
    assert texts(layers, ".legend span") == [
        "outside the stages",
        "stage 1",
        "stage 2",
        "first of a stage",
        "skip connection",
    ]
    colours = [bar.value_of_css_property("fill") for bar in layers.find_elements("css selector", "rect.series")[:6]]
    assert colours[0] == colours[5] != colours[1] == colours[2] != colours[3] == colours[4]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_hatch_is_drawn_in_the_colour_of_the_page(opened_resnets: Any, scheme: str) -> None:
    with coloured(opened_resnets, scheme):
        background = card(opened_resnets, "#recipe-0 [data-key=layers-run]").value_of_css_property("background-color")
        stroke = "return getComputedStyle(document.querySelector('#hatch-skip path')).stroke"
        assert opened_resnets.execute_script(stroke) == background.replace("rgba", "rgb").replace(", 1)", ")")


def test_a_network_without_stages_has_one_colour_and_no_legend(opened: Any) -> None:
    layers = card(opened, "#recipe-0 [data-key=layers-run]")
    assert texts(layers, ".legend span") == []
    assert layers.find_elements("css selector", "[fill^='url']") == []


def test_accuracy_against_nonzeros_joins_the_recipes_of_other_sparsities(opened_resnets: Any) -> None:
    assert opened_resnets.find_elements("css selector", "#recipe-1 [data-key=size]") == []
    sizes = card(opened_resnets, "#recipe-0 [data-key=size]")
    assert texts(sizes, "[data-key=size] label") == ["dense", "ASNI-I", "ASNI-II", "SNIP (2 of 4 diverged)"]
    assert len(sizes.find_elements("css selector", ".chart path.mark")) == 4
    assert len(sizes.find_elements("css selector", ".chart circle.seed")) == 2 * (2 + 2 + 1)
    assert "SNIP, seed 1; SNIP, seed 1" in sizes.text
    assert "digits-fc--epochs-6--sparsity-0.625, digits-fc--epochs-6--sparsity-0.5" in sizes.text


def test_the_arrow_keys_read_a_method_at_a_size_beside_the_dense_level(opened_resnets: Any) -> None:
    sizes = card(opened_resnets, "#recipe-0 [data-key=size]")
    sizes.find_element("css selector", ".chart").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    values = sizes.find_element("css selector", ".values").text
    assert values.splitlines() == ["ASNI-II, 1,000 nonzeros", "mean of 2 seeds", "92.50 % ± 0.71", "dense", "94.50 %"]


def test_the_pointer_reads_the_nearest_of_several_methods_of_one_size(opened_resnets: Any) -> None:
    sizes = card(opened_resnets, "#recipe-0 [data-key=size]")
    for mark, name in zip(sizes.find_elements("css selector", ".chart path.mark"), ("ASNI-I", "ASNI-II"), strict=False):
        ActionChains(opened_resnets).move_to_element(mark).perform()
        assert sizes.find_element("css selector", ".values").text.startswith(f"{name}, 1,000 nonzeros")


def test_names_with_markup_stay_text_in_legends_and_titles(opened: Any, chromium: Any, resnets: Path) -> None:
    assert f"with {EVIL}, " in find(opened, "#recipe-1 .headline").text
    assert EVIL in texts(card(opened, "#recipe-1 [data-key=distribution-seed]"), ".switches label")
    drawn(chromium, resnets)
    titles = "return [...document.querySelectorAll('#recipe-0 .chart title')].map((title) => title.textContent)"
    (skip,) = [title for title in chromium.execute_script(titles) if "skip connection" in title]
    assert skip.startswith("layer2.0.downsample.<img src=x> (skip connection): 62.50 %")
    assert chromium.find_elements("css selector", "img") == []


@pytest.mark.parametrize("name", ["report", "resnets"])
def test_a_phone_needs_no_sideways_scrolling(chromium: Any, name: str, request: pytest.FixtureRequest) -> None:
    phone = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        drawn(chromium, request.getfixturevalue(name))
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= 360
    finally:
        chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
