"""What the name of a training tells: the method it is for, and whether the method ends with it."""

import re


def method_of(stage: str) -> str | None:
    """The method that a training is one of; None for the first steps of the dense one, which several begin with.

    >>> method_of("lottery-round-3"), method_of("str-search-2"), method_of("snip"), method_of("dense-until-1000")
    ('lottery', 'str', 'snip', None)
    """
    return None if stage.startswith("dense-until-") else re.sub(r"-(round|search)-\d+$", "", stage)


def is_last(stage: str) -> bool:
    """Whether the network of this training is what the method gives.

    >>> is_last("lottery"), is_last("lottery-round-3"), is_last("dense-until-1000")
    (True, False, False)
    """
    return method_of(stage) == stage
