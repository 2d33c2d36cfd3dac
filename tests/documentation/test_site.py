"""The site builds without a broken link, and its numbers are those of results/."""

import json
import re
import shutil
from pathlib import Path
from statistics import mean, stdev

import pytest

import asni
from docs.__main__ import build
from docs.links import broken
from tests.documentation.blocks import REPOSITORY

DOCS = REPOSITORY / "docs"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder in which the site can be built."""
    shutil.copy(REPOSITORY / "mkdocs.yml", tmp_path)
    return tmp_path


def test_it_builds_and_no_link_is_broken(project: Path) -> None:
    assert build(project) == []
    pages = {page.relative_to(project / "site").as_posix() for page in (project / "site").rglob("*.html")}
    assert {"index.html", "shrink.html", "api.html", "schedule.html", "CHANGELOG.html"} <= pages


def test_a_page_of_the_contents_that_is_not_there_fails_the_build(project: Path) -> None:
    config = project / "mkdocs.yml"
    config.write_text(config.read_text().replace("shrink.md", "shrunk.md"))
    assert "shrunk.md" in "".join(build(project))


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="other.html#here">', None),
        ('<a href="https://example.org/">', None),
        ('<a href="nowhere.html">', "index.html links to nowhere.html, which is not there"),
        ('<a href="other.html#there">', "index.html links to other.html#there, which is not there"),
        ('<img src="nothing.png">', "index.html links to nothing.png, which is not there"),
        ('<script src="https://example.org/a.js">', "index.html loads https://example.org/a.js"),
    ],
)
def test_a_broken_link_is_found(html: str, problem: str | None, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(html)
    (tmp_path / "other.html").write_text('<p id="here">')
    assert broken(tmp_path) == ([] if problem is None else [problem])


def test_every_page_is_in_the_contents() -> None:
    listed = set(re.findall(r"[\w-]+\.md$", (REPOSITORY / "mkdocs.yml").read_text(), re.MULTILINE))
    assert {f"{page.stem}.md" for page in (*DOCS.glob("*.md"), *DOCS.glob("*.ipynb"))} <= listed


def test_every_public_name_is_in_the_reference() -> None:
    shown = set(re.findall(r"^::: asni\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE))
    assert set(asni.__all__) <= shown


def test_the_table_of_methods_is_that_of_the_results() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (.*?) \| (.*?) \| (.*?) \|$", (DOCS / "methods.md").read_text(), re.MULTILINE)
    measured = {name: by_method(name) for name in ("mnist-fc", "digits-fc")}
    assert {method for method, *_ in rows} == measured["mnist-fc"].keys() == measured["digits-fc"].keys()
    for method, mnist, digits, trainings in rows:
        assert mnist == accuracy(measured["mnist-fc"][method])
        assert digits == accuracy(measured["digits-fc"][method])
        assert trainings == f"{mean(run['trainings'] for run in measured['mnist-fc'][method]):.3g}"


def by_method(recipe: str) -> dict[str, list[dict[str, float]]]:
    found: dict[str, list[dict[str, float]]] = {}
    for run in json.loads((REPOSITORY / "results" / recipe / "compare.json").read_text()):
        found.setdefault(run["method"], []).append(run)
    return found


def accuracy(runs: list[dict[str, float]]) -> str:
    values = [run["accuracy"] for run in runs]
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


@pytest.mark.parametrize("page", ["docs/index.md", "docs/reproduce.md", "README.md"])
def test_the_reproduced_accuracies_are_those_of_the_results(page: str) -> None:
    rows = json.loads((REPOSITORY / "results" / "mnist-fc" / "reproduce.json").read_text())
    text = (REPOSITORY / page).read_text()
    for row in rows:
        spread = "" if page == "docs/index.md" else f" ± {row['spread']:.2f}"
        if spread or row["variant"] != "original":
            assert f"{row['accuracy']:.2f}{spread}" in text


def test_the_time_of_a_row_is_that_of_its_runs() -> None:
    results = (REPOSITORY / "results" / "mnist-fc").glob("seed-*/*/result.json")
    taken = [json.loads(result.read_text())["seconds"] for result in results]
    text = " ".join((DOCS / "reproduce.md").read_text().split())
    assert f"Each took {min(taken):.0f} to {max(taken):.0f} seconds" in text


def test_the_other_numbers_of_the_readme_are_those_of_the_results() -> None:
    text = (REPOSITORY / "README.md").read_text()
    measured = by_method("mnist-fc")
    assert f"[{len(measured.keys() - {'dense'})} sparse methods]" in text
    for method, name in {"gmp": "GMP", "rigl": "RigL", "asni-1": "ASNI-I", "snip": "SNIP"}.items():
        assert f"{name} {mean(run['accuracy'] for run in measured[method]):.2f} %" in text
    sizes = json.loads((REPOSITORY / "results" / "packing" / "mnist-fc.json").read_text())
    exact, amenable = sizes["exact"], sizes["amenable"]
    assert (
        f"{exact['dense_bytes']:,} → {exact['bytes']:,} bytes, bit for bit; {amenable['bytes']:,} to train again"
        in text
    )
    assert f"a file {exact['dense_bytes'] / exact['bytes']:.0f} times smaller" in text
    attack = json.loads((REPOSITORY / "results" / "reliability" / "attack.json").read_text())
    kills = attack["attacks"]["kills"]["outcomes"]
    assert f"{kills['kills']} kills, {kills['identical']} trainings, studies and downloads" in text
