"""Recipes from files: a user's own, and what is said about a wrong one."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

import asni.recipes
from asni.errors import UsageError
from asni.recipes import load, names

OWN = """
dataset = "mnist"
network = "my_networks:tiny"
network_options = { width = 4 }
[training]
epochs = 40
batch_size = 100
optimizer = "sgd"
lr = 1
momentum = 0.9
[pruning]
sparsity = 0.9
"""


def write(folder: Path, text: str) -> str:
    path = folder / "own.toml"
    path.write_text(text)
    return str(path)


def test_names_are_the_files_of_the_package() -> None:
    found = [file.name.removesuffix(".toml") for file in files(asni.recipes).iterdir() if file.name.endswith(".toml")]
    assert sorted(names()) == sorted(found)
    assert [load(name).name for name in names()] == names()


def test_a_users_file_needs_only_what_has_no_default(tmp_path: Path) -> None:
    recipe = load(write(tmp_path, OWN))
    assert (recipe.name, recipe.variant_name) == ("own", "own")
    assert recipe.network_options == {"width": 4}
    assert (recipe.schedule().final, recipe.pruning.beta, recipe.gamma) == (0.9, 0.5, 4.0)
    assert recipe.paper.row is None
    assert recipe.override(epochs=20).gamma == 2.0


def test_a_users_file_may_set_the_authors_rule_and_the_lotterys_rounds(tmp_path: Path) -> None:
    recipe = load(write(tmp_path, OWN + "least = 0.001\n[lottery]\nrounds = 3\nrewind = 100\n"))
    assert recipe.schedule().least == 0.001
    assert recipe.lottery.model_dump() == {"rate": None, "rounds": 3, "rewind": 100}
    with pytest.raises(UsageError, match=r"lottery: .*rate.*rounds"):
        load(write(tmp_path, OWN + "[lottery]\nrounds = 3\nrate = 0.2\n"))


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("mnist", "mnist"),
        ("my_data:load", "my_data:load"),
        ("./flowers", "{folder}/flowers"),
        ("flowers.npz", "{folder}/flowers.npz"),
        ("../flowers/", "{parent}/flowers"),
        ("/data/flowers", "/data/flowers"),
    ],
)
def test_a_path_of_data_is_relative_to_the_recipe(tmp_path: Path, written: str, found: str) -> None:
    recipe = load(write(tmp_path, OWN.replace('"mnist"', f'"{written}"')))
    assert recipe.dataset == found.format(folder=tmp_path, parent=tmp_path.parent)


def test_data_in_the_current_directory_is_the_same_however_the_recipe_is_spelt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, OWN.replace('"mnist"', '"./flowers"'))
    assert load("own.toml").dataset == load("./own.toml").dataset == "./flowers"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epochs = 40", "epoch = 40", r"training\.epoch: .*'epochs'"),
        ("epochs = 40", "", r"training\.epochs: missing"),
        ("epochs = 40", "epochs = 0", r"training\.epochs = 0: .* 1\b"),
        ("epochs = 40", "epochs = '40'", r"training\.epochs = '40': .*integer"),
        ("epochs = 40", "epochs = 4.5", r"training\.epochs = 4\.5: .*integer"),
        ("lr = 1", "lr = true", r"training\.lr = True: .*number"),
        ('"sgd"', '"sdg"', r"training\.optimizer: .*'sdg'; did you mean 'sgd'.*adam, adamw, package\.module:Class"),
        ('"sgd"', "'a:B'", r"training: momentum.*'sgd'.*'a:B'"),
        ("momentum = 0.9", "optimizer_options = { foreach = true }", r"training: optimizer_options.*:Class.*'sgd'"),
        (
            '"sgd"\nlr = 1\nmomentum = 0.9',
            '"a:B"\nlr = 1\noptimizer_options = { lr = 0.1 }',
            r"training: optimizer_options.* lr",
        ),
        (
            '"sgd"\nlr = 1\nmomentum = 0.9',
            '"a:B"\nlr = 1\nweight_decay = 0.1\noptimizer_options = { weight_decay = 0.1 }',
            r"training: weight_decay .*twice",
        ),
        ('dataset = "mnist"', 'dataset = "mnist"\ndataset_options = { size = [8, 8] }', r"dataset_options.*'mnist'"),
        ('"sgd"', '"adam"', r"training: momentum.*nesterov.*'sgd'.*'adam'"),
        ("momentum = 0.9", "nesterov = true", r"training: nesterov.*momentum"),
        ("momentum = 0.9", "delta = 0.1", r"training: delta.*warmup_epochs.*lr_policy = 'cosine'"),
        (
            "lr = 1",
            "lr = 1\nlr_policy = 'cosine'\nwarmup_epochs = 40",
            r"training: warmup_epochs = 40 .* epochs = 40",
        ),
        ('"my_networks:tiny"', '"fc"', r"network_options.*'fc'"),
        ("width = 4", "width = 2026-11-16", r"network_options.*\(.*date"),
        ("width = 4", "width = nan", r"network_options.*\(.*float"),
        ("[pruning]", "[prunning]", r"prunning: .*'pruning'"),
        (
            'dataset = "mnist"',
            'dataset = "mnist"\nlearning_rate = 3',
            r"learning_rate: .*title, dataset, dataset_options, network, network_options, training, pruning, lottery",
        ),
        ('dataset = "mnist"', 'dataset = "mnist"\nmomentum = 3', r"momentum: .*'training\.momentum'"),
        ('dataset = "mnist"', 'dataset = "mnist"\nname = "x"', r"name: no such key"),
        ('dataset = "mnist"', 'dataset = "mnist"\noverrides = { epochs = 2 }', r"overrides: no such key"),
        ("sparsity = 0.9", "sparsity = 90", r"pruning\.sparsity = 90: .* 1 .*fraction"),
        ("sparsity = 0.9", "", r"pruning: .*alpha.*sparsity"),
        ("sparsity = 0.9", "alpha = 90\nsparsity = 0.9", r"pruning: .*alpha.*sparsity"),
        ("sparsity = 0.9", "alpha = 120", r"pruning: alpha = 120\.0, .* 118\.7%"),
        ("sparsity = 0.9", "alpha = 90\nbeta = 1\ngamma = 1e-6", r"pruning: alpha = 90\.0, .*gamma = 1e-06: .* 0\.0%"),
        ("lr = 1", "lr = ", r"TOML.*line 9, column 6"),
    ],
)
def test_a_wrong_file_is_refused_by_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in OWN
    path = write(tmp_path, OWN.replace(old, new))
    with pytest.raises(UsageError) as refusal:
        load(path)
    assert re.search(message, str(refusal.value))
    assert path in str(refusal.value)


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, OWN.replace("epochs = 40", "epochs = 0").replace("lr = 1", "lr = -1"))
    with pytest.raises(UsageError) as refusal:
        load(path)
    assert [line.split(": ")[1] for line in str(refusal.value).splitlines()] == [
        "training.epochs = 0",
        "training.lr = -1",
    ]


def test_a_name_or_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'mnist-cf'.*'mnist-fc'"):
        load("mnist-cf")
    with pytest.raises(UsageError, match=r"'own\.toml'.*mnist-fc"):
        load("own.toml")
    with pytest.raises(UsageError, match=f"{tmp_path}.*Is a directory"):
        load(f"{tmp_path}/")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"title = '\xff'")
    with pytest.raises(UsageError, match=r"binary\.toml.*UTF-8.* 9\b"):
        load(str(binary))
