"""A user's own data, as a recipe names it: a folder of pictures, an .npz file, or a function."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from asni.datasets.info import Dataset, Info
from asni.errors import UsageError
from asni.recipes.own_code import is_code
from asni.recipes.recipe import is_path


class Own(Protocol):
    """Where own data comes from. `checksum` differs for other data, None if that cannot be known."""

    @property
    def info(self) -> Info: ...

    @property
    def checksum(self) -> str | None: ...

    def load(self) -> Dataset: ...


def find(name: str, options: Mapping[str, Any]) -> Own | None:
    """The user's own data of that name; None if the name is that of a published dataset, or misspelt."""
    if is_code(name):
        from asni.datasets.function import Function

        return Function(name, options)
    if not is_path(name):
        return None
    if name.endswith(".npz"):
        from asni.datasets.npz import NpzFile

        if options:
            raise UsageError(f"dataset '{name}' takes no dataset_options; a folder or a package.module:function does.")
        return NpzFile(Path(name))
    from asni.datasets.picture_folder import PictureFolder

    return PictureFolder(Path(name), options)
