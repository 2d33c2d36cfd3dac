import os
from pathlib import Path

import pytest

from asni.errors import AsniError
from asni.runs.regular_files import require_regular


def test_what_may_never_end_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(AsniError, match=f"cannot read {path}: (it is|Is) a "):
            require_regular(path)


def test_a_file_is_refused_by_its_size_alone(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.touch()
    os.truncate(path, 10**10)
    require_regular(path)
    require_regular(path, 10**10)
    with pytest.raises(AsniError, match=r"result\.json: it has 10,000,000,000 bytes, and at most 1,000 are read"):
        require_regular(path, 1000)
