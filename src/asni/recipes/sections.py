"""The sections of a recipe: training, pruning, lottery rounds, the paper's numbers, and what a variant changes."""

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from asni.errors import MOST_QUOTED, is_printable, unknown
from asni.pruning.schedules import LEAST_GAMMA, MOST_GAMMA
from asni.recipes.own_code import is_code
from asni.recipes.times import milliseconds

if TYPE_CHECKING:
    from asni.pruning.gradual import Ranking
    from asni.pruning.layers import Layers

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

Epochs = Annotated[int, Field(ge=1, le=100_000)]
BatchSize = Annotated[int, Field(ge=1, le=100_000_000)]
Steps = Annotated[int, Field(ge=1, le=10_000_000)]
Rate = Annotated[float, Field(gt=0)]
Sparsity = Annotated[float, Field(gt=0, lt=1)]
Alpha = Annotated[float, Field(gt=0, le=1e12)]
Beta = Annotated[float, Field(ge=0, le=1)]
Gamma = Annotated[float, Field(ge=LEAST_GAMMA, le=MOST_GAMMA)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Least = Annotated[float, Field(ge=0, lt=1)]

Score = Literal["magnitude", "lamp"]
Curve = Literal["sigmoid", "cubic"]
Milliseconds = Annotated[float, Field(gt=0, le=1e9), BeforeValidator(milliseconds)]
SpeedUp = Annotated[float, Field(gt=1, le=1e6)]
Parallel = Annotated[int, Field(ge=1, le=1024)]

Count = Annotated[int, Field(ge=0, le=10**15)]
Floor = Count | Annotated[float, Field(ge=0, le=1)]

BUDGETS = ("macs", "latency", "speedup")
"""What may limit the work or the time of a network, one at a time."""

OPTIMIZERS = ("adam", "adamw", "sgd")

PruningRate = Annotated[float, Field(ge=0.001, lt=1)]
Rounds = Annotated[int, Field(ge=1, le=10_000)]

A_FRACTION = "a fraction of the prunable weights, such as 0.97"
ALPHA = "the height of the sigmoid in percent; it sets the nonzeros, as sparsity does"
BETA = "where the sigmoid is steepest, as a fraction of the epochs; with alpha, it moves the nonzeros"
GAMMA = "the width of the sigmoid in epochs; with alpha, it moves the nonzeros"
LEAST = "leave out prunings of at most this fraction of the living weights (the authors' program: 0.001)"
RATE = "the lottery's p: the largest fraction of the living weights to prune per round, such as 0.2"
ROUNDS = "the lottery's number of prunings, instead of a rate"
REWIND = "the k of rewound tickets: the step of the first round to return to"
AMENABLE_EPOCHS = "train ASNI-II's second round for this fraction of the epochs, such as 0.2"
SCORE = "the score that ranks the weights: magnitude or lamp"
SCHEDULE = "the curve along which is pruned: sigmoid, or cubic from 20 to 80 % of the training"
PRUNE_EVERY = "steps between two prunings"
MACS = "keep at most this fraction of the multiplications, such as 0.15"
LATENCY = "prune until one pass takes so long in the engine on this machine, such as 2ms"
SPEEDUP = "prune until the engine is so many times as fast as it is with the dense network, such as 4"
LATENCY_BATCH = "the images of a pass, for latency and speedup"
LATENCY_THREADS = "the threads of a pass, for latency and speedup"
AVERAGE_LAST = "end with the average of the weights over the last epoch, or what is left of it after the last pruning"
FLOOR = "the minimum to keep in each layer: a fraction such as 0.01, or a whole number of weights"


MOST_NESTED = 20
MOST_THREADS = 1024
"""Far more of them end the process without a message."""


def _one_line(text: str) -> str:
    if not is_printable(text):
        raise ValueError(f"{text[:MOST_QUOTED]!r} must be one line of printable characters")
    return text


Line = Annotated[str, Field(max_length=4096), AfterValidator(_one_line)]


def _storable(options: dict[str, Any]) -> dict[str, Any]:
    kinds = "strings, finite numbers, booleans, and arrays and tables of these"
    if _deeper_than(MOST_NESTED, options):
        raise ValueError(f"may contain {kinds}, nested at most {MOST_NESTED} times")
    try:
        json.dumps(options, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"may contain {kinds} ({error})") from error
    return options


def _deeper_than(levels: int, value: object) -> bool:
    if not isinstance(value, dict | list):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper_than(levels - 1, each) for each in inside)


Options = Annotated[dict[str, Any], AfterValidator(_storable)]
"""Arguments for the user's own code. A run stores them as JSON."""


