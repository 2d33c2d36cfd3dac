"""The methods by name: one file per method or family of methods, one record each.

A method is a function of a `Trainer`. It trains in as many rounds as it needs, each by `trainer.train(stage,
make_pruner, start=...)`, and returns the run of the last one, whose stage has the method's name. Rounds with the same
name are trained once and shared: ASNI-II and its control use the same ASNI-I run. Every method ends with the recipe's
nonzeros, except STR, which has no sparsity target and searches for a setting that comes close.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from asni.errors import UsageError
from asni.recipes.sections import BUDGETS

if TYPE_CHECKING:
    from asni.recipes.recipe import Recipe
    from asni.runs.run import Run
    from asni.training.trainer import Trainer

VARIANTS = ("dense", "asni-1", "asni-2", "original")
"""The four columns of the paper's Table 2."""

FROM_ORIGINAL_VALUES = ("dense", "asni-1", "original")
"""The variants that start from the network's original initial values; ASNI-II starts from its centroids."""

ACCURATE, TRAINABLE = 1, 2
"""The paper's two tasks: an accurate sparse network (Table 3), and one that can be trained from its start (Table 4)."""

TASK_TITLES = {
    ACCURATE: "an accurate sparse network",
    TRAINABLE: "a sparse network that can be trained from its initialisation",
}
TASKS = " ".join(f"task {task}: {title}." for task, title in TASK_TITLES.items())


@dataclass(frozen=True)
class Method:
    """A method's name, function and metadata.

    `imagenet` is the paper's top-1 accuracy (percent) of ResNet-50 with 80 % of its parameters pruned (Tables 3 and 4).
    `needs` lists the methods whose runs it starts from. `rounds` is the number of its own trainings (None: not fixed).
    `reads` lists the overrides that only some methods use. `accepts_score` says whether the recipe may set a score and
    a floor; the other methods have their own rules, and dense has nothing to rank. `needs_budget` says whether the
    recipe must set a budget. `does` says in a few words what `asni methods` lists it for.
    """

    name: str
    title: str
    task: int
    function: str
    paper: str
    imagenet: float | None = None
    needs: tuple[str, ...] = ()
    rounds: int | None = 1
    reads: tuple[str, ...] = ()
    accepts_score: bool = False
    needs_budget: bool = False
    does: str = field(kw_only=True)

    def require_supports(self, recipe: "Recipe") -> None:
        """Raise an error for a score or a floor that the method does not support, or a budget that it lacks."""
        if self.needs_budget and not recipe.pruning.has_budget:
            raise UsageError(f"{self.name} needs a budget: --macs 0.15, --latency 2ms or --speedup 4.")
        given = {"score": recipe.pruning.score != "magnitude", "floor": recipe.pruning.floor is not None}
        if any(given.values()) and not self.accepts_score:
            others = [name for name, each in METHODS.items() if each.accepts_score and name != "dense"]
            raise UsageError(
                f"{self.name} does not support {' or '.join(key for key, is_set in given.items() if is_set)}. "
                f"Remove it, or use one of {', '.join(others)}."
            )

    def train(self, trainer: "Trainer") -> "Run":
        """Train all missing rounds and return the run of the last one."""
        self.require_supports(trainer.recipe)
        module, _, function = self.function.partition(":")
        trainer.begin(self.name)
        run: Run = getattr(import_module(f"asni.methods.{module}"), function)(trainer)
        return run

    def uses(self, override: str) -> bool:
        """Whether it, or a method that it needs, uses this override."""
        return override in self.reads or any(METHODS[name].uses(override) for name in self.needs)

    @property
    def trainings(self) -> int | None:
        """How many trainings it takes, including those of the methods it needs; None if not fixed."""
        return None if self.rounds is None else self.rounds + sum(METHODS[name].trainings or 0 for name in self.needs)


