"""The tables and the figure about budgets, from what was measured: `python -m benchmarks.budget_tables`.

It writes each table into its place in `results/budgets/README.md`, and `macs.png` beside it. What has not been measured
yet is said so.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from asni.figures import style
from benchmarks.budget_trainings import BATCHES, BUDGETS, EMPTIED, EPOCHS, REMEDIES, RESULTS
from benchmarks.tables import fill, percent, read, table

PAGE = RESULTS / "README.md"
FIGURE = RESULTS / "macs.png"
SCORES = ("magnitude", "lamp")
CURVES = (
    "dense",
    "once an epoch",
    "50 prunings",
    "every 100 steps",
    "cubic",
    "cubic, averaged",
    "cubic, LAMP",
)

Rows = Mapping[str, Mapping[str, Any]]


def tables(folder: Path = RESULTS) -> dict[str, str]:
    """All tables by their names, from the files in a folder."""
    macs, speed, prunings, emptied = (
        read(folder / f"{name}.json") for name in ("macs", "speed", "prunings", "emptied")
    )
    made = {
        "macs": over_macs(macs, speed) if macs else "",
        "prunings": over_prunings(prunings) if prunings else "",
        "emptied": remedies(emptied) if emptied else "",
    }
    return {name: found or "Not measured yet." for name, found in made.items()}


def seeds_of(rows: Rows, name: str) -> list[Mapping[str, Any]]:
    """The rows of all seeds of a configuration.

    >>> seeds_of({"a, seed 0": {"n": 1}, "a, macs 0.1, seed 0": {"n": 2}, "a, seed 1": {"n": 3}}, "a")
    [{'n': 1}, {'n': 3}]
    """
    return [row for key, row in rows.items() if key.rpartition(", seed ")[0] == name]


def accuracy(rows: Sequence[Mapping[str, Any]]) -> str:
    """The mean over seeds and, of several, their standard deviation.

    >>> accuracy([{"accuracy": 90.0}, {"accuracy": 92.0}]), accuracy([{"accuracy": 90.0}]), accuracy([])
    ('91.00 ± 1.41', '90.00', '-')
    """
    found = [row["accuracy"] for row in rows]
    if not found:
        return "-"
    return f"{mean(found):.2f}" + (f" ± {stdev(found):.2f}" if len(found) > 1 else "")


def configurations(network: str) -> list[str]:
    """The configurations of a network, from dense to its tightest budget."""
    budgets = BUDGETS[network][1]
    kinds = [f"{score}{limit}" for score in SCORES for limit in ("", *(f", macs {each}" for each in budgets))]
    return [f"{network}, {kind}" for kind in ("dense", "asni-1", *kinds)]


def over_macs(rows: Rows, speed: Rows) -> str:
    """Accuracy, multiplications and speed at the same nonzeros."""
    body = []
    for network in BUDGETS:
        dense = speed.get(f"{network}, dense, seed 0")
        for name in configurations(network):
            found = seeds_of(rows, name)
            if found:
                faster = [_times_as_fast(dense, seeds_of(speed, name), str(batch)) for batch in BATCHES]
                density = percent(mean(row["mac_density"] for row in found))
                nonzeros = f"{found[0]['nonzeros']:,}"
                kind = name.removeprefix(f"{network}, ")
                body.append([network, kind, nonzeros, density, accuracy(found), str(len(found)), *faster])
    engine = [f"engine, batch {batch}" for batch in BATCHES]
    return table(["network", "", "nonzeros", "MACs %", "accuracy %", "seeds", *engine], body)


def _times_as_fast(dense: Mapping[str, float] | None, rows: Sequence[Mapping[str, float]], batch: str) -> str:
    return f"{dense[batch] / mean(row[batch] for row in rows):.1f}x" if dense and rows else "-"


def over_prunings(rows: Rows) -> str:
    """Accuracy over the number of epochs, a line for each way to prune."""
    body = [[curve, *(accuracy(seeds_of(rows, f"{epochs} epochs, {curve}")) for epochs in EPOCHS)] for curve in CURVES]
    counts = {len(seeds_of(rows, f"{epochs} epochs, {curve}")) for epochs in EPOCHS for curve in CURVES} - {0}
    seeds = " to ".join(map(str, sorted({min(counts), max(counts)})))
    return table([f"seeds: {seeds}", *(f"{epochs} epochs" for epochs in EPOCHS)], body)


def remedies(rows: Rows) -> str:
    """What each remedy reaches on held-out training images, and what was chosen on the test images."""
    body = []
    for name in EMPTIED:
        for remedy in REMEDIES:
            held_out, test = (seeds_of(rows, f"{name}, {images}, {remedy}") for images in ("held out", "test"))
            if held_out or test:
                body.append([name, remedy, accuracy(held_out), accuracy(test), str(len(test) or "-")])
    return table(["recipe", "", "held-out images, 1 seed", "test images", "seeds"], body)


def draw(rows: Rows) -> style.Figure:
    """Accuracy over MAC density, a panel for each network: means over seeds, and every seed as a dot."""
    with style.applied():
        figure = style.Figure(figsize=(style.PAGE_WIDTH, 2.6), layout="constrained")
        panels = figure.subplots(1, len(BUDGETS), squeeze=False)[0]
        for axes, network in zip(panels, BUDGETS, strict=True):
            for score, look in zip(SCORES, style.looks(SCORES), strict=True):
                names = [each for each in configurations(network) if each.startswith(f"{network}, {score}")]
                found = [each for each in (seeds_of(rows, name) for name in names) if each]
                for each in found:
                    dots = [[row[key] for row in each] for key in ("mac_density", "accuracy")]
                    axes.plot(*dots, linestyle="none", marker=".", color=look.colour, markersize=3, alpha=0.6)
                means = [[mean(row[key] for row in each) for each in found] for key in ("mac_density", "accuracy")]
                axes.plot(*means, color=look.colour, marker=look.marker, label={"lamp": "LAMP"}.get(score, score))
            for name, dashes in (("dense", "--"), ("asni-1", ":")):
                if level := [row["accuracy"] for row in seeds_of(rows, f"{network}, {name}")]:
                    axes.axhline(mean(level), color=style.GREY, linestyle=dashes, label=style.label(name))
            axes.set(title=network, xlabel="MAC density", ylabel="test accuracy (%)")
            style.grid(axes)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def main() -> None:
    fill([PAGE], tables())
    if rows := read(RESULTS / "macs.json"):
        with style.applied():
            draw(rows).savefig(FIGURE, dpi=200, metadata={"Software": None})


if __name__ == "__main__":
    main()
