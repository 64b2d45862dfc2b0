"""Matmuls whose operands are copied to rows that start at multiples of 16 bytes."""

import re

import pytest
from iree.compiler import ir

from helpers.kernel_runner import needs_triton
from helpers.matmul_plans import HOPPER, check_biased, linear, plan, several
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.matmul import aligned_copies, cost_model, heuristics, selection
from mlirfuse.kernels.matmul.problem import MatmulConfig, MatmulProblem

TILE = (16, 32, 32, 4, 2)
"""Sizes of a tile, its warps and stages."""

LOOPS = "bmnk"

LOADS = ("cp.async.cg.shared.global", r"ld.global.[bu]16")
"""Loads of 16 bytes into shared memory, and of 2 bytes."""


@needs_triton
@pytest.mark.parametrize("copied", ["a", "b", "ab"])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("layout", ["mk,nk", "mk,kn", "km,nk"])
def test_odd_sizes(interpreter, monkeypatch, copied, dtype, layout):
    """K, M and N are odd: the innermost dimension of each operand has a tail."""
    config = MatmulConfig(*TILE, aligned_copies=copied)
    monkeypatch.setattr(selection, "choose_config", lambda *_: config)
    left, right = ([LOOPS.index(loop) for loop in part] for part in layout.split(","))
    check_biased(interpreter, (1, 37, 43, 71), left, right, dtype)


@needs_triton
@pytest.mark.parametrize(
    "more",
    [{}, {"k_splits": 4}, {"split_k": 4}],
    ids=["tile", "CTAs split K", "warps split K"],
)
def test_each_main_loop(interpreter, monkeypatch, more):
    block_k = 64 if "split_k" in more else 32
    config = MatmulConfig(16, 16, block_k, 4, 2, aligned_copies="ab", **more)
    monkeypatch.setattr(selection, "choose_config", lambda *_: config)
    check_biased(interpreter, (3, 5, 19, 301), (0, 1, 3), (0, 3, 2), "f32")
    check_biased(interpreter, (1, 5, 19, 301), (1, 3), (2, 3), "f16")


@needs_triton
@pytest.mark.parametrize("copied", ["", "a", "b", "ab"])
@pytest.mark.parametrize("left", [(3, 1, 0), (3, 0, 1), (1, 0, 3), (1, 3, 0)])
def test_batches_at_any_place(interpreter, monkeypatch, left, copied):
    """An innermost batch is outermost in a copy."""
    config = MatmulConfig(*TILE, aligned_copies=copied)
    monkeypatch.setattr(selection, "choose_config", lambda *_: config)
    check_biased(interpreter, (4, 37, 136, 75), left, (0, 3, 2), "f16")


@needs_triton
@pytest.mark.parametrize("more", [{}, {"k_splits": 3}, {"split_k": 2}])
@pytest.mark.parametrize("batch", [1, 3, 40])
@pytest.mark.parametrize("right", [(3, 2, 0), (2, 3, 0)])
def test_innermost_batches(interpreter, monkeypatch, right, batch, more):
    """More matrices than a CTA turns, fewer than that, and one; odd sizes."""
    config = MatmulConfig(16, 16, 32, 4, 2, aligned_copies="ab", **more)
    monkeypatch.setattr(selection, "choose_config", lambda *_: config)
    check_biased(interpreter, (batch, 17, 35, 93), (1, 3, 0), right, "f32")


@needs_triton
def test_blocks_without_a_tail(interpreter, monkeypatch):
    """The copy's rows are whole blocks where those of the operand are not."""
    config = MatmulConfig(*TILE, aligned_copies="ab")
    monkeypatch.setattr(selection, "choose_config", lambda *_: config)
    check_biased(interpreter, (1, 16, 32, 93), (1, 3), (2, 3), "f32")
    check_biased(interpreter, (1, 16, 29, 93), (1, 3), (3, 2), "f32")


