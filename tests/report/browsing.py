"""Helpers for the tests in a browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asni.report import collect, page


def written(runs: Path) -> Path:
    """The page about `runs`, beside them."""
    html = runs.parent / "report.html"
    html.write_text(page(collect(runs)), encoding="utf-8")
    return html


def drawn(browser: Any, html: Path) -> Any:
    browser.get(html.as_uri())
    after_drawing(browser)
    return browser


def after_drawing(browser: Any) -> None:
    wait = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
    browser.execute_async_script(wait)  # the charts are drawn with the first frame


@contextmanager
def coloured(browser: Any, scheme: str) -> Iterator[None]:
    """The page as a reader who prefers a light or dark scheme sees it."""
    asked = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", asked)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def unfold(browser: Any) -> None:
    browser.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")


@contextmanager
def phone(browser: Any) -> Iterator[None]:
    """The page on a phone."""
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def find(browser: Any, css: str) -> Any:
    return browser.find_element("css selector", css)


def card(browser: Any, css: str) -> Any:
    return find(browser, css).find_element("xpath", "ancestor::*[@class='card']")


def texts(browser: Any, css: str) -> list[str]:
    return [each.text for each in browser.find_elements("css selector", css)]
