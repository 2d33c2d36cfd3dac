"""Files that are damaged, lost or swapped while a run is trained or after it: named, and never used."""

import io
import json
import os
import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console

from asni.errors import AsniError, StoppedError
from asni.methods import METHODS
from asni.runs import names
from asni.runs.run import Run
from asni.studies import investigation
from asni.training.progress import Progress
from tests.training.training_setup import StopAfter, diverging_in_step, experiment, short_digits, trainer

STEPS_PER_EPOCH = 30


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return METHODS["asni-1"].train(trainer(tmp_path_factory.mktemp("undisturbed")))


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose run was stopped in its fourth epoch, with checkpoints after two and three."""
    root = tmp_path_factory.mktemp("stopped")
    with pytest.raises(StoppedError):
        METHODS["asni-1"].train(trainer(root, progress=StopAfter(3 * STEPS_PER_EPOCH + 5)))
    return root


@pytest.fixture
def stopped(stopped_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped_once, tmp_path / "stopped"))


def directory_in(root: Path) -> Path:
    return experiment(root).run("asni-1").directory


def resumed(root: Path) -> tuple[Run, str]:
    """Train again; the run, and what was printed."""
    text = io.StringIO()
    run = METHODS["asni-1"].train(trainer(root, progress=Progress(Console(file=text, width=1000))))
    return run, text.getvalue()


def assert_same_end(run: Run, expected: Run) -> None:
    for file in ("weights.safetensors", "mask.safetensors", "initial.safetensors"):
        assert (run.directory / file).read_bytes() == (expected.directory / file).read_bytes()


def flip(path: Path, seed: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[random.Random(seed).randrange(len(content))] ^= 1 << seed % 8
    path.write_bytes(content)


def test_the_last_two_checkpoints_are_kept(stopped: Path) -> None:
    assert sorted(path.name for path in directory_in(stopped).glob("checkpoint*")) == [
        "checkpoint-2.pt",
        "checkpoint-3.pt",
    ]


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(
    stopped: Path, undisturbed: Run, seed: int
) -> None:
    flip(directory_in(stopped) / "checkpoint-3.pt", seed)
    run, said = resumed(stopped)
    assert "asni-1/checkpoint-3.pt is damaged" in said
    assert "resuming after step 60 of 120" in said
    assert_same_end(run, undisturbed)


def test_without_a_sound_checkpoint_the_training_starts_again_and_says_so(stopped: Path, undisturbed: Run) -> None:
    for path in directory_in(stopped).glob("checkpoint*"):
        path.write_bytes(path.read_bytes()[:-1000])
    run, said = resumed(stopped)
    assert "checkpoint-2.pt is damaged" in said
    assert "checkpoint-3.pt is damaged" in said
    assert "from the beginning" in said
    assert_same_end(run, undisturbed)


def test_a_checkpoint_of_another_seed_is_not_used(stopped: Path, tmp_path: Path, undisturbed: Run) -> None:
    with pytest.raises(StoppedError):
        METHODS["asni-1"].train(trainer(tmp_path, seed=1, progress=StopAfter(STEPS_PER_EPOCH + 5)))
    other = experiment(tmp_path, seed=1).run("asni-1").directory / "checkpoint-1.pt"
    shutil.copy(other, directory_in(stopped) / "checkpoint-3.pt")
    run, said = resumed(stopped)
    assert "checkpoint-3.pt is a checkpoint of another run" in said
    assert_same_end(run, undisturbed)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_a_checkpoint_that_is_no_file_is_not_opened(stopped: Path, make: Callable[[Path], None]) -> None:
    path = directory_in(stopped) / "checkpoint-3.pt"
    path.unlink()
    make(path)
    with pytest.raises(AsniError, match=r"checkpoint-3\.pt: .*not a file"):
        resumed(stopped)


def test_a_run_that_is_started_again_by_another_process_ends_the_first(tmp_path: Path) -> None:
    class StartsAgain(StopAfter):
        def step(self) -> None:
            self.steps_left -= 1
            if self.steps_left == 0:
                path = directory_in(tmp_path) / "request.json"
                content = path.read_bytes()
                path.unlink()
                path.write_bytes(content)
                os.utime(path, ns=(0, 0))

    with pytest.raises(AsniError, match=r"asni-1 changed during the training"):
        METHODS["asni-1"].train(trainer(tmp_path, progress=StartsAgain(STEPS_PER_EPOCH + 5)))


@pytest.mark.parametrize("file", ["initial.safetensors", "environment.json"])
def test_a_first_file_that_was_damaged_before_the_run_resumed_is_written_again(
    stopped: Path, undisturbed: Run, file: str
) -> None:
    flip(directory_in(stopped) / file)
    run, said = resumed(stopped)
    assert f"{file} damaged" in said
    assert_same_end(run, undisturbed)
    run.require_sound()


def test_a_damaged_request_of_an_unfinished_run_is_named(stopped: Path) -> None:
    path = directory_in(stopped) / "request.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(AsniError, match=r"asni-1/request\.json: .*checksum"):
        resumed(stopped)


@pytest.fixture
def finished(undisturbed: Run, tmp_path: Path) -> Run:
    """A copy of the finished run, whose files may be changed."""
    copied = experiment(tmp_path).run("asni-1", settings={})
    shutil.copytree(undisturbed.directory, copied.directory)
    return copied


@pytest.mark.parametrize("file", names.RUN_FILES)
@pytest.mark.parametrize("seed", range(3))
def test_a_finished_run_with_a_changed_file_is_not_taken_as_done(finished: Run, file: str, seed: int) -> None:
    flip(finished.directory / file, seed)
    with pytest.raises(AsniError, match=rf"asni-1/{file}"):
        METHODS["asni-1"].train(trainer(finished.directory.parents[2]))


def test_a_number_changed_in_the_result_is_never_shown(finished: Run) -> None:
    path = finished.directory / "result.json"
    accuracy = json.loads(path.read_text())["accuracy"]
    path.write_text(path.read_text().replace(str(accuracy), str(accuracy + 1)))
    with pytest.raises(AsniError, match=r"asni-1/result\.json: .*checksum"):
        _ = finished.result


READERS: dict[str, Callable[[Run], object]] = {
    "mask.safetensors": lambda run: run.masks,
    "weights.safetensors": lambda run: run.weights,
    "initial.safetensors": lambda run: run.initial,
}


@pytest.mark.parametrize("file", READERS)
def test_tensors_of_another_run_are_not_read(finished: Run, file: str, tmp_path: Path) -> None:
    other = METHODS["asni-1"].train(trainer(tmp_path / "other", short_digits(2), seed=1))
    shutil.copy(other.directory / file, finished.directory / file)
    with pytest.raises(AsniError, match=rf"asni-1/{file} is not as the run left it"):
        READERS[file](finished)


def test_a_mask_that_a_dense_run_did_not_write_is_not_read(tmp_path: Path, undisturbed: Run) -> None:
    dense = METHODS["dense"].train(trainer(tmp_path, short_digits(1)))
    shutil.copy(undisturbed.directory / "mask.safetensors", dense.directory)
    with pytest.raises(AsniError, match=r"dense/mask\.safetensors was not written by this run"):
        _ = dense.masks


def test_a_finished_run_that_lost_a_file_is_not_taken_as_done(finished: Run) -> None:
    (finished.directory / "weights.safetensors").unlink()
    with pytest.raises(AsniError, match=r"cannot read .*asni-1/weights\.safetensors"):
        METHODS["asni-1"].train(trainer(finished.directory.parents[2]))


def test_a_run_without_its_request_is_no_run(finished: Run) -> None:
    (finished.directory / "request.json").unlink()
    with pytest.raises(AsniError, match=r"asni-1 has lost its request\.json.* result\.json.*Remove"):
        METHODS["asni-1"].train(trainer(finished.directory.parents[2]))


class RemovesTheRun(StopAfter):
    def __init__(self, step: int, remove: Path):
        super().__init__(step)
        self.remove = remove

    def step(self) -> None:
        self.steps_left -= 1
        if self.steps_left == 0:
            shutil.rmtree(self.remove)


@pytest.mark.parametrize("step", [5, 2 * STEPS_PER_EPOCH + 5, 4 * STEPS_PER_EPOCH])
def test_a_directory_that_is_removed_during_the_training_is_an_error(tmp_path: Path, step: int) -> None:
    remover = RemovesTheRun(step, directory_in(tmp_path))
    with pytest.raises(AsniError, match=r"asni-1 changed during the training: request\.json, "):
        METHODS["asni-1"].train(trainer(tmp_path, progress=remover))
    assert not directory_in(tmp_path).exists()
    assert METHODS["asni-1"].train(trainer(tmp_path)).finished


def test_what_killed_processes_had_begun_to_write_is_removed_by_the_next(stopped: Path) -> None:
    begun = [".checkpoint-3.pt.0123abcd", ".metrics.jsonl.89abcdef", ".result.json.00000000"]
    others = [".gitignore", ".notes.txt.0123abcd", ".lock"]
    for name in begun + others[:-1]:
        (directory_in(stopped) / name).write_text("half of")
    resumed(stopped)
    assert sorted(path.name for path in directory_in(stopped).glob(".*")) == sorted(others)


def test_the_checkpoints_of_a_run_that_was_killed_right_after_its_result_are_removed(finished: Run) -> None:
    (finished.directory / "checkpoint-4.pt").write_text("of no use")
    METHODS["asni-1"].train(trainer(finished.directory.parents[2]))
    assert not list(finished.directory.glob("checkpoint*"))


def test_weights_that_diverge_in_the_last_step_are_never_a_result(tmp_path: Path) -> None:
    with pytest.raises(AsniError, match=r"linear1\.weight of broken holds NaN .*epoch 4\. .*kept in .*--lr"):
        trainer(tmp_path).train("broken", diverging_in_step(4 * STEPS_PER_EPOCH))
    left = {path.name for path in (experiment(tmp_path).home / "broken").iterdir()}
    assert not left & {"result.json", "weights.safetensors", "checkpoint-4.pt"}


def test_two_that_draw_the_same_figures_at_the_same_time_both_succeed(undisturbed: Run) -> None:
    home = undisturbed.directory.parent
    with ThreadPoolExecutor(2) as two:
        both = list(two.map(investigation.draw_figures, [home, home]))
    assert both == [home / "figures"] * 2
    assert len(list((home / "figures").iterdir())) == 10
    assert not (home / ".figures").exists()