@needs_triton
def test_loads_of_copies_are_vectorized():
    """Those of operands with odd rows are not: a load has two bytes."""
    text = linear((256, 128, 515), dtype="bf16", function="math.absf")
    found = {}
    with ir.Context():
        for copied in ("", "ab"):
            config = MatmulConfig(64, 64, 64, 4, 3, aligned_copies=copied)
            step = plan(text, config)
            code = triton_compiler.build(step.program, "sm_90").code.decode()
            found[copied] = [len(re.findall(rf"{kind}\b", code)) for kind in LOADS]
    assert found[""][0] == 0 < found["ab"][0]
    assert found[""][1] > 0 == found["ab"][1]


@pytest.mark.parametrize(
    ("problem", "copied"),
    [
        (MatmulProblem(1616, 1536, 4707, 1), "ab"),
        (MatmulProblem(1616, 1536, 4704, 1), ""),
        (MatmulProblem(1616, 1535, 4704, 1), ""),
        (MatmulProblem(1616, 1535, 4704, 1, b_k_contiguous=False), "b"),
        (MatmulProblem(1615, 1536, 4704, 1, a_k_contiguous=False), "a"),
        (MatmulProblem(64, 64, 65, 1), ""),
        (MatmulProblem(1616, 1536, 4707, 1, prologue=True), ""),
        (MatmulProblem(1616, 1536, 4707, 1, accumulators=2), ""),
        (MatmulProblem(32, 88, 368, 32, b_k_contiguous=False), ""),
        (MatmulProblem(32, 88, 368, 32, b_k_contiguous=False, batch_innermost="b"), "b"),
        (MatmulProblem(16, 7104, 608, 64, 32, b_k_contiguous=False, batch_innermost="b"), "b"),
        (MatmulProblem(16, 16, 24, 4, b_k_contiguous=False, batch_innermost="b"), ""),
        (MatmulProblem(500000, 5, 33, 1, b_k_contiguous=False), ""),  # A is loaded once
    ],
    ids=str,
)
def test_copies_pay_where_elements_are_loaded_often(problem, copied):
    assert heuristics.default_config(problem, HOPPER).aligned_copies == copied
    assert not heuristics.dot_config(problem, HOPPER).aligned_copies


def test_vectors():
    assert [cost_model.vector_bytes(n, 16) for n in (1, 2, 12, 24)] == [2, 4, 8, 16]
    assert [cost_model.vector_bytes(n, 32) for n in (1, 2, 12)] == [4, 8, 16]


def test_slices_and_gated_units_are_not_copied():
    """A configuration with copies gives way to one without."""
    config = MatmulConfig(64, 64, 64, 4, 3, aligned_copies="ab")
    with ir.Context():
        for joint in (True, False):
            assert plan(several(64, 64, 65, 2, joint), config).before is None
        assert plan(linear((64, 64, 65)), config).before is not None
        assert plan(linear((64, 64, 65)), config).program.entry == aligned_copies.ENTRY


@needs_triton
def test_copies_only_where_needed():
    """By default a product with rows of 16 bytes is one kernel."""
    with ir.Context():
        assert plan(linear((1616, 1536, 4704)), None).before is None
        assert plan(linear((1616, 1536, 4707)), None).before is not None


@pytest.mark.parametrize(
    ("shape", "copyable"),
    [((1000000, 3, 100), True), ((1000000, 3, 500), False), ((500000000, 3), False)],
)
def test_copies_have_indices_of_31_bits(shape, copyable):
    """Rows of three elements have eight in a copy, also where they are not innermost before."""
    kind = "x".join(map(str, shape))
    text = f"func.func @f(%x: tensor<{kind}xf16>) {{ return }}"
    with ir.Context():
        module = ir.Module.parse(text)
        (argument,) = module.body.operations[0].regions[0].blocks[0].arguments
        assert aligned_copies.is_copyable(argument) == copyable
