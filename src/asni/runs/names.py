"""The files of a run, and the names of the trainings that a method consists of."""

REQUEST = "request.json"
ENVIRONMENT = "environment.json"
METRICS = "metrics.jsonl"
CHECKPOINT = "checkpoint.pt"
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
