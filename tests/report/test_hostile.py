"""One bad run costs itself alone: it is named with the reason, and the page shows the others."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asni.report import building, collect, collecting, fitted, fitting, page
from asni.report.collecting import Collection
from asni.report.commands import command
from asni.report.notices import Cause, Notice
from tests.report.made_runs import WEIGHT, make_run, recipe, told
from tests.runs.sealing import seal

INITIAL = {"first.weight": WEIGHT}


def shown(root: Path) -> Collection:
    """What the page holds, which can be made and written."""
    collection = fitted(collect(root))
    assert page(collection).encode()
    return collection


def the_warning(root: Path) -> str:
    """The warning about the run `bad`, beside which the run `good` is shown."""
    make_run(root / "good", seed=1, initial=INITIAL)
    found = shown(root)
    assert [run.path for run in found.runs] == ["good"]
    (warning,) = told(found)
    assert warning.startswith("bad")
    return warning


def change(path: Path, edit: Callable[[Any], None]) -> None:
    """Change a JSON file and all checksums, as an attacker would."""
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
    seal(path.parent)


@pytest.mark.parametrize(
    "numbers",
    [
        {"sparsity": 5e-324},
        {"sparsity": 5e-324, "total_sparsity": 1 - 1e-16, "nonzeros": 2**53},
        {"sparsity": 1e308},
        {"sparsity": -0.1},
        {"sparsity": 1.5},
        {"total_sparsity": 1e308},
        {"mac_density": 1.1},
        {"nonzeros": 1e308},
        {"nonzeros": -1},
        {"accuracy": 1e300},
        {"accuracy": -5},
        {"seconds": 1e308},
        {"seconds": 10**300},
    ],
)
@pytest.mark.parametrize("file", ["result.json", "metrics.jsonl"])
def test_a_number_that_no_training_records_is_named(tmp_path: Path, numbers: dict[str, float], file: str) -> None:
    directory = make_run(tmp_path / "bad", initial=INITIAL)
    if file == "result.json":
        change(directory / file, lambda result: result.update(numbers))
    else:
        *rows, last = (directory / file).read_text().splitlines()
        (directory / file).write_text("\n".join([*rows, json.dumps(json.loads(last) | numbers)]))
        seal(directory)
    warning = the_warning(tmp_path)
    assert f"bad/{file}" in warning
    assert any(key in warning for key in numbers)


def test_the_smallest_sparsities_are_possible(tmp_path: Path) -> None:
    make_run(tmp_path / "run", result={"sparsity": 5e-324, "total_sparsity": 5e-324}, initial=INITIAL)
    assert [run.path for run in shown(tmp_path).runs] == ["run"]


@pytest.mark.parametrize("number", ["1" * 5000, "1e400", "-Infinity", "[" * 100_000])
@pytest.mark.parametrize("key", ["seed", "recipe"])
def test_a_request_of_endless_digits_or_depth_is_named(tmp_path: Path, number: str, key: str) -> None:
    directory = make_run(tmp_path / "bad", initial=INITIAL)
    request = json.loads((directory / "request.json").read_text()) | {key: "HERE"}
    (directory / "request.json").write_text(json.dumps(request).replace('"HERE"', number))
    (directory / "result.json").unlink()  # no digest is compared before the file is read
    assert "bad/request.json" in the_warning(tmp_path)


@pytest.mark.parametrize("seed", [-1, 2**64, 10**4000])
def test_a_seed_beyond_64_bits_is_named(tmp_path: Path, seed: int) -> None:
    make_run(tmp_path / "bad", seed=seed, initial=INITIAL)
    assert "bad/request.json: seed" in the_warning(tmp_path)


@pytest.mark.parametrize(
    "edit",
    [
        lambda request: request.update(stage="\ud800"),
        lambda request: request.update(method="\udfff"),
        lambda request: request["recipe"].update(name="\ud800"),
        lambda request: request["recipe"].update(title="\ud800"),
        lambda request: request.update(settings={"packed_file": "\ud800"}),
        lambda request: request.update(data={"shape": [1], "classes": 2, "checksum": "\ud800"}),
    ],
)
def test_half_of_a_surrogate_pair_is_no_name(tmp_path: Path, edit: Callable[[Any], None]) -> None:
    change(make_run(tmp_path / "bad", initial=INITIAL) / "request.json", edit)
    assert "bad/request.json" in the_warning(tmp_path)


def test_half_of_a_surrogate_pair_costs_the_environment(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "bad", initial=INITIAL)
    change(directory / "environment.json", lambda environment: environment.update(cpu="\ud800"))
    found = shown(tmp_path)
    assert found.runs[0].environment == {}
    assert "bad/environment.json" in told(found)[0]


def test_file_names_that_are_not_utf_8_stay_apart(tmp_path: Path) -> None:
    for number, name in enumerate([b"run\xff", b"run\xfe"]):
        make_run(tmp_path / os.fsdecode(name), seed=number)
    found = shown(tmp_path)
    assert [run.path for run in found.runs] == ["run\\udcfe", "run\\udcff"]
    assert [warning.split()[0] for warning in told(found)] == ["run\\udcfe", "run\\udcff"]


@pytest.mark.parametrize("file", ["request.json", "environment.json", "metrics.jsonl", "result.json"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, file: str) -> None:
    path = make_run(tmp_path / "bad", initial=INITIAL) / file
    path.unlink()
    os.mkfifo(path)
    found = shown(tmp_path)
    assert f"bad/{file}: it is" in told(found)[0]
    assert len(found.runs) == (file == "environment.json")


@pytest.mark.parametrize("file", ["weights.safetensors", "mask.safetensors", "initial.safetensors"])
def test_a_pipe_instead_of_weights_costs_the_weights(tmp_path: Path, file: str) -> None:
    path = make_run(tmp_path / "bad", initial=INITIAL) / file
    path.unlink()
    os.mkfifo(path)
    found = shown(tmp_path)
    assert len(found.runs) == 1
    assert f"bad/{file}: it is" in told(found)[0]


@pytest.mark.parametrize("file", ["request.json", "metrics.jsonl", "result.json", "weights.safetensors"])
def test_a_file_that_is_a_link_out_of_the_directory_is_not_read(tmp_path: Path, file: str) -> None:
    elsewhere = make_run(tmp_path / "elsewhere")
    path = make_run(tmp_path / "runs" / "bad", initial=INITIAL) / file
    path.unlink()
    path.symlink_to(elsewhere / file)
    assert f"bad/{file} is a link that leaves" in the_warning(tmp_path / "runs")


def test_a_link_to_an_endless_device_is_not_read(tmp_path: Path) -> None:
    path = make_run(tmp_path / "bad", initial=INITIAL) / "metrics.jsonl"
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "bad/metrics.jsonl is a link that leaves" in the_warning(tmp_path)


def test_a_file_that_is_a_link_inside_the_directory_is_read(tmp_path: Path) -> None:
    first = make_run(tmp_path / "runs" / "first", initial=INITIAL)
    second = make_run(tmp_path / "runs" / "second", initial=INITIAL)
    (second / "weights.safetensors").unlink()
    (second / "weights.safetensors").symlink_to(first / "weights.safetensors")
    (tmp_path / "linked").symlink_to(tmp_path / "runs")
    found = shown(tmp_path / "linked")
    assert [len(run.layers) for run in found.runs] == [1, 1]
    assert told(found) == []


def test_a_directory_that_is_a_link_out_of_the_directory_is_not_looked_into(tmp_path: Path) -> None:
    make_run(tmp_path / "elsewhere" / "run")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "bad").symlink_to(tmp_path / "elsewhere")
    assert "link that leaves the directory of the report. Give its target" in the_warning(tmp_path / "runs")


def test_a_link_to_itself_is_nothing(tmp_path: Path) -> None:
    make_run(tmp_path / "run", initial=INITIAL)
    (tmp_path / "loop").symlink_to("loop")
    found = shown(tmp_path)
    assert [run.path for run in found.runs] == ["run"]
    assert told(found) == []


@pytest.mark.parametrize("file", ["request.json", "metrics.jsonl", "result.json"])
def test_a_huge_file_is_refused_by_its_size(tmp_path: Path, file: str) -> None:
    os.truncate(make_run(tmp_path / "bad", initial=INITIAL) / file, 10**10)
    assert f"bad/{file}: it has 10,000,000,000 bytes" in the_warning(tmp_path)


def test_huge_weights_are_refused_by_their_size(tmp_path: Path) -> None:
    os.truncate(make_run(tmp_path / "bad", initial=INITIAL) / "weights.safetensors", 10**10)
    found = shown(tmp_path)
    assert len(found.runs) == 1
    assert "bad/weights.safetensors: it has 10,000,000,000 bytes" in told(found)[0]


def make_nested(root: Path, depth: int, name: str) -> None:
    """Step by step, since the whole path may be too long for the system."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        here, above = os.open(name, os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(here)


