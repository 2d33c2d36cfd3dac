"""The tables about the engine, made from what was measured: `python -m benchmarks.engine_tables`.

It writes each table into the pages that have a place for it, between `<!-- table NAME -->` and `<!-- end -->`, so that
no number is typed. What has not been measured yet is said so.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engine import BASE, BATCHES, OURS, OURS_ON_TWO
from benchmarks.masked_networks import MASKS, RECIPES
from benchmarks.tables import digits, fill, megabytes, percent, read, table, times

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "engine"
PAGES = (RESULTS / "README.md", RESULTS / "layers.md", ROOT / "docs" / "deploy.md")

ON_DEVICE = "Cortex-M4"

Row = Mapping[str, Any]
Rows = Mapping[str, Row]


def tables(folder: Path = RESULTS) -> dict[str, str]:
    """All tables by their names, from the files in a folder."""
    speed, masks, passed, sizes = (read(folder / f"{name}.json") for name in ("speed", "masks", "onnx-nodes", "c"))
    made = {
        "setting": setting(speed) if speed else "",
        **{mask: multiples(speed, mask) if speed else "" for mask in MASKS},
        "costs": costs(speed) if speed else "",
        "layers": layers(speed) if speed else "",
        "trainings": trainings(masks, speed) if masks else "",
        "nodes": nodes(passed) if passed else "",
        "c": exported(sizes) if sizes else "",
    }
    return {name: found or "Not measured yet." for name, found in made.items()}


def setting(rows: Rows) -> str:
    """What everything was measured on."""
    machines = sorted({f"{row['processor']}, instruction set {row['instruction_set']}" for row in rows.values()})
    versions = sorted({f"{name} {each}" for row in rows.values() for name, each in row["versions"].items()})
    return f"{'; '.join(machines)}. {', '.join(versions)}."


def multiples(rows: Rows, mask: str) -> str:
    """How many times as fast as ONNX Runtime each runtime is: batch 1 / batch 64."""
    networks = [name for name in RECIPES if any(key(name, mask, batch) in rows for batch in BATCHES)]
    found = [rows[each] for name in networks for batch in BATCHES if (each := key(name, mask, batch)) in rows]
    others = dict.fromkeys(name for row in found for name in row["runtimes"] if name not in (OURS, OURS_ON_TWO, BASE))
    body = [[name, *(_pair(rows, network, mask, name, BASE) for network in networks)] for name in (*others, OURS)]
    beside = ["**asni beside the best other**", *(_pair(rows, network, mask, OURS, None) for network in networks)]
    return table(["", *networks], [*body, beside])


def costs(rows: Rows) -> str:
    """One line for each network, mask and batch size: what was left, the times, and what it took."""
    head = [
        "network, mask, batch", "nonzeros %", "MACs %", "asni ms", "best other", "2 threads", "memory MB", f"of {BASE}",
        "compile s", "of peak %",
    ]  # fmt: skip
    return table(head, [_costs(each, row) for each, row in rows.items()])


def layers(rows: Rows) -> str:
    """Which kernel runs each layer, and which fraction of the core's peak it reaches: at both batch sizes."""
    found = []
    for network in RECIPES:
        plans = [rows[each]["plan"] for batch in BATCHES if (each := key(network, "kaiming", batch)) in rows]
        body = [
            [steps[0]["name"], percent(steps[0]["density"]), *(cell for step in steps for cell in _cells(step))]
            for steps in zip(*plans, strict=True)
            if steps[0]["density"] is not None
        ]
        head = [cell for batch in BATCHES[: len(plans)] for cell in (f"batch {batch}", "ms an item", "of peak %")]
        found += [f"## {network}\n\n{table(['layer', 'nonzeros %', *head], body)}"] * bool(plans)
    return "\n\n".join(found)


def trainings(found: Mapping[str, Row], speed: Rows) -> str:
    """How long the trainings were that gave the masks."""
    body = [
        [name, f"{row['steps']:,}", f"{row['steps_of_the_recipe']:,}", f"{row['accuracy']:.1f}",
         *(_macs_left(speed, name, mask) for mask in ("real", "kaiming"))]
        for name, recipe in RECIPES.items()
        if (row := found.get(recipe))
    ]  # fmt: skip
    return table(["", "steps", "of", "accuracy %", "MACs %", "MACs % of a threshold on initial values"], body)


