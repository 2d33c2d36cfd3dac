import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """The networks of the tests are small, and the tests run side by side."""
    torch.set_num_threads(1)
