"""The figures of one investigation: dense, ASNI-I, ASNI-II and the original initialisation."""

from pathlib import Path

from asni.errors import AsniError
from asni.figures.epochs import schedule, training
from asni.figures.sparsity import layer_sparsity
from asni.figures.style import save
from asni.figures.weights import layer_distributions, network_distribution
from asni.methods import FROM_ORIGINAL_VALUES, VARIANTS
from asni.runs import reading


def investigation(root: str | Path, out: str | Path) -> list[Path]:
    """Draw the figures of the variants found under `root` into `out`, and return the files written.

    >>> from asni import figures
    >>> [path.name for path in figures.investigation("runs/digits-fc/seed-0", "figures") if path.suffix == ".png"]
    ['training.png', 'network-distribution.png', 'schedule.png', 'layer-distributions.png', 'layer-sparsity.png']
    """
    root, out = Path(root), Path(out)
    runs = {variant: root / variant for variant in VARIANTS if (root / variant).is_dir()}
    if not runs:
        raise AsniError(f"{root} contains none of the runs {', '.join(VARIANTS)}; run `asni investigate` first")
    untouched = [runs[name] for name in FROM_ORIGINAL_VALUES if name in runs]
    sets = {"initial": untouched[0]} if untouched else {}
    sets |= {name: run for name, run in runs.items() if name != "original"}
    figures = {"training": training(runs), "network-distribution": network_distribution(sets)}
    if "asni-1" in runs:
        run = runs["asni-1"]
        sparsity, recipe = reading.metrics(run)["sparsity"], reading.recipe(run)
        curve = {"beta": recipe.pruning.beta, "gamma": recipe.gamma, "least": recipe.pruning.least}
        figures["schedule"] = schedule(len(sparsity), float(sparsity[-1]), **curve, run=run)
        figures["layer-distributions"] = layer_distributions(run)
        figures["layer-sparsity"] = layer_sparsity(run)
    return [path for name, figure in figures.items() for path in save(figure, out / name)]
