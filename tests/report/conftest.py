"""A browser, and a server for it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.answering import answering
from tests.report.browsing import drawn

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
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install '.[dev]'")
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("chromium is not installed: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (*CHROMIUM, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield browser
    browser.quit()


@pytest.fixture
def opened(chromium: Any, report: Path) -> Any:
    """The page of the test module's `report`, in the browser."""
    return drawn(chromium, report)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """The directory that is served."""
    directory = tmp_path / "runs"
    directory.mkdir()
    return directory


@pytest.fixture
def address(runs: Path) -> Iterator[str]:
    with answering(runs) as server:
        yield server.address
