"""Recipes: what to train and how, their validation, and variants with other settings."""

import json
import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from asni.errors import UsageError
from asni.pruning.schedules import Sigmoid
from asni.recipes.checking import checked

if TYPE_CHECKING:
    from asni.pruning.gradual import Ranking
    from asni.pruning.layers import Layers

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

Epochs = Annotated[int, Field(ge=1, le=1_000_000)]
BatchSize = Annotated[int, Field(ge=1)]
Steps = Annotated[int, Field(ge=1, le=1_000_000_000)]
Rate = Annotated[float, Field(gt=0)]
Sparsity = Annotated[float, Field(gt=0, lt=1)]

Score = Literal["magnitude", "lamp"]

Floor = Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0, le=1)]

A_FRACTION = "a fraction of the prunable weights, such as 0.97"
SCORE = "the score that ranks the weights"
FLOOR = "the minimum to keep in each layer: a fraction such as 0.01, or a whole number of weights"


class Training(BaseModel):
    """One round of training."""

    model_config = STRICT

    epochs: Epochs
    batch_size: BatchSize
    steps_per_epoch: Steps | None = Field(default=None, description="default: the whole training set once")
    optimizer: Literal["adam", "adamw", "sgd"]
    lr: Rate
    weight_decay: float = Field(default=0.0, ge=0)
    momentum: float = Field(default=0.0, ge=0, lt=1)
    nesterov: bool = False
    lr_policy: Literal["constant", "cosine"] = "constant"
    delta: float = Field(default=0.0, ge=0, description="keeps the final rate of the cosine above 0")
    warmup_epochs: int = Field(default=0, ge=0)
    threads: int | None = Field(default=None, ge=1, description="CPU threads per process; default: torch's choice")
    augment: Literal["crop-flip", "resized-crop-flip"] | None = None

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.optimizer != "sgd" and (self.momentum or self.nesterov):
            raise ValueError(f"momentum and nesterov require optimizer = 'sgd', not '{self.optimizer}'")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov = true requires a momentum above 0")
        if self.lr_policy != "cosine" and (self.delta or self.warmup_epochs):
            raise ValueError(f"delta and warmup_epochs require lr_policy = 'cosine', not '{self.lr_policy}'")
        if self.warmup_epochs >= self.epochs and self.warmup_epochs:
            raise ValueError(f"warmup_epochs = {self.warmup_epochs} must be below epochs = {self.epochs}")
        return self


class Pruning(BaseModel):
    """The sigmoid schedule, given by the paper's `alpha` or by the final `sparsity`, and what is pruned."""

    model_config = STRICT

    alpha: float | None = Field(default=None, gt=0, description="in percent")
    sparsity: Sparsity | None = Field(default=None, description=A_FRACTION)
    beta: float = Field(default=0.5, ge=0, le=1, description="where the curve is steepest, as a fraction of the epochs")
    gamma: float | None = Field(
        default=None, gt=0, description="the width of the curve in epochs; default: epochs / 10"
    )

    score: Score = Field(default="magnitude", description=SCORE)
    floor: Floor | None = Field(default=None, description=FLOOR)
    include: list[str] | None = Field(default=None, description="patterns of the layers to prune; default: all")
    exclude: list[str] | None = Field(default=None, description="patterns of the layers not to prune")

    @model_validator(mode="after")
    def _one_height(self) -> Self:
        if (self.alpha is None) == (self.sparsity is None):
            raise ValueError("set exactly one of alpha (percent) and sparsity (fraction)")
        return self

    @property
    def layers(self) -> "Layers":
        """Which weights are prunable, as keyword arguments of a pruner."""
        return {"include": self.include, "exclude": self.exclude}

    @property
    def ranking(self) -> "Ranking":
        """How the weights are ranked, as keyword arguments of a gradual pruner."""
        return {"score": self.score, "floor": self.floor}


class Paper(BaseModel):
    """The paper's numbers for this recipe: percentages as printed, sparsity over all parameters."""

    model_config = STRICT

    row: int | None = None
    parameters: int | None = None
    nonzeros: int | None = None
    sparsity: float | None = None
    dense: float | None = None
    asni_1: float | None = None
    asni_2: float | None = None
    original: float | None = None

    def accuracy(self, variant: str) -> float | None:
        """The accuracy that the paper prints for one of its four variants, such as "asni-1"."""
        printed: float | None = getattr(self, variant.replace("-", "_"))
        return printed


class Overrides(BaseModel):
    """What a variant changes in its recipe; every training command has these options."""

    model_config = STRICT

    epochs: Epochs | None = Field(
        default=None, description="number of epochs; gamma scales with it, the nonzeros stay the same"
    )
    scale: float | None = Field(default=None, gt=0, description="multiply the epochs by this factor, such as 0.2")
    batch_size: BatchSize | None = Field(default=None, description="images per step, over all processes")
    lr: Rate | None = Field(default=None, description="the highest learning rate")
    sparsity: Sparsity | None = Field(default=None, description=A_FRACTION)
    score: Score | None = Field(default=None, description=SCORE)
    steps_per_epoch: Steps | None = Field(default=None, description="number of steps per epoch")

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.epochs is not None and self.scale is not None:
            raise ValueError("epochs and scale both set the length of the training: choose one")
        return self

    def arguments(self) -> list[str]:
        """The overrides as command-line arguments.

        >>> Overrides(epochs=10, batch_size=30).arguments()
        ['--epochs', '10', '--batch-size', '30']
        """
        changes = self.model_dump(exclude_none=True)
        return [word for key, value in changes.items() for word in (f"--{key.replace('_', '-')}", str(value))]


