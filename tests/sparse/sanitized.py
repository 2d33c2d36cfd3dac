"""Run the kernels of a training in a core that was built with a sanitizer: python -m tests.sparse.sanitized FOLDER."""

import sys
from pathlib import Path

from tests.engine.sanitized import watched
from tests.sparse import test_batch_norm_kernels, test_kernels, test_pool_kernels

if __name__ == "__main__":
    with watched(Path(sys.argv[1])) as machine:
        for module in (test_kernels, test_batch_norm_kernels, test_pool_kernels):
            for test in vars(module).values():
                if hasattr(test, "hypothesis"):
                    test(machine=machine)
