"""Every example of docs/integrations.md runs as it stands there."""

import re
from pathlib import Path
from typing import Any

import pytest
from accelerate.state import AcceleratorState, GradientState

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
START, *EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.filterwarnings("ignore:::(pytorch_lightning|lightning_utilities|peft|transformers|torch)")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.split()[1])
def test_an_example_prunes(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "example"}
    try:
        exec(START + example, names)
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()
    pruner = names["pruner"] if "pruner" in names else names["callback"].pruner
    assert pruner.steps == 0 or pruner.sparsity == pytest.approx(0.9, abs=1e-3)
