"""`python -m attack [NAME ...]`: attacks the command line, and prints how each attack ended.

The exit status is 1 if anything ended as nothing may end: with other numbers, a traceback, a crash, a hang, leftovers,
too much memory, or an error that does not name the file.
"""

import argparse
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from asni.files import write_json
from attack.outcomes import forbidden

AMOUNTS = {
    "kills": 560, "checkpoints": 700, "unfinished": 288, "finished": 1332, "readers": 8000,
    "graphs": 10_000, "full_disk": 50,
}  # fmt: skip
"""The attacks, and how many cases of each take about fifteen minutes together on two cores; some outlive their kill."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m attack", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*AMOUNTS, []], metavar="NAME", help=", ".join(AMOUNTS))
    parser.add_argument("--seed", type=int, default=0, help="other cases; default: 0")
    parser.add_argument("--amount", type=int, help="cases of each attack, instead of its own number")
    parser.add_argument("--save", type=Path, metavar="FILE", help="also write the figures to this JSON file")
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    for name in arguments.names or AMOUNTS:
        print(f"{name} ...", file=sys.stderr)
        started, amount = time.monotonic(), arguments.amount or AMOUNTS[name]
        counts = import_module(f"attack.{name}").run(arguments.seed, amount)
        found[name] = {"cases": amount, "seconds": round(time.monotonic() - started), "outcomes": counts}
        print(f"{name}: {amount} cases in {found[name]['seconds']} s", flush=True)
        for outcome, count in counts.items():
            print(f"{count:8,}  {outcome}", flush=True)
    if arguments.save is not None:
        facts = {
            "command": f"python -m attack --seed {arguments.seed}",
            "asni": version("asni"),
            "torch": version("torch"),
        }
        write_json(arguments.save, {**facts, "seed": arguments.seed, "attacks": found})
    sys.exit(any(forbidden(each["outcomes"]) for each in found.values()))


if __name__ == "__main__":
    main()
