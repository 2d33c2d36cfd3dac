"""Training resumes from a damaged checkpoint: to the same weights, bit for bit, or with an error that names it."""

import random
import shutil
from functools import partial
from pathlib import Path

from attack.calling import in_parallel
from attack.moments import dies_at
from attack.outcomes import Tally
from attack.small_runs import HOME, OTHER_HOME, STEPS, copied, files_of, scratch, train
from attack.spoiling import Spoiler, cut_end, empty, flip_bit, flip_bits, grow, overwrite, swap_blocks, zero_page

METHOD = "asni-1"
WAYS: tuple[Spoiler, ...] = (
    flip_bit, flip_bits, zero_page, zero_page, zero_page, swap_blocks, overwrite, cut_end, grow, empty,
)  # fmt: skip


def run(seed: int, amount: int) -> dict[str, int]:
    """Damage the checkpoint of a run that was killed in its last epoch, or that and the one before it; then resume."""
    tally = Tally()
    with scratch() as killed, scratch() as undisturbed:
        assert train(undisturbed, METHOD).status == 0
        for other in ("0", "1"):
            train(killed, METHOD, "--seed", other, prepare=dies_at("train_step", STEPS - 1))
        expected = files_of(undisturbed / HOME / METHOD)
        for case, outcome in in_parallel(partial(_attack, seed, killed, expected), range(amount)):
            tally.add(case, outcome)
    return tally.counts()


def _attack(seed: int, killed: Path, expected: dict[str, str], number: int) -> tuple[str, str]:
    rng = random.Random(f"checkpoints {seed} {number}")
    with scratch() as folder:
        copied(killed, folder)
        case = f"checkpoints --seed {seed}, case {number}: {_damage(folder, rng)}"
        answer = train(folder, METHOD)
        if answer.failure:
            return case, answer.failure
        if answer.status:
            return case, "refused by name" if "checkpoint" in answer.err else "unexplained"
        if files_of(folder / HOME / METHOD) != expected:
            return case, "other numbers"
        return case, "the same weights"


def _damage(folder: Path, rng: random.Random) -> str:
    """Damage a checkpoint or all of them; returns what was done."""
    checkpoints = sorted((folder / HOME / METHOD).glob("checkpoint*"))
    chosen = rng.choice([checkpoints, *([each] for each in checkpoints)])
    if rng.random() < 0.05:
        for path in chosen:
            shutil.copyfile(folder / OTHER_HOME / METHOD / path.name, path)
        return f"another seed's {', '.join(path.name for path in chosen)}"
    spoil = rng.choice(WAYS)
    for path in chosen:
        path.write_bytes(spoil(path.read_bytes(), rng))
    return f"{spoil.__name__} in {', '.join(path.name for path in chosen)}"
