import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.calling import Command


def test_an_investigation_trains_four_variants_and_a_second_call_none(command: Command, tmp_path: Path) -> None:
    arguments = ("investigate", "digits-fc", "--epochs", "4", "--out", str(tmp_path), "--json")
    rows = json.loads(command(*arguments).out)
    assert [row["variant"] for row in rows] == ["dense", "asni-1", "asni-2", "original"]
    assert [row["nonzeros"] for row in rows] == [50_610, 2_920, 2_920, 2_920]
    assert all(10 < row["accuracy"] <= 100 and row["seconds"] > 0 for row in rows)
    home = tmp_path / "digits-fc--epochs-4" / "seed-0"
    assert {"schedule.png", "layer-sparsity.svg"} <= {path.name for path in (home / "figures").iterdir()}

    again = command(*arguments)
    assert json.loads(again.out) == rows
    assert "already done" in again.err


def test_an_investigation_shows_the_epochs_of_each_training(command: Command, tmp_path: Path) -> None:
    asked = ("digits-fc", "--epochs", "4", "--steps-per-epoch", "3", "--out", str(tmp_path))
    table = command("investigate", *asked, "--amenable-epochs", "0.5").out.splitlines()
    assert [line.split()[:2] for line in table[:5]] == [
        ["variant", "epochs"],
        ["dense", "4"],
        ["asni-1", "4"],
        ["asni-2", "2"],
        ["original", "4"],
    ]
    assert command("investigate", *asked).out.split()[:2] == ["variant", "accuracy"]
    trained = command("train", *asked, "--method", "asni-2", "--amenable-epochs", "0.5")
    assert trained.out.splitlines()[1].split()[:2] == ["asni-2", "2"]


def test_the_answer_to_finished_work_does_not_wait_for_torch(command: Command, tmp_path: Path) -> None:
    arguments = ["investigate", "digits-fc", "--epochs", "1", "--out", str(tmp_path)]
    command(*arguments)
    program = f"import sys; from asni.cli import main; sys.argv = {['asni', *arguments]!r}\n"
    program += "try: main()\nfinally: assert not {'torch', 'matplotlib'} & set(sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "2,920" in answer.stdout


def test_figures_that_cannot_be_kept_are_reported_without_a_traceback(command: Command, tmp_path: Path) -> None:
    home = tmp_path / "digits-fc--epochs-1" / "seed-0"
    home.mkdir(parents=True)
    (home / "figures").symlink_to("nowhere")
    answer = command("investigate", "digits-fc", "--epochs", "1", "--out", str(tmp_path))
    assert answer.status == 1
    assert "asni: [Errno" in answer.err
    assert f"{home}/figures" in answer.err


def test_memory_for_a_file_without_a_file_is_refused(command: Command, tmp_path: Path) -> None:
    answer = command("train", "digits-fc", "--max-memory", "8GB", "--out", str(tmp_path / "runs"))
    assert (answer.status, answer.out) == (2, "")
    assert "--from" in answer.err
    assert not (tmp_path / "runs").exists()


def test_a_training_says_what_came_out_and_where(command: Command, tmp_path: Path) -> None:
    answer = command("train", "digits-fc", "--epochs", "1", "--method", "asni-2", "--out", str(tmp_path), "--json")
    result, home = json.loads(answer.out), tmp_path / "digits-fc--epochs-1" / "seed-0"
    assert (result["stage"], result["nonzeros"], result["directory"]) == ("asni-2", 2_920, str(home / "asni-2"))
    assert (home / "asni-2" / "weights.safetensors").exists()
    assert (home / "asni-1" / "weights.safetensors").exists()


def test_runs_go_to_a_place_that_names_what_was_asked(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command("train", "digits-fc", "--epochs", "1", "--seed", "3", "--method", "dense")
    assert (tmp_path / "runs" / "digits-fc--epochs-1" / "seed-3" / "dense" / "result.json").exists()


def test_a_user_s_own_recipe_with_a_misspelt_key_gets_the_nearest(command: Command, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        'dataset = "digits"\nnetwork = "fc"\n[training]\nepoch = 3\nbatch_size = 10\noptimizer = "adam"\nlr = 0.1\n'
        "[pruning]\nsparsity = 0.9\n"
    )
    answer = command("train", str(recipe))
    assert answer.status == 2
    assert re.search("training.epoch: .*'epochs'", answer.err)


def test_imagenet_trains_from_a_folder_in_the_usual_layout(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    for part in ("train", "val"):
        for wnid in ("n01440764", "n01443537"):
            folder = tmp_path / "imagenet" / part / wnid
            folder.mkdir(parents=True)
            for number in range(2):
                picture = Image.fromarray(random.integers(0, 256, (60, 80, 3), np.uint8))
                picture.save(folder / f"{wnid}_{number}.JPEG")
    monkeypatch.setenv("ASNI_DATA", str(tmp_path))
    limits = ("--epochs", "1", "--batch-size", "2", "--steps-per-epoch", "1")
    answer = command("train", "imagenet-resnet50-80", *limits, "--out", str(tmp_path / "run"), "--json")
    assert json.loads(answer.out)["sparsity"] == pytest.approx(0.8029, abs=1e-4)
