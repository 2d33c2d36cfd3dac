"""What the paper leaves open or misprints, row by row of its tables: what the recipes use, and where that comes from.

"The authors' program" is an early version of their own, sdamadi/image-classification at commit 91f7b48.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from asni.recipes.loading import SIZES
from asni.recipes.recipe import Recipe


@dataclass(frozen=True)
class OpenPoint:
    """One point that the paper does not settle, and the rows of its Table 2 that it concerns."""

    first: int
    last: int
    text: str


OPEN_POINTS = (
    OpenPoint(
        1,
        12,
        "not stated: when the last pruning is, and that small ones are left out. Taken from the authors' program "
        "(sdamadi/image-classification, commit 91f7b48): after the second-to-last epoch, without prunings of at most "
        "0.1 % of the living weights. The nonzeros confirm it.",
    ),
    OpenPoint(
        1, 12, "not stated: the mode of the Kaiming normal initialisation. Taken from the authors' program: fan_in."
    ),
    OpenPoint(
        1,
        12,
        "not stated: whether biases and batch norm train in ASNI-II. Here they do; in the authors' program those that "
        "start at 0 are frozen.",
    ),
    OpenPoint(
        1, 4, "not stated: the scaling of the images. Taken from the authors' program: mean 0.1307, deviation 0.3081."
    ),
    OpenPoint(
        5,
        11,
        "not stated: the scaling and augmentation of the images. Taken from the authors' program: mean (0.4914, "
        "0.4822, 0.4465), deviation (0.2023, 0.1994, 0.2010), random crops with 4 pixels of padding, and flips.",
    ),
    OpenPoint(1, 1, "learning rate 1.2e-3 as in Table 1. The program's configuration agrees, its script has 1.2e-4."),
    OpenPoint(2, 2, "the printed sparsity of 98.18 % contradicts the printed nonzeros (97.40 %). Nonzeros taken."),
    OpenPoint(5, 7, "1,000 steps per epoch as in Table 1. The authors' program has 834, one pass over the images."),
    OpenPoint(
        8,
        12,
        "the printed cosine of the learning rate turns negative. Taken from the authors' program: the half-cosine, "
        "(1 + cos) / 2.",
    ),
    OpenPoint(
        11,
        11,
        "the paper's nonzeros and sparsity belong to the network with 1,000 outputs. This one has 10, as the "
        "parameters in Table 1 say, and ends with 431,108 nonzeros at the same alpha.",
    ),
    OpenPoint(
        12,
        12,
        "alpha is printed as 81.04 and 91.05, which fits neither the printed nonzeros nor the sparsity. Taken: 81.4 "
        "from the authors' program, and 91.5, which fits both.",
    ),
    OpenPoint(
        12,
        12,
        "not stated: the scaling of the images and the details of flips and crops. Taken: the usual mean (0.485, "
        "0.456, 0.406), deviation (0.229, 0.224, 0.225) and random resized crop of 224 pixels; for testing, the centre "
        "of a picture resized to 256.",
    ),
    OpenPoint(
        12,
        12,
        "1,563 steps per epoch, one pass over the images. Table 1 prints 6,252, the steps of 4 GPUs together.",
    ),
)


def open_points(recipes: Iterable[Recipe]) -> Iterator[str]:
    """The open points of the recipes that are rows of the paper, in any length, each with the rows it concerns.

    >>> from asni.recipes import load
    >>> list(open_points([load("mnist-conv2")]))[-1]
    'row 2: the printed sparsity of 98.18 % contradicts the printed nonzeros (97.40 %). Nonzeros taken.'
    """
    rows = sorted({recipe.paper.row for recipe in recipes if recipe.paper.row and _is_row_of_paper(recipe)})
    for point in OPEN_POINTS:
        if concerned := [row for row in rows if point.first <= row <= point.last]:
            yield f"row{'s' if len(concerned) > 1 else ''} {', '.join(map(str, concerned))}: {point.text}"


def _is_row_of_paper(recipe: Recipe) -> bool:
    changed = recipe.overrides.model_dump(exclude_none=True).keys()
    return recipe.name in SIZES and changed <= {"epochs", "steps_per_epoch"}
