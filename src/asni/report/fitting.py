"""Leave out runs that cannot be drawn, and those so large that the others would not fit on the page."""

from bisect import bisect_left

from asni.report.building import MOST_BYTES, fits, size
from asni.report.collecting import Collection, reason
from asni.report.notices import Cause, Notice

_LARGE = MOST_BYTES // 20  # ten times a run of ResNet-50


def fitted(collection: Collection) -> Collection:
    """The collection without such runs; a notice names each."""
    name, sizes, notices = collection.name, {}, list(collection.notices)
    for run in collection.runs:
        try:
            sizes[run.path] = size(Collection(name, [run]))
        except Exception as error:
            # A hostile file can raise almost anything, and the other runs must be shown.
            notices.append(Notice(Cause.SKIPPED, run.path, f"it cannot be drawn ({reason(error)})"))
    large = sorted((path for path in sizes if sizes[path] > _LARGE), key=lambda path: -sizes[path])

    def without(count: int) -> Collection:
        skipped = large[:count]
        why = [Notice(Cause.SKIPPED, path, f"it would take {sizes[path]:,} bytes of the page") for path in skipped]
        runs = [run for run in collection.runs if run.path in sizes and run.path not in skipped]
        return Collection(name, runs, notices + why)

    return without(bisect_left(range(len(large)), True, key=lambda count: fits(without(count))))
