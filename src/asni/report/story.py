"""What a recipe's runs achieved, in one sentence and a few numbers; nothing is claimed that they do not show."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from asni.methods import title
from asni.report.collecting import MAC_DENSITY, ShownRun
from asni.report.differences import Difference, difference
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
    def precision(self) -> str:
        return self.runs[0].precision

    @property
    def name(self) -> str:
        return title(self.stage) + ("" if self.precision == "fp32" else f" ({self.precision})")

    @property
    def by_seed(self) -> dict[int, float]:
        return {run.seed: run.result["accuracy"] for run in self.runs}

    @property
    def accuracy(self) -> float:
        return mean(self.by_seed.values())

    @property
    def nonzeros(self) -> float:
        return mean(run.result["nonzeros"] for run in self.runs)

    @property
    def mac_density(self) -> float:
        """The part of the dense network's multiplications that is left; NaN if a run does not know it."""
        return mean(run.result[MAC_DENSITY] for run in self.runs)

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

    def with_mark(self, mark: str) -> str:
        """Such as "SNIP is at chance with 1 of 3 seeds"."""
        count, seeds = self.marked(mark), len(self.runs)
        verb = "" if mark == DIVERGED else "is "
        return f"{self.name} {verb}{mark}" + (f" with {count} of {seeds} seeds" if seeds > 1 else "")

    @property
    def is_sound(self) -> bool:
        return not self.marked(DIVERGED)

    @property
    def is_at_chance(self) -> bool:
        return self.marked(AT_CHANCE) == len(self.runs)


def story(runs: Sequence[ShownRun], *, packed: bool = True) -> dict[str, Any] | None:
    """The sentence, what it is about, its caveats, and tiles; None if no method has come to an end.

    Without `packed` the tile with the size of the packed file is left out, which takes the longest.
    """
    rows = _over_seeds(run for run in runs if run.finished and run.is_last)
    dense = next((row for row in rows if row.stage == "dense"), None)
    if (row := _subject(rows)) is not None:
        return _of_sparse(row, rows, packed=packed)
    going = [run for run in runs if not run.finished and (dense is None or run.stage != "dense")]
    if going:
        return _told(f"{_of_unfinished(going)}.", going[0])
    return None if dense is None else _of_dense(dense)


def _over_seeds(runs: Iterable[ShownRun]) -> list[_Row]:
    rows: dict[tuple[str, str], dict[int, ShownRun]] = {}
    for run in runs:
        rows.setdefault((run.stage, run.precision), {}).setdefault(run.seed, run)
    return [_Row(tuple(by_seed.values())) for by_seed in rows.values()]


def _subject(rows: Sequence[_Row]) -> _Row | None:
    """ASNI-I, at best in a precision that dense has and with the most seeds; or else the most accurate other method."""
    sparse = [row for row in rows if row.stage != "dense"]
    own = [row for row in sparse if row.stage == "asni-1"]
    if own:
        known = {row.precision for row in rows if row.stage == "dense"}
        return max(own, key=lambda row: (row.precision in known, len(row.runs)))
    return max(sparse, key=lambda row: (row.is_sound, row.accuracy if row.is_sound else 0), default=None)


def _like(row: _Row, rows: Sequence[_Row], stage: str) -> _Row | None:
    """The runs of a stage to compare with those of `row`: at best sound ones, and then of the same precision."""
    found = [each for each in rows if each.stage == stage]
    return min(found, key=lambda each: (not each.is_sound, each.precision != row.precision), default=None)


def _of_sparse(row: _Row, rows: Sequence[_Row], *, packed: bool) -> dict[str, Any]:
    dense = _like(row, rows, "dense") if row.is_sound else None
    failure = dense and _failure(dense)
    if failure:
        dense = None
    if dense is not None:
        row, dense = _of_same_seeds(row, dense)
    points = None if dense is None else difference(row.by_seed, dense.by_seed)
    again = _trained_again(row, _like(row, rows, "asni-2"))
    tiles = [_weights_tile(row), _accuracy_tile(row, dense, points), *([_packed_tile(row)] if packed else [])]
    sentence = f"{_sparse_sentence(row, points)}{again['sentence']}."
    told = _told(sentence, row.runs[0], None if row.is_at_chance else row)
    return told | {
        "about": _about(row, rows, dense) + again["about"],
        "caveats": [*told["caveats"], *([f"{failure}: no comparison."] if failure else [])],
        "tiles": [tile for tile in tiles if tile],
    }


def _failure(dense: _Row) -> str | None:
    """Why nothing can be compared with these dense networks; None if it can."""
    return next((dense.with_mark(mark) for mark in (DIVERGED, AT_CHANCE) if dense.marked(mark)), None)


