"""A model as a table: which weights are prunable, how many are alive, their MACs, and what a sparsity would leave."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from textwrap import fill

from torch import Tensor, nn

from asni.errors import AsniError, UsageError
from asni.pruning.budgets import Goal, keep_within, require_possible
from asni.pruning.costs import Budget, macs_budget
from asni.pruning.gradual import checked_sparsity
from asni.pruning.html import paragraph, table
from asni.pruning.layers import Choice, Selector, plain, prunable, survey
from asni.pruning.macs import Calls, InputSize, alive_macs, calls_of
from asni.pruning.macs import macs as all_macs
from asni.pruning.masks import (
    Masks,
    count,
    count_each,
    nearly_empty,
    nonzero_masks,
    nonzeros_each,
    shape_of,
    weights_to_keep,
)
from asni.pruning.overview import overview
from asni.pruning.scores import Score, keep_highest, score_function
from asni.pruning.sharded import spread_like
from asni.pruning.tables import WIDTH, text_table

HEADINGS = ("layer", "kind", "shape", "weights", "alive", "prunable", "MACs", "MACs alive")
NAMES = 2
"""How many of them are names, aligned to the left."""


@dataclass(frozen=True)
class Row:
    """A parameter, or all vectors together; MACs are None where they are unknown or were not asked for."""

    layer: str
    kind: str
    shape: tuple[int, ...]
    weights: int
    alive: int
    left_out: str
    """Why it is not prunable; empty if it is."""
    macs: int | None = None
    alive_macs: int | None = None
    left: int | None = None
    """How many weights the sparsity would leave."""
    left_macs: int | None = None
    """How many MACs it would leave."""
    would_nearly_die: bool = False


@dataclass(frozen=True, repr=False)
class Summary:
    """The table that `summary` returns; it prints itself, in a notebook too.

    >>> found = summary(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)), sparsity=0.5)
    >>> [(row.layer, row.weights) for row in found.rows], found.nearly_dead
    ([('0.weight', 32), ('2.weight', 8), ('2 vectors', 6)], [])
    """

    headline: str
    rows: tuple[Row, ...]
    sparsity: float | None = None
    macs: float | None = None
    """The budget for what the sparsity would leave, as a fraction of the dense network's MACs."""

    @property
    def mac_density(self) -> float | None:
        """The fraction of the dense network's MACs that living weights take; None if none are known."""
        return self._density("alive_macs")

    @property
    def left_mac_density(self) -> float | None:
        """The same of what the sparsity would leave."""
        return self._density("left_macs")

    def _density(self, column: str) -> float | None:
        dense = sum(row.macs for row in self.rows if row.macs is not None)
        known = [value for row in self.rows if (value := getattr(row, column)) is not None]
        return sum(known) / dense if dense and known else None

    @property
    def nearly_dead(self) -> list[str]:
        """The layers that the sparsity would leave nearly empty."""
        return [row.layer for row in self.rows if row.would_nearly_die]

    @property
    def notes(self) -> list[str]:
        """The part of the MACs that is alive, and what the marks in the table mean."""
        return [*self._note_of_macs(), *self._note_of_nearly_dead()]

    def _note_of_macs(self) -> list[str]:
        if self.mac_density is None:
            return []
        note = f"MAC density {_percent(self.mac_density)}"
        if self.left_mac_density is not None:
            budget = "" if self.macs is None else f" within macs={self.macs:g}"
            note += f"; pruning to {self.sparsity:g}{budget} now would leave {_percent(self.left_mac_density)}"
        return [f"{note} of the dense network's MACs"]

    def _note_of_nearly_dead(self) -> list[str]:
        if not self.nearly_dead:
            return []
        number = len(self.nearly_dead)
        layers = f"{number} layer{'s' * (number > 1)}"
        return [
            f"! {layers} would nearly die: fewer than one living weight per ten outputs. "
            'Rank with score="lamp", keep some of each layer with floor=0.01, or exclude layers of large weights.'
        ]

    def __repr__(self) -> str:
        lines = text_table(*self._table(), names=NAMES)
        return "\n".join([fill(self.headline, WIDTH), lines, *(fill(note, WIDTH) for note in self.notes)])

    def _repr_html_(self) -> str:
        return "".join([paragraph(self.headline), table(*self._table(), names=NAMES), *map(paragraph, self.notes)])

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and cells of the columns that say something."""
        left = [f"left at {self.sparsity:g}", "MACs left"] if self.sparsity is not None else ["", ""]
        headings = [*HEADINGS, *left]
        lines = [*map(_cells, self.rows), _totals(self.rows)]
        told = [not {line[place] for line in lines} <= {"", "-"} for place in range(len(headings))]
        return list(compress(headings, told)), [list(compress(line, told)) for line in lines]


def summary(
    model: nn.Module,
    input_size: InputSize | None = None,
    *,
    sparsity: float | None = None,
    score: str | Score = "magnitude",
    floor: float | None = None,
    macs: float | None = None,
    include: Selector | Iterable[Selector] | None = None,
    exclude: Selector | Iterable[Selector] | None = None,
) -> Summary:
    """Every weight of a model with two dimensions or more: whether it is prunable, or why not, and how much is nonzero.

    `input_size` adds the multiplications (MACs) of one batch: its size, a list of sizes for several inputs, or an
    example: a tensor, or a dict of keyword arguments. "-" marks weights whose use is unknown. Products of activations,
    as between queries and keys, are not counted. The MAC density is the part of the dense network's MACs that living
    weights take. `sparsity` adds what pruning to it now would leave, with the `score`, the `floor` and the budget
    `macs` of a pruner; `!` marks layers that would nearly die. The model is not changed.

    >>> model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> summary(model, (10, 8))
    40 weights in 2 layers, 87.0 % of 46 parameters; left out: 6 norm, bias or vector
    layer      kind    shape  weights  alive  prunable  MACs  MACs alive
    0.weight   Linear    4x8       32     32       yes   320         320
    2.weight   Linear    2x4        8      8       yes    80          80
    2 vectors                       6      6        no     -           -
    total                          46     46             400         400
    MAC density 100.0 % of the dense network's MACs
    """
    choices = _sources_of_computed(survey(model, include, exclude))
    parameters = {each.name: each.parameter for each in choices}
    _require_values(model, parameters)
    alive = nonzeros_each(parameters)
    calls = {} if input_size is None else calls_of(model, input_size)
    weights = {} if sparsity is None else prunable(model, include, exclude)
    budget = None if macs is None else _budget(model, weights, macs, input_size)
    masks = {} if sparsity is None else _left(weights, sparsity, score_function(score), floor, budget)
    left = {} if sparsity is None else alive | count_each(masks)
    dying = nearly_empty(masks)
    rows = [
        _row(
            each,
            calls.get(id(each.parameter)),
            alive[each.name],
            left.get(each.name),
            masks.get(each.name),
            would_nearly_die=each.name in dying,
        )
        for each in choices
    ]
    return Summary(_headline(choices), (*_matrices(rows), *_vectors(rows)), sparsity, macs)


def _budget(model: nn.Module, weights: Mapping[str, Tensor], macs: float, input_size: InputSize | None) -> Budget:
    if not weights or input_size is None:
        raise UsageError("macs= limits what a sparsity would leave of the MACs: it needs sparsity= and input_size=.")
    return macs_budget(model, weights, macs, input_size)


def _left(
    weights: Mapping[str, Tensor], sparsity: float, score: Score, floor: float | None, budget: Budget | None
) -> Masks:
    """What is left of the weights that are alive now."""
    checked_sparsity(sparsity)
    keep = weights_to_keep(weights, sparsity, floor)
    living = nonzero_masks(weights)
    goal = None if budget is None else Goal(keep, budget, floor)
    if goal is not None:
        require_possible(goal)
    if count(living) <= keep:
        return living
    if goal is None:
        return keep_highest(weights, score, keep, living, floor)
    return keep_within(weights, score, goal, living)


def _row(
    choice: Choice, calls: Calls | None, alive: int, left: int | None, mask: Tensor | None, *, would_nearly_die: bool
) -> Row:
    weight = choice.parameter

    def multiplied(number: int | None, values: Tensor) -> int | None:
        return None if calls is None or number is None else alive_macs(values, number, calls)

    return Row(
        plain(choice.name),
        type(choice.module).__name__,
        tuple(weight.shape),
        weight.numel(),
        alive,
        choice.left_out,
        None if calls is None else all_macs(weight, calls),
        multiplied(alive, weight),
        left,
        multiplied(left, weight if mask is None else weight.detach() * spread_like(mask, weight)),
        would_nearly_die,
    )


def _headline(choices: Sequence[Choice]) -> str:
    named = [replace(each, name=plain(each.name)) for each in choices]
    return overview(named, {each.name: each.parameter for each in choices if not each.left_out})


def _sources_of_computed(choices: Sequence[Choice]) -> list[Choice]:
    """The parameters alone: without weights that are computed from them, as by weight norm, and so cannot be pruned."""
    computed = [each.module for each in choices if not isinstance(each.parameter, nn.Parameter)]
    sources = {id(weight) for module in computed for weight in module.parameters() if weight.ndim >= 2}
    return [
        replace(each, left_out="parametrised") if id(each.parameter) in sources else each
        for each in choices
        if isinstance(each.parameter, nn.Parameter)
    ]


def _require_values(model: nn.Module, parameters: Mapping[str, Tensor]) -> None:
    if not parameters:
        raise AsniError(f"{type(model).__name__} has no parameters.")
    for name, weight in parameters.items():
        if isinstance(weight, nn.UninitializedParameter):
            raise AsniError(f"'{name}' has no shape yet. Run a batch through the network first.")
        if weight.is_meta:
            raise AsniError(f"'{name}' is on the meta device, so it has no values. Load the weights first.")


def _matrices(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if len(row.shape) >= 2]


def _vectors(rows: Sequence[Row]) -> list[Row]:
    """All vectors in one row."""
    vectors = [row for row in rows if len(row.shape) < 2]
    if not vectors:
        return []
    name = f"{len(vectors)} vector{'s' * (len(vectors) > 1)}"
    weights, alive = sum(row.weights for row in vectors), sum(row.alive for row in vectors)
    return [Row(name, "", (), weights, alive, "no", left=None if vectors[0].left is None else alive)]


def _cells(row: Row) -> list[str]:
    return [
        row.layer,
        row.kind,
        shape_of(row.shape) if row.shape else "",
        _number(row.weights),
        _number(row.alive),
        row.left_out or "yes",
        _number(row.macs),
        _number(row.alive_macs),
        "! " * row.would_nearly_die + _number(row.left),
        _number(row.left_macs),
    ]


def _totals(rows: Sequence[Row]) -> list[str]:
    def total(column: str) -> str:
        known = [value for row in rows if (value := getattr(row, column)) is not None]
        unknown = any(getattr(row, column) is None for row in rows if row.shape)
        return ">= " * unknown + _number(sum(known)) if known else "-"

    columns = ("macs", "alive_macs", "left", "left_macs")
    return ["total", "", "", total("weights"), total("alive"), "", *map(total, columns)]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
