"""Where the runs of a study are trained, as options of the command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from asni.cli.grouping import group_of
from asni.cli.options import EXECUTION, MOST_JOBS, Device, Devices, KernelsName, between
from asni.errors import UsageError
from asni.studies.executors import Executor, InProcess
from asni.studies.parallel import LocalProcesses, Parallel

MOST_MINUTES = 366 * 24 * 60


@dataclass(frozen=True)
class ExecutorOptions:
    """Where the runs of a study are trained, as options."""

    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=between(1, MOST_JOBS),
            help="Runs to train in parallel; they share the cores. Default: 1; on Slurm, all.",
            rich_help_panel=EXECUTION,
        ),
    ] = None
    device: Device = "auto"
    devices: Devices = 1
    kernels: KernelsName = "auto"
    executor: Annotated[
        Literal["local", "slurm"],
        typer.Option(metavar="NAME", help="local: on this machine. slurm: on a cluster.", rich_help_panel=EXECUTION),
    ] = "local"
    slurm_partition: Annotated[
        str | None, typer.Option(metavar="NAME", help="The Slurm partition to submit to.", rich_help_panel=EXECUTION)
    ] = None
    slurm_time: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=between(1, MOST_MINUTES),
            help="Minutes after which a run is requeued to resume. Default: 1440.",
            rich_help_panel=EXECUTION,
        ),
    ] = None
    slurm_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Another sbatch option, such as gres=gpu:1. May be repeated.",
            rich_help_panel=EXECUTION,
        ),
    ] = None

    def executor_for(self, out: Path) -> Executor:
        """The executor that these options ask for."""
        if self.devices > 1 and (self.executor == "slurm" or self.jobs not in (None, 1)):
            raise UsageError("--devices cannot be combined with --jobs or --executor slurm. Leave out one of them.")
        if self.executor == "slurm":
            return self._slurm(out)
        if (self.slurm_partition, self.slurm_time, self.slurm_option) != (None, None, None):
            raise UsageError("--slurm-partition, --slurm-time and --slurm-option need --executor slurm.")
        if self.jobs in (None, 1):
            return InProcess(self.device, self.devices, self.kernels)
        return Parallel(self.jobs, LocalProcesses(self.device, self.kernels))

    def _slurm(self, out: Path) -> Executor:
        try:
            from asni.studies.slurm import Slurm, most_at_once
        except ModuleNotFoundError as error:
            raise UsageError(f"--executor slurm needs {error.name}: pip install 'asni[slurm]'.") from error
        options = [option.partition("=") for option in self.slurm_option or []]
        if not all(key and equals for key, equals, _ in options):
            raise UsageError("--slurm-option: write each as KEY=VALUE, such as gres=gpu:1.")
        launch = Slurm(
            out / "slurm",
            self.device,
            self.slurm_partition,
            self.slurm_time or 1440,
            {key: value for key, _, value in options},
            self.kernels,
        )
        return Parallel(self.jobs or most_at_once(), launch)


Execution = Annotated[ExecutorOptions, group_of(ExecutorOptions)]
