"""A file of a finished run is damaged: every command names it, or shows what it shows of the undamaged run."""

from asni.runs import names
from attack.damage import attacked, damages
from attack.reading_commands import compare, investigate, pack, pack_amenable, report, train, train_asni_2
from attack.small_runs import METHODS, scratch, trained


def run(seed: int, amount: int) -> dict[str, int]:
    """Every file of a dense, an ASNI-I and an ASNI-II run, in every way, through every command that reads runs."""
    with scratch() as original:
        trained(original)
        ways = damages(original, METHODS, (*names.RUN_FILES, names.CENTROIDS))
        commands = (train, train_asni_2, pack, pack_amenable, report, compare, investigate)
        return attacked("finished", seed, amount, original, ways, commands)
