"""What the tests of kernels share."""

from collections.abc import Iterator

import pytest

from asni.engine.program.layouts import Machine
from tests.engine.native_programs import ISAS, machine_of


@pytest.fixture(scope="module", params=ISAS)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """Each instruction set in turn."""
    with machine_of(request.param) as found:
        yield found
