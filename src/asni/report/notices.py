"""What a reader should know about runs that are not shown, or not shown whole, grouped by cause."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Cause(Enum):
    """Why there is a notice: what it costs, for one run and for several. A note is no damage."""

    SKIPPED = "was skipped", "were skipped"
    UNDRAWN_LAYERS = "is shown without its layers", "are shown without their layers"
    UNDRAWN_START = "is shown without its initial weights", "are shown without their initial weights"
    NO_ENVIRONMENT = "is shown without its environment", "are shown without their environment"
    LOST_EPOCHS = "has lost epochs", "have lost epochs"
    UNKNOWN_VERSION = "does not record its version of asni", "do not record their version of asni"
    UNFINISHED = "is not finished", "are not finished: their results are those of their last epoch"
    NO_WEIGHTS = "without weights: its layers are not shown", "without weights: their layers are not shown"

    @property
    def is_note(self) -> bool:
        return self in (Cause.UNFINISHED, Cause.NO_WEIGHTS)


@dataclass(frozen=True)
class Notice:
    """What is known about one run, which may be a directory that holds none; `detail` says why, if that is known."""

    cause: Cause
    run: str
    detail: str = ""

    @property
    def text(self) -> str:
        return f"{self.run} {self.cause.value[0]}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True)
class Group:
    """All notices of one cause. One alone says everything in its summary, and has no `details`."""

    is_note: bool
    summary: str
    details: tuple[str, ...] = ()


def grouped(notices: Iterable[Notice]) -> list[Group]:
    """The notices by cause: warnings, then notes.

    >>> (group,) = grouped([Notice(Cause.NO_WEIGHTS, "seed-0"), Notice(Cause.NO_WEIGHTS, "seed-1")])
    >>> group.summary, group.details
    ('2 runs without weights: their layers are not shown', ('seed-0', 'seed-1'))
    """
    by_cause: dict[Cause, list[Notice]] = {cause: [] for cause in Cause}
    for notice in notices:
        by_cause[notice.cause].append(notice)
    return [_group(cause, found) for cause, found in by_cause.items() if found]


def _group(cause: Cause, found: list[Notice]) -> Group:
    if len(found) == 1:
        return Group(cause.is_note, found[0].text)
    details = tuple(notice.run + (f": {notice.detail}" if notice.detail else "") for notice in found)
    return Group(cause.is_note, f"{len(found):,} runs {cause.value[1]}", details)
