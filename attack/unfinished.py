"""A file of a run that was killed is damaged: the run still ends as it would have, or the file is named.

Its checkpoints have an attack of their own.
"""

from asni.runs import names
from attack.damage import attacked, damages
from attack.moments import dies_at
from attack.reading_commands import compare_to_the_end, pack, report, train_to_the_end
from attack.small_runs import STEPS, scratch, train

METHOD = "asni-1"
FILES = (names.REQUEST, names.ENVIRONMENT, names.METRICS, names.INITIAL)


def run(seed: int, amount: int) -> dict[str, int]:
    """Every file of a run in its last epoch, in every way, through every command that reads or resumes it."""
    with scratch() as original:
        for other in ("0", "1"):
            train(original, METHOD, "--seed", other, prepare=dies_at("train_step", STEPS - 1))
        ways = damages(original, [METHOD], FILES)
        return attacked(
            "unfinished", seed, amount, original, ways, (train_to_the_end, compare_to_the_end, pack, report)
        )