_ASNI = "Damadi, Nouri and Pirsiavash"
_FROM_DENSE, _FROM_SPARSE = ("dense",), ("asni-1",)
_CURVE = ("beta", "gamma", "least")
_SIGMOID = (*_CURVE, "schedule", "prune_every")
_BUDGET = ("macs", "latency", "speedup", "latency_batch", "latency_threads")
_ROUNDS, _REWIND = ("lottery_rate", "lottery_rounds"), ("lottery_rewind",)

# fmt: off
METHODS = {
    method.name: method
    for method in (
        Method("dense", "dense", ACCURATE, "dense:dense", "no pruning", accepts_score=True,
               does="trains all weights, without pruning"),
        Method("asni-1", "ASNI-I", ACCURATE, "asni:asni_1", _ASNI, 75.23,
               reads=(*_CURVE, "prune_every"), accepts_score=True,
               does="prunes along a sigmoid as it trains"),
        Method("asni-1-fine", "asni-1-fine", ACCURATE, "asni:asni_1_fine", "not in the paper", reads=_SIGMOID,
               accepts_score=True, does="asni-1, in a pruning every 100 steps"),
        Method("asni-1-lamp", "asni-1-lamp", ACCURATE, "asni:asni_1_lamp", "not in the paper", reads=_SIGMOID,
               accepts_score=True, does="asni-1-fine, ranked by LAMP"),
        Method("asni-1-macs", "asni-1-macs", ACCURATE, "asni:asni_1_macs", "not in the paper",
               reads=_SIGMOID + _BUDGET, accepts_score=True, needs_budget=True,
               does="asni-1-fine, within a budget of work or time"),
        Method("asni-2", "ASNI-II", TRAINABLE, "amenable:asni_2", _ASNI, 75.17, _FROM_SPARSE,
               reads=("amenable_epochs",), accepts_score=True,
               does="ASNI-I's mask, from two numbers per layer"),
        Method("original", "original initialisation", TRAINABLE, "amenable:original",
               _ASNI, None, _FROM_SPARSE, accepts_score=True,
               does="ASNI-I's mask, from its original values"),
        Method("gmp", "GMP", ACCURATE, "gmp:gmp", "Zhu and Gupta 2017", 74.68, accepts_score=True,
               reads=(*_BUDGET, "prune_every"),
               does="prunes along a cubic curve as it trains"),
        Method("magnitude", "magnitude", ACCURATE, "magnitude:magnitude", "Han et al. 2015", accepts_score=True,
               reads=_BUDGET,
               does="prunes once, halfway through the training"),
        Method("rigl", "RigL", ACCURATE, "rigl:rigl", "Evci et al. 2020", 74.55,
               does="drops small weights, grows by gradient"),
        Method("rigl-uniform", "RigL, uniform", ACCURATE, "rigl:rigl_uniform", "Evci et al. 2020",
               does="RigL with the same density in each layer"),
        Method("set", "SET", ACCURATE, "rigl:set_", "Mocanu et al. 2018",
               does="drops small weights, grows at random"),
        Method("str", "STR", ACCURATE, "soft_threshold:soft_threshold", "Kusupati et al. 2020", 74.87, (), None,
               does="learns a threshold for every layer"),
        Method("continuous", "continuous", ACCURATE, "continuous:continuous", "Savarese et al. 2019",
               does="trains soft gates, then what they select"),
        Method("control-fresh", "fresh values", TRAINABLE, "controls:control_fresh",
               "control", None, _FROM_SPARSE, accepts_score=True,
               does="ASNI-I's mask, from new random values"),
        Method("control-signs", "shuffled signs", TRAINABLE, "controls:control_signs",
               "control", None, _FROM_SPARSE, accepts_score=True,
               does="ASNI-II, its signs shuffled"),
        Method("control-mask", "shuffled mask", TRAINABLE, "controls:control_mask",
               "control", None, _FROM_SPARSE, accepts_score=True,
               does="ASNI-II, its mask shuffled"),
        Method("lottery", "lottery", TRAINABLE, "lottery:lottery",
               "Frankle and Carbin 2019", None, _FROM_DENSE, None, _ROUNDS,
               does="trains, prunes a fifth, resets, repeats"),
        Method("lottery-layerwise", "lottery, layer-wise", TRAINABLE, "lottery:lottery_layerwise",
               "Frankle and Carbin 2019", None, _FROM_DENSE, None, _ROUNDS,
               does="the lottery, pruned layer by layer"),
        Method("lottery-rewind", "lottery, rewound", TRAINABLE, "lottery:lottery_rewind",
               "Frankle et al. 2019", None, _FROM_DENSE, None, _ROUNDS + _REWIND,
               does="the lottery, reset to an early step"),
        Method("magnitude-rewind", "magnitude, rewound", TRAINABLE, "retraining:magnitude_rewind",
               "Frankle et al. 2020", 73.33, _FROM_DENSE, 2, _REWIND,
               does="prunes once, returns to an early step"),
        Method("magnitude-retrain", "magnitude, retrained", TRAINABLE, "retraining:magnitude_retrain",
               "Frankle et al. 2021", 75.12, _FROM_DENSE,
               does="prunes once, trains again in full"),
        Method("snip", "SNIP", TRAINABLE, "snip:snip", "Lee, Ajanthan and Torr 2019", 69.29,
               does="masks before training, by sensitivity"),
        Method("grasp", "GraSP", TRAINABLE, "grasp:grasp", "Wang, Zhang and Grosse 2020", 71.56,
               does="masks before training, by gradient flow"),
        Method("synflow", "SynFlow", TRAINABLE, "synflow:synflow", "Tanaka et al. 2020",
               does="masks before training, without any data"),
        Method("early-bird", "Early-Bird", TRAINABLE, "early_bird:early_bird", "You et al. 2020",
               does="prunes once its mask stops changing"),
        Method("random", "random", TRAINABLE, "random_mask:random_mask", "control",
               does="masks before training, at random"),
    )
}
# fmt: on


