"""A recipe that somebody else wrote: whatever it holds, it is a recipe, or it is refused in words."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asni.errors import UsageError
from asni.recipes import Recipe, load
from asni.recipes.checking import checked
from asni.recipes.loading import MOST_BYTES
from tests.recipes.test_loading import OWN, write


def refusal(name: str) -> str:
    with pytest.raises(UsageError) as raised:
        load(name)
    return str(raised.value)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (os.mkfifo, "FIFO"),
        (lambda path: path.symlink_to("/dev/zero"), "device"),
        (lambda path: path.symlink_to(path), "links"),
        (lambda path: path.write_bytes(bytes(MOST_BYTES + 1)), r"1,048,577 bytes.* 1,048,576"),
    ],
)
def test_what_is_no_small_file_is_not_read(tmp_path: Path, make: Callable[[Path], object], why: str) -> None:
    make(tmp_path / "own.toml")
    with pytest.raises(UsageError, match=rf"own\.toml: cannot be read: .*{why}"):
        load(str(tmp_path / "own.toml"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("epochs = 40", "epochs = " + 5000 * "9", "line 6: a number has a thousand digits"),
        ("epochs = 40", "epochs = 0x" + 20000 * "f", "training.epochs = <int>: "),
        ("lr = 1", "lr = 0x" + 20000 * "f", "training.lr = <int>: "),
        ("lr = 1", "lr = inf", "training.lr = inf: "),
        ("lr = 1", "lr = nan", "training.lr = nan: "),
        ("lr = 1", "lr = 1\nweight_decay = inf", "training.weight_decay = inf: "),
        ("lr = 1", "lr = 1\nthreads = 100_000", "training.threads = 100000: should be less than or equal to 1024"),
        (
            "epochs = 40",
            "epochs = 1_000_000_000",
            "training.epochs = 1000000000: should be less than or equal to 100000",
        ),
        ("epochs = 40", "epochs = 1\nsteps_per_epoch = 1_000_000_000", "training.steps_per_epoch = 1000000000: "),
        ("batch_size = 100", "batch_size = 0x" + 20000 * "f", "training.batch_size = <int>: "),
        ("sparsity = 0.9", "sparsity = 0.9\nfloor = 0x" + 20000 * "f", "pruning.floor"),
        ("sparsity = 0.9", "alpha = 1e308", "pruning.alpha = 1e+308: "),
        ("sparsity = 0.9", "sparsity = 0.9\ngamma = 5e-324", "pruning.gamma = 5e-324: "),
        ("sparsity = 0.9", "sparsity = 0.9\n[paper]\nnonzeros = 0x" + 20000 * "f", "paper.nonzeros = <int>: "),
        ("width = 4", "width = " + 5000 * "[" + 5000 * "]", "nested too deeply"),
        ("width = 4", "width = " + 300 * "[" + 300 * "]", "network_options: may contain"),
        ("[training]", 5000 * "a." + "a = 1\n[training]", "line 5: a key has more than 29 dots"),
        ("[training]", 5000 * "'a' . " + "a = 1\n[training]", "line 5: a key has more than 29 dots"),
        ('"mnist"', '"~nobody-of-that-name/x.npz"', "dataset = '~nobody-of-that-name/x.npz': there is no home folder"),
        ('"mnist"', r'"./a\u0000b.npz"', r"\x00b.npz' must be one line"),
        ('"mnist"', r'"cats\nasni: done"', r"dataset: 'cats\nasni: done' must be one line"),
        ('"sgd"', r'"sgd\u001b[2J"', r"training.optimizer: 'sgd\x1b[2J' must be one line"),
        ("[training]", '"evil\\nasni: done" = 1\n[training]', r": 'evil\nasni: done': no such key"),
        ("epochs = 40", "epochs = '" + 100_000 * "x" + "'", "training.epochs = 'xxx"),
    ],
)
def test_what_would_crash_or_fool_is_refused_by_key_or_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in OWN
    path = write(tmp_path, OWN.replace(old, new))
    message = refusal(path)
    assert said in message
    assert all(line.startswith(f"{path}: ") and len(line) < 600 for line in message.split("\n"))


def test_of_a_thousand_mistakes_the_first_are_said(tmp_path: Path) -> None:
    lines = refusal(write(tmp_path, "\n".join(f"key{number} = 1" for number in range(1000)))).splitlines()
    assert len(lines) == 41
    assert lines[-1].endswith("and 964 more")


@pytest.mark.parametrize("name", ["\x1b[31m.toml", "a\nb.toml", "a\udc80.toml", f"{101 * 'x'}.toml", "...toml"])
def test_a_file_whose_name_cannot_name_runs_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(OWN)
    message = refusal(str(tmp_path / name))
    assert "name: " in message
    assert message.isprintable()


@pytest.mark.parametrize("words", ["数字\u3000実験", "👩\u200d💻 sparse", "می\u200cخ", "10\u00a0%", "Zeilen\u00adende"])
def test_names_titles_and_paths_may_be_of_any_language(tmp_path: Path, words: str) -> None:
    path = tmp_path / f"{words}.toml"
    path.write_text(f'title = "{words}"\n' + OWN.replace('"mnist"', f'"./{words}"'))
    recipe = load(str(path))
    assert (recipe.name, recipe.title) == (words, words)
    assert recipe.dataset.endswith(words)


def test_an_unknown_key_of_an_unknown_section_is_not_followed_by_an_empty_list() -> None:
    data = load("digits-fc").model_dump() | {"overrides": {"zzzz.qqqq": 1}}
    with pytest.raises(UsageError, match=r"overrides\.zzzz\.qqqq: no such key$"):
        checked(Recipe, data, "evil.asni")


def test_an_epoch_of_more_images_than_its_order_fits_in_memory_is_refused(tmp_path: Path) -> None:
    recipe = load(write(tmp_path, OWN.replace("epochs = 40", "epochs = 40\nsteps_per_epoch = 200_000")))
    with pytest.raises(UsageError, match=r"steps_per_epoch = 200,000 times batch_size = 100 .*10,000,000"):
        recipe.steps_per_epoch(60_000)
    assert recipe.override(batch_size=50).steps_per_epoch(60_000) == 200_000


WORDS = st.text(max_size=5) | st.sampled_from(
    ["adam", "sgd", "cosine", "a:b", "digits", "fc", "./x", "lamp", "crop-flip"]
)
NUMBERS = st.integers() | st.floats() | st.sampled_from([10**400, 0.5, 1e-12, 1e308, 5e-324, 2, 40])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def section(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """A section of a recipe with any values, or none, under the keys that it has."""
    model = Recipe.model_fields[name].annotation
    assert model is not None
    return st.fixed_dictionaries({}, optional=dict.fromkeys(model.model_fields, VALUES))


SECTIONS = {name: section(name) for name in ("training", "pruning", "lottery", "paper", "overrides")}
KEYS = {key: SECTIONS.get(key, VALUES) | VALUES for key in Recipe.model_fields}


@given(data=st.fixed_dictionaries({}, optional=KEYS) | st.dictionaries(st.text(max_size=5), VALUES, max_size=5))
def test_any_dictionary_is_a_recipe_or_refused(data: dict[str, Any]) -> None:
    sound = load("digits-fc").model_dump()
    training, pruning = data.get("training"), data.get("pruning")
    require_recipe_or_refusal(data)
    require_recipe_or_refusal({**sound, **data})
    if isinstance(training, dict):
        require_recipe_or_refusal({**sound, "training": {**sound["training"], **training}})
    if isinstance(pruning, dict):
        require_recipe_or_refusal({**sound, "pruning": pruning})


def require_recipe_or_refusal(data: dict[str, Any]) -> None:
    with refusals_allowed("any: "):
        recipe = checked(Recipe, data, "any")
        assert Recipe.model_validate(recipe.model_dump()) == recipe


TOKENS = st.sampled_from(["[", "]", "{", "}", "=", ".", ",", "\n", '"', "'", "#", "1e9", "-", "0x", "inf", "[lottery]"])
TEXT = st.text(st.characters(codec="utf-8"), max_size=40) | st.lists(TOKENS, max_size=20).map("".join)


@given(text=TEXT)
def test_any_text_is_a_recipe_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    for written in (text, OWN + text, OWN.replace("epochs = 40", f"epochs = {text}")):
        path.write_text(written)
        with refusals_allowed(f"{path}: "):
            assert load(str(path)).name == "any"


@contextmanager
def refusals_allowed(start: str) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        if not str(error).startswith(start):
            raise
