import signal

import pytest
import torch
from hypothesis import settings

from tests.cli.calling import Command

# A loaded machine is slow, not wrong.
settings.register_profile("asni", deadline=None)
settings.load_profile("asni")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """The networks of the tests are small, and the tests run side by side."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_works() -> None:
    """A shell starts what it puts into the background with Ctrl-C ignored, and every process inherits that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    # Wide enough that no message is wrapped in the middle of what a test looks for.
    monkeypatch.setenv("COLUMNS", "200")
    return Command(capsys, monkeypatch)
