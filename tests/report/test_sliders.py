"""The sliders stand in the documentation as they stand in a report."""

from pathlib import Path
from typing import Any

from docs.sliders import schedule_page
from tests.report.browsing import drawn, find

RESULTS = Path(__file__).parents[2] / "results" / "mnist-fc"


def test_a_slider_changes_the_nonzeros(chromium: Any, tmp_path: Path) -> None:
    page = tmp_path / "schedule.html"
    page.write_text(schedule_page(RESULTS), encoding="utf-8")
    drawn(chromium, page)
    assert find(chromium, ".outcome b").text == "8,335"
    assert find(chromium, "svg .series").is_displayed()
    move = "const input = arguments[0]; input.value = 50; input.dispatchEvent(new Event('input'))"
    chromium.execute_script(move, find(chromium, "input[data-key=alpha]"))
    assert find(chromium, ".outcome b").text == "135,069"  # as `asni plan mnist-fc --alpha 50` says
