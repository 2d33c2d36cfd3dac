"""Recipes from files: a user's own, and what is said about a wrong one."""

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
    assert (recipe.final_sparsity, recipe.pruning.beta, recipe.gamma) == (0.9, 0.5, 4.0)
    assert recipe.paper.row is None
    assert recipe.override(epochs=20).gamma == 2.0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("epochs = 40", "epoch = 40", "training.epoch: no such key; did you mean 'epochs'?"),
        ("epochs = 40", "", "training.epochs: missing"),
        ("epochs = 40", "epochs = 0", "training.epochs = 0: should be greater than or equal to 1"),
        ("epochs = 40", "epochs = '40'", "training.epochs = '40': should be a valid integer"),
        ("epochs = 40", "epochs = 4.5", "training.epochs = 4.5: should be a valid integer"),
        ("lr = 1", "lr = true", "training.lr = True: should be a valid number"),
        ('"sgd"', '"sdg"', "training.optimizer = 'sdg': should be 'adam', 'adamw' or 'sgd'"),
        ('"sgd"', '"adam"', "training: momentum and nesterov are for optimizer = 'sgd', not 'adam'"),
        ("momentum = 0.9", "nesterov = true", "training: nesterov = true needs a momentum above 0"),
        ("momentum = 0.9", "delta = 0.1", "training: delta and warmup_epochs are for lr_policy = 'cosine'"),
        ("lr = 1", "lr = 1\nlr_policy = 'cosine'\nwarmup_epochs = 40", "warmup_epochs = 40 must be below epochs = 40"),
        ('"my_networks:tiny"', '"fc"', "network_options are for a network named by import path, not for 'fc'"),
        (
            "width = 4",
            "width = 2026-11-16",
            "network_options may hold texts, finite numbers, true and false, and arrays",
        ),
        ("width = 4", "width = nan", "network_options may hold texts, finite numbers, true and false, and arrays"),
        ("[pruning]", "[prunning]", "prunning: no such key; did you mean 'pruning'?"),
        (
            'dataset = "mnist"',
            'dataset = "mnist"\nlearning_rate = 3',
            "learning_rate: no such key (known: title, dataset, network, network_options, training, pruning, paper)",
        ),
        (
            'dataset = "mnist"',
            'dataset = "mnist"\nmomentum = 3',
            "momentum: no such key; did you mean 'training.momentum'",
        ),
        ('dataset = "mnist"', 'dataset = "mnist"\nname = "x"', "name: no such key"),
        ('dataset = "mnist"', 'dataset = "mnist"\noverrides = { epochs = 2 }', "overrides: no such key"),
        ("sparsity = 0.9", "sparsity = 90", "pruning.sparsity = 90: should be less than 1 (a fraction of the prunable"),
        ("sparsity = 0.9", "", "pruning: needs either alpha (percent) or sparsity (fraction)"),
        (
            "sparsity = 0.9",
            "alpha = 90\nsparsity = 0.9",
            "pruning: needs either alpha (percent) or sparsity (fraction)",
        ),
        ("sparsity = 0.9", "alpha = 120", "pruning.alpha = 120.0: would prune 118.7% of the prunable weights"),
        ("sparsity = 0.9", "alpha = 90\nbeta = 1\ngamma = 1e-6", "would prune 0.0% of the prunable weights"),
        ("lr = 1", "lr = ", "not valid TOML: Invalid value (at line 9, column 6)"),
    ],
)
def test_a_wrong_file_is_refused_by_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in OWN
    path = write(tmp_path, OWN.replace(old, new))
    with pytest.raises(UsageError) as refusal:
        load(path)
    assert message in str(refusal.value)
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
    with pytest.raises(UsageError, match="no recipe 'mnist-cf'; did you mean 'mnist-fc'"):
        load("mnist-cf")
    with pytest.raises(UsageError, match=r"no recipe file 'own\.toml'"):
        load("own.toml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load(f"{tmp_path}/")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"title = '\xff'")
    with pytest.raises(UsageError, match="not a text file in UTF-8"):
        load(str(binary))
