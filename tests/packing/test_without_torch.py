"""A packed file can be read where PyTorch is not installed."""

import subprocess
import sys
from pathlib import Path

import torch

from asni.packing import pack

READ = """
import sys
for name in ("torch", "safetensors", "pydantic", "lightning_fabric"):
    sys.modules[name] = None
from pathlib import Path
from asni.packing import inspect, read, unpack
packed = read(sys.argv[1])
print(packed.arrays["weight"].tolist(), packed.tensors["scale"].dtype.name, packed.arrays["scale"].tolist())
print(inspect(sys.argv[1]).nonzeros)
unpack(sys.argv[1], sys.argv[2])
"""


def test_reading_needs_numpy_alone(tmp_path: Path) -> None:
    state = {"weight": torch.tensor([[0.0, 2.0]]), "scale": torch.tensor([1.0], dtype=torch.bfloat16)}
    pack(state, tmp_path / "net.asni")
    arguments = [sys.executable, "-c", READ, str(tmp_path / "net.asni"), str(tmp_path / "out.safetensors")]
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert result.stdout == "[[0.0, 2.0]] bfloat16 [16256]\n1\n"
    assert (tmp_path / "out.safetensors").stat().st_size > 0
