"""Leave out runs that cannot be drawn, and those so large that the others would not fit on the page."""

from bisect import bisect_left

from asni.report.building import MOST_BYTES, fits, size
from asni.report.collecting import Collection, reason

_LARGE = MOST_BYTES // 20  # ten times a run of ResNet-50


def fitted(collection: Collection) -> Collection:
    """The collection without such runs; a warning names each."""
    name, sizes, warnings = collection.name, {}, list(collection.warnings)
    for run in collection.runs:
        try:
            sizes[run.path] = size(Collection(name, [run]))
        except Exception as error:
            # A hostile file can raise almost anything, and the other runs must be shown.
            warnings.append(f"{run.path} was skipped: it cannot be drawn ({reason(error)})")
    large = sorted((path for path in sizes if sizes[path] > _LARGE), key=lambda path: -sizes[path])

    def without(count: int) -> Collection:
        skipped = large[:count]
        why = [f"{path} was skipped: it would take {sizes[path]:,} bytes of the page" for path in skipped]
        runs = [run for run in collection.runs if run.path in sizes and run.path not in skipped]
        return Collection(name, runs, warnings + why)

    return without(bisect_left(range(len(large)), True, key=lambda count: fits(without(count))))
