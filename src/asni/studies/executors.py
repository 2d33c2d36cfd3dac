"""Train the runs of a study: in this process, in several processes on this machine, or on a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from asni.display import on_stderr
from asni.errors import AsniError, StoppedError, UsageError
from asni.files import make_directory
from asni.studies.overview import Overview
from asni.studies.study import PlannedRun, Study
from asni.training.processes import make_fabric
from asni.training.progress import Progress

if TYPE_CHECKING:
    from asni.training.kernels import Choice

Failures = dict[PlannedRun, str]
"""The runs that failed, and why."""


class Executor(Protocol):
    """Trains runs and shows their progress. A failed run does not stop the others."""

    @property
    def at_once(self) -> int:
        """How many runs are trained in parallel."""

    def run(self, runs: Sequence[PlannedRun], overview: Overview) -> Failures: ...


def train_missing(study: Study, executor: Executor) -> Failures | None:
    """Train the missing runs of a study; returns those that failed, and why. None if nothing is missing."""
    with on_stderr().status(f"Reading {len(study.runs)} runs"):
        missing = study.missing()
    for finished in {*study.runs}.difference(missing):
        finished.run.remove_checkpoints()
    if not missing:
        return None
    make_directory(study.root)
    with Overview(study.runs, min(executor.at_once, len(missing))).shown() as overview:
        return executor.run(missing, overview)


def failure(failures: Mapping[PlannedRun, str]) -> AsniError:
    """The error that a command with failed runs ends with."""
    lines = "\n".join(f"  {planned}: {message}" for planned, message in failures.items())
    return AsniError(f"{len(failures)} of the runs failed. Run the same command to retry.\n{lines}")


def blocked_by(planned: PlannedRun, failures: Failures) -> str | None:
    """Why a planned run cannot start: a run that it needs failed. None if it can."""
    failed = next((other for other in failures if planned.depends_on(other)), None)
    return None if failed is None else f"it needs {failed.method.name}, which failed"


@dataclass(frozen=True)
class InProcess:
    """Trains one run after another in this process; with several `devices`, several processes train each network."""

    device: str = "auto"
    devices: int = 1
    kernels: "Choice" = "auto"

    @property
    def at_once(self) -> int:
        return 1

    def run(self, runs: Sequence[PlannedRun], overview: Overview) -> Failures:
        with overview.display.status("Loading torch"):
            from asni.engine import layer_times
            from asni.sparse.stepper import Stepper
            from asni.training.trainer import Trainer
        fabric = make_fabric(self.device, self.devices, runs[0].experiment.precision)
        failures: Failures = {}
        trainer: Trainer | None = None
        for planned in runs:
            if why := blocked_by(planned, failures):
                failures[planned] = why
                continue
            overview.begin(planned)
            try:
                if trainer is None or trainer.experiment is not planned.experiment:
                    progress = Progress(about=overview.about(planned.experiment))
                    trainer = Trainer(
                        planned.experiment,
                        fabric,
                        progress,
                        accelerate=Stepper,
                        kernels=self.kernels,
                        stopwatch=layer_times,
                    )
                planned.method.train(trainer)
            except (UsageError, StoppedError):
                raise
            except AsniError as error:
                # Processes that train one network together also end together.
                if fabric.world_size > 1 or len(runs) == 1:
                    raise
                failures[planned] = str(error)
            if not overview.display.draws:
                # A terminal has a line of each training.
                overview.list_finished()
        return failures
