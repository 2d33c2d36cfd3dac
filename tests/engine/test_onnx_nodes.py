"""What the node tests of the onnx package expect comes out, or the node is refused: nothing else may come out."""

import re
from pathlib import Path

import pytest

from asni.engine.lowering import OPERATORS
from tests.engine.onnx_nodes import CLAIMED, FOR_SHAPES, OWN, Case, collect, runner

REFUSED = {
    # Three dimensions of a map.
    "test_averagepool_3d_default",
    "test_averagepool_3d_dilations_small",
    "test_averagepool_3d_dilations_large_count_include_pad_is_0_ceil_mode_is_False",
    "test_averagepool_3d_dilations_large_count_include_pad_is_0_ceil_mode_is_True",
    "test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_False",
    "test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True",
    "test_maxpool_3d_default",
    "test_maxpool_3d_dilations",
    "test_maxpool_3d_dilations_use_ref_impl",
    "test_maxpool_3d_dilations_use_ref_impl_large",
    # Statistics of the batch, and random numbers.
    "test_batchnorm_epsilon_training_mode",
    "test_batchnorm_example_training_mode",
    "test_training_dropout",
    "test_training_dropout_default",
    "test_training_dropout_zero_ratio",
    # Places in any order.
    "test_gather_0",
    "test_gather_1",
    "test_gather_2d_indices",
    "test_gather_negative_indices",
    # No elements.
    "test_reshape_allowzero_reordered",
    "test_slice_start_out_of_bounds",
    "test_split_zero_size_splits_opset13",
    "test_split_zero_size_splits_opset18",
}


def cases_of(operator: str, float32: bool) -> list[Case]:
    return [case for case in collect() if case.operator == operator and case.is_float32 == float32]


def test_every_operator_is_claimed() -> None:
    assert sorted(OPERATORS) == sorted((*CLAIMED, *FOR_SHAPES, *OWN))


def test_the_page_names_every_operator_and_no_other() -> None:
    page = Path(__file__).parents[2] / "docs" / "engine.md"
    (section,) = re.findall(r"## Which operators\n(.*?)\n## ", page.read_text(encoding="utf-8"), re.DOTALL)
    columns = [row.split("|")[3] for row in re.findall(r"(?m)^\| \w.*$", section)]
    listed = re.findall(r"[A-Z]\w+", " ".join(columns))
    before = re.findall(r"[A-Z]\w+", re.findall(r"(?s)\n\n(Cast.*?) are computed", section)[0])
    assert sorted({*listed, *before}) == sorted((*CLAIMED, *FOR_SHAPES))


@pytest.mark.parametrize("name", ["numpy", "native"])
@pytest.mark.parametrize("operator", CLAIMED)
def test_the_expected_comes_out_of_all_but_the_listed(operator: str, name: str) -> None:
    run = runner(name) or pytest.skip("there is no native core")
    cases = cases_of(operator, float32=True)
    assert cases
    refused = {case.name for case in cases if not case.check(run, any_batch=False)}
    assert refused == REFUSED & {case.name for case in cases}


@pytest.mark.parametrize("name", ["numpy", "native"])
@pytest.mark.parametrize("operator", CLAIMED)
def test_with_any_batch_size_the_expected_comes_out_or_nothing(operator: str, name: str) -> None:
    run = runner(name) or pytest.skip("there is no native core")
    for case in cases_of(operator, float32=True):
        case.check(run, any_batch=True)


@pytest.mark.parametrize("operator", CLAIMED)
def test_other_types_are_refused(operator: str) -> None:
    run = runner("numpy")
    assert run is not None
    for case in cases_of(operator, float32=False):
        assert not case.check(run, any_batch=False), case.name
