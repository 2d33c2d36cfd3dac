"""The engine: a compiled network that takes and gives arrays."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from operator import is_not
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from asni.engine import interpreter
from asni.engine.compact import compact
from asni.engine.frontends.from_packed import read_steps
from asni.engine.fusing import fuse
from asni.engine.graph import Array
from asni.engine.lowering import lower
from asni.engine.native import library
from asni.engine.parts import behind, best_cut, cut_in_two
from asni.engine.plan import Plan, PlanRow, describe, read_plan, write_plan
from asni.engine.program.choices import Choice
from asni.engine.program.layouts import Machine, Mode
from asni.engine.program.program import Pool, Program
from asni.engine.program.tuning import Tuned, Tuner, batched, build
from asni.engine.program.types import core
from asni.engine.steps import Steps
from asni.errors import EngineError, UsageError, shown

if TYPE_CHECKING:
    import torch

    Tensors = Array | torch.Tensor

MOST_ITEMS = 64
"""Items that are in memory at a time; a larger batch takes several turns."""
_ARENA_BYTES = 8 << 20
"""Values of several vectors of items share the weights that are read; beyond this, they no longer share a cache."""
_VECTOR_BYTES = 256 << 20
"""A network in which a value of one vector of items takes more than this runs item by item, without a trial."""
_FLOAT = np.dtype(np.float32)


class _Part:
    """Consecutive steps in one layout, and the same with zeros as weights like any other, for when that matters."""

    def __init__(self, steps: Steps, mode: Mode, machine: Machine, choices: Mapping[int, Choice], threads: int) -> None:
        self.steps, self.mode, self.machine, self.threads = steps, mode, machine, threads
        self._shapes = [steps.shapes[name] for name in steps.outputs]
        self._pool = self._pool_of(choices, zeros=False)
        self._careful: Pool | None = None

    def run(self, inputs: Sequence[Array], items: int) -> list[Array]:
        outputs = [np.empty(batched(shape, items), np.float32) for shape in self._shapes]
        if not self._pool.run(inputs, outputs, items):
            self._careful = self._careful or self._pool_of({}, zeros=True)
            self._careful.run(inputs, outputs, items)
        return outputs

    def _pool_of(self, choices: Mapping[int, Choice], *, zeros: bool) -> Pool:
        program = build(self.steps, self.mode, self.machine, choices, MOST_ITEMS // self.machine.lanes, zeros=zeros)
        # Item by item, the values of one stay in the second cache from step to step.
        wanted = groups_at_once(program) if self.mode == "lanes" else 1
        return Pool(program, max(self.threads, wanted), self.threads)


def groups_at_once(program: Program) -> int:
    """How many vectors of items run side by side."""
    return max(1, min(MOST_ITEMS // program.group_items, _ARENA_BYTES // (4 * program.group_floats)))


class Engine:
    """A network ready to run. Several threads may call it at the same time.

    >>> import asni, torch
    >>> engine = asni.compile(torch.nn.Linear(4, 2), example=torch.zeros(1, 4))
    >>> engine(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """

    def __init__(self, steps: Steps, *, threads: int = 1, plan: Path | None = None, items: int = 1) -> None:
        self._machine = None if library() is None else Machine(core().asni_lanes(), core().asni_peak() / 1e9)
        self._steps = steps if self._machine is None else compact(steps)
        self.threads, self._plan_file = threads, plan
        self._lock = Lock()
        self._plan = Plan() if plan is None or self._machine is None else read_plan(plan, self._steps)
        self._tuned: dict[Mode, Tuned] = {}
        self._parts: dict[Mode, list[_Part]] = {}
        self._mode: Mode = "plain"
        if self._machine is not None:
            self._parts_for(items)

    def __repr__(self) -> str:
        shapes = [", ".join(map(str, ("N", *self._steps.shapes[name][1:]))) for name in self._steps.inputs]
        inputs, count = ", ".join(f"({shape})" for shape in shapes), len(self._steps.steps)
        return f"Engine({inputs}, {count} step{'s' * (count != 1)}, {self.threads} thread{'s' * (self.threads > 1)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is compiled again, on the processor where it arrives."""
        return partial(Engine, self._steps, threads=self.threads, plan=self._plan_file), ()

    @property
    def steps(self) -> Steps:
        """What is run for one item."""
        return self._steps

    @property
    def plan(self) -> list[PlanRow]:
        """The steps with their kernels and times per item, for the batch size that ran last; empty without a core."""
        if self._machine is None:
            return []
        cut = self._plan.cut or 0 if self._mode == "lanes" else len(self._steps.steps)
        return describe(self._steps, self._tuned, cut, self._machine.peak)

    def __call__(self, *inputs: "Tensors") -> Any:
        """Run a batch: float32 arrays of NumPy or PyTorch, as many as the network has inputs, with the batch first.

        An array of the same kind comes out, or a tuple of them if the network has several outputs.
        """
        steps = self._steps
        if len(inputs) != len(steps.inputs):
            raise EngineError(f"the network has {len(steps.inputs)} inputs, and {len(inputs)} are given.")
        arrays = [
            value
            if type(value) is np.ndarray and value.dtype is _FLOAT and value.flags.c_contiguous
            else as_array(value, name)
            for value, name in zip(inputs, steps.inputs, strict=True)
        ]
        items = interpreter.count_items(steps, arrays)
        if self._machine is None or items == 0:
            results: Sequence[Any] = interpreter.run(steps, arrays)
        else:
            results = arrays
            for part in self._parts_for(items):
                results = part.run(results, items)
        if any(map(is_not, arrays, inputs)) and any(map(_is_torch, inputs)):
            import torch

            results = [torch.from_numpy(result) for result in results]
        return results[0] if len(results) == 1 else tuple(results)

    def _parts_for(self, items: int) -> list[_Part]:
        """Half of a vector of items is worth more than pixels in vectors."""
        assert self._machine is not None
        mode: Mode = "lanes" if 2 * items >= self._machine.lanes else "plain"
        self._mode = mode
        if (parts := self._parts.get(mode)) is None:
            with self._lock:
                parts = self._parts[mode] = self._parts.get(mode) or self._compiled(mode, self._machine)
        return parts

    def _compiled(self, mode: Mode, machine: Machine) -> list[_Part]:
        known = self._plan
        plain = self._tuned_for("plain", 1, machine)
        if mode == "plain":
            parts = [_Part(self._steps, "plain", machine, plain.choices, self.threads)]
        else:
            cut = self._best_cut(plain, machine) if self._plan.cut is None else self._plan.cut
            self._plan = replace(self._plan, cut=cut)
            before, after = cut_in_two(self._steps, cut)
            parts = [_Part(before, "plain", machine, plain.choices, self.threads)] * (cut > 0)
            if cut == 0 or cut < len(self._steps.steps):
                lanes = self._tuned_for("lanes", self._tuned_items(machine), machine)
                parts.append(_Part(after, "lanes", machine, behind(lanes.choices, cut), self.threads))
        if self._plan_file is not None and self._plan != known:
            write_plan(self._plan_file, self._steps, self._plan)
        return parts

    def _best_cut(self, plain: Tuned, machine: Machine) -> int:
        if 4 * machine.lanes * max(map(prod, self._steps.shapes.values())) > _VECTOR_BYTES:
            return len(self._steps.steps)
        lanes = self._tuned_for("lanes", self._tuned_items(machine), machine)
        return best_cut(self._steps, plain.seconds, lanes.seconds)

    def _tuned_for(self, mode: Mode, items: int, machine: Machine) -> Tuned:
        if mode not in self._tuned:
            tuner = Tuner(self._steps, mode, machine, items)
            known = self._plan.choices.get(mode)
            self._tuned[mode] = tuner.tune() if known is None else tuner.timed(known)
            self._plan = replace(self._plan, choices={**self._plan.choices, mode: self._tuned[mode].choices})
        return self._tuned[mode]

    def _tuned_items(self, machine: Machine) -> int:
        """As many as will run at a time."""
        program = build(self._steps, "lanes", machine, {}, MOST_ITEMS // machine.lanes)
        return groups_at_once(program) * machine.lanes


def compile(
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
        plan = path.with_name(path.name + ".plan") if plan is None else plan
    else:
        steps = _steps_of_module(what, examples)
    items = items_of(steps, examples)
    return Engine(fuse(steps), threads=threads, plan=None if plan is None else Path(plan), items=items)


def items_of(steps: Steps, examples: "Sequence[Tensors]") -> int:
    """How many items the examples have; one, if they do not tell."""
    return max(1, examples[0].shape[0] // (steps.fixed_batch or 1)) if examples and examples[0].ndim else 1


def load_engine(path: str | Path, *, threads: int = 1, max_memory: int | None = None) -> Engine:
    """Compile a packed file that carries its graph, with NumPy alone.

    >>> import asni, tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = asni.pack(torch.nn.Linear(4, 2), f"{folder}/net.asni", example=torch.zeros(1, 4))
    ...     asni.load_engine(f"{folder}/net.asni")
    Engine((N, 4), 1 step, 1 thread)
    """
    return compile(path, threads=threads, max_memory=max_memory)


def _steps_of_file(path: Path, shapes: Sequence[tuple[int, ...]] | None, max_memory: int | None) -> Steps:
    if path.suffix == ".asni":
        return read_steps(path, max_memory=max_memory)
    if path.suffix == ".onnx":
        from asni.engine.frontends.from_onnx import read_onnx_graph

        return lower(read_onnx_graph(path, shapes, max_memory))
    raise EngineError(f"{shown(path)}: neither an .asni nor an .onnx file.")


def _steps_of_module(module: Any, examples: "tuple[Tensors, ...]") -> Steps:
    if not examples:
        raise UsageError("compiling a model needs an example of its input: asni.compile(model, example=x).")
    import torch

    from asni.engine.frontends.from_torch import graph_of_module

    tensors = tuple(each if isinstance(each, torch.Tensor) else torch.from_numpy(each) for each in examples)
    return lower(graph_of_module(module, tensors))


def _is_torch(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(value: Any, name: str) -> Array:
    if _is_torch(value):
        if value.device.type != "cpu":
            raise EngineError(f"input {shown(name)} is on {value.device}; the engine runs on the CPU: pass x.cpu().")
        value = value.detach().resolve_conj().resolve_neg()
        if str(value.dtype) == "torch.float32":
            value = value.numpy()
    if not isinstance(value, np.ndarray) or value.dtype != np.float32:
        found = f"{type(value).__name__} of {value.dtype}" if hasattr(value, "dtype") else type(value).__name__
        raise EngineError(f"input {shown(name)} is a {found}; the engine takes arrays of float32.")
    return np.asarray(value, order="C")
