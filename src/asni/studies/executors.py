"""Train the runs of a study: in this process, in several processes on this machine, or on a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from asni.errors import AsniError, StoppedError, UsageError
from asni.files import make_directory
from asni.methods import METHODS
from asni.studies.overview import Overview
from asni.studies.study import Study, Task
from asni.training.processes import make_fabric, rank
from asni.training.progress import Progress

Failures = dict[Task, str]
"""The tasks that failed, and why."""


class Executor(Protocol):
    """Trains tasks and shows their progress. A failed task does not stop the others."""

    @property
    def at_once(self) -> int:
        """How many runs are trained in parallel."""

    def run(self, tasks: Sequence[Task], overview: Overview) -> Failures: ...


def train_missing(study: Study, executor: Executor) -> Failures:
    """Train the missing runs of a study; returns those that failed, and why."""
    missing = study.missing()
    if not missing:
        return {}
    make_directory(study.root)
    with Overview(study.tasks, min(executor.at_once, len(missing)), quiet=rank() > 0) as overview:
        return executor.run(missing, overview)


def failure(failures: Mapping[Task, str]) -> AsniError:
    """The error that a command with failed runs ends with."""
    lines = "\n".join(f"  {task}: {message}" for task, message in failures.items())
    return AsniError(f"{len(failures)} of the runs failed. Run the same command to retry.\n{lines}")


def blocked_by(task: Task, failures: Failures) -> str | None:
    """Why a task cannot start: a run that it needs failed. None if it can."""
    failed = next((other for other in failures if task.depends_on(other)), None)
    return None if failed is None else f"it needs {failed.method.name}, which failed"


@dataclass(frozen=True)
class Here:
    """Trains one run after another in this process; with several `devices`, several processes train each network."""

    device: str = "auto"
    devices: int = 1
    at_once: int = 1

    def run(self, tasks: Sequence[Task], overview: Overview) -> Failures:
        from asni.training.trainer import Trainer

        fabric = make_fabric(self.device, self.devices, tasks[0].experiment.precision)
        progress = Progress(quiet=rank() > 0)
        failures: Failures = {}
        trainer: Trainer | None = None
        for task in tasks:
            if why := blocked_by(task, failures):
                failures[task] = why
                continue
            try:
                if trainer is None or trainer.experiment is not task.experiment:
                    trainer = Trainer(task.experiment, fabric, progress)
                METHODS[task.method.name].train(trainer)
            except (UsageError, StoppedError):
                raise
            except AsniError as error:
                # Processes that train one network together also end together.
                if fabric.world_size > 1 or len(tasks) == 1:
                    raise
                failures[task] = str(error)
            overview.list_finished()
        return failures