def _about(row: _Row, rows: Sequence[_Row], dense: _Row | None) -> str:
    """What is compared: chosen from how many, with which dense networks, over which seeds."""
    methods = {each.stage for each in rows if each.stage != "dense"}
    is_best = row.stage != "asni-1" and row.is_sound and len(methods) > 1
    what = row.name + (f", the most accurate of {len(methods)} methods," if is_best else "")
    if dense is None:
        return f"{what.removesuffix(',')}, {row.seeds}."
    name = dense.name if dense.precision == row.precision else f"dense ({dense.precision})"
    other = "" if row.by_seed.keys() & dense.by_seed.keys() else "; dense has different seeds"
    return f"{what} against {name}, {row.seeds}{other}."


def _trained_again(row: _Row, again: _Row | None) -> dict[str, str]:
    """What ASNI-II adds to the story of ASNI-I, if anything."""
    if again is None or row.stage != "asni-1" or row.is_at_chance or _failure(again) or not row.is_sound:
        return {"sentence": "", "about": ""}
    numbers = next((run.start_numbers for run in again.runs if run.start_numbers), None)
    if numbers is None:
        return {"sentence": "", "about": ""}
    end = f" to {again.accuracy:.1f} %" if row.accuracy - again.accuracy >= _FAR else ""
    start = "one number" if numbers == 1 else "at most two numbers for each pruned layer"
    return {
        "sentence": f"; trains again from {numbers:,} number{'s' * (numbers != 1)}{end}",
        "about": f" {again.name}, which starts from {start}, the mask and the signs, reaches {again.accuracy:.2f} %.",
    }


def _sparse_sentence(row: _Row, points: Difference | None) -> str:
    if not row.is_sound:
        return row.with_mark(DIVERGED)
    if row.is_at_chance:
        return f"{row.name} is at chance: {row.accuracy:.1f} %"
    accuracy = points or f"{row.accuracy:.1f} % accurate"
    if fewer := _fewer(row.parameters / row.nonzeros if row.nonzeros else math.nan):
        by = "" if row.stage == "asni-1" else f" with {row.name}"
        return f"{fewer} fewer weights{by}, {accuracy}"
    weights = "" if math.isnan(row.nonzeros) else f"{row.nonzeros:,.0f} weights, "
    return f"{row.name}: {weights}{accuracy}"


def _fewer(ratio: float) -> str | None:
    """How many fewer weights, where there were `ratio` times as many; None if that is unknown or hardly any.

    >>> _fewer(32.1), _fewer(2.5), _fewer(1.054), _fewer(1.0)
    ('32 times', '2.5 times', '5 %', None)
    """
    if not ratio >= 1.05:
        return None
    if ratio < 2:
        return f"{100 * (1 - 1 / ratio):.0f} %"
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.1f}".removesuffix(".0") + " times"


def _of_unfinished(going: Sequence[ShownRun]) -> str:
    run = max(going, key=lambda run: (run.stage == "asni-1", run.epochs_done))
    return f"{title(run.stage)}: {run.epochs_done} of {run.recipe.training_of(run.stage).epochs} epochs trained"


def _of_dense(row: _Row) -> dict[str, Any]:
    how = f"{row.accuracy:.1f} % accurate" if row.is_sound else "diverged"
    weights = f"{row.nonzeros:,.0f} weights, " if row.nonzeros > 0 else ""
    story = _told(f"{weights}{how}; no sparse network yet.", row.runs[0], row)
    return story | {"about": f"{row.name}, {row.seeds}."}


def _told(sentence: str, run: ShownRun, row: _Row | None = None) -> dict[str, Any]:
    caveats = [shortened] if (shortened := _shortened(run)) else []
    if row is not None and row.is_sound and row.marked(AT_CHANCE):
        caveats.append(f"{row.with_mark(AT_CHANCE)}.")
    return {"sentence": sentence, "about": "", "caveats": caveats, "tiles": []}


def _shortened(run: ShownRun) -> str | None:
    recipe, epochs = run.recipe, run.recipe.training_of(run.stage).epochs
    if not is_shortened(recipe, run.stage):
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


def _weights_tile(row: _Row) -> dict[str, str] | None:
    if not math.isfinite(row.parameters):
        return None
    part = f"of {row.parameters:,.0f}, {100 * row.nonzeros / row.parameters:.1f} %"
    if not math.isnan(row.mac_density):
        part += f"; {100 * row.mac_density:.1f} % of the multiplications"
    return {"label": "weights left", "value": f"{row.nonzeros:,.0f}", "note": part}


def _accuracy_tile(row: _Row, dense: _Row | None, points: Difference | None) -> dict[str, str] | None:
    if not row.is_sound:
        return None
    if dense is None or points is None:
        spread = stdev(row.by_seed.values()) if len(row.runs) > 1 else None
        note = "" if spread is None else f"± {spread:.2f} standard deviation over {len(row.runs)} seeds"
        return {"label": "test accuracy", "value": f"{row.accuracy:.2f} %", "note": note}
    note = f"{row.accuracy:.2f} % instead of {dense.accuracy:.2f} %"
    if points.error is None:
        return {"label": "points against dense", "value": points.signed, "note": note}
    value, note = f"{points.signed} ± {points.error:.2f}", f"{note} (± standard error, {points.seeds} seeds)"
    return {"label": "points against dense", "value": value, "note": note}


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
