"""Modules of PyTorch as graphs: what comes out is what the module calculates in float64, for every batch size."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from asni.engine.frontends.from_torch import graph_of_module
from asni.engine.fusing import fuse
from asni.engine.graph import BATCH, Graph
from asni.engine.interpreter import run
from asni.engine.lowering import lower
from asni.errors import EngineError
from asni.networks import NETWORKS
from tests.engine.small_networks import IMAGE, SMALL_NETWORKS, lively


class Lambda(nn.Module):
    """A forward of its own, and layers by name."""

    def __init__(self, function: Callable[..., object], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: Tensor, y: Tensor | None = None) -> object:
        return self.function(self, x) if y is None else self.function(self, x, y)


def assert_same(module: nn.Module, graph: Graph, *inputs: Tensor) -> None:
    steps = fuse(lower(graph))
    expected = deepcopy(module).eval().double()(*(each.double() for each in inputs))
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    results = run(steps, [each.numpy() for each in inputs])
    assert len(results) == len(expected)
    for number, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        wanted = wanted.detach().numpy()
        assert result.shape == wanted.shape, f"output {number}"
        assert np.abs(result - wanted).max() <= 1e-5 * np.abs(wanted).max(), f"output {number}"


def assert_same_for_every_batch(module: nn.Module, *shapes: tuple[int, ...], exported_with: int = 3) -> Graph:
    draw = torch.Generator().manual_seed(1)
    graph = graph_of_module(module, tuple(torch.randn(exported_with, *shape, generator=draw) for shape in shapes))
    assert [shape[0] for shape in graph.inputs.values()] == [BATCH] * len(shapes)
    for batch in (1, 2, 5):
        assert_same(module, graph, *(torch.randn(batch, *shape, generator=draw) for shape in shapes))
    return graph


@pytest.mark.parametrize("name", SMALL_NETWORKS)
def test_networks_of_the_usual_kinds(name: str) -> None:
    torch.manual_seed(0)
    assert_same_for_every_batch(SMALL_NETWORKS[name](), IMAGE, exported_with=1)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in ("vgg13", "vgg16")])
def test_the_networks_of_this_project(name: str) -> None:
    torch.manual_seed(0)
    size = 32 if name.startswith(("vgg", "resnet")) else 8
    network = lively(NETWORKS[name]((3, size, size), 10))
    example = torch.randn(2, 3, size, size)
    assert_same(network, graph_of_module(network, example[:1]), example)


def padded(x: Tensor) -> Tensor:
    return F.pad(F.pad(x, (1, 2, 0, 1), value=0.5), (-1, 0))


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu6": F.relu6,
    "leaky relu": lambda x: F.leaky_relu(x, 0.3),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.1, -0.2, 0.3, 0.4], dtype=x.dtype)),
    "gelu": F.gelu,
    "gelu, tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hard swish": F.hardswish,
    "hard sigmoid": F.hardsigmoid,
    "hard tanh": lambda x: F.hardtanh(x, -0.3, 0.4),
    "clamp": lambda x: x.clamp(max=0.1),
    "exp, erf, sqrt, abs, neg": lambda x: torch.sqrt(torch.exp(torch.erf(-x)).abs()),
    "rsqrt, reciprocal": lambda x: torch.rsqrt(x.square() + 1) + torch.reciprocal(x.abs() + 1),
    "powers": lambda x: x**2 + (x.abs() + 1) ** 0.5 + (x.abs() + 1) ** -1.5,
    "alpha": lambda x: torch.sub(torch.add(x, x.relu(), alpha=2), 3, alpha=0.5),
    "reversed": lambda x: 1 - (2 / (x.abs() + 1)),
    "maximum, minimum": lambda x: torch.maximum(x, torch.minimum(x.neg(), x + 1)),
    "in place": lambda x: x.clone().add_(1).mul_(2).relu_(),
    "a kernel without a middle": lambda x: F.conv2d(x, torch.arange(24.0).view(1, 4, 2, 3).to(x), padding="same"),
    "half of a pool beyond the end": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "a pool with gaps": lambda x: F.max_pool2d(x, 2, 1, dilation=(2, 3)),
    "average with padding": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "average without padding": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "average beyond the end": lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True),
    "average beyond the end with padding": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "average beyond the end without padding": lambda x: F.avg_pool2d(
        x, 3, 2, 1, ceil_mode=True, count_include_pad=False
    ),
    "average by another number": lambda x: F.avg_pool2d(x, 2, 2, 1, divisor_override=3),
    "adaptive average": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive maximum": lambda x: F.adaptive_max_pool2d(x, 3),
    "pools of one dimension": lambda x: F.avg_pool1d(F.max_pool1d(x.flatten(2), 4, 3, 1, ceil_mode=True), 2),
    "adaptive pools of one dimension": lambda x: F.adaptive_max_pool1d(F.adaptive_avg_pool1d(x.flatten(2), 5), 2),
    "mean": lambda x: x.mean((2, 3), keepdim=True) + x.mean(-1, keepdim=True),
    "sum": lambda x: x.sum(1),
    "softmax": lambda x: x.softmax(1),
    "cat, stack, chunk, split, unbind": lambda x: torch.stack(
        [torch.cat([*x.chunk(2, 1), *x.split([1, 3], 1)], 1), torch.cat([x, x], 1)], 2
    ).unbind(2)[1],
    "slices": lambda x: x[:, 1:, ::2, -3:-1] + x[:, None, 1, :4, 2, None],
    "squeeze": lambda x: x[:, :1].squeeze(1) + x[:, :1].squeeze((1, 2)),
    "narrow": lambda x: x.narrow(2, 1, 3),
    "views": lambda x: x.flatten(1).unflatten(1, (2, -1)).transpose(1, 2).reshape(x.size(0), 5, -1),
    "permute": lambda x: x.permute(0, 3, 1, 2).contiguous(),
    "repeat": lambda x: (
        torch.ones(1, 1, 1, 5, dtype=x.dtype).repeat(x.shape[0], 4, 2, 1) + x.repeat(1, 1, 1, 2)[:, :, :2, :5]
    ),
    "pad": padded,
    "made tensors": lambda x: torch.cat(
        [
            x,
            x.new_zeros(x.shape[0], 1, 7, 5),
            torch.full_like(x, 0.5),
            torch.arange(35.0).view(7, 5).expand_as(x).to(x),
        ],
        1,
    ),
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "einsum": lambda x: torch.einsum("bchw,bdhw->bcd", x, x),
    "pixel shuffle": lambda x: F.pixel_shuffle(x, 2),
    "rms norm": lambda x: F.rms_norm(x, (5,)),
    "layer norm": lambda x: F.layer_norm(x, (7, 5)),
    "matmul": lambda x: x @ x.transpose(2, 3) @ torch.ones(7, 2, dtype=x.dtype),
    "baddbmm": lambda x: torch.baddbmm(x[:, 0], x[:, 1], x[:, 2, :5], beta=0.5, alpha=2),
    "causal attention": lambda x: F.scaled_dot_product_attention(x, x[:, :, :, :], x, is_causal=True, scale=0.3),
    "masked attention": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.eye(7, dtype=torch.bool)),
    "an attention whose mask is repeated": lambda x: F.scaled_dot_product_attention(
        x, x, x, attn_mask=torch.eye(7, dtype=torch.bool)[None, None].expand(x.shape[0], 1, 7, 7)
    ),
    "a vector": lambda x: x @ torch.ones(5, dtype=x.dtype),
    "an input as it is": lambda x: x,
}


@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_every_function_that_is_supported() -> None:
    module = Lambda(lambda _, x: tuple(function(x) for function in FUNCTIONS.values()))
    graph = graph_of_module(module, torch.randn(3, 4, 7, 5))
    for name, output in zip(FUNCTIONS, graph.outputs, strict=True):
        part = Lambda(lambda _, x, name=name: FUNCTIONS[name](x))
        for batch in (1, 2):
            try:
                assert_same(
                    part, Graph(graph.inputs, (output,), graph.nodes, graph.constants), torch.randn(batch, 4, 7, 5)
                )
            except (AssertionError, EngineError) as error:
                raise AssertionError(f"{name}: {error}") from error


@st.composite
def plain_networks(draw: st.DrawFn) -> tuple[nn.Module, tuple[int, ...]]:
    """Convolutions and pools of any settings, then linear layers; of one or two dimensions."""
    dimensions = draw(st.sampled_from([1, 2]))
    convolution, pool, average, norm = (
        (nn.Conv1d, nn.MaxPool1d, nn.AvgPool1d, nn.BatchNorm1d)
        if dimensions == 1
        else (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d, nn.BatchNorm2d)
    )
    torch.manual_seed(draw(st.integers(0, 1000)))
    channels = width = draw(st.integers(1, 4))
    layers: list[nn.Module] = []
    for block in range(draw(st.integers(1, 2))):
        groups = draw(st.sampled_from([1, width]))
        outputs = groups * draw(st.integers(1, 3))
        size, stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
        # Small maps need all the padding that there is: here of an even kernel, below of a pool.
        half = (dilation * (size - 1) + (block > 0)) // 2
        padding = "same" if stride == 1 and draw(st.booleans()) else half + draw(st.integers(0, 1))
        bias = draw(st.booleans())
        layers.append(convolution(width, outputs, size, stride, padding, dilation, groups, bias))
        layers.append(draw(st.sampled_from([nn.ReLU(inplace=True), nn.Tanh(), norm(outputs), nn.Identity()])))
        size, ceil = draw(st.integers(1, 3)), draw(st.booleans())
        border = draw(st.integers(0, size // 2)) if block == 0 else size // 2
        kind: Callable[..., nn.Module] = draw(st.sampled_from([pool, average]))
        layers.append(kind(size, draw(st.integers(1, 3)), border, ceil_mode=ceil))
        width = outputs
    shape = (channels, *(draw(st.integers(7, 9)) for _ in range(dimensions)))
    layers += [nn.Flatten(), nn.LazyLinear(draw(st.integers(1, 5)), bias=draw(st.booleans()))]
    network = nn.Sequential(*layers)
    network(torch.zeros(2, *shape))
    return lively(network), shape


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@settings(max_examples=10, deadline=None)
@given(plain_networks(), st.integers(1, 4))
def test_networks_of_any_settings(drawn: tuple[nn.Module, tuple[int, ...]], exported_with: int) -> None:
    network, shape = drawn
    assert_same_for_every_batch(network, shape, exported_with=exported_with)


def test_two_inputs_and_several_outputs() -> None:
    layer = nn.Linear(4, 3)
    assert_same_for_every_batch(
        Lambda(lambda net, x, y: (net.layer(x) + y, net.layer(x * 2), y), layer=layer), (4,), (3,)
    )


def test_a_list_of_one_output_and_one_output_twice() -> None:
    assert_same_for_every_batch(Lambda(lambda _, x: [x + 1]), (4,))
    assert_same_for_every_batch(Lambda(lambda _, x: (x, x)), (4,))


def test_an_attention_that_gives_its_weights() -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    assert_same_for_every_batch(Lambda(lambda net, x: net.layer(x, x, x), layer=layer), (5, 8))


def test_a_layer_that_is_used_twice_is_one_constant_and_two_nodes() -> None:
    shared = nn.Linear(4, 4)
    graph = assert_same_for_every_batch(nn.Sequential(shared, nn.Tanh(), shared), (4,))
    assert len(graph.constants) == 2
    names = [node.name for node in graph.nodes]
    assert names[0] == "0"
    assert len(set(names)) == 3


def test_tied_weights_are_one_constant() -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    graph = assert_same_for_every_batch(nn.Sequential(first, second), (4,))
    assert sum(array.shape == (4, 4) for array in graph.constants.values()) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: prune.random_unstructured(layer, "weight", 0.5),
        parametrizations.weight_norm,
        lambda layer: parametrizations.spectral_norm(layer.train()),
        lambda layer: parametrizations.orthogonal(layer),
    ],
    ids=["prune", "weight_norm", "spectral_norm", "orthogonal"],
)
def test_weights_that_are_made_from_others_are_constants(change: Callable[[nn.Module], nn.Module]) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(change(nn.Linear(4, 4)), nn.ReLU())
    graph = graph_of_module(network, torch.randn(2, 4))
    assert [node.op for node in graph.nodes] == ["Gemm", "Relu"]
    weight = graph.constants[graph.nodes[0].inputs[1]]
    layer = network.eval()[0]
    assert isinstance(layer, nn.Linear)
    layer(torch.zeros(1, 4))
    np.testing.assert_allclose(weight, layer.weight.detach().numpy(), rtol=1e-6)


def test_the_module_is_left_as_it_was() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.Linear(4 * 14 * 14, 5)
    )
    prune.random_unstructured(network[4], "weight", 0.5)
    network[2].eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    attributes = [dict(vars(module)) for module in network.modules()]
    graph = graph_of_module(network, torch.randn(2, *IMAGE))
    assert [module.training for module in network.modules()] == [True, True, True, False, True, True]
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    for module, then in zip(network.modules(), attributes, strict=True):
        assert vars(module).keys() == then.keys()
        assert all(vars(module)[name] is value for name, value in then.items())
    assert not any(parameter.grad is not None for parameter in network.parameters())
    weight = graph.constants["0.weight"].copy()
    with torch.no_grad():
        network.get_parameter("0.weight").zero_()
    np.testing.assert_array_equal(graph.constants["0.weight"], weight)


def test_what_a_forward_remembers_is_forgotten() -> None:
    def remember(net: nn.Module, x: Tensor) -> Tensor:
        net.last = x * 2
        return net.last

    module = Lambda(remember)
    assert_same_for_every_batch(module, (4,))
    assert not hasattr(module, "last")


def test_nodes_are_named_by_the_modules_that_make_them() -> None:
    graph = graph_of_module(SMALL_NETWORKS["basic_resnet"](), torch.randn(2, *IMAGE))
    names = [node.name for node in graph.nodes]
    assert names[:5] == ["conv1", "bn1", "relu", "maxpool", "blocks.0.conv1"]
    assert len(set(names)) == len(names)
    assert {name for name in names if name.startswith("blocks.1.downsample")} == {
        "blocks.1.downsample.0",
        "blocks.1.downsample.1",
    }
    sizes = {name: array.shape for name, array in graph.constants.items()}
    assert sizes["blocks.1.conv1.weight"] == (12, 8, 3, 3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_precisions_are_computed_in_float32(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    network = lively(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 14 * 14, 5)))
    graph = graph_of_module(network.to(dtype), torch.randn(1, *IMAGE))
    assert {array.dtype for name, array in graph.constants.items() if "shape" not in name} == {np.dtype(np.float32)}
    assert_same(network.double(), graph, torch.randn(2, *IMAGE))


def test_a_weight_too_large_for_float32_is_refused() -> None:
    layer = nn.Linear(2, 2).double()
    layer.weight.data.fill_(1e300)
    with pytest.raises(EngineError, match="a value of weight is too large for float32"):
        graph_of_module(layer, torch.randn(1, 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.squeeze(),
        lambda x: x.view(x.shape[0] // 2, 2, -1),
        lambda x: x * x.shape[0],
        lambda x: x / x.shape[0],
        lambda x: x if x.shape[0] == 1 else x * 2,
        lambda x: x if x.shape[0] > 5 else x * 2,
        lambda x: x[: x.shape[0] // 2],
        lambda x: x.squeeze(0) + 1,
        lambda x: torch.cat([x, x[:1]]),
    ],
    ids=["squeeze", "pairs", "times", "divided", "one", "more than five", "half", "squeeze first", "one more"],
)
def test_a_network_that_treats_batch_sizes_differently_is_for_that_of_the_example(
    function: Callable[[Tensor], Tensor],
) -> None:
    module = Lambda(lambda _, x: function(x))
    example = torch.randn(4, 3, 1)
    graph = graph_of_module(module, example)
    assert list(graph.inputs.values()) == [(4, 3, 1)]
    assert_same(module, graph, example)


def test_a_batch_of_one_that_stays_one() -> None:
    module = Lambda(lambda _, x: x.squeeze() * 2)
    graph = graph_of_module(module, torch.randn(1, 3))
    assert list(graph.inputs.values()) == [(1, 3)]


class Refused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 3, 2)
        self.norm = nn.GroupNorm(1, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.up(x)).flip(1)  # type: ignore[no-any-return]


def test_everything_that_is_not_supported_is_named_at_once() -> None:
    with pytest.raises(EngineError) as caught:
        graph_of_module(Refused(), torch.randn(1, *IMAGE))
    message = str(caught.value)
    assert "aten.convolution in up (ConvTranspose2d): a transposed convolution" in message
    assert "aten.native_group_norm in norm (GroupNorm)" in message
    assert "aten.flip in Refused" in message


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = nn.Buffer(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(1)
        return x


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Lambda(lambda _, x: x if x.sum() > 0 else -x), "cannot be exported by torch.export: Could not guard on data"),
        (Lambda(lambda _, x: x * x.sum().item()), "cannot be exported|values of tensors"),
        (Lambda(lambda _, x: {"logits": x + 1}), "returns dict, not a tensor or a tuple of tensors; wrap it"),
        (Lambda(lambda _, x: (x, [x + 1])), "returns tuple with list"),
        (Lambda(lambda _, x: (x, None)), "returns tuple with NoneType"),
        (Lambda(lambda _, x: x.add_(1)), "changes its input x when it runs"),
        (Lambda(lambda _, x: x + torch.rand(4)), "aten.rand in Lambda"),
        (Lambda(lambda _, x: F.dropout(x)), "aten.native_dropout in Lambda"),
        (Lambda(lambda _, x: x.half().float()), "aten._to_copy in Lambda: it computes in torch.float16"),
        (Lambda(lambda _, x: torch.where(x > 0, x, 1.0)), "aten.gt.Scalar in Lambda.*aten.where.self in Lambda"),
        (nn.BatchNorm1d(4, track_running_stats=False), "not supported: aten.*in BatchNorm1d"),
        (nn.Linear(5, 4), r"Linear cannot be exported by torch.export: .*\[5, 4\]"),
    ],
)
def test_refusals(module: nn.Module, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        graph_of_module(module, torch.randn(2, 4))


def test_a_network_that_keeps_state_is_refused_and_its_state_is_as_before() -> None:
    module = Counting()
    with pytest.raises(EngineError, match="changes the buffer seen when it runs"):
        graph_of_module(module, torch.randn(2, 4))
    assert module.seen.item() == 0


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (torch.zeros(2, 4, dtype=torch.int64), r"input 1 of the example is of torch.int64"),
        ((torch.zeros(2, 4), 3.0), "input 2 of the example is a float"),
        (torch.zeros(()), "with the batch as first dimension"),
        (torch.zeros(0, 4), "give one item or more"),
        ((), "the example is empty"),
    ],
)
def test_bad_examples(example: Tensor, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        graph_of_module(nn.Linear(4, 4), example)


def test_an_error_of_the_export_is_all_that_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EngineError):
        graph_of_module(Lambda(lambda _, x: x if x.sum() > 0 else -x), torch.randn(2, 4))
    assert capfd.readouterr() == ("", "")