class Recipe(BaseModel):
    """A dataset, a network, a training and a pruning schedule."""

    model_config = STRICT

    name: str
    title: str = ""
    dataset: str
    network: str = Field(description="one of the paper's, or package.module:function")
    network_options: dict[str, Any] = {}
    training: Training
    pruning: Pruning
    paper: Paper = Paper()
    overrides: Overrides = Overrides()

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.network_options and ":" not in self.network:
            raise ValueError(
                f"network_options require a network given as package.module:function, not '{self.network}'"
            )
        try:
            json.dumps(self.network_options, allow_nan=False)
        except (TypeError, ValueError) as error:
            kinds = "strings, finite numbers, booleans, and arrays and tables of these"
            raise ValueError(f"network_options may contain {kinds} ({error})") from error
        if not 0 < self.final_sparsity < 1:
            raise ValueError(
                f"pruning.alpha = {self.pruning.alpha}: would prune {self.final_sparsity:.1%} of the prunable weights; "
                "the final sparsity must be above 0 % and below 100 %"
            )
        return self

    @property
    def gamma(self) -> float:
        """The schedule's width in epochs; by default a tenth of them."""
        return self.training.epochs / 10 if self.pruning.gamma is None else self.pruning.gamma

    @property
    def final_sparsity(self) -> float:
        """The fraction of the prunable weights that is zero after the last pruning, after epoch E - 2."""
        if self.pruning.sparsity is not None:
            return self.pruning.sparsity
        assert self.pruning.alpha is not None
        return Sigmoid.from_alpha(self.pruning.alpha, self.training.epochs, self.pruning.beta, self.gamma).final

    @property
    def schedule(self) -> Sigmoid:
        """The fraction of the prunable weights that is zero after each epoch."""
        return Sigmoid(self.final_sparsity, self.pruning.beta, self.gamma)

    def steps_per_epoch(self, images: int) -> int:
        """The recipe's number, or the number of batches in the training set."""
        if self.training.batch_size > images:
            raise UsageError(f"batch_size = {self.training.batch_size} is more than the {images} training images.")
        return self.training.steps_per_epoch or -(-images // self.training.batch_size)

    @property
    def variant_name(self) -> str:
        """The recipe's name and what was changed: "mnist-fc", "mnist-fc--epochs-10"."""
        changes = self.overrides.model_dump(exclude_none=True)
        return "--".join([self.name, *(f"{key.replace('_', '-')}-{value}" for key, value in changes.items())])

    def override(self, **changes: Any) -> "Recipe":
        """The recipe with some values changed (see `Overrides`); values equal to the recipe's own are ignored.

        A change of the epochs scales gamma and the warm-up (rounded; at least one epoch, but never all of them) and
        keeps the final sparsity. `scale` is converted to a number of epochs, at least two.

        >>> from asni.recipes import load
        >>> load("mnist-fc").override(scale=0.2).variant_name
        'mnist-fc--epochs-10'
        """
        wanted = checked(Overrides, changes, self.name).model_dump(exclude_none=True)
        if "scale" in wanted:
            wanted["epochs"] = self._scaled_epochs(wanted.pop("scale"))
        training, pruning = self.training.model_dump(), self.pruning.model_dump()
        current = {**training, **pruning, "sparsity": self.final_sparsity}
        changed = {key: value for key, value in wanted.items() if value != current[key]}

        training |= {key: value for key, value in changed.items() if key in training}
        pruning |= {key: value for key, value in changed.items() if key in pruning}
        if "epochs" in changed:
            training["warmup_epochs"] = self._warmup_epochs_of(epochs=changed["epochs"])
            if self.pruning.gamma is not None:
                pruning["gamma"] = self.pruning.gamma * changed["epochs"] / self.training.epochs
        if "epochs" in changed or "sparsity" in changed:
            pruning |= {"alpha": None, "sparsity": changed.get("sparsity", self.final_sparsity)}
        overrides = self.overrides.model_dump() | changed
        return checked(
            Recipe, self.model_dump() | {"training": training, "pruning": pruning, "overrides": overrides}, self.name
        )

    def _scaled_epochs(self, scale: float) -> int:
        own = self.training.epochs
        if not scale * own < math.inf:
            raise UsageError(f"scale = {scale:g} times {own} epochs is too large.")
        return max(round(scale * own), min(2, own))

    def _warmup_epochs_of(self, epochs: int) -> int:
        if not self.training.warmup_epochs:
            return 0
        return min(max(1, round(self.training.warmup_epochs * epochs / self.training.epochs)), epochs - 1)
