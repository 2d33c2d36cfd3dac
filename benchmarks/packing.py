"""Size and speed of packed networks, compared with general compressors and the entropy limit.

Random Kaiming weights, pruned globally: no structure to exploit, so the entropy of the masks is the limit.
"""

import gzip
import io
import lzma
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
import zstandard
from safetensors.torch import save_file

from asni import networks
from asni.packing import inspect, load, pack, unpack
from asni.packing.convert import from_torch, write_csr
from asni.packing.writing import write
from asni.pruning.layers import prunable
from asni.pruning.masks import keep_largest
from asni.pruning.schedules import kept
from benchmarks.pruning import peak_extra_bytes

# Name: network, shape of an image, classes, sparsity. The first two have the paper's final sparsity.
NETWORKS: dict[str, tuple[str, tuple[int, int, int], int, float]] = {
    "mnist-fc": ("fc", (1, 28, 28), 10, 0.9702),
    "cifar10-conv6": ("conv6", (3, 32, 32), 10, 0.9275),
    "resnet50-80": ("resnet50", (3, 224, 224), 1000, 0.8),
    "resnet50-90": ("resnet50", (3, 224, 224), 1000, 0.9),
}
SECONDS_ALLOWED = 3


def run() -> dict[str, float]:
    """Ratios: sizes to other formats and to the entropy, time to SECONDS_ALLOWED, memory to the dense weights."""
    torch.set_num_threads(1)
    sizes: dict[str, float] = {}
    speeds: dict[str, float] = {}
    # The compressors take minutes, so they run in the background; CPU time is measured per process.
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        waiting = [_compare(name, Path(folder), pool) for name in NETWORKS]
        for name in NETWORKS:
            if name.startswith("resnet50"):
                speeds |= _speed(name, Path(folder))
        for compared in waiting:
            sizes |= compared()
    return sizes | speeds


def _compare(name: str, folder: Path, pool: ProcessPoolExecutor) -> Callable[[], dict[str, float]]:
    """Starts the slow compressors; returns a function that waits for them and computes the size ratios."""
    network, shape, classes, sparsity = NETWORKS[name]
    state = _pruned(network, shape, classes, sparsity)
    dense, rows, packed = (folder / f"{name}.{suffix}" for suffix in ("safetensors", "npz", "asni"))
    save_file(state, dense)
    write_csr(rows, from_torch(state))
    running = {label: pool.submit(compressor, dense) for label, compressor in COMPRESSORS.items()}
    running["npz CSR"] = pool.submit(_npz_csr, rows)
    write(packed, from_torch(state), "amenable", {"name": network, "shape": list(shape), "classes": classes}, {})
    amenable, exact = inspect(packed), pack(state, packed)

    def ratios() -> dict[str, float]:
        sizes = {label: future.result() for label, future in running.items()} | {"dense": dense.stat().st_size}
        shown = ", ".join(f"{label} {size:,}" for label, size in sizes.items())
        print(f"{name}: exact {exact.bytes:,} bytes, amenable {amenable.bytes:,}; {shown}", file=sys.stderr)
        return {
            f"amenable / entropy of mask and sign, {name}": amenable.bytes / amenable.entropy_bytes,
            f"exact masks / entropy, {name}": exact.parts["mask"] / exact.entropy_bytes,
            **{f"exact / {label}, {name}": exact.bytes / size for label, size in sizes.items()},
        }

    return ratios


def _speed(name: str, folder: Path) -> dict[str, float]:
    dense, packed = folder / f"{name}.safetensors", folder / f"{name}.asni"
    ratios = {}
    for task in TASKS:
        # A fresh process, because memory that an earlier task freed would not be counted again.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            seconds, extra = fresh.submit(_measured, task, dense, packed).result()
        ratios[f"{task}: CPU seconds / {SECONDS_ALLOWED}, {name}"] = seconds / SECONDS_ALLOWED
        ratios[f"{task}: peak extra memory / weights, {name}"] = extra / dense.stat().st_size
    return ratios


def _measured(task: str, dense: Path, packed: Path) -> tuple[float, int]:
    started = time.process_time()
    extra = peak_extra_bytes(lambda: TASKS[task](dense, packed))
    return time.process_time() - started, extra


TASKS: dict[str, Callable[[Path, Path], object]] = {
    "pack": lambda dense, packed: pack(dense, packed),
    "load": lambda _, packed: load(packed),
    "unpack": lambda dense, packed: unpack(packed, dense.with_suffix(".again")),
}


def _pruned(network: str, shape: tuple[int, int, int], classes: int, sparsity: float) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model = networks.build(network, shape, classes)
    weights = prunable(model)
    size = sum(weight.numel() for weight in weights.values())
    for name, mask in keep_largest(weights, kept(size, sparsity)).items():
        weights[name].data.masked_fill_(~mask, 0.0)
    return model.state_dict()


def _gzip_9(path: Path) -> int:
    return len(gzip.compress(path.read_bytes(), 9))


def _zstd_19(path: Path) -> int:
    return len(zstandard.ZstdCompressor(level=19).compress(path.read_bytes()))


def _xz_9(path: Path) -> int:
    return len(lzma.compress(path.read_bytes(), preset=9))


def _npz_csr(path: Path) -> int:
    """Size when deflated, the default of `scipy.sparse.save_npz`."""
    deflated = io.BytesIO()
    with np.load(path) as rows:
        np.savez_compressed(deflated, **rows)
    return deflated.tell()


COMPRESSORS = {"gzip -9": _gzip_9, "zstd -19": _zstd_19, "xz -9": _xz_9}