@pytest.fixture
def nested(tmp_path: Path) -> Iterator[Path]:
    """A directory whose content is too deep to be removed by pytest."""
    root = tmp_path / "runs"
    root.mkdir()
    yield root
    subprocess.run(["rm", "-r", root], check=True)


def test_a_run_below_many_directories_is_found(nested: Path) -> None:
    make_nested(nested, 1500, "d")
    make_run(nested.joinpath(*1500 * "d", "run"), initial=INITIAL)
    (run,) = shown(nested).runs
    assert run.path == 1500 * "d/" + "run"


def test_a_path_that_is_too_long_is_named(nested: Path) -> None:
    make_nested(nested, 20, "bad" + 200 * "x")
    assert "cannot read the directory (File name too long)" in the_warning(nested)


def test_a_schedule_of_a_hundred_thousand_epochs_is_not_solved(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", initial=INITIAL)

    def lengthen(request: Any) -> None:
        request["recipe"]["training"]["epochs"] = 100_000
        request["recipe"]["pruning"]["least"] = 0.001

    change(directory / "request.json", lengthen)
    found = shown(tmp_path)
    assert [run.path for run in found.runs] == ["run"]
    assert building._data(found, 20, None)["groups"][0]["schedule"] is None


def test_a_schedule_that_overflows_is_named(tmp_path: Path) -> None:
    asked = recipe(pruning=recipe().pruning.model_copy(update={"gamma": 1e308, "epochs": 1}))
    make_run(tmp_path / "bad", asked=asked, initial=INITIAL)
    assert "bad" in the_warning(tmp_path)


@pytest.mark.parametrize("name", ["layer" + "1" * 5000 + ".0.conv", "²", "x" * 100_000])
def test_a_strange_name_of_a_layer_is_a_name(tmp_path: Path, name: str) -> None:
    make_run(tmp_path / "run", weights={f"{name}.weight": WEIGHT}, initial=INITIAL)
    (run,) = shown(tmp_path).runs
    assert [layer.name for layer in run.layers] == [name]


def test_networks_of_the_smallest_and_of_the_largest_weights_are_drawn_together(tmp_path: Path) -> None:
    for seed, scale in enumerate((1e-38, 1.0, 1e38)):
        weights = {"first.weight": WEIGHT * np.float32(scale)}
        make_run(tmp_path / str(seed), seed=seed, weights=weights, initial=weights)
    assert len(shown(tmp_path).runs) == 3


def test_more_layers_than_can_be_shown_cost_the_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "_MOST_LAYERS", 2)
    make_run(tmp_path / "run", weights={f"{name}.weight": WEIGHT for name in "abc"}, initial=INITIAL)
    found = shown(tmp_path)
    assert found.runs[0].layers == []
    assert "run/weights.safetensors holds 3 layers" in told(found)[0]


