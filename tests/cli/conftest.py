import pytest

from tests.cli.calling import Command


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    # Wide enough that no message is wrapped in the middle of what a test looks for.
    monkeypatch.setenv("COLUMNS", "200")
    return Command(capsys, monkeypatch)
