"""The engine: a compiled network that takes and gives arrays."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from asni.engine import interpreter
from asni.engine.fusing import fuse
from asni.engine.graph import Array
from asni.engine.lowering import lower
from asni.engine.native import library
from asni.engine.plan import PlanRow, describe, read_plan, write_plan
from asni.engine.program.choices import Choice
from asni.engine.program.layouts import Machine, Mode
from asni.engine.program.program import Pool
from asni.engine.program.tuning import Tuned, Tuner, build
from asni.engine.reading import read_steps
from asni.engine.steps import Steps
from asni.errors import EngineError, UsageError, shown

if TYPE_CHECKING:
    import torch

    Tensors = Array | torch.Tensor

MOST_ITEMS = 64
"""Items that run at a time; a larger batch takes several turns."""
_ARENA_BYTES = 256 << 20
_TUNED_MACS = 2**33
"""Multiplications that a run may have while kernels are timed."""


@dataclass
class _Compiled:
    """The program of one layout, its timings, and the same network with zeros as weights like any other."""

    pool: Pool
    tuned: Tuned
    items: int
    careful: Pool | None = None


class Engine:
    """A network ready to run. Several threads may call it at the same time.

    >>> import asni, torch
    >>> engine = asni.compile(torch.nn.Linear(4, 2), example=torch.zeros(1, 4))
    >>> engine(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """

    def __init__(self, steps: Steps, *, threads: int = 1, plan: Path | None = None, items: int = 1) -> None:
        self._steps, self.threads, self._plan_file = steps, threads, plan
        self._lock = Lock()
        self._compiled: dict[Mode, _Compiled] = {}
        core = library()
        self._machine = None if core is None else Machine(core.asni_lanes())
        self._choices = {} if plan is None or core is None else read_plan(plan, steps)
        self._last: Mode = "plain"
        if self._machine is not None:
            self._last = self._mode(items)
            self._of(self._last)

    def __repr__(self) -> str:
        shapes = ", ".join(f"({', '.join(map(str, ('N', *self._steps.shapes[name][1:])))})" for name in self._steps.inputs)
        return f"Engine({shapes}, {len(self._steps.steps)} steps, {self.threads} thread{'s' * (self.threads > 1)})"

    @property
    def steps(self) -> Steps:
        """What is run for one item."""
        return self._steps

    @property
    def plan(self) -> list[PlanRow]:
        """The steps with their kernels and times per item, for the batch size that ran last; empty without a core."""
        if self._machine is None:
            return []
        compiled = self._of(self._last)
        return describe(self._steps, compiled.tuned.choices, compiled.tuned.seconds, compiled.items, self._machine.peak)

    def __call__(self, *inputs: "Tensors") -> "Tensors | tuple[Tensors, ...]":
        """Run a batch: float32 arrays of NumPy or PyTorch, as many as the network has inputs, with the batch first."""
        arrays = [_as_array(value, name) for value, name in zip(inputs, self._names(inputs), strict=True)]
        results = self._run(arrays)
        if any(_is_torch(value) for value in inputs):
            import torch

            tensors = [torch.from_numpy(result) for result in results]
            return tensors[0] if len(tensors) == 1 else tuple(tensors)
        return results[0] if len(results) == 1 else tuple(results)

    def _names(self, inputs: Sequence[object]) -> Sequence[str]:
        if len(inputs) != len(self._steps.inputs):
            raise EngineError(f"the network has {len(self._steps.inputs)} inputs, and {len(inputs)} are given.")
        return self._steps.inputs

    def _run(self, arrays: Sequence[Array]) -> list[Array]:
        count = interpreter.count_items(self._steps, arrays)
        if self._machine is None or count == 0:
            return list(interpreter.run(self._steps, arrays))
        shapes = [self._steps.shapes[name] for name in self._steps.outputs]
        outputs = [np.empty((count * shape[0], *shape[1:]) if shape else (), np.float32) for shape in shapes]
        mode = self._mode(count)
        compiled = self._of(mode)
        self._last = mode
        each = self._items_at_once(compiled.pool)
        for begin in range(0, count, each):
            end = min(count, begin + each)
            taken = [_part(array, self._steps.shapes[name], begin, end) for array, name in zip(arrays, self._steps.inputs, strict=True)]
            given = [_part(array, shape, begin, end) for array, shape in zip(outputs, shapes, strict=True)]
            if not _executed(compiled.pool, taken, given, end - begin):
                _executed(self._careful(mode), taken, given, end - begin)
        return outputs

    def _mode(self, items: int) -> Mode:
        """Half of a vector of items is worth more than pixels in vectors."""
        assert self._machine is not None
        return "lanes" if 2 * items >= self._machine.lanes else "plain"

    def _items_at_once(self, pool: Pool) -> int:
        """As many as keep activations within bounds, but a group for each thread."""
        program = pool.program
        groups = max(self.threads, min(program.groups(MOST_ITEMS), _ARENA_BYTES // (4 * program.group_floats)))
        return groups * (program.machine.lanes if program.mode == "lanes" else 1)

    def _of(self, mode: Mode) -> _Compiled:
        with self._lock:
            if mode not in self._compiled:
                self._compiled[mode] = self._compile(mode)
            return self._compiled[mode]

    def _compile(self, mode: Mode) -> _Compiled:
        assert self._machine is not None
        items = 1 if mode == "plain" else self._tuned_items()
        tuner = Tuner(self._steps, mode, self._machine, items)
        known = self._choices.get(mode)
        tuned = tuner.tune() if known is None else tuner.timed(known)
        if known is None and self._plan_file is not None:
            self._choices[mode] = dict(tuned.choices)
            _keep(self._plan_file, self._steps, self._choices)
        program = build(self._steps, mode, self._machine, tuned.choices, tuner.groups)
        return _Compiled(Pool(program, self.threads), tuned, items)

    def _tuned_items(self) -> int:
        """A whole batch, or only one vector of items if that already takes long."""
        from asni.engine.cost import macs

        assert self._machine is not None
        return MOST_ITEMS if MOST_ITEMS * macs(self._steps) < _TUNED_MACS else self._machine.lanes

    def _careful(self, mode: Mode) -> Pool:
        """The program in which a zero weight times infinity is NaN, as in PyTorch."""
        assert self._machine is not None
        with self._lock:
            compiled = self._compiled[mode]
            if compiled.careful is None:
                program = build(self._steps, mode, self._machine, {}, 1, zeros=True)
                compiled.careful = Pool(program, self.threads)
            return compiled.careful


def compile(  # noqa: A001
    what: "str | Path | torch.nn.Module",
    example: "Tensors | tuple[Tensors, ...] | None" = None,
    *,
    threads: int = 1,
    plan: str | Path | None = None,
    max_memory: int | None = None,
) -> Engine:
    """Compile a model, a packed .asni file with its graph, or an .onnx file; its zeros are the mask.

    The fastest kernel of each layer is found by timing it, for the batch size of the example and, when first called
    so, for others. The choice is kept in the file `plan`, by default beside a file that is compiled.

    >>> import asni, torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
    >>> engine = asni.compile(model, example=torch.zeros(1, 8))
    >>> torch.allclose(engine(torch.ones(2, 8)), model(torch.ones(2, 8)), atol=1e-6)
    True
    """
    if threads < 1:
        raise UsageError(f"threads = {threads}: at least 1.")
    examples = () if example is None else example if isinstance(example, tuple) else (example,)
    if isinstance(what, str | Path):
        path = Path(what)
        steps = _steps_of_file(path, [tuple(each.shape) for each in examples] or None, max_memory)
        kept = path.with_name(path.name + ".plan") if plan is None else Path(plan)
    else:
        steps, kept = _steps_of_module(what, examples), None if plan is None else Path(plan)
    items = examples[0].shape[0] // (steps.fixed_batch or 1) if examples and examples[0].ndim else 1
    return Engine(fuse(steps), threads=threads, plan=kept, items=max(1, items))


def load_engine(path: str | Path, *, threads: int = 1, max_memory: int | None = None) -> Engine:
    """Compile a packed file that carries its graph, with NumPy alone.

    >>> import asni, tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = asni.pack(torch.nn.Linear(4, 2), f"{folder}/net.asni", example=torch.zeros(1, 4))
    ...     asni.load_engine(f"{folder}/net.asni")
    Engine((N, 4), 1 steps, 1 thread)
    """
    return compile(path, threads=threads, max_memory=max_memory)


def _steps_of_file(path: Path, shapes: Sequence[tuple[int, ...]] | None, max_memory: int | None) -> Steps:
    if path.suffix == ".asni":
        return read_steps(path, max_memory=max_memory)
    if path.suffix == ".onnx":
        from asni.engine.from_onnx import read_onnx_graph

        return lower(read_onnx_graph(path, shapes, max_memory))
    raise EngineError(f"{shown(path)}: neither an .asni nor an .onnx file.")


def _steps_of_module(module: Any, examples: "tuple[Tensors, ...]") -> Steps:
    if not examples:
        raise UsageError("compiling a model needs an example of its input: asni.compile(model, example=x).")
    import torch

    from asni.engine.from_torch import graph_of_module

    tensors = tuple(each if isinstance(each, torch.Tensor) else torch.from_numpy(each) for each in examples)
    return lower(graph_of_module(module, tensors))


def _keep(file: Path, steps: Steps, choices: Any) -> None:
    try:
        write_plan(file, steps, choices)
    except OSError:
        # A plan only saves time: a folder that cannot be written to is no reason to fail.
        return


def _executed(pool: Pool, inputs: Sequence[Array], outputs: Sequence[Array], items: int) -> bool:
    """Whether all was finite; if not, the memory is dropped, because NaN may be left between the values."""
    groups = pool.program.groups(items)
    memory = pool.borrow(groups)
    finite = memory.run(inputs, outputs, items)
    if finite:
        pool.give_back(memory)
    return finite


def _part(array: Array, shape: tuple[int, ...], begin: int, end: int) -> Array:
    return array[begin * shape[0] : end * shape[0]] if shape else array


def _is_torch(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _as_array(value: Any, name: str) -> Array:
    if _is_torch(value):
        if value.device.type != "cpu":
            raise EngineError(f"input {shown(name)} is on {value.device}; the engine runs on the CPU: pass x.cpu().")
        value = value.detach().resolve_conj().resolve_neg()
        if str(value.dtype) == "torch.float32":
            value = value.numpy()
    if not isinstance(value, np.ndarray) or value.dtype != np.float32:
        found = f"{type(value).__name__} of {value.dtype}" if hasattr(value, "dtype") else type(value).__name__
        raise EngineError(f"input {shown(name)} is a {found}; the engine takes arrays of float32.")
    return np.ascontiguousarray(value)