def test_a_different_key_in_every_epoch_is_refused(tmp_path: Path) -> None:
    rows = [{"epoch": epoch, f"key-{epoch}": 1} for epoch in range(10_000)]
    path = make_run(tmp_path / "bad", initial=INITIAL) / "metrics.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    seal(path.parent)
    assert "10,003 different keys" in the_warning(tmp_path)


@pytest.mark.parametrize(
    "edit",
    [
        lambda request: request.update(stage=6_000_000 * "x", method=6_000_000 * "x"),
        lambda request: request.update(settings={"packed_file": 6_000_000 * "x"}),
    ],
)
def test_a_run_larger_than_the_page_is_left_out(tmp_path: Path, edit: Callable[[Any], None]) -> None:
    directory = make_run(tmp_path / "bad", initial=INITIAL)
    change(directory / "request.json", edit)
    (directory / "result.json").unlink()
    make_run(tmp_path / "good", seed=1, initial=INITIAL)
    found = shown(tmp_path)
    assert [run.path for run in found.runs] == ["good"]
    assert "bytes of the page" in told(found)[-1]


def test_as_few_of_the_largest_runs_as_possible_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, length in enumerate((3000, 1000, 2000, 10)):
        make_run(tmp_path / str(number), asked=recipe(title=length * "x"), seed=number, initial=INITIAL)
    whole = len(building._filled(building._data(collect(tmp_path), 20, None)).encode())
    monkeypatch.setattr(fitting, "_LARGE", 500)
    monkeypatch.setattr(building, "MOST_BYTES", whole)
    found = shown(tmp_path)
    assert [run.path for run in found.runs] == ["1", "2", "3"]
    assert told(found)[0].startswith("0 was skipped")


def test_a_message_that_quotes_a_long_name_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    change(make_run(tmp_path / "bad") / "request.json", lambda request: request.update(seed=1_000_000 * "x"))
    warning = the_warning(tmp_path)
    assert len(warning) < 1100
    assert warning.endswith("not an integer")


def test_thousands_of_notices_are_counted_on_the_page(tmp_path: Path) -> None:
    found = Collection("many", [], [Notice(Cause.SKIPPED, f"run-{number}") for number in range(3000)])
    assert '"summary":"3,000 runs were skipped"' in page(found)
    assert '"run-999","and 2,000 more"]' in page(found)


@pytest.mark.parametrize("key", ["recipe", "stage", "seed", "precision", "method", "settings"])
@pytest.mark.parametrize("value", [[], None, True, 1e308, [[[]]]])
def test_a_value_of_another_kind_is_named(tmp_path: Path, key: str, value: object) -> None:
    change(make_run(tmp_path / "bad") / "request.json", lambda request: request.update({key: value}))
    assert f"bad/request.json: {'no recipe' if key == 'recipe' else key}" in the_warning(tmp_path)


def test_a_header_that_promises_more_than_the_file_holds_costs_the_layers(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", initial=INITIAL)
    header = b'{"a.weight":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,4000000000000]}}'
    (directory / "weights.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    seal(directory)
    assert "without its layers: cannot read run/weights.safetensors" in told(shown(tmp_path))[0]


def test_nothing_that_a_run_raises_breaks_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OverflowError("too large")

    make_run(tmp_path / "bad", stage="dense")
    make_run(tmp_path / "good", initial=INITIAL)
    monkeypatch.setattr(building, "command", lambda run: refuse() if run.path == "bad" else command(run))
    found = shown(tmp_path)
    assert [run.path for run in found.runs] == ["good"]
    assert told(found)[-1] == "bad was skipped: it cannot be drawn (OverflowError: too large)"
