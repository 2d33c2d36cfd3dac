"""The curves of the report in a real browser: means and bands, small multiples, names, values, and axes that cut."""

from collections.abc import Sequence
from itertools import combinations, pairwise
from math import nan
from pathlib import Path
from typing import Any

import pytest

from asni.recipes import load
from tests.report.browsing import after_drawing, card, coloured, drawn, find, phone, texts, written
from tests.report.made_runs import make_run
from tests.runs.sealing import seal

Keys = pytest.importorskip("selenium.webdriver.common.keys", reason="selenium: pip install '.[dev]'").Keys
ActionChains = pytest.importorskip("selenium.webdriver").ActionChains

WHOLE = load("digits-fc").override(sparsity=0.625)
ACCURACY = "[aria-label^='test accuracy (percent) over epochs']"
PRUNED = "[aria-label^='pruned weights (percent) over epochs']"
HUES = ["dense", "asni-1", "asni-2", "original", "gmp", "rigl", "set"]
Curves = dict[str, list[list[float]]]


def rising(start: float, end: float) -> list[float]:
    """Ten epochs, of which the first is far below the others."""
    return [start, *(end - 1 + epoch / 8 for epoch in range(9))]


def report_of(runs: Path, curves: Curves) -> Path:
    for stage, seeds in curves.items():
        for seed, accuracies in enumerate(seeds):
            run, method = runs / f"{stage}-{seed}", stage.split("-round")[0]
            make_run(run, asked=WHOLE, stage=stage, method=method, seed=seed, accuracies=accuracies)
    return written(runs)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four methods with two seeds, of which SNIP is at chance and a seed of RigL diverges, and an intermediate one."""
    return report_of(
        tmp_path_factory.mktemp("few") / "runs",
        {
            "dense": [rising(65.125, 95), rising(70, 97)],
            "asni-1": [rising(60, 94), rising(60, 94)],
            "snip": [[10.0] * 10, [10.5] * 10],
            "rigl": [rising(62, 93), [*rising(62, 93)[:5], *[nan] * 5]],
            "lottery": [rising(61, 92)],
            "lottery-round-2": [rising(61, 91)],
        },
    )


@pytest.fixture(scope="module")
def seven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven methods that end at almost the same accuracy."""
    return report_of(
        tmp_path_factory.mktemp("seven") / "runs", {stage: [rising(60, 95 + k / 100)] for k, stage in enumerate(HUES)}
    )


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine methods."""
    stages = [*HUES, "snip", "magnitude-retrain"]
    return report_of(
        tmp_path_factory.mktemp("many") / "runs", {stage: [rising(60, 90 + k)] for k, stage in enumerate(stages)}
    )


def values(browser: Any, chart: str = ACCURACY) -> list[str]:
    return str(find(browser, f"{chart} + .values").text).splitlines()


def count(browser: Any, css: str) -> int:
    return len(browser.find_elements("css selector", f"{ACCURACY} {css}"))


def hues(browser: Any, css: str) -> set[str]:
    return {line.value_of_css_property("stroke") for line in browser.find_elements("css selector", css)}


def boxes(browser: Any, css: str) -> list[dict[str, float]]:
    rectangles = "return [...document.querySelectorAll(arguments[0])].map((each) => each.getBoundingClientRect())"
    return [dict(box) for box in browser.execute_script(rectangles, css)]


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    return (
        one["left"] < other["right"]
        and other["left"] < one["right"]
        and one["top"] < other["bottom"]
        and other["top"] < one["bottom"]
    )


def switch(browser: Any, group: str, key: str) -> None:
    browser.execute_script("arguments[0].click()", find(browser, f"[data-key={group}] [data-key={key}]"))
    after_drawing(browser)


def test_a_method_is_its_mean_and_a_band_over_its_seeds(chromium: Any, few: Path) -> None:
    drawn(chromium, few)
    assert values(chromium)[:3] == ["epoch 9", "dense", "96.00 %"]
    assert (count(chromium, "path.band"), count(chromium, "path.single")) == (4, 0)
    assert "band: from the lowest to the highest seed" in card(chromium, ACCURACY).text


def test_single_seeds_are_drawn_and_read_when_asked_for(chromium: Any, few: Path) -> None:
    drawn(chromium, few)
    switch(chromium, "curves", "seeds")
    assert count(chromium, "path.single") == 8
    assert values(chromium)[1:4] == ["dense", "96.00 %", "0: 95.00 · 1: 97.00"]


def test_one_seed_is_a_line_without_a_band_or_a_switch(chromium: Any, seven: Path) -> None:
    drawn(chromium, seven)
    assert (count(chromium, "path.band"), count(chromium, ".clipped > path")) == (0, 7)
    assert chromium.find_elements("css selector", "[data-key=curves]") == []
    assert "band" not in card(chromium, ACCURACY).text


def test_a_mean_stops_where_a_seed_diverged(chromium: Any, few: Path) -> None:
    drawn(chromium, few)
    assert values(chromium)[-2:] == ["RigL (1 of 2 diverged)", "NaN"]
    find(chromium, ACCURACY).send_keys(Keys.HOME, *[Keys.ARROW_RIGHT] * 4)
    assert "RigL (1 of 2 diverged)\n92.38 %" in "\n".join(values(chromium))


def test_seven_methods_share_a_chart_and_no_two_a_hue(chromium: Any, seven: Path) -> None:
    drawn(chromium, seven)
    assert len(hues(chromium, f"{ACCURACY} .clipped > path.series")) == 7


def test_more_methods_are_small_multiples_with_the_others_in_grey(chromium: Any, many: Path) -> None:
    drawn(chromium, many)
    assert [count(chromium, f".clipped{part}") for part in ("", " > use", " > path.series")] == [9, 9, 9]
    assert texts(chromium, f"{ACCURACY} text.named")[-1] == "SNIP"
    assert texts(chromium, f"{ACCURACY} text.value")[-1] == "97.00 %"
    panels = boxes(chromium, f"{ACCURACY} .clipped")
    assert len({round(panel["left"]) for panel in panels}) == 4
    assert len({(round(panel["width"]), round(panel["height"])) for panel in panels}) == 1


def test_multiples_are_two_columns_on_a_phone_and_none_of_their_names_is_cut(chromium: Any, many: Path) -> None:
    with phone(chromium):
        drawn(chromium, many)
        assert len({round(panel["left"]) for panel in boxes(chromium, f"{ACCURACY} .clipped")}) == 2
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= 390
        assert "magnitude, retrained" in texts(chromium, f"{ACCURACY} text.named")


def test_an_epoch_is_read_in_all_panels_at_once(chromium: Any, many: Path) -> None:
    drawn(chromium, many)
    find(chromium, ACCURACY).send_keys(Keys.HOME)
    assert texts(chromium, f"{ACCURACY} text.value") == ["60.00 %"] * 9
    assert values(chromium)[0] == "epoch 0"
    chart = chromium.find_elements("css selector", f"{ACCURACY} .clipped")[2]
    ActionChains(chromium).move_to_element_with_offset(chart, chart.rect["width"] / 2 - 2, 0).perform()
    assert values(chromium)[0] == "epoch 9"


def test_seven_that_are_left_of_many_share_a_chart(chromium: Any, many: Path) -> None:
    drawn(chromium, many)
    for stage in ("gmp", "snip"):
        switch(chromium, "stage", stage)
    assert len(hues(chromium, f"{ACCURACY} .clipped > path.series")) == 7
    assert hues(chromium, "[data-key=stage] input:checked + svg path") == hues(chromium, f"{ACCURACY} .clipped > path")


def test_the_ends_of_lines_are_named_and_no_name_covers_another(chromium: Any, seven: Path) -> None:
    drawn(chromium, seven)
    assert sorted(texts(chromium, f"{ACCURACY} text.named:not(.haloed)")) == sorted(
        texts(chromium, "[data-key=stage] label")
    )
    names = boxes(chromium, f"{ACCURACY} text.named:not(.haloed)")
    assert not any(overlap(*pair) for pair in combinations(names, 2))
    (plot,) = boxes(chromium, f"{ACCURACY} .clipped")
    assert all(name["left"] >= plot["right"] - 4 for name in names)


def test_on_a_phone_the_names_are_left_to_the_legend(chromium: Any, seven: Path) -> None:
    with phone(chromium):
        drawn(chromium, seven)
        assert count(chromium, "text.named:not(.haloed)") == 0
        assert len(texts(chromium, "[data-key=stage] label")) == 7


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_name_can_be_read_on_its_page(chromium: Any, seven: Path, scheme: str) -> None:
    with coloured(chromium, scheme):
        drawn(chromium, seven)
        ratios = chromium.execute_script(
            """
            const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
            const luminance = (colour) => {
              pen.fillStyle = colour;
              pen.fillRect(0, 0, 1, 1);
              const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data]
                .map((byte) => byte / 255)
                .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
              return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const page = luminance(getComputedStyle(document.querySelector(".card")).backgroundColor);
            return [...document.querySelectorAll(arguments[0])]
              .map((name) => luminance(getComputedStyle(name).fill))
              .map((ink) => (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05));
            """,
            f"{ACCURACY} text.named",
        )
        assert min(ratios) >= 4.5


def test_the_values_are_beside_the_chart_from_the_highest_to_the_lowest(chromium: Any, seven: Path) -> None:
    drawn(chromium, seven)
    (chart,), (box,) = boxes(chromium, f"{ACCURACY} svg:not(.clipped)"), boxes(chromium, f"{ACCURACY} + .values")
    assert box["left"] >= chart["right"]
    assert values(chromium)[0] == "epoch 9"
    numbers = [float(value.split()[0]) for value in values(chromium)[2::2]]
    assert all(above > below for above, below in pairwise(numbers))
    with phone(chromium):
        drawn(chromium, seven)
        (chart,), (box,) = boxes(chromium, f"{ACCURACY} svg:not(.clipped)"), boxes(chromium, f"{ACCURACY} + .values")
        assert box["top"] >= chart["bottom"]


def test_only_values_that_are_pointed_at_are_announced(chromium: Any, seven: Path) -> None:
    drawn(chromium, seven)
    box = find(chromium, f"{ACCURACY} + .values")
    assert box.get_attribute("aria-live") == "off"
    find(chromium, ACCURACY).send_keys(Keys.ARROW_RIGHT)
    assert (box.get_attribute("aria-live"), values(chromium)[0]) == ("polite", "epoch 0")
    find(chromium, ACCURACY).send_keys(Keys.ESCAPE)
    assert (box.get_attribute("aria-live"), values(chromium)[0]) == ("off", "epoch 9")


def test_what_an_axis_cuts_has_an_arrow_and_a_note_until_the_whole_range_is_shown(chromium: Any, few: Path) -> None:
    drawn(chromium, few)
    assert texts(chromium, f"{ACCURACY} text.haloed") == ["10.3 %", "60.0 %"]
    about = card(chromium, ACCURACY).text
    assert "First epochs below the axis: from 60.00 %." in about
    assert "Below the axis: SNIP (at chance), from 10.00 %." in about
    switch(chromium, "range", "whole")
    assert count(chromium, ".arrow") == 0
    assert "below the axis" not in card(chromium, ACCURACY).text.lower()
    assert find(chromium, "[data-key=range]").is_displayed()


def test_a_chart_that_cuts_nothing_has_no_switch_for_its_range(chromium: Any, tmp_path: Path) -> None:
    drawn(chromium, report_of(tmp_path / "runs", {"dense": [[90.0] * 10]}))
    assert count(chromium, ".arrow") == 0
    assert not find(chromium, "[data-key=range]").is_displayed()


def test_marked_runs_are_marked_in_the_legend_at_their_line_and_in_the_values(chromium: Any, few: Path) -> None:
    drawn(chromium, few)
    marked = ["RigL (1 of 2 diverged)", "SNIP (at chance)"]
    for css in ("[data-key=stage] label", f"{ACCURACY} text.named", f"{ACCURACY} + .values span"):
        assert [text for text in texts(chromium, css) if "(" in text] in (marked, marked[::-1])
    assert count(chromium, "g.faint") == 2


def test_a_shortened_recipe_is_marked_in_the_heading_of_each_chart(chromium: Any, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "short")
    drawn(chromium, written(tmp_path / "runs"))
    for chart in (ACCURACY, PRUNED, "[data-key=layers-run]", "[data-key=layer]", "[data-key=distribution-seed]"):
        assert "shortened" in card(chromium, chart).find_element("css selector", "h3").text


def test_intermediate_trainings_are_shown_when_asked_for(chromium: Any, few: Path) -> None:
    drawn(chromium, few)
    assert "lottery-round-2" not in values(chromium)
    assert not find(chromium, "[data-key=round]").is_displayed()
    switch(chromium, "curves", "rounds")
    assert "lottery-round-2" in values(chromium)
    assert texts(chromium, "[data-key=round] label") == ["lottery-round-2"]


def test_intermediate_trainings_without_a_last_one_are_shown(chromium: Any, tmp_path: Path) -> None:
    drawn(chromium, report_of(tmp_path / "runs", {"lottery-round-2": [[90.0] * 10]}))
    assert values(chromium) == ["epoch 9", "lottery-round-2", "90.00 %"]


def test_a_seed_that_ended_early_counts_as_far_as_it_goes(chromium: Any, tmp_path: Path) -> None:
    drawn(chromium, report_of(tmp_path / "runs", {"dense": [[90.0] * 10, [80.0] * 5]}))
    assert values(chromium) == ["epoch 9", "dense", "90.00 %", "1 of 2 seeds"]
    find(chromium, ACCURACY).send_keys(Keys.ARROW_RIGHT)
    assert values(chromium) == ["epoch 0", "dense", "85.00 %"]
    assert "Over fewer seeds: dense from epoch 5." in card(chromium, ACCURACY).text


@pytest.mark.parametrize(
    ("kept", "note"),
    [((3, 4, 5), "dense at 3 epochs"), ((0, 1, 4, 5), "dense at 2 epochs"), ((0, 1, 2), "dense from epoch 3")],
)
def test_a_mean_is_over_the_same_epoch_where_a_seed_has_lost_lines(
    chromium: Any, tmp_path: Path, kept: Sequence[int], note: str
) -> None:
    means = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    for seed in (0, 1):
        make_run(tmp_path / "runs" / f"{seed}", asked=WHOLE, stage="dense", seed=seed, accuracies=means)
    metrics = tmp_path / "runs" / "1" / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(lines[epoch] for epoch in kept))
    seal(metrics.parent)
    drawn(chromium, written(tmp_path / "runs"))
    read = []
    for epoch in range(6):
        find(chromium, ACCURACY).send_keys(Keys.ARROW_RIGHT)
        assert values(chromium)[0] == f"epoch {epoch}"
        read.append(float(values(chromium)[2].split()[0]))
    assert read == means
    assert f"Over fewer seeds: {note}." in card(chromium, ACCURACY).text


def test_a_finished_network_is_not_marked_by_a_training_that_has_not_ended(chromium: Any, tmp_path: Path) -> None:
    for seed in (0, 1):
        make_run(tmp_path / "runs" / f"{seed}", asked=WHOLE, stage="dense", seed=seed)
    (tmp_path / "runs" / "1" / "result.json").unlink()
    drawn(chromium, written(tmp_path / "runs"))
    assert texts(chromium, "[data-key=stage] label") == ["dense (1 of 2 unfinished)"]
    assert texts(chromium, "[data-key=distribution] label") == ["dense"]


def test_sizes_are_written_out_at_their_axis(chromium: Any, tmp_path: Path) -> None:
    for stage, size in (("asni-1", 123_456), ("gmp", 1_234_567)):
        make_run(tmp_path / "runs" / stage, asked=WHOLE, stage=stage, result={"nonzeros": size})
    drawn(chromium, written(tmp_path / "runs"))
    shown = texts(card(chromium, "[data-key=size]"), ".chart text")
    assert {"123,456", "1,234,567"} <= set(shown)


def test_a_method_at_chance_does_not_squeeze_the_chart_of_sizes(chromium: Any, tmp_path: Path) -> None:
    for stage, size, accuracy in (("asni-1", 50, 94.0), ("gmp", 90, 95.0), ("snip", 70, 10.0)):
        result = {"nonzeros": size}
        make_run(tmp_path / "runs" / stage, asked=WHOLE, stage=stage, accuracies=[accuracy] * 10, result=result)
    drawn(chromium, written(tmp_path / "runs"))
    sizes = card(chromium, "[data-key=size]")
    assert texts(sizes, ".chart text.haloed") == ["10.0 %"]
    assert sorted(texts(sizes, ".chart text.named:not(.haloed)")) == ["ASNI-I", "GMP", "SNIP (at chance)"]
    assert "Below the axis: SNIP (at chance), 10.00 %." in sizes.text
    switch(chromium, "size-range", "whole")
    assert texts(sizes, ".chart text.haloed") == []