def default_method(recipe: "Recipe") -> str:
    """What `asni train` trains: ASNI-I, which has a sigmoid and no budget, or the variant that can do what is asked."""
    if recipe.pruning.has_budget:
        return "asni-1-macs"
    return "asni-1" if recipe.pruning.schedule == "sigmoid" else "asni-1-fine"


def possible_methods(recipe: "Recipe") -> list[str]:
    """All methods but those that need a budget, if the recipe has none."""
    return [name for name, method in METHODS.items() if recipe.pruning.has_budget or not method.needs_budget]


def unused(recipe: "Recipe", chosen: Iterable[str]) -> Iterator[str]:
    """A message for every override of the recipe that none of the chosen methods uses."""
    methods = [METHODS[name] for name in chosen]
    for key in recipe.overrides.model_dump(exclude_none=True):
        users = [name for name, method in METHODS.items() if key in method.reads]
        # With alpha, the shape of the curve changes the nonzeros of every method that prunes.
        prunes = any(method.name != "dense" for method in methods)
        shapes_nonzeros = key in _CURVE and recipe.pruning.alpha is not None and prunes
        if users and not shapes_nonzeros and not any(method.uses(key) for method in methods):
            yield (
                f"--{key.replace('_', '-')} changes nothing for {', '.join(method.name for method in methods)}: "
                f"it is for {', '.join(users)}."
            )


def unused_budget(recipe: "Recipe", chosen: Iterable[str]) -> Iterator[str]:
    """A message for a budget of the recipe itself that none of the chosen methods keeps to."""
    methods = [METHODS[name] for name in chosen]
    for key in BUDGETS:
        is_own = getattr(recipe.pruning, key) is not None and getattr(recipe.overrides, key) is None
        if is_own and not any(method.uses(key) for method in methods):
            users = ", ".join(name for name, method in METHODS.items() if key in method.reads)
            names = ", ".join(method.name for method in methods)
            yield f"{key} of the recipe changes nothing for {names}: it is for {users}."


def title(name: str) -> str:
    """A method's name as in the papers; other names are returned unchanged.

    >>> title("asni-2"), title("lottery-round-3")
    ('ASNI-II', 'lottery-round-3')
    """
    return METHODS[name].title if name in METHODS else name
