"""The global threshold over 100 million weights that two processes share (FSDP2), compared with one process."""

import json
import tempfile
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.multiprocessing.spawn import spawn

from asni.pruning.masks import keep_largest, weight_count
from asni.pruning.schedules import kept
from benchmarks.pruning import peak_extra_bytes
from benchmarks.timing import seconds

SHAPES = [(32_000, 1024), *16 * [(4096, 1024)]]
SPARSITY = 0.8


def run() -> dict[str, float]:
    """Each in its own processes of one thread."""
    one, two = _measured(1), _measured(2)
    return {
        "1 process / 2 processes, threshold of 100 M weights": one["seconds"] / two["seconds"],
        "seconds, threshold of 100 M weights in 2 processes": two["seconds"],
        "peak extra bytes a weight, 1 process": one["bytes"],
        "peak extra bytes a local weight, 2 processes": two["bytes"],
    }


def _measured(processes: int) -> dict[str, float]:
    """The slowest process and the largest memory."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(_measure, (processes, folder), nprocs=processes)
        found = [json.loads((Path(folder) / str(rank)).read_text()) for rank in range(processes)]
    return {key: max(each[key] for each in found) for key in ("seconds", "bytes")}


def _measure(rank: int, processes: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=processes)
    keep_largest(_weights(processes, [(600, 1000)]), 1000)  # loads code that must not count as memory
    weights = _weights(processes, SHAPES)
    keep = kept(weight_count(weights), SPARSITY)
    extra = peak_extra_bytes(lambda: keep_largest(weights, keep))
    taken = seconds({"asni": lambda: keep_largest(weights, keep)}, rounds=3, warm_up=1)["asni"]
    found = {"seconds": taken, "bytes": extra * processes / weight_count(weights)}
    (Path(folder) / str(rank)).write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


def _weights(processes: int, shapes: list[tuple[int, int]]) -> dict[str, Tensor]:
    """Plain tensors in one process; in several, the rows are shared out."""
    generator = torch.Generator().manual_seed(0)
    layers: dict[str, Tensor] = {}
    for number, shape in enumerate(shapes):
        layer = torch.randn(shape, generator=generator)
        if processes > 1:
            mesh = init_device_mesh("cpu", (processes,))
            layer = distribute_tensor(layer, mesh, [Shard(0)], src_data_rank=None)
        layers[str(number)] = layer
    return layers