class Training(BaseModel):
    """One round of training."""

    model_config = STRICT

    epochs: Epochs
    batch_size: BatchSize
    steps_per_epoch: Steps | None = Field(default=None, description="default: the whole training set once")
    optimizer: Line = Field(description="adam, adamw, sgd, or package.module:Class")
    optimizer_options: Options = Field(default={}, description="more arguments for a package.module:Class")
    lr: Rate
    weight_decay: float = Field(default=0.0, ge=0)
    momentum: float = Field(default=0.0, ge=0, lt=1)
    nesterov: bool = False
    lr_policy: Literal["constant", "cosine"] = "constant"
    delta: float = Field(default=0.0, ge=0, description="keeps the final rate of the cosine above 0")
    warmup_epochs: Count = 0
    threads: int | None = Field(
        default=None, ge=1, le=MOST_THREADS, description="CPU threads per process; default: torch's choice"
    )
    augment: Literal["crop-flip", "resized-crop-flip"] | None = None
    average_last: bool = Field(default=False, description=AVERAGE_LAST)

    @field_validator("optimizer")
    @classmethod
    def _is_known(cls, optimizer: str) -> str:
        if optimizer not in OPTIMIZERS and not is_code(optimizer):
            raise ValueError(str(unknown("optimiser", optimizer, [*OPTIMIZERS, "package.module:Class"])))
        return optimizer

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.optimizer != "sgd" and (self.momentum or self.nesterov):
            raise ValueError(f"momentum and nesterov require optimizer = 'sgd', not '{self.optimizer}'")
        if self.optimizer_options and not is_code(self.optimizer):
            raise ValueError(f"optimizer_options require optimizer = 'package.module:Class', not '{self.optimizer}'")
        if "lr" in self.optimizer_options:
            raise ValueError("optimizer_options may not contain lr: set it as lr, since it changes with the epochs")
        if "weight_decay" in self.optimizer_options and self.weight_decay:
            raise ValueError("weight_decay is set twice: once in optimizer_options is enough")
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

    alpha: Alpha | None = Field(default=None, description=ALPHA)
    sparsity: Sparsity | None = Field(default=None, description=A_FRACTION)
    beta: Beta = Field(default=0.5, description=BETA)
    gamma: Gamma | None = Field(default=None, description=f"{GAMMA}; default: a tenth of the epochs")
    least: Least = Field(default=0.0, description=LEAST)
    epochs: Epochs | None = Field(
        default=None, description="the epochs that alpha and gamma are for, if the training is shorter or longer"
    )

    schedule: Curve = Field(default="sigmoid", description=SCHEDULE)
    every: Steps | Literal["epoch"] | None = Field(
        default=None, description=f'{PRUNE_EVERY}, or "epoch"; default: an epoch, in less than 30 epochs a fiftieth'
    )
    score: Score = Field(default="magnitude", description=SCORE)
    floor: Floor | None = Field(default=None, description=FLOOR)
    macs: Fraction | None = Field(default=None, description=MACS)
    latency: Milliseconds | None = Field(default=None, description=LATENCY)
    speedup: SpeedUp | None = Field(default=None, description=SPEEDUP)
    latency_batch: Parallel | None = Field(default=None, description=f"{LATENCY_BATCH}; default: 1")
    latency_threads: Parallel | None = Field(default=None, description=f"{LATENCY_THREADS}; default: 1")
    include: list[Line] | None = Field(default=None, description="patterns of the layers to prune; default: all")
    exclude: list[Line] | None = Field(default=None, description="patterns of the layers not to prune")

    @model_validator(mode="after")
    def _one_height(self) -> Self:
        if (self.alpha is None) == (self.sparsity is None):
            raise ValueError("set exactly one of alpha (percent) and sparsity (fraction)")
        if sum(getattr(self, key) is not None for key in BUDGETS) > 1:
            raise ValueError("macs, latency and speedup all set a budget: choose one")
        timed = self.latency is not None or self.speedup is not None
        if not timed and (self.latency_batch is not None or self.latency_threads is not None):
            raise ValueError("latency_batch and latency_threads need latency or speedup")
        return self

    @property
    def has_budget(self) -> bool:
        return any(getattr(self, key) is not None for key in BUDGETS)

    @property
    def images_per_pass(self) -> int:
        return self.latency_batch or 1

    @property
    def threads_per_pass(self) -> int:
        return self.latency_threads or 1

    @property
    def layers(self) -> "Layers":
        """Which weights are prunable, as keyword arguments of a pruner."""
        return {"include": self.include, "exclude": self.exclude}

    @property
    def ranking(self) -> "Ranking":
        """How the weights are ranked, as keyword arguments of a gradual pruner."""
        return {"score": self.score, "floor": self.floor}