def nodes(found: Mapping[str, Any]) -> str:
    """How many node tests pass: in all, and of the operators of which some are refused."""
    ways = [way for way in ("numpy", "native") if way in found]
    first: Rows = found[ways[0]]
    shown = {name: row for name, row in first.items() if row["refused"]}
    total = {column: sum(row[column] for row in first.values()) for column in ("cases", "pass", "refused")}
    passed = {way: sum(row["pass"] for row in found[way].values()) for way in ways}
    body = [[name, str(row["cases"]), *(str(found[way][name]["pass"]) for way in ways), str(row["refused"])]
            for name, row in shown.items()]  # fmt: skip
    last = ["**all**", str(total["cases"]), *(str(passed[way]) for way in ways), str(total["refused"])]
    head = ["operator", "tests", *(f"pass, {way}" for way in ways), "refused"]
    return f"onnx {found['onnx']}, {len(first)} operators.\n\n{table(head, [*body, last])}"


def exported(found: Mapping[str, float]) -> str:
    """Networks as C, without their zeros and with them."""
    cases = dict.fromkeys(name.partition(", sparse: ")[0] for name in found if ", sparse: " in name)

    def numbers(case: str, what: str) -> list[str]:
        return [f"{found[f'{case}, {form}: {what}']:,}" for form in ("sparse", "dense")]

    body = [
        [case, *numbers(case, "bytes of tables"), *numbers(case, f"instructions, {ON_DEVICE}"),
         f"{found[f'{case}: instructions, {ON_DEVICE}, dense / sparse']:.1f}x"]
        for case in cases
    ]  # fmt: skip
    return table(["", "tables, bytes", "dense", f"instructions, {ON_DEVICE}", "dense", "fewer"], body)


def key(network: str, mask: str, batch: int) -> str:
    return f"{network}, {mask}, batch {batch}"


def best_other(row: Row) -> str | None:
    """The fastest runtime that is not ours."""
    others = {name: each["quantile_ms"] for name, each in row["runtimes"].items() if "quantile_ms" in each}
    return min((name for name in others if not name.startswith(OURS)), key=others.__getitem__, default=None)


def _multiple(row: Row, name: str, base: str | None) -> str:
    """How many times as fast as `base` a runtime is, or as the best other."""
    runtimes, base = row["runtimes"], base or best_other(row)
    if name not in runtimes or "quantile_ms" not in runtimes.get(base, {}):
        return "-"
    if "quantile_ms" not in runtimes[name]:
        return "wrong"
    return times(runtimes[base]["quantile_ms"] / runtimes[name]["quantile_ms"])


def _pair(rows: Rows, network: str, mask: str, name: str, base: str | None) -> str:
    found = [rows[each] for batch in BATCHES if (each := key(network, mask, batch)) in rows]
    return " / ".join(_multiple(row, name, base) for row in found)


def _costs(title: str, row: Row) -> list[str]:
    runtimes, best = row["runtimes"], best_other(row)
    other = "-" if best is None else f"{best}, {digits(runtimes[best]['quantile_ms'])}"
    on_two = f"{_multiple(row, OURS_ON_TWO, OURS)}x" if OURS_ON_TWO in runtimes else "-"
    memory = [megabytes(runtimes.get(name, {}).get("memory_bytes")) for name in (OURS, BASE)]
    left = [percent(row[name]) for name in ("density", "mac_density")]
    ours = digits(runtimes[OURS].get("quantile_ms"))
    taken = [digits(row["compile_seconds"]), percent(of_peak(row["plan"]))]
    return [title, *left, ours, other, on_two, *memory, *taken]


def of_peak(plan: Sequence[Row]) -> float | None:
    """Which fraction of the core's peak all layers with weights reach together."""
    timed = [step for step in plan if step["peak"]]
    if not timed:
        return None
    peak = timed[0]["gmacs"] / timed[0]["peak"]
    done = sum(step["gmacs"] * step["milliseconds"] for step in timed)
    return float(done / sum(step["milliseconds"] for step in timed) / peak)


def _cells(step: Row) -> list[str]:
    return [step["kernel"], digits(step["milliseconds"]), percent(step["peak"])]


def _macs_left(speed: Rows, network: str, mask: str) -> str:
    row = speed.get(key(network, mask, 1))
    return "-" if row is None else percent(row["mac_density"])


if __name__ == "__main__":
    fill(PAGES, tables())
