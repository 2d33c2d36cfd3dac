"""Steps run by PyTorch, one after another, as their table says: what tests compare with."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from asni.sparse.steps import Step, Steps


def run(steps: Steps, images: Tensor, stored: Mapping[str, Tensor]) -> Tensor:
    """The output for a batch; `stored` has the parameters and the buffers, which batch norm changes."""
    values = {steps.input: images.reshape(-1, *steps.shapes[steps.input][1:])}
    for step in steps.steps:
        own = {role: stored[name] for role, name in step.parameters.items()}
        values[step.output] = KINDS[step.kind](step, [values[name] for name in step.inputs], own)
        assert values[step.output].shape[1:] == steps.shapes[step.output][1:]
    return values[steps.output].flatten(1)


def _ended(step: Step, out: Tensor) -> Tensor:
    return out.relu() if step.settings["relu"] else out


def _conv(step: Step, inputs: list[Tensor], own: Mapping[str, Tensor]) -> Tensor:
    settings = step.settings
    top, left, bottom, right = settings["pads"]
    padded = F.pad(inputs[0], (left, right, top, bottom))
    with_groups = (settings["stride"], 0, settings["dilation"], settings["groups"])
    return _ended(step, F.conv2d(padded, own["weight"], own.get("bias"), *with_groups))


def _linear(step: Step, inputs: list[Tensor], own: Mapping[str, Tensor]) -> Tensor:
    assert inputs[0].shape[2:] == (1, 1)
    return _ended(step, F.linear(inputs[0].flatten(1), own["weight"], own.get("bias"))[:, :, None, None])


def _batch_norm(step: Step, inputs: list[Tensor], own: Mapping[str, Tensor]) -> Tensor:
    momentum = step.settings["momentum"]
    if "num_batches_tracked" in own:
        own["num_batches_tracked"].add_(1)
        momentum = 1 / own["num_batches_tracked"].item() if momentum is None else momentum
    statistics, affine = (own.get("running_mean"), own.get("running_var")), (own.get("weight"), own.get("bias"))
    out = F.batch_norm(inputs[0], *statistics, *affine, True, momentum, step.settings["epsilon"])
    return _ended(step, out + inputs[1] if len(inputs) > 1 else out)


def _add(step: Step, inputs: list[Tensor], own: Mapping[str, Tensor]) -> Tensor:
    assert len(inputs) == 2 or step.settings["relu"]
    return _ended(step, inputs[0] + inputs[1] if len(inputs) > 1 else inputs[0])


def _pool(step: Step, inputs: list[Tensor], own: Mapping[str, Tensor]) -> Tensor:
    down, right = step.settings["dilation"]
    cells = [
        [inputs[0][:, :, top:bottom:down, left:end:right].flatten(2) for left, end in step.settings["columns"]]
        for top, bottom in step.settings["rows"]
    ]
    if step.settings["mode"] == "max":
        return torch.stack([torch.stack([each.max(2).values for each in row], 2) for row in cells], 2)
    sums = torch.stack([torch.stack([each.sum(2) for each in row], 2) for row in cells], 2)
    # In double precision, batch norm would make much of how float32 rounds 1 / 3.
    counts = (1 / torch.from_numpy(step.settings["scale"])).round()
    torch.testing.assert_close(torch.from_numpy(step.settings["scale"]), 1 / counts)
    return sums / counts


def _drop_out(step: Step, inputs: list[Tensor], own: Mapping[str, Tensor]) -> Tensor:
    return F.dropout(inputs[0], step.settings["probability"])


def _flatten(step: Step, inputs: list[Tensor], own: Mapping[str, Tensor]) -> Tensor:
    return inputs[0].flatten(1)[:, :, None, None]


KINDS: Mapping[str, Callable[[Step, list[Tensor], Mapping[str, Tensor]], Tensor]] = {
    "conv": _conv, "linear": _linear, "batch_norm": _batch_norm, "add": _add, "pool": _pool, "drop_out": _drop_out,
    "flatten": _flatten,
}  # fmt: skip
