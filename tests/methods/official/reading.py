"""Reads the reference vectors: what the official programs gave on tiny networks. Each file names its program."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

FOLDER = Path(__file__).parent / "vectors"


def vectors(name: str) -> tuple[dict[str, Any], Any]:
    """The inputs and the outputs of one file."""
    content = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return content["inputs"], content["outputs"]


def tensors(values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Nested lists of numbers as tensors in double precision, as the programs computed them."""
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


def masks(values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Nested lists of 0 and 1 as masks."""
    return {name: torch.tensor(value) != 0 for name, value in values.items()}


def mlp() -> nn.Sequential:
    """The network `mlp` of the vectors."""
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


def conv_bn() -> nn.Sequential:
    """The network `conv_bn` of the vectors."""
    front = (nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Conv2d(2, 3, 3))
    return nn.Sequential(*front, nn.Flatten(), nn.Linear(12, 3))
