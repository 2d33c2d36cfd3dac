"""Recipes by name: the paper's rows, one small demonstration, and a user's own files.

**Recipes are data.** A wrong key, type or range is an error that names the key and the nearest valid one.

**A shortened training follows the same curve.** `--epochs N` scales gamma and the warm-up, and solves alpha again, so
that it ends with the same nonzeros. A variant is trained in a directory named after what it changes.

**The paper's rows end at the paper's nonzeros.** Where the paper is silent, the recipes follow its authors' program;
`open_points` lists every such choice.
"""

from asni.recipes.learning_rate import lr_at
from asni.recipes.loading import SIZES, Size, load, names
from asni.recipes.recipe import Recipe

__all__ = ["SIZES", "Recipe", "Size", "load", "lr_at", "names"]
