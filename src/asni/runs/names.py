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
"""Of an ASNI-II run: the two numbers of each layer that it started from."""

SEARCH = "search.json"
"""Of a method that searches for its setting: every try."""

LEFT_BEHIND = (REQUEST, ENVIRONMENT, METRICS, RESULT, INITIAL, WEIGHTS, MASK)
"""What a finished run consists of; a dense one has no mask."""


def round_name(method: str, number: int) -> str:
    """One of the trainings on the way of a method that prunes in rounds."""
    return f"{method}-round-{number}"


def search_name(method: str, number: int) -> str:
    """One of the trainings of a method that searches for its setting."""
    return f"{method}-search-{number}"


def dense_until_name(step: int) -> str:
    """The first steps of the dense training, which methods rewind to."""
    return f"dense-until-{step}"


def from_file_name(checksum: str) -> str:
    """The training of what a packed file holds; the checksum of its content keeps two files apart."""
    return f"from-{checksum}"
