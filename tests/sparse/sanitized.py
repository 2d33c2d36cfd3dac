"""Train by kernels and by steps in a core that was built with a sanitizer: python -m tests.sparse.sanitized FOLDER."""

import sys
from importlib import import_module
from inspect import signature
from pathlib import Path

import torch
from hypothesis import settings

from tests.engine.sanitized import watched

TESTS = (
    "test_kernels", "test_batch_norm_kernels", "test_pool_kernels", "test_optimizers", "test_in_place",
    "test_gradients",
)  # fmt: skip

if __name__ == "__main__":
    # Tests take over the settings of the time when they are imported.
    settings.register_profile("slow", deadline=None)
    settings.load_profile("slow")
    # ThreadSanitizer does not see how the threads of torch wait for each other.
    torch.set_num_threads(1)
    with watched(Path(sys.argv[1])) as machine:
        for name in TESTS:
            for test in vars(import_module(f"tests.sparse.{name}")).values():
                if hasattr(test, "hypothesis"):
                    test(**({"machine": machine} if "machine" in signature(test).parameters else {}))
