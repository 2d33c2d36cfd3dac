"""What a recipe's runs achieved, in one sentence and a few numbers; nothing is claimed that they do not show."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from asni.methods import title
from asni.report.collecting import ShownRun
from asni.report.marks import AT_CHANCE, DIVERGED, is_shortened, marks, own_epochs
from asni.report.packed import packed_size

_FAR = 1.0  # points by which ASNI-II may stay behind before the sentence says where it ends


@dataclass(frozen=True)
class _Row:
    """The finished runs of one method and precision, one for each seed."""

    runs: tuple[ShownRun, ...]

    @property
    def stage(self) -> str:
        return self.runs[0].stage

    @property
    def name(self) -> str:
        precision = self.runs[0].precision
        return title(self.stage) + ("" if precision == "fp32" else f" ({precision})")

    @property
    def accuracy(self) -> float:
        return mean(run.result["accuracy"] for run in self.runs)

    @property
    def nonzeros(self) -> float:
        return mean(run.result["nonzeros"] for run in self.runs)

    @property
    def parameters(self) -> float:
        """How many there were before pruning; NaN if that does not follow from the counts."""
        left = mean(1 - run.result["total_sparsity"] for run in self.runs)
        return self.nonzeros / left if left > 0 and self.nonzeros > 0 else math.nan

    @property
    def seeds(self) -> str:
        return f"mean of {len(self.runs)} seeds" if len(self.runs) > 1 else f"seed {self.runs[0].seed}"

    def marked(self, mark: str) -> int:
        """How many of the runs have this mark."""
        return sum(mark in marks(run) for run in self.runs)

    @property
    def is_sound(self) -> bool:
        return not self.marked(DIVERGED) and not math.isnan(self.accuracy)


@dataclass(frozen=True)
class _Difference:
    """How many points of accuracy a method is above dense, and the standard error over the seeds that both have."""

    points: float
    error: float | None

    def __str__(self) -> str:
        if self.error is not None and abs(self.points) < self.error:
            return "no measurable difference in accuracy"
        if abs(self.points) < 0.005:
            return "the same accuracy"
        digits = 1 if abs(self.points) >= 0.095 else 2
        return f"{abs(self.points):.{digits}f} points {'lower' if self.points < 0 else 'higher'}"


def story(runs: Sequence[ShownRun], *, packed: bool = True) -> dict[str, Any] | None:
    """The sentence, what it is about, its caveats, and tiles; None if no method has come to an end.

    Without `packed` the tile with the size of the packed file is left out, which takes the longest.
    """
    rows = _over_seeds(run for run in runs if run.finished and run.is_last)
    dense = next((row for row in rows if row.stage == "dense"), None)
    if (row := _subject(rows)) is not None:
        return _of_sparse(row, _like(row, rows, "dense"), _like(row, rows, "asni-2"), packed=packed)
    going = [run for run in runs if not run.finished and (dense is None or run.stage != "dense")]
    if going:
        return _told(f"{_of_unfinished(going)}.", going[0], [])
    return None if dense is None else _of_dense(dense)


def _over_seeds(runs: Iterable[ShownRun]) -> list[_Row]:
    rows: dict[tuple[str, str], dict[int, ShownRun]] = {}
    for run in runs:
        rows.setdefault((run.stage, run.precision), {}).setdefault(run.seed, run)
    return [_Row(tuple(by_seed.values())) for by_seed in rows.values()]


def _subject(rows: Sequence[_Row]) -> _Row | None:
    """ASNI-I with the most seeds, or else the most accurate of the other methods."""
    sparse = [row for row in rows if row.stage != "dense"]
    own = [row for row in sparse if row.stage == "asni-1"]
    if own:
        return max(own, key=lambda row: len(row.runs))
    return max(sparse, key=lambda row: (row.is_sound, row.accuracy if row.is_sound else 0), default=None)


def _like(row: _Row, rows: Sequence[_Row], stage: str) -> _Row | None:
    """The runs of a stage that can be compared with those of `row`: sound, and at best of the same precision."""
    found = [each for each in rows if each.stage == stage and each.is_sound]
    return min(found, key=lambda each: each.runs[0].precision != row.runs[0].precision, default=None)


def _of_sparse(row: _Row, dense: _Row | None, again: _Row | None, *, packed: bool) -> dict[str, Any]:
    if dense is not None and row.is_sound:
        row, dense = _of_same_seeds(row, dense)
    difference = _difference(row, dense) if dense is not None and row.is_sound else None
    about = f"{row.name}{' against dense' if difference else ''}, {row.seeds}."
    sentence = _sparse_sentence(row, difference)
    numbers = again and next((run.start_numbers for run in again.runs if run.start_numbers), None)
    if again and numbers and row.stage == "asni-1" and row.is_sound and not again.marked(AT_CHANCE):
        falls_short = row.accuracy - again.accuracy >= _FAR
        sentence += f"; trains again from {numbers:,} numbers" + f" to {again.accuracy:.1f} %" * falls_short
        start = "two numbers for each pruned layer, the mask and the signs"
        about += f" {again.name}, which starts from {start}, reaches {again.accuracy:.2f} %."
    tiles = [_weights_tile(row), _accuracy_tile(row, dense, difference), *([_packed_tile(row)] if packed else [])]
    story = _told(f"{sentence}.", row.runs[0], [row, *([dense] if dense else [])])
    return story | {"about": about, "tiles": [tile for tile in tiles if tile]}


def _sparse_sentence(row: _Row, difference: _Difference | None) -> str:
    ratio = row.parameters / row.nonzeros if row.nonzeros else math.nan
    times = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}".removesuffix(".0")
    by = "" if row.stage == "asni-1" else f" with {row.name}"
    if not row.is_sound:
        bad, count = max(row.marked(DIVERGED), 1), len(row.runs)
        return f"{row.name} diverged" + (f" with {bad} of {count} seeds" if count > 1 else "")
    if row.marked(AT_CHANCE) == len(row.runs):
        return f"{row.name} is at chance: {row.accuracy:.1f} %"
    if not ratio >= 1.05:
        return f"{row.name}: {row.nonzeros:,.0f} weights, {difference or f'{row.accuracy:.1f} % accurate'}"
    return f"{times} times fewer weights{by}, {difference or f'{row.accuracy:.1f} % accurate'}"


def _of_unfinished(going: Sequence[ShownRun]) -> str:
    run = max(going, key=lambda run: (run.stage == "asni-1", run.epochs_done))
    return f"{title(run.stage)}: {run.epochs_done} of {run.recipe.training.epochs} epochs trained"


def _of_dense(row: _Row) -> dict[str, Any]:
    how = f"{row.accuracy:.1f} % accurate" if row.is_sound else "diverged"
    weights = f"{row.nonzeros:,.0f} weights, " if row.nonzeros > 0 else ""
    story = _told(f"{weights}{how}; no sparse network yet.", row.runs[0], [row])
    return story | {"about": f"{row.name}, {row.seeds}."}


def _told(sentence: str, run: ShownRun, rows: Sequence[_Row]) -> dict[str, Any]:
    caveats = [shortened] if (shortened := _shortened(run)) else []
    for row in rows:
        if row.is_sound and (count := row.marked(AT_CHANCE)):
            caveats.append(f"{row.name} is at chance with {count} of {len(row.runs)} seeds.")
    return {"sentence": sentence, "about": "", "caveats": caveats, "tiles": []}


def _shortened(run: ShownRun) -> str | None:
    recipe, epochs = run.recipe, run.recipe.training.epochs
    if not is_shortened(recipe):
        return None
    own = own_epochs(recipe)
    cut = [f"{epochs} of {own} epochs"] if own and epochs < own else []
    if recipe.overrides.steps_per_epoch is not None:
        cut.append(f"{recipe.overrides.steps_per_epoch:,} steps in each epoch")
    other = "the paper" if recipe.paper.row is not None else "the whole training"
    return f"Shortened: {', '.join(cut)}; not comparable with {other}."


def _of_same_seeds(row: _Row, dense: _Row) -> tuple[_Row, _Row]:
    """The runs with seeds that both have, so that each is compared with its like; all of them if there are none."""
    both = {run.seed for run in row.runs} & {run.seed for run in dense.runs}
    if not both:
        return row, dense
    first, second = (_Row(tuple(run for run in each.runs if run.seed in both)) for each in (row, dense))
    return first, second


def _difference(row: _Row, dense: _Row) -> _Difference:
    other = {run.seed: run.result["accuracy"] for run in dense.runs}
    points = [run.result["accuracy"] - other[run.seed] for run in row.runs if run.seed in other]
    if len(points) < 2:
        return _Difference(row.accuracy - dense.accuracy, None)
    return _Difference(mean(points), stdev(points) / math.sqrt(len(points)))


def _weights_tile(row: _Row) -> dict[str, str] | None:
    if not math.isfinite(row.parameters):
        return None
    part = f"of {row.parameters:,.0f}, {100 * row.nonzeros / row.parameters:.1f} %"
    return {"label": "weights left", "value": f"{row.nonzeros:,.0f}", "note": part}


def _accuracy_tile(row: _Row, dense: _Row | None, difference: _Difference | None) -> dict[str, str] | None:
    if not row.is_sound:
        return None
    if dense is None or difference is None:
        spread = f"± {stdev(run.result['accuracy'] for run in row.runs):.2f}" if len(row.runs) > 1 else ""
        return {"label": "test accuracy", "value": f"{row.accuracy:.2f} %", "note": spread}
    error = "" if difference.error is None else f" ± {difference.error:.2f}"
    points = f"{difference.points:+.2f}".replace("-", "\N{MINUS SIGN}")
    note = f"{row.accuracy:.2f} % instead of {dense.accuracy:.2f} %"
    return {"label": "points against dense", "value": f"{points}{error}", "note": note}


def _packed_tile(row: _Row) -> dict[str, str] | None:
    run = row.runs[0]
    if (size := packed_size(run)) is None:
        return None
    whose = f" (seed {run.seed})" if len(row.runs) > 1 else ""
    note = f"bit for bit, instead of {_bytes(size.plain)}{whose}"
    return {"label": "packed file", "value": _bytes(size.packed), "note": note}


def _bytes(count: int) -> str:
    """Three digits in decimal units.

    >>> _bytes(830), _bytes(12_345), _bytes(1_066_440)
    ('830 bytes', '12.3 kB', '1.07 MB')
    """
    if count < 1000:
        return f"{count} bytes"
    for unit, size in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if count < 999.5 * size:
            return f"{count / size:.3g} {unit}"
    return f"{count:,} bytes"
