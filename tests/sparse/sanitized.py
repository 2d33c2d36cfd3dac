"""Run the kernels of a training in a core that was built with a sanitizer: python -m tests.sparse.sanitized FOLDER."""

import sys
from inspect import signature
from pathlib import Path

from hypothesis import settings

from tests.engine.sanitized import watched
from tests.sparse import test_batch_norm_kernels, test_in_place, test_kernels, test_optimizers, test_pool_kernels

if __name__ == "__main__":
    settings.register_profile("slow", deadline=None)
    settings.load_profile("slow")
    with watched(Path(sys.argv[1])) as machine:
        for module in (test_kernels, test_batch_norm_kernels, test_pool_kernels, test_optimizers, test_in_place):
            for test in vars(module).values():
                if hasattr(test, "hypothesis"):
                    test(**({"machine": machine} if "machine" in signature(test).parameters else {}))
