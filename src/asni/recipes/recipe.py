"""Recipes: what to train and how, and variants with other settings."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from asni.errors import UsageError, is_printable
from asni.pruning.schedules import Sigmoid
from asni.recipes.checking import checked
from asni.recipes.own_code import is_code
from asni.recipes.sections import BUDGETS, STRICT, Line, Lottery, Options, Overrides, Paper, Pruning, Training

EXCLUSIVE = (("alpha", "sparsity"), ("lottery_rate", "lottery_rounds"), BUDGETS)
"""Overrides of which a variant has one: the latest replaces the others."""


AMENABLE_ROUND = "asni-2"
"""The round that `amenable_epochs` shortens."""

MOST_IMAGES_PER_EPOCH = 10_000_000
MOST_NAME_BYTES = 100
MOST_DIRECTORY_BYTES = 255
"""What file systems allow for the name of one directory."""


def _named(name: str) -> str:
    """A recipe's name chooses the directory of its runs, and may come from a file of somebody else."""
    if not name or name.startswith(".") or "/" in name or "\\" in name or not is_printable(name):
        raise ValueError(
            f"{name[:MOST_NAME_BYTES]!r} cannot name a directory of runs: it must be printable characters without "
            "slashes, and must not start with a dot"
        )
    if (size := len(name.encode())) > MOST_NAME_BYTES:
        raise ValueError(f"{name[:20]!r}... has {size:,} bytes; at most {MOST_NAME_BYTES} are allowed")
    return name


def is_path(dataset: str) -> bool:
    """Whether a recipe's dataset is a file or a folder; a folder in the same directory is written with a "./"."""
    return not is_code(dataset) and ("/" in dataset or dataset.endswith(".npz"))


