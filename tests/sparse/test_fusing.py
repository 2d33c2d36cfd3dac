"""Which steps take over which; that results stay the same is tested with whole models in test_tracing.py."""

from asni.sparse.steps import Step, Steps
from asni.sparse.tracing.fusing import fused


def conv(x: str, y: str) -> Step:
    return Step("conv", y, (x,), y, {"relu": False})


def norm(x: str, y: str) -> Step:
    return Step("batch_norm", y, (x,), y, {"relu": False})


def add(a: str, b: str, y: str) -> Step:
    return Step("add", y, (a, b), y, {"relu": False})


def relu(x: str, y: str) -> Step:
    return Step("add", y, (x,), y, {"relu": True})


def flatten(x: str, y: str) -> Step:
    return Step("flatten", y, (x,), y)


def after_fusing(*steps: Step) -> list[str]:
    """Each step as its output, its kind and its inputs; a ! is a ReLU."""
    names = ["x", *(step.output for step in steps)]
    found = fused(Steps("x", names[-1], steps, dict.fromkeys(names, (1, 4, 7, 7))))
    assert list(found.shapes) == ["x", *(step.output for step in found.steps)]
    assert found.output == names[-1]
    return [
        f"{step.output} = {step.kind}({', '.join(step.inputs)})" + "!" * bool(step.settings.get("relu"))
        for step in found.steps
    ]


def test_a_relu_goes_into_what_it_follows() -> None:
    assert after_fusing(conv("x", "a"), relu("a", "b")) == ["b = conv(x)!"]
    assert after_fusing(conv("x", "a"), add("a", "x", "b"), relu("b", "c")) == ["a = conv(x)", "c = add(a, x)!"]
    assert after_fusing(conv("x", "a"), relu("a", "b"), relu("b", "c")) == ["c = conv(x)!"]


def test_a_relu_of_something_else_stays() -> None:
    assert after_fusing(relu("x", "a")) == ["a = add(x)!"]
    assert after_fusing(conv("x", "a"), flatten("a", "b"), relu("b", "c")) == [
        "a = conv(x)", "b = flatten(a)", "c = add(b)!",
    ]  # fmt: skip


def test_a_value_that_is_read_again_keeps_its_step() -> None:
    assert after_fusing(conv("x", "a"), relu("a", "b"), add("b", "a", "c")) == [
        "a = conv(x)", "b = add(a)!", "c = add(b, a)",
    ]  # fmt: skip
    assert after_fusing(norm("x", "a"), add("a", "a", "b")) == ["a = batch_norm(x)", "b = add(a, a)"]
    assert after_fusing(norm("x", "a"), conv("a", "b"), add("b", "a", "c")) == [
        "a = batch_norm(x)", "b = conv(a)", "c = add(b, a)",
    ]  # fmt: skip


def test_what_the_network_returns_keeps_its_step() -> None:
    steps = (conv("x", "a"), relu("a", "b"))
    found = fused(Steps("x", "a", steps, dict.fromkeys(("x", "a", "b"), (1, 4, 7, 7))))
    assert found.steps == steps


def test_a_residual_and_then_a_relu_go_into_the_batch_norm() -> None:
    assert after_fusing(conv("x", "a"), norm("a", "b"), add("b", "x", "c"), relu("c", "d")) == [
        "a = conv(x)", "d = batch_norm(a, x)!",
    ]  # fmt: skip
    assert after_fusing(conv("x", "a"), norm("a", "b"), add("x", "b", "c")) == ["a = conv(x)", "c = batch_norm(a, x)"]


def test_a_batch_norm_waits_for_its_residual() -> None:
    assert after_fusing(norm("x", "a"), conv("x", "b"), add("a", "b", "c")) == ["b = conv(x)", "c = batch_norm(x, b)"]


def test_of_two_batch_norms_the_last_takes_over() -> None:
    assert after_fusing(norm("x", "a"), conv("x", "b"), norm("b", "c"), add("a", "c", "d")) == [
        "a = batch_norm(x)", "b = conv(x)", "d = batch_norm(b, a)",
    ]  # fmt: skip


def test_a_batch_norm_has_one_residual_and_no_relu_before_it() -> None:
    assert after_fusing(conv("x", "a"), norm("a", "b"), relu("b", "c"), add("c", "x", "d")) == [
        "a = conv(x)", "c = batch_norm(a)!", "d = add(c, x)",
    ]  # fmt: skip
    assert after_fusing(conv("x", "a"), norm("a", "b"), add("b", "x", "c"), add("c", "a", "d")) == [
        "a = conv(x)", "c = batch_norm(a, x)", "d = add(c, a)",
    ]  # fmt: skip


def test_a_residual_is_not_the_input_of_the_batch_norm_itself() -> None:
    assert after_fusing(norm("x", "a"), add("a", "x", "b")) == ["a = batch_norm(x)", "b = add(a, x)"]


def test_fusing_again_changes_nothing() -> None:
    steps = (conv("x", "a"), norm("a", "b"), conv("x", "c"), add("b", "c", "d"), relu("d", "e"))
    once = fused(Steps("x", "e", steps, dict.fromkeys("xabcde", (1, 4, 7, 7))))
    assert fused(once) == once