class Lottery(BaseModel):
    """The rounds of the lottery methods. The recipe's nonzeros determine the rate from the rounds, or the reverse."""

    model_config = STRICT

    rate: PruningRate | None = Field(default=None, description=f"{RATE}; default: 0.2")
    rounds: Rounds | None = Field(default=None, description=ROUNDS)
    rewind: Steps | None = Field(default=None, description=f"{REWIND}; default: 2 % of the training")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.rate is not None and self.rounds is not None:
            raise ValueError("the nonzeros determine rounds from rate, and rate from rounds: set one of them")
        return self

    @property
    def pace(self) -> dict[str, Any]:
        """The rate or the number of rounds, whichever is set."""
        return self.model_dump(include={"rate", "rounds"}, exclude_none=True)


class Paper(BaseModel):
    """The paper's numbers for this recipe: percentages as printed, sparsity over all parameters."""

    model_config = STRICT

    row: Count | None = None
    parameters: Count | None = None
    nonzeros: Count | None = None
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
    """What a variant changes in its recipe; the options of training commands, of which `reproduce` has the length."""

    model_config = STRICT

    epochs: Epochs | None = Field(
        default=None,
        description="number of epochs; gamma scales with it, and the nonzeros stay the same unless the curve changes",
    )
    scale: float | None = Field(default=None, gt=0, description="multiply the epochs, for example by 0.2")
    batch_size: BatchSize | None = Field(default=None, description="images per step, over all processes")
    lr: Rate | None = Field(default=None, description="the highest learning rate")
    sparsity: Sparsity | None = Field(default=None, description=A_FRACTION)
    score: Score | None = Field(default=None, description=SCORE)
    steps_per_epoch: Steps | None = Field(default=None, description="number of steps per epoch")
    alpha: Alpha | None = Field(default=None, description=ALPHA)
    beta: Beta | None = Field(default=None, description=BETA)
    gamma: Gamma | None = Field(default=None, description=GAMMA)
    least: Least | None = Field(default=None, description=LEAST)
    lottery_rate: PruningRate | None = Field(default=None, description=RATE)
    lottery_rounds: Rounds | None = Field(default=None, description=ROUNDS)
    lottery_rewind: Steps | None = Field(default=None, description=REWIND)
    amenable_epochs: Fraction | None = Field(default=None, description=AMENABLE_EPOCHS)
    schedule: Curve | None = Field(default=None, description=SCHEDULE)
    prune_every: Steps | None = Field(default=None, description=PRUNE_EVERY)
    macs: Fraction | None = Field(default=None, description=MACS)
    latency: Milliseconds | None = Field(default=None, description=LATENCY)
    speedup: SpeedUp | None = Field(default=None, description=SPEEDUP)
    latency_batch: Parallel | None = Field(default=None, description=LATENCY_BATCH)
    latency_threads: Parallel | None = Field(default=None, description=LATENCY_THREADS)
    average_last: bool | None = Field(default=None, description=AVERAGE_LAST)

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if self.epochs is not None and self.scale is not None:
            raise ValueError("epochs and scale both set the length of the training: choose one")
        if self.alpha is not None and self.sparsity is not None:
            raise ValueError("alpha and sparsity both set the nonzeros: choose one")
        if self.lottery_rate is not None and self.lottery_rounds is not None:
            raise ValueError("lottery_rate and lottery_rounds both set the lottery's rounds: choose one")
        if sum(getattr(self, key) is not None for key in BUDGETS) > 1:
            raise ValueError("macs, latency and speedup all set a budget: choose one")
        if self.schedule == "cubic" and any(each is not None for each in (self.beta, self.gamma, self.least)):
            raise ValueError("beta, gamma and least shape the sigmoid: leave them out, or schedule = cubic")
        return self

    def arguments(self) -> list[str]:
        """The overrides as command-line arguments.

        >>> Overrides(epochs=10, batch_size=30).arguments()
        ['--epochs', '10', '--batch-size', '30']
        """
        changes = self.model_dump(exclude_none=True)
        words = [(key.replace("_", "-"), value) for key, value in changes.items()]
        flags = {True: "--", False: "--no-"}
        return [
            word
            for name, value in words
            for word in ([flags[value] + name] if isinstance(value, bool) else [f"--{name}", str(value)])
        ]


PRUNING_OVERRIDES = tuple(name for name in Overrides.model_fields if name not in (*Training.model_fields, "scale"))