class Recipe(BaseModel):
    """A dataset, a network, a training and a pruning schedule."""

    model_config = STRICT

    name: Annotated[str, AfterValidator(_named)]
    title: Line = ""
    dataset: Line = Field(description="one of the paper's, a ./folder, a file.npz, or package.module:function")
    dataset_options: Options = {}
    network: Line = Field(description="one of the paper's, or package.module:function")
    network_options: Options = {}
    training: Training
    pruning: Pruning
    lottery: Lottery = Lottery()
    paper: Paper = Paper()
    overrides: Overrides = Overrides()

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.dataset_options and not (is_code(self.dataset) or is_path(self.dataset)):
            raise ValueError(
                f"dataset_options require a ./folder or a package.module:function as dataset, not '{self.dataset}'"
            )
        if self.network_options and not is_code(self.network):
            raise ValueError(
                f"network_options require a network given as package.module:function, not '{self.network}'"
            )
        if not 0 < (final := self.schedule().final) < 1:
            given = ", ".join(f"{key} = {getattr(self.pruning, key)}" for key in ("alpha", "beta", "least"))
            raise ValueError(
                f"pruning: {given}, gamma = {self.gamma:g}: would prune {final:.1%} of the prunable weights; "
                "the final sparsity must be above 0 % and below 100 %"
            )
        if (size := len(self.variant_name.encode())) > MOST_DIRECTORY_BYTES:
            raise ValueError(
                f"overrides: the directory of this variant would have a name of {size} bytes, more than the "
                f"{MOST_DIRECTORY_BYTES} that file systems allow. Change fewer values, or write them into a recipe"
            )
        return self

    @property
    def gamma(self) -> float:
        """The schedule's width in epochs of this training; by default a tenth of them."""
        epochs = self.training.epochs
        return epochs / 10 if self.pruning.gamma is None else self.pruning.gamma * epochs / self._schedule_epochs

    def schedule(self, prunable: int | None = None) -> Sigmoid:
        """The fraction of the prunable weights that is zero after each epoch.

        With `least`, the final fraction depends slightly on the number of prunable weights.
        """
        pruning = self.pruning
        if (final := pruning.sparsity) is None:
            assert pruning.alpha is not None
            curve = (pruning.beta, pruning.gamma, pruning.least)
            final = Sigmoid.from_alpha(pruning.alpha, self._schedule_epochs, *curve, prunable=prunable).final
        return Sigmoid(final, pruning.beta, self.gamma, pruning.least)

    def alpha(self, prunable: int | None = None) -> float:
        """The schedule's height in percent: the recipe's own, or that which ends at its nonzeros."""
        if self.pruning.alpha is not None and self._schedule_epochs == self.training.epochs:
            return self.pruning.alpha
        return self.schedule(prunable).alpha(self.training.epochs)

    @property
    def _schedule_epochs(self) -> int:
        return self.pruning.epochs or self.training.epochs

    def steps_per_epoch(self, images: int) -> int:
        """The recipe's number, or the number of batches in the training set."""
        if self.training.batch_size > images:
            raise UsageError(f"batch_size = {self.training.batch_size} is more than the {images} training images.")
        if (steps := self.training.steps_per_epoch) is None:
            return -(-images // self.training.batch_size)
        if steps * self.training.batch_size > MOST_IMAGES_PER_EPOCH:
            raise UsageError(
                f"steps_per_epoch = {steps:,} times batch_size = {self.training.batch_size:,} is more than "
                f"{MOST_IMAGES_PER_EPOCH:,} images in an epoch, whose order is held in memory. Train more epochs."
            )
        return steps

    def training_of(self, stage: str) -> Training:
        """The training of one round, which `amenable_epochs` shortens as `epochs` would, to at least one epoch.

        >>> from asni.recipes import load
        >>> short = load("mnist-fc").override(amenable_epochs=0.2)
        >>> short.training_of("asni-1").epochs, short.training_of("asni-2").epochs
        (50, 10)
        """
        fraction = self.overrides.amenable_epochs
        if fraction is None or stage != AMENABLE_ROUND:
            return self.training
        return Training(**self._changed_training({"epochs": max(1, round(fraction * self.training.epochs))}))

    @property
    def in_full_length(self) -> "Recipe":
        """The same recipe without `amenable_epochs`; it trains all other rounds alike."""
        overrides = self.overrides.model_copy(update={"amenable_epochs": None})
        return self.model_copy(update={"overrides": overrides})

    @property
    def variant_name(self) -> str:
        """The recipe's name and what was changed: "mnist-fc", "mnist-fc--epochs-10"."""
        changes = self.overrides.model_dump(exclude_none=True)
        words = [key.replace("_", "-") + f"-{value}" * (value is not True) for key, value in changes.items()]
        return "--".join([self.name, *words])

    def override(self, **changes: Any) -> "Recipe":
        """The recipe with some values changed (see `Overrides`); values equal to the recipe's own are ignored.

        A change of the epochs scales gamma and the warm-up (rounded; at least one epoch, but never all of them) and
        keeps the nonzeros. `scale` is converted to a number of epochs, at least two. With `alpha`, `beta`, `gamma` or
        `least`, the paper's formula holds for the new epochs instead, and determines the nonzeros of a recipe that is
        given by alpha.

        >>> from asni.recipes import load
        >>> load("mnist-fc").override(scale=0.2).variant_name
        'mnist-fc--epochs-10'
        """
        wanted = checked(Overrides, changes, self.name).model_dump(exclude_none=True)
        if "scale" in wanted:
            wanted["epochs"] = self._scaled_epochs(wanted.pop("scale"))
        lottery = {f"lottery_{key}": value for key, value in self.lottery.model_dump().items()}
        current = {**self.pruning.model_dump(), **self.training.model_dump(), **lottery, "gamma": self.gamma}
        current["amenable_epochs"] = self.overrides.amenable_epochs or 1.0
        current["prune_every"] = self.pruning.every
        if self.pruning.epochs is not None:
            current["alpha"] = None
        changed = {key: value for key, value in wanted.items() if value != current[key]}
        if "epochs" in changed:
            # The same alpha or gamma is a change too: without it, they would be adapted to the epochs.
            changed |= {key: wanted[key] for key in ("alpha", "gamma") if key in wanted}
        is_cubic = wanted.get("schedule", self.pruning.schedule) == "cubic"
        if is_cubic and changed.keys() & {"beta", "gamma", "least"}:
            raise UsageError("beta, gamma and least shape the sigmoid, and this recipe's schedule is cubic.")
        replaced = {other: None for group in EXCLUSIVE if changed.keys() & {*group} for other in group}
        overrides = self.overrides.model_dump() | replaced | changed
        if overrides["amenable_epochs"] == 1:
            overrides["amenable_epochs"] = None
        parts = {
            "training": self._changed_training(changed),
            "pruning": self._changed_pruning(changed, overrides),
            "lottery": self._changed_lottery(changed),
            "overrides": overrides,
        }
        return checked(Recipe, self.model_dump() | parts, self.name)

    def _changed_training(self, changed: Mapping[str, Any]) -> dict[str, Any]:
        training = self.training.model_dump()
        training |= {key: value for key, value in changed.items() if key in training}
        if "epochs" in changed:
            training["warmup_epochs"] = self._warmup_epochs_of(epochs=changed["epochs"])
        return training

    def _changed_pruning(self, changed: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
        epochs, own_epochs = changed.get("epochs", self.training.epochs), self._schedule_epochs
        pruning = self.pruning.model_dump() | {"epochs": own_epochs}
        pruning |= {key: value for key, value in changed.items() if key in pruning and key != "epochs"}
        if "sparsity" in changed:
            pruning["alpha"] = None
        if "alpha" in changed:
            pruning["sparsity"] = None
        if "prune_every" in changed:
            pruning["every"] = changed["prune_every"]
        if changed.keys() & {*BUDGETS}:
            pruning |= {key: changed.get(key) for key in BUDGETS}
        if any(overrides[key] is not None for key in ("alpha", "beta", "gamma", "least")):
            pruning["epochs"] = epochs
            if overrides["gamma"] is None and pruning["gamma"] is not None:
                pruning["gamma"] *= epochs / own_epochs
        if pruning["epochs"] == epochs or pruning["alpha"] is pruning["gamma"] is None:
            pruning["epochs"] = None
        return pruning

    def _changed_lottery(self, changed: Mapping[str, Any]) -> dict[str, Any]:
        own = {key.removeprefix("lottery_"): value for key, value in changed.items() if key.startswith("lottery_")}
        replaced = {"rate": None, "rounds": None} if own.keys() & {"rate", "rounds"} else {}
        return self.lottery.model_dump() | replaced | own

    def _scaled_epochs(self, scale: float) -> int:
        own = self.training.epochs
        if not scale * own < math.inf:
            raise UsageError(f"scale = {scale:g} times {own} epochs is too large.")
        return max(round(scale * own), min(2, own))

    def _warmup_epochs_of(self, epochs: int) -> int:
        if not self.training.warmup_epochs:
            return 0
        return min(max(1, round(self.training.warmup_epochs * epochs / self.training.epochs)), epochs - 1)
