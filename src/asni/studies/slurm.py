"""Train the runs of a study on a Slurm cluster with submitit; without `srun`, submitit trains them on this machine."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import submitit
from submitit.helpers import Checkpointable

from asni.studies.parallel import start
from asni.studies.study import PlannedRun

MOST_TIMEOUTS = 1000
"""How often a run that reached its time limit is requeued; each time, it resumes from its last epoch."""


def most_at_once() -> int:
    """Slurm's default limit for a job array; 1 if submitit trains the runs on this machine."""
    return 1000 if submitit.AutoExecutor.which() == "slurm" else 1


@dataclass
class TrainRun(Checkpointable):
    """Trains one run with a resumable command, which submitit requeues when Slurm preempts it."""

    planned: PlannedRun
    device: str
    kernels: str

    def __call__(self) -> int:
        process = start(self.planned, self.device, self.kernels)
        try:
            return process.wait()
        finally:
            # A preempted or cancelled job raises an exception here.
            process.kill()


@dataclass(frozen=True)
class SlurmJob:
    """A submitted run, with the interface of `subprocess.Popen`."""

    job: "submitit.Job[int]"

    def poll(self) -> int | None:
        if not self.job.done():
            return None
        # A job that was cancelled or lost its node has no result.
        return 1 if self.job.exception() is not None else self.job.result()

    def terminate(self) -> None:
        self.job.cancel(check=False)

    def wait(self) -> None:
        """Return at once: Slurm itself ends a cancelled job."""


@dataclass(frozen=True)
class Slurm:
    """Submits runs as the tasks of a job array. `options` are other sbatch options, such as `{"account": "mine"}`."""

    folder: Path
    device: str = "auto"
    partition: str | None = None
    minutes: int = 1440
    options: Mapping[str, str] = field(default_factory=dict)
    kernels: str = "auto"

    def __call__(self, runs: Sequence[PlannedRun], at_once: int) -> list[SlurmJob]:
        executor = submitit.AutoExecutor(
            self.folder / "%j", slurm_max_num_timeout=MOST_TIMEOUTS, local_max_num_timeout=MOST_TIMEOUTS
        )
        executor.update_parameters(
            name="asni",
            timeout_min=self.minutes,
            slurm_partition=self.partition,
            slurm_array_parallelism=at_once,
            slurm_additional_parameters={"requeue": True, **self.options},
        )
        with _interruptible_children():
            jobs = executor.submit_array([TrainRun(planned, self.device, self.kernels) for planned in runs])
        return [SlurmJob(job) for job in jobs]


@contextmanager
def _interruptible_children() -> Iterator[None]:
    """Let children react to SIGINT, by which submitit cancels local jobs; a shell's background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
