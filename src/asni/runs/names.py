"""The files of a run, and the names of the trainings that a method consists of."""

import re

REQUEST = "request.json"
ENVIRONMENT = "environment.json"
METRICS = "metrics.jsonl"
INITIAL = "initial.safetensors"
WEIGHTS = "weights.safetensors"
MASK = "mask.safetensors"
RESULT = "result.json"
LOCK = ".lock"

CENTROIDS = "centroids.json"
"""In an ASNI-II run: the two numbers per layer that it started from."""

SEARCH = "search.json"
"""In a run of a method that searches for a hyperparameter: every trial."""

RUN_FILES = (REQUEST, ENVIRONMENT, METRICS, RESULT, INITIAL, WEIGHTS, MASK)
"""The files of a finished run; a dense run has no mask."""

_CHECKPOINT = re.compile(r"checkpoint-(\d+)\.pt")


def checkpoint_name(epochs: int) -> str:
    """The file that holds the state after this many epochs."""
    return f"checkpoint-{epochs}.pt"


def checkpoint_epochs(file: str) -> int | None:
    """After how many epochs a checkpoint was written; None for other files."""
    found = _CHECKPOINT.fullmatch(file)
    return None if found is None else int(found[1])


def is_of_a_run(file: str) -> bool:
    """Whether a run writes a file of this name."""
    return file in (*RUN_FILES, CENTROIDS, SEARCH) or checkpoint_epochs(file) is not None


def round_name(method: str, number: int) -> str:
    """The name of one training of a method that prunes in rounds."""
    return f"{method}-round-{number}"


def search_name(method: str, number: int) -> str:
    """The name of one trial of a method that searches for a hyperparameter."""
    return f"{method}-search-{number}"


def dense_until_name(step: int) -> str:
    """The name of the first steps of the dense training, to which methods rewind."""
    return f"dense-until-{step}"


def from_file_name(checksum: str) -> str:
    """The name of a training that starts from a packed file, identified by the checksum of its content."""
    return f"from-{checksum}"
