"""`python -m benchmarks [NAME ...] [--json]`: runs the benchmarks and prints their ratios."""

import argparse
import json
import sys
from importlib import import_module

QUESTIONS = ("trainer", "training_conv", "input_pipeline", "pruning", "memory", "methods", "packing")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*QUESTIONS, []], metavar="NAME", help=", ".join(QUESTIONS))
    parser.add_argument("--json", action="store_true", help="print {name: ratio}")
    arguments = parser.parse_args()
    ratios: dict[str, float] = {}
    for name in arguments.names or QUESTIONS:
        print(f"{name} ...", file=sys.stderr)
        found = import_module(f"benchmarks.{name}").run()
        ratios |= found
        if not arguments.json:
            for question, ratio in found.items():
                print(f"{ratio:8.3f}  {question}", flush=True)
    if arguments.json:
        print(json.dumps(ratios, indent=2))


if __name__ == "__main__":
    main()
