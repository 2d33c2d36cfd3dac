"""The runtimes to compare with, each at its strongest settings, in float32, on as many threads as asked."""

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path

from asni.engine.graph import Array
from asni.errors import EngineError, UsageError, unknown

Run = Callable[[Array], Array]

TRIAL_SECONDS = 0.3
"""How long each of two settings is tried before the faster one is kept."""


@dataclass(frozen=True)
class Prepared:
    """A network in a runtime, ready for inputs of one shape, and the size of the file that the runtime loads."""

    run: Run
    file_bytes: int


@dataclass(frozen=True)
class Opponent:
    """A runtime: `prepare(onnx_file, example, threads)` takes a network with one input and one output."""

    name: str
    package: str
    module: str
    """What is imported when it is first used."""
    prepare: Callable[[Path, Array, int], Prepared]

    def load(self) -> None:
        """Import the runtime, which some do not do in silence."""
        with _quiet():
            import_module(self.module)

    @property
    def version(self) -> str | None:
        """The version that is installed, if any."""
        try:
            return installed(self.package)
        except PackageNotFoundError:
            return None


def chosen(names: Iterable[str]) -> list[Opponent]:
    """The opponents of these names; `mnn` stands for both of its forms.

    >>> [each.name for each in chosen(["torch", "mnn"])]
    ['torch', 'mnn', 'mnn-sparse']
    """
    found: dict[str, Opponent] = {}
    for name in names:
        same = {key: each for key, each in OPPONENTS.items() if key == name or key.startswith(f"{name}-")}
        if not same:
            raise unknown("runtime", name, OPPONENTS)
        found |= same
    if missing := [name for name, each in found.items() if each.version is None]:
        verb = "are" if len(missing) > 1 else "is"
        raise UsageError(f"{' and '.join(missing)} {verb} not installed. Run: pip install 'asni[bench]'")
    return list(found.values())


def available() -> list[Opponent]:
    """The opponents that are installed."""
    return [each for each in OPPONENTS.values() if each.version is not None]


def _torch(path: Path, example: Array, threads: int) -> Prepared:
    import torch

    from asni.engine.comparing.torch_steps import TorchSteps, steps_of

    steps = steps_of(path)
    # Threads are a setting of the whole process.
    torch.set_num_threads(threads)

    def run(format: torch.memory_format) -> Run:
        network = TorchSteps(steps, format)

        def call(x: Array) -> Array:
            with torch.inference_mode():
                return network(torch.from_numpy(x)).numpy()

        return call

    formats = (torch.contiguous_format, torch.channels_last)
    return Prepared(_fastest([run(format) for format in formats], example), path.stat().st_size)


def _onnxruntime(path: Path, example: Array, threads: int) -> Prepared:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    # Threads that go on spinning after a run would slow down whoever runs next.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    for name in _free_dimensions(path):
        options.add_free_dimension_override_by_name(name, len(example))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return Prepared(lambda x: session.run(None, {name: x})[0], path.stat().st_size)


def _openvino(path: Path, example: Array, threads: int) -> Prepared:
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    model.reshape(list(example.shape))

    def run(hint: str) -> Run:
        settings = {
            "PERFORMANCE_HINT": hint,
            "NUM_STREAMS": "1",
            "INFERENCE_NUM_THREADS": str(threads),
            "INFERENCE_PRECISION_HINT": "f32",
            "EXECUTION_MODE_HINT": "ACCURACY",
            # Pinned threads would stay on their cores while others run.
            "ENABLE_CPU_PINNING": "NO",
        }
        request = core.compile_model(model, "CPU", settings).create_infer_request()
        return lambda x: request.infer([x], share_inputs=True, share_outputs=False)[0]

    return Prepared(_fastest([run("LATENCY"), run("THROUGHPUT")], example), path.stat().st_size)


def _mnn(*options: str) -> Callable[[Path, Array, int], Prepared]:
    def prepare(path: Path, example: Array, threads: int) -> Prepared:
        with tempfile.TemporaryDirectory(prefix="asni-") as folder, _quiet():
            converted = Path(folder) / "network.mnn"
            _convert_to_mnn(path, converted, options)
            return Prepared(_mnn_run(path, converted, example, threads), converted.stat().st_size)

    return prepare


def _convert_to_mnn(path: Path, converted: Path, options: Iterable[str]) -> None:
    # Not MNN.tools, and so not mnnconvert: importing it installs packages, and it reports each use over the network.
    import _tools

    files = ("--framework", "ONNX", "--modelFile", str(path), "--MNNModel", str(converted), "--bizCode", "asni")
    _tools.mnnconvert(["mnnconvert", *files, "--useGeluApproximation", "0", *options])
    if not converted.exists():
        raise EngineError("MNN cannot convert this network.")


def _mnn_run(path: Path, converted: Path, example: Array, threads: int) -> Run:
    import MNN
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    constants = {each.name for each in graph.initializer}
    inputs, outputs = [each.name for each in graph.input if each.name not in constants], [graph.output[0].name]
    settings = {"backend": 0, "precision": "high", "numThread": threads}
    manager = MNN.nn.create_runtime_manager((settings,))
    network = MNN.nn.load_module_from_file(
        str(converted), inputs, outputs, runtime_manager=manager, shape_mutable=False
    )
    given = MNN.expr.placeholder(list(example.shape), MNN.expr.NCHW)

    def call(x: Array) -> Array:
        given.write(x)
        result: Array = MNN.expr.convert(network.forward([given])[0], MNN.expr.NCHW).read()
        return result.copy()

    call(example)
    return call


def _free_dimensions(path: Path) -> set[str]:
    import onnx

    inputs = onnx.load(path, load_external_data=False).graph.input
    return {size.dim_param for each in inputs for size in each.type.tensor_type.shape.dim if size.dim_param}


def _fastest(runs: list[Run], example: Array) -> Run:
    """The one that takes least time, after a first call of each."""
    least = [float("inf")] * len(runs)
    for run in runs:
        run(example)
    stop = time.perf_counter() + TRIAL_SECONDS * len(runs)
    while time.perf_counter() < stop or float("inf") in least:
        for place, run in enumerate(runs):
            started = time.perf_counter()
            run(example)
            least[place] = min(least[place], time.perf_counter() - started)
    return runs[least.index(min(least))]


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing is printed: MNN writes to standard output from C++, where a result in JSON may be expected."""
    kept = [os.dup(stream) for stream in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        yield
    finally:
        for stream, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, stream)
            os.close(copy)
        os.close(nowhere)


OPPONENTS: dict[str, Opponent] = {
    "torch": Opponent("torch", "torch", "asni.engine.comparing.torch_steps", _torch),
    "onnxruntime": Opponent("onnxruntime", "onnxruntime", "onnxruntime", _onnxruntime),
    "openvino": Opponent("openvino", "openvino", "openvino", _openvino),
    "mnn": Opponent("mnn", "MNN", "MNN", _mnn()),
    "mnn-sparse": Opponent("mnn-sparse", "MNN", "MNN", _mnn("--detectSparseSpeedUp")),
}
