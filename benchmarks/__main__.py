"""`python -m benchmarks [NAME ...] [--json]`: runs the benchmarks and prints what they measure."""

import argparse
import json
import sys
from importlib import import_module

QUESTIONS = (
    "trainer",
    "training_conv",
    "sparse_training",
    "input_pipeline",
    "pruning",
    "latency",
    "masked_step",
    "sharded",
    "memory",
    "methods",
    "packing",
    "figures",
    "c_export",
    "engine",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*QUESTIONS, []], metavar="NAME", help=", ".join(QUESTIONS))
    parser.add_argument("--json", action="store_true", help="print {name: number}")
    arguments = parser.parse_args()
    measured: dict[str, float] = {}
    for name in arguments.names or QUESTIONS:
        print(f"{name} ...", file=sys.stderr)
        found = import_module(f"benchmarks.{name}").run()
        measured |= found
        if not arguments.json:
            for question, number in found.items():
                print(f"{number:8.3f}  {question}", flush=True)
    if arguments.json:
        print(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
