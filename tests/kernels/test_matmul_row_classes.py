"""Matmuls of few rows whose parts of K have the rows of B with one alignment each."""

import dataclasses
import re

import pytest
from iree.compiler import ir

from helpers.kernel_runner import needs_triton
from helpers.matmul_plans import HOPPER, check_biased, linear, plan
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.matmul import cost_model, few_rows, heuristics, selection
from mlirfuse.kernels.matmul.problem import MatmulConfig, MatmulProblem

LOADS = ("cp.async.cg.shared.global", r"ld.global.[bu]16", r"cp.async.ca.shared.global")
"""Loads of 16 bytes into shared memory, of 2 bytes, and of 4 or 8 bytes into shared memory."""


@needs_triton
@pytest.mark.parametrize(
    ("dtype", "classes", "sizes"),
    [
        ("f16", 8, (1, 5, 43, 300)),
        ("f16", 8, (1, 16, 64 - 1, 129)),
        ("f16", 4, (1, 1, 70, 301)),
        ("f16", 2, (1, 5, 44, 111)),
        ("f16", 8, (1, 33, 25, 140)),
        ("f32", 4, (1, 3, 43, 203)),
        ("f32", 2, (1, 3, 62, 150)),
        ("f32", 4, (1, 20, 33, 7)),
        ("f32", 4, (1, 2, 3, 129)),
    ],
)
@pytest.mark.parametrize("parts", [1, 3])
def test_any_sizes(interpreter, monkeypatch, dtype, classes, sizes, parts):
    """The last row ends between two vectors, and is in any class."""
    config = MatmulConfig(16, 32, 16, 4, 2, k_splits=classes * parts, row_classes=classes)
    monkeypatch.setattr(selection, "choose_config", lambda *_: config)
    check_biased(interpreter, sizes, (1, 3), (3, 2), dtype)


@needs_triton
@pytest.mark.parametrize("left", [(0, 1, 3), (0, 3, 1)])
def test_aligned_matrices_of_a_batch(interpreter, monkeypatch, left):
    """K is a multiple of the classes, so that the first row of each matrix is aligned."""
    config = MatmulConfig(16, 32, 16, 4, 2, k_splits=8, row_classes=4)
    monkeypatch.setattr(selection, "choose_config", lambda *_: config)
    check_biased(interpreter, (3, 5, 43, 204), left, (0, 3, 2), "f32")


@needs_triton
@pytest.mark.parametrize(
    ("left", "right", "sizes"),
    [
        ((0, 1, 3), (0, 3, 2), (3, 5, 43, 203)),
        ((1, 3), (2, 3), (1, 5, 43, 203)),
    ],
    ids=["matrices that are not aligned", "contiguous along K"],
)
def test_no_classes(interpreter, monkeypatch, left, right, sizes):
    """Another kernel is taken where a configuration asks for classes that there are not."""
    config = MatmulConfig(16, 32, 16, 4, 2, k_splits=8, row_classes=4)
    monkeypatch.setattr(selection, "choose_config", lambda *_: config)
    check_biased(interpreter, sizes, left, right, "f32")


@needs_triton
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_loads_are_vectorized(dtype):
    """All of B but the end of its last row, though its rows are odd."""
    found = {}
    with ir.Context():
        text = linear((16, 4097, 4095), right=(2, 1), dtype=dtype, function="math.absf")
        for classes in (1, 16 * 8 // int(dtype[1:])):
            config = MatmulConfig(16, 128, 64, 4, 3, k_splits=16, row_classes=classes)
            step = plan(text, config).before
            code = triton_compiler.build(step.program, "sm_90").code.decode()
            found[classes > 1] = [len(re.findall(rf"{kind}\b", code)) for kind in LOADS]
    assert found[False][0] == 0 < found[True][0]
    assert found[True][1] + found[True][2] < found[False][1] + found[False][2]


@pytest.mark.parametrize(
    ("problem", "classes"),
    [
        (MatmulProblem(1, 12403, 3957, 1, 32, b_k_contiguous=False), 4),
        (MatmulProblem(1, 12400, 3957, 1, 32, b_k_contiguous=False), 1),
        (MatmulProblem(8, 12402, 3957, 1, 32, b_k_contiguous=False), 1),
        (MatmulProblem(1, 3001, 777, 1, 32, b_k_contiguous=False), 1),
        (MatmulProblem(31, 10513, 8192, 1, b_k_contiguous=False), 1),
        (MatmulProblem(16, 50257, 768, 1, b_k_contiguous=False), 8),
        (MatmulProblem(16, 50257, 300, 1, b_k_contiguous=False), 1),
        (MatmulProblem(16, 50257, 768, 1), 1),
        (MatmulProblem(4000, 10513, 8192, 1, b_k_contiguous=False), 1),
        (MatmulProblem(8, 1001, 4096, 6, b_k_contiguous=False), 8),
        (MatmulProblem(8, 1001, 4095, 6, b_k_contiguous=False), 1),
        (MatmulProblem(8, 1001, 4096, 1, b_k_contiguous=False, prologue=True), 1),
    ],
    ids=str,
)
def test_classes_where_rows_are_few(problem, classes):
    found = heuristics.default_config(problem, HOPPER)
    assert found.row_classes == classes
    assert found.k_splits % classes == 0
    assert heuristics.dot_config(problem, HOPPER).row_classes == 1


@pytest.mark.parametrize(
    ("problem", "block_m", "splits"),
    [
        (MatmulProblem(31, 10513, 8192, 1, b_k_contiguous=False), 32, 6),
        (MatmulProblem(64, 4097, 4096, 1, b_k_contiguous=False), 64, 8),
        (MatmulProblem(40, 20001, 3000, 1, b_k_contiguous=False), 64, 3),
    ],
    ids=str,
)
def test_more_rows_wait_for_narrow_loads_in_many_ctas(problem, block_m, splits):
    """A copy of B would take longer."""
    found = heuristics.default_config(problem, HOPPER)
    expected = dataclasses.replace(few_rows.ALONE_TILE, block_m=block_m, k_splits=splits)
    assert found == expected
    for other in ({"m": 100}, {"n": problem.n + 1}, {"k": 600}, {"operand_bits": 32}):
        found = heuristics.default_config(dataclasses.replace(problem, **other), HOPPER)
        assert found != dataclasses.replace(expected, k_splits=found.k_splits)


def test_parts():
    """Of 1000 rows in classes of 8, each has 125, which are 4 parts of 32 rows."""
    config = MatmulConfig(16, 32, 32, 4, 2, k_splits=32, row_classes=8)
    assert cost_model.split_size(1000, config) == 32
    assert cost_model.num_splits(1000, config) == 32
    assert cost_model.num_splits(500, config) == 16
