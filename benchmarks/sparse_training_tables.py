"""The tables about training on the nonzeros, from what was measured: `python -m benchmarks.sparse_training_tables`.

It writes each table into its place in `results/sparse-training/README.md`. What has not been measured yet is said so.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from asni.engine.native import TITLES
from benchmarks import amenable_length, same_training
from benchmarks.investigation_time import VARIANTS, headline, total
from benchmarks.masked_networks import MASKS
from benchmarks.sparse_training import DENSE, NETWORKS, OURS, memory, multiple, on_two
from benchmarks.tables import digits, fill, megabytes, percent, read, table, times

RESULTS = Path(__file__).parents[1] / "results" / "sparse-training"
PAGES = (RESULTS / "README.md",)

AIMS = {
    ("LeNet-300-100", "real"): 11.0,
    ("Conv2", "real"): 2.5,
    ("Conv4", "real"): 2.3,
    ("Conv6", "real"): 4.0,
    ("VGG-16", "kaiming"): 5.0,
    ("ResNet-18", "real"): 2.5,
    ("Conv2", "macs-0.10"): 5.2,
    ("Conv6", "macs-0.10"): 5.6,
}
"""Multiples of the faster dense step. No training gave a mask for VGG-16."""
AIMED = "v3"
"""The instruction set of the aims."""
HEADLINE_AIMS = {"mnist-fc": 0.8, "cifar10-conv2": 1.3, "cifar10-conv6": 1.2}

Row = Mapping[str, Any]
Rows = Mapping[str, Row]


def tables(folder: Path = RESULTS) -> dict[str, str]:
    """All tables by their names, from the files in a folder."""
    speed, drift, lengths, investigated = (
        read(folder / f"{name}.json") for name in ("speed", "drift", "amenable-length", "investigation")
    )
    made = {
        "setting": setting(speed) if speed else "",
        "multiples": multiples(speed) if speed else "",
        "costs": costs(speed) if speed else "",
        "investigation": investigations(investigated) if investigated else "",
        "drift": drifts(drift) if drift else "",
        "lengths": second_rounds(lengths) if lengths else "",
    }
    return {name: found or "Not measured yet." for name, found in made.items()}


def setting(rows: Rows) -> str:
    """What everything was measured on."""
    machines = sorted({f"{row['processor']}, {TITLES[row['instruction_set']]}" for row in rows.values()})
    versions = sorted({f"{name} {each}" for row in rows.values() for name, each in row["versions"].items()})
    return f"{'; '.join(machines)}. {', '.join(versions)}."


def multiples(rows: Rows) -> str:
    """How many times as fast as the faster dense step ours is, by machine, beside the aim."""
    machines = sorted({_machine(row) for row in rows.values()})
    body = []
    for network in NETWORKS:
        for mask in MASKS:
            found = {_machine(row): row for key, row in rows.items() if key.startswith(f"{network}, {mask}, ")}
            if found:
                first = next(iter(found.values()))
                left = [percent(first[name]) for name in ("density", "mac_density")]
                reached = [times(multiple(found[machine])) if machine in found else "-" for machine in machines]
                body.append([network, mask, *left, *reached, _aim(AIMS.get((network, mask)), found)])
    titles = [f"{processor}, {TITLES[isa]}" for processor, isa in machines]
    return table(["network", "mask", "nonzeros %", "MACs %", *titles, f"aim, {TITLES[AIMED]}"], body)


def _machine(row: Row) -> tuple[str, str]:
    return short(row["processor"]), row["instruction_set"]


def short(processor: str) -> str:
    """
    >>> short("Intel(R) Xeon(R) Processor @ 2.50GHz"), short("AMD EPYC")
    ('Intel Xeon', 'AMD EPYC')
    """
    return re.sub(r"\((R|TM)\)| (Processor|CPU)\b| @.*", "", processor)


def _aim(aim: float | None, found: Mapping[tuple[str, str], Row]) -> str:
    """The aim, in bold if it is missed on any processor."""
    if aim is None:
        return ""
    reached = [multiple(row) for (_, isa), row in found.items() if isa == AIMED]
    return f"**{aim:g}**" if any(each < aim for each in reached) else f"{aim:g}"


def costs(rows: Rows) -> str:
    """One line for each row: the times, the second thread, and the memory."""
    head = [
        "", "batch", "asni ms", "dense ms", "channels_last ms", "multiple of medians", "2 threads", "memory MB",
        "activations MB", "build s",
    ]  # fmt: skip
    return table(head, [_costs(key, row) for key, row in rows.items()])


def _costs(key: str, row: Row) -> list[str]:
    steps = [digits(row["steps"][name]["quantile_ms"]) for name in (OURS, *DENSE)]
    held = [megabytes(memory(row)), megabytes(row["memory"]["activations"])]
    gains = [times(multiple(row, "median_ms")), f"{times(on_two(row))}x"]
    name = key.replace(row["processor"], short(row["processor"]))
    return [name, str(row["batch"]), *steps, *gains, *held, digits(row["build_seconds"])]


def investigations(rows: Rows) -> str:
    """The seconds of each variant before (dense kernels) and after, their sum, and the headline beside its aim."""
    head = ["recipe", "processor", "steps", "kernels", *VARIANTS, "all four", "(ASNI-I + ASNI-II) / dense", "aim"]
    body = []
    for key, row in rows.items():
        name, steps = key.partition(",")[0], f"{row['epochs']} x {row['steps_per_epoch']:,}"
        for kernels in [each for each in ("dense", "auto") if each in row]:
            seconds = [digits(row[kernels][variant]["seconds"]) for variant in VARIANTS]
            reached, aim = headline(row, kernels), HEADLINE_AIMS.get(name)
            shown = "" if aim is None or kernels == "dense" else f"{aim:g}" if reached <= aim else f"**{aim:g}**"
            body.append(
                [
                    name,
                    short(row["processor"]),
                    steps,
                    kernels,
                    *seconds,
                    digits(total(row, kernels)),
                    f"{reached:.2f}",
                    shown,
                ]
            )
    return table(head, body)


def drifts(rows: Rows) -> str:
    """How far apart three trainings of the same batches are."""
    head = ["recipe", "steps", "moved", "channels_last from dense", "asni from dense", "losses: dense", "asni"]
    body = []
    for name, row in rows.items():
        for steps, found in row["steps"].items():
            apart = [f"{found['distance'][run]:.1e}" for run in (same_training.OTHER, same_training.OURS)]
            losses = [f"{found['loss'][run]:.4f}" for run in (same_training.DENSE, same_training.OURS)]
            body.append([name, steps, f"{found['moved']:.1e}", *apart, *losses])
    ends = [
        [name, *(f"{row['last_losses'][run]:.4f}" for run in _RUNS), *(f"{row['accuracy'][run]:.2f}" for run in _RUNS)]
        for name, row in rows.items()
    ]
    last = ["recipe", *(f"{what}, {run}" for what in ("loss", "accuracy %") for run in _RUNS)]
    return f"{table(head, body)}\n\n{table(last, ends)}"


_RUNS = (same_training.DENSE, same_training.OTHER, same_training.OURS)


def second_rounds(rows: Rows) -> str:
    """Accuracy over the length of the second round: the mean over seeds and every seed."""
    body = []
    for recipe in amenable_length.RECIPES:
        found = {
            what: each
            for what in (*amenable_length.BESIDE, *amenable_length.LENGTHS)
            if (each := amenable_length.accuracies(rows, recipe, what))
        }
        full = found.get(1.0)
        for what, each in found.items():
            seeds = ", ".join(f"{accuracy:.2f}" for accuracy in each)
            shown = f"ASNI-II, {what:g}" if isinstance(what, float) else {"dense": "dense", "asni-1": "ASNI-I"}[what]
            beside = "-" if full is None or len(full) != len(each) else f"{mean(each) - mean(full):+.2f}"
            epochs = str(amenable_length.found(rows, recipe, what)[0]["epochs"])
            body.append([recipe, shown, epochs, f"{mean(each):.2f}", seeds, beside])
    return table(["recipe", "", "epochs", "accuracy %", "seeds", "minus ASNI-II in full"], body)


if __name__ == "__main__":
    fill(PAGES, tables())
