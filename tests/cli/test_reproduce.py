"""`asni reproduce` as a user types it."""

import json
import re
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from asni.errors import AsniError
from asni.studies.parallel import threads_each
from tests.cli.calling import Command

RECIPE = """
dataset = "digits"
network = "fc"
[training]
epochs = 3
batch_size = 50
steps_per_epoch = 4
optimizer = "adam"
lr = {lr}
[pruning]
sparsity = 0.95
[paper]
row = 1
parameters = 50610
nonzeros = 2921
dense = 96.88
asni_1 = 96.72
asni_2 = 96.93
original = 96.75
"""


def test_rows_side_by_side_one_of_which_fails(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    Path("good.toml").write_text(RECIPE.format(lr=1.2e-3))
    Path("bad.toml").write_text(RECIPE.format(lr=1e38))
    both = command("reproduce", "good.toml", "bad.toml", "--epochs", "1", "--jobs", "2", "--save", "table.md")
    assert both.status == 1
    assert re.search(r"^asni: 4 .*failed", both.err, re.MULTILINE)
    assert re.search("bad--epochs-1 seed 0 dense: .*loss of dense is nan in epoch 1", both.err)
    assert re.search("bad--epochs-1 seed 0 asni-2: .*needs asni-1", both.err)
    assert "good--epochs-1 seed 0 original: accuracy" in both.err
    page = Path("table.md").read_text()
    assert page.count("| 1 | good |") == page.count("| 1 | bad |") == 4
    assert page.count("shortened (1 of 3)") == 8

    home = Path("runs/good--epochs-1/seed-0")
    assert json.loads((home / "dense" / "environment.json").read_text())["threads"] == threads_each(2)
    starts = [load_file(home / variant / "initial.safetensors") for variant in ("dense", "asni-1")]
    assert all((starts[0][name] == starts[1][name]).all() for name in starts[0])

    quick = command("reproduce", "good.toml", "--epochs", "2", "--steps-per-epoch", "3", "--json")
    assert quick.status == 0
    assert {(row["epochs"], row["steps_per_epoch"], row["shortened"]) for row in json.loads(quick.out)} == {
        (2, 3, True)
    }
    assert json.loads(Path("runs/good--epochs-2--steps-per-epoch-3/seed-0/dense/result.json").read_text())["steps"] == 6

    again = command("reproduce", "good.toml", "--epochs", "1", "--json")
    assert again.status == 0
    assert "already done" in again.err
    rows = {row["variant"]: row for row in json.loads(again.out)}
    assert list(rows) == ["dense", "asni-1", "asni-2", "original"]
    assert (rows["asni-2"]["nonzeros"], rows["asni-2"]["paper_nonzeros"], rows["asni-2"]["seeds"]) == (2_920, 2_921, 1)
    for variant, row in rows.items():
        assert row["accuracy"] == json.loads((home / variant / "result.json").read_text())["accuracy"]
        assert row["difference"] == row["accuracy"] - row["paper_accuracy"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["13"], "row '13'"),
        (["1", "--epochs", "2", "--scale", "0.2"], "epochs and scale"),
        (["1", "--scale", "0"], "scale = 0.0"),
        (["1", "--scale", "1e308"], "scale = 1e+308"),
        (["1", "--epochs", "0"], "epochs = 0"),
        (["1", "--jobs", "0"], "--jobs"),
        (["1", "--seeds", "0"], "--seeds"),
        (["1", "--save", "table.xls"], "--save table.xls"),
        (["1", "--save", f"{__file__}/table.md"], f"--save {__file__}/table.md"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_trained(
    command: Command, tmp_path: Path, arguments: list[str], said: str
) -> None:
    answer = command("reproduce", *arguments, "--out", str(tmp_path / "runs"))
    assert answer.status == 2
    assert said in answer.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_table_that_cannot_be_saved_is_printed_all_the_same(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(RECIPE.format(lr=1.2e-3))
    monkeypatch.setattr("asni.cli.studies._train", lambda *_: {})
    monkeypatch.setattr("asni.studies.tables.write_text", raise_full)
    answer = command("reproduce", "own.toml", "--save", "table.md", *as_json)
    assert answer.status == 1
    assert "96.72" in answer.out
    assert "cannot write table.md: the disk is full" in answer.err


def raise_full(path: Path, text: str) -> None:
    raise AsniError(f"cannot write {path}: the disk is full")
