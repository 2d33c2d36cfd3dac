"""Rules about steps that move elements or leave them where they are."""

from dataclasses import replace

from asni.engine.fusing.editing import Editor
from asni.engine.graph import Array
from asni.engine.steps import Shape, Step


def drop_what_moves_nothing(editor: Editor, step: Step) -> bool:
    """A step whose result is its input is no step."""
    if len(step.inputs) != 1 or editor.shapes[step.inputs[0]] != editor.shapes[step.output]:
        return False
    return _is_identity(step) and editor.bypass(step)


def _is_identity(step: Step) -> bool:
    """Whether a step that keeps the shape keeps the elements."""
    settings = step.settings
    match step.kind:
        case "reshape" | "expand" | "concat" | "adaptive_pool" | "mean":
            # A pool to the size of its input has bins of one element, and so has a mean that keeps the shape.
            return True
        case "transpose":
            return bool(settings["permutation"] == tuple(range(len(settings["permutation"]))))
        case "slice":
            return bool((settings["start"], settings["step"]) == (0, 1))
        case "pool":
            return bool((settings["kernel"], settings["stride"], settings["pads"]) == ((1, 1), (1, 1), (0,) * 4))
    return False


def merge_reshapes(editor: Editor, step: Step) -> bool:
    """A reshape of a reshape needs only the second."""
    maker = editor.maker(step.inputs[0]) if step.kind == "reshape" else None
    if maker is None or maker.kind != "reshape":
        return False
    editor.put(replace(step, inputs=maker.inputs))
    return True


def merge_transposes(editor: Editor, step: Step) -> bool:
    """A transpose of a transpose is one."""
    maker = editor.maker(step.inputs[0]) if step.kind == "transpose" else None
    if maker is None or maker.kind != "transpose":
        return False
    first, second = maker.settings["permutation"], step.settings["permutation"]
    permutation = tuple(first[axis] for axis in second)
    editor.put(replace(step, inputs=maker.inputs, settings={"permutation": permutation}))
    return True


def reshape_for_transpose(editor: Editor, step: Step) -> bool:
    """A transpose that moves only dimensions of one element is a reshape."""
    if step.kind != "transpose":
        return False
    shape = editor.shapes[step.inputs[0]]
    moved = [axis for axis in step.settings["permutation"] if shape[axis] != 1]
    if moved != sorted(moved):
        return False
    editor.put(replace(step, kind="reshape", settings={}))
    return True


def pool_for_mean(editor: Editor, step: Step) -> bool:
    """The mean over a map is a pool, which takes the layout of a convolution as it is."""
    if step.kind != "mean" or len(editor.shapes[step.output]) != 4 or step.settings["axes"] != (2, 3):
        return False
    editor.put(replace(step, kind="adaptive_pool", settings={"mode": "average"}))
    return True


def transpose_before_ones(editor: Editor, step: Step) -> bool:
    """Dimensions of one element are added or removed after a transpose, which then meets the transpose before it."""
    reshape = editor.sole_maker(step.inputs[0]) if step.kind == "transpose" else None
    if reshape is None or reshape.kind != "reshape":
        return False
    before, after = editor.shapes[reshape.inputs[0]], editor.shapes[reshape.output]
    if _without_ones(before) != _without_ones(after):
        return False
    old, new = ([axis for axis, size in enumerate(shape) if size != 1] for shape in (before, after))
    moved = iter([old[new.index(axis)] for axis in step.settings["permutation"] if axis in new])
    permutation = tuple(axis if size == 1 else next(moved) for axis, size in enumerate(before))
    shape = tuple(before[axis] for axis in permutation)
    transpose = replace(step, inputs=reshape.inputs, output=reshape.output, settings={"permutation": permutation})
    editor.put(transpose, shape)
    editor.put(replace(reshape, inputs=(reshape.output,), output=step.output))
    return True


def reshape_later(editor: Editor, step: Step) -> bool:
    """A function of a reshaped value is the reshaped function: then it can be fused with what makes the value."""
    if len(step.inputs) != 1 or step.kind not in ("unary", "binary", "linear"):
        return False
    reshape = editor.sole_maker(step.inputs[0])
    if reshape is None or reshape.kind != "reshape" or reshape.inputs[0] not in editor.steps:
        return False
    before, after = editor.shapes[reshape.inputs[0]], editor.shapes[reshape.output]
    constants = _constants_before(step, before, after, editor.shapes[step.output])
    if constants is None:
        return False
    made = (*before[:-1], editor.shapes[step.output][-1]) if step.kind == "linear" else before
    editor.put(replace(step, inputs=reshape.inputs, output=reshape.output, constants=constants), made)
    editor.put(replace(reshape, inputs=(reshape.output,), output=step.output))
    return True


def _constants_before(step: Step, before: Shape, after: Shape, made: Shape) -> dict[str, Array] | None:
    """The constants of a step that comes before a reshape instead of after it, if it can."""
    if step.kind == "linear":
        return dict(step.constants) if before[-1:] == after[-1:] else None
    if made != after:
        return None
    moved = {side: _reshaped_constant(array, after, before) for side, array in step.constants.items()}
    constants = {side: array for side, array in moved.items() if array is not None}
    return constants if len(constants) == len(moved) else None


def _reshaped_constant(array: Array, after: Shape, before: Shape) -> Array | None:
    """What to calculate with before a reshape, if that only adds or removes dimensions of one element."""
    if array.size == 1:
        return array.reshape(())
    if _without_ones(after) != _without_ones(before):
        return None
    aligned = (1,) * (len(after) - array.ndim) + array.shape
    kept = iter([size for size, each in zip(aligned, after, strict=True) if each != 1])
    return array.reshape([1 if each == 1 else next(kept) for each in before])


def reshape_rows_before(editor: Editor, step: Step) -> bool:
    """Of two reshapes around a linear layer the first can do both, if the second only arranges rows."""
    linear = editor.sole_maker(step.inputs[0]) if step.kind == "reshape" else None
    if linear is None or linear.kind != "linear" or len(linear.inputs) != 1:
        return False
    first, shape = editor.sole_maker(linear.inputs[0]), editor.shapes[step.output]
    if first is None or first.kind != "reshape" or shape[-1:] != editor.shapes[linear.output][-1:]:
        return False
    editor.put(first, (*shape[:-1], editor.shapes[first.output][-1]))
    editor.put(replace(linear, output=step.output))
    return True


def _without_ones(shape: Shape) -> list[int]:
    return [size for size in shape if size != 1]


def reshapes_later(editor: Editor, step: Step) -> bool:
    """A function of two values that are reshaped alike is reshaped once."""
    if step.kind != "binary" or len(step.inputs) != 2:
        return False
    first, second = (editor.sole_maker(name) for name in step.inputs)
    if first is None or second is None or first.kind != "reshape" or second.kind != "reshape":
        return False
    before, after = editor.shapes[first.inputs[0]], editor.shapes[first.output]
    if editor.shapes[second.inputs[0]] != before or editor.shapes[second.output] != after:
        return False
    later = first if editor.position[first.output] > editor.position[second.output] else second
    editor.put(replace(step, inputs=(*first.inputs, *second.inputs), output=later.output), before)
    editor.put(replace(later, inputs=(later.output,), output=step.output))
    return True


RULES = (
    drop_what_moves_nothing, merge_reshapes, merge_transposes, reshape_for_transpose, transpose_before_ones,
    pool_for_mean, reshape_later, reshapes_later, reshape_rows_before,
)  # fmt: skip
