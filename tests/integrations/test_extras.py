"""Without its framework, a callback says what to install."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(("extra", "framework"), [("lightning", "pytorch_lightning"), ("transformers", "transformers")])
def test_a_missing_extra_is_named(extra: str, framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, framework, None)
    monkeypatch.delitem(sys.modules, f"asni.integrations.{extra}", raising=False)
    with pytest.raises(ImportError, match=rf"needs {framework}: pip install 'asni\[{extra}\]'"):
        importlib.import_module(f"asni.integrations.{extra}")
