"""The runs of a study on a Slurm cluster, through submitit; where there is no `srun`, submitit runs them here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import submitit
from submitit.helpers import Checkpointable

from asni.studies.side_by_side import start
from asni.studies.study import Task

MOST_TIMEOUTS = 1000
"""How often a run that reached its time limit is queued again: it resumes from its last epoch, so this is no loop."""


def most_at_once() -> int:
    """As many as Slurm lets a job array have by default; one at a time where submitit runs them on this machine."""
    return 1000 if submitit.AutoExecutor.which() == "slurm" else 1


@dataclass
class TrainTask(Checkpointable):
    """One run: the same resumable command, which submitit queues again when Slurm preempts it."""

    task: Task
    device: str

    def __call__(self) -> int:
        process = start(self.task, self.device)
        try:
            return process.wait()
        finally:
            # Preempted or cancelled, this process ends by an exception.
            process.kill()


@dataclass(frozen=True)
class SlurmJob:
    """A submitted run as `subprocess.Popen` would have it."""

    job: "submitit.Job[int]"

    def poll(self) -> int | None:
        if not self.job.done():
            return None
        # A job that was cancelled or lost its node has no result to ask for.
        return 1 if self.job.exception() is not None else self.job.result()

    def terminate(self) -> None:
        self.job.cancel(check=False)

    def wait(self) -> None:
        """Slurm ends a cancelled job by itself."""


@dataclass(frozen=True)
class Slurm:
    """Submits runs as tasks of a job array. `options` are any of sbatch's, such as `{"account": "mine"}`."""

    folder: Path
    device: str = "auto"
    partition: str | None = None
    minutes: int = 1440
    options: Mapping[str, str] = field(default_factory=dict)
    cluster: str | None = None

    def __call__(self, tasks: Sequence[Task], at_once: int) -> list[SlurmJob]:
        executor = submitit.AutoExecutor(self.folder / "%j", cluster=self.cluster, slurm_max_num_timeout=MOST_TIMEOUTS)
        executor.update_parameters(
            name="asni",
            timeout_min=self.minutes,
            slurm_partition=self.partition,
            slurm_array_parallelism=at_once,
            slurm_additional_parameters=dict(self.options),
        )
        return [SlurmJob(job) for job in executor.submit_array([TrainTask(task, self.device) for task in tasks])]
