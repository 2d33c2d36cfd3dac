"""The folder where datasets are kept between runs."""

import os
from pathlib import Path

from platformdirs import user_cache_path

from asni.files import expanded


def cache_folder(name: str) -> Path:
    """The folder of a dataset: below `ASNI_DATA` if that is set, else in the user's cache folder."""
    chosen = os.environ.get("ASNI_DATA")
    return (expanded(chosen, "ASNI_DATA") if chosen else user_cache_path("asni")) / name
