"""Recipes by name: the paper's rows, one small demonstration, and a user's own files."""

from asni.recipes.learning_rate import lr_at
from asni.recipes.loading import SIZES, Size, load, names
from asni.recipes.recipe import Recipe

__all__ = ["SIZES", "Recipe", "Size", "load", "lr_at", "names"]
