"""Few columns of rows whose results have another order in memory, run by Triton's interpreter."""

import re

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import close, draw, needs_triton, planned, run
from helpers.linalg_text import Function
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.reduction import heuristics
from mlirfuse.kernels.reduction.problem import ReductionConfig


@pytest.fixture
def tiles(monkeypatch):
    """Blocks of 16 by 32 rows, whose columns a thread has alone."""
    config = ReductionConfig(512, 4, 32768, block_rows=512, block_columns=1, num_warps=4)
    monkeypatch.setattr(heuristics, "choose_config", lambda problem, target: config)


def largest(sizes, dtype, order):
    """The largest element along loop 1, in another order, with a factor of each position."""
    f = Function("main", sizes)
    kept = [loop for loop in range(len(sizes)) if loop != 1]
    x, factor = f.argument(range(len(sizes)), dtype), f.argument(kept[-1:], dtype)
    found = f.reduce("arith.maximumf", f.apply("math.absf", x), (1,), 0.0)
    return f.finish(f.apply("arith.mulf", found, factor, axes=order))


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize(
    ("sizes", "order", "turned"),
    [
        ((3, 5, 45, 70), (0, 3, 2), True),
        ((3, 2, 16, 64), (3, 0, 2), True),  # whole blocks
        ((40, 3, 33), (2, 0), True),
        ((2, 3, 11, 3, 40), (3, 4, 0, 2), True),  # two dimensions beside those of a tile
        ((3, 5, 45, 70), (2, 0, 3), False),
        ((3, 5, 7, 70), (0, 3, 2), False),
        ((3, 5, 45, 30), (0, 3, 2), False),
    ],
)
def test_results_in_another_order(interpreter, tiles, sizes, order, turned, dtype):
    text = largest(sizes, dtype, order)
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        assert plan.program.entry == "column_kernel"
        assert ("tl.trans(tl.reshape(" in plan.program.source) == turned
    x, factor = draw(sizes, dtype), draw(sizes[-1:], dtype, 1)
    shape = [sizes[loop] for loop in order]
    (found,) = run(interpreter, text, "rows", [x, factor], [shape])
    kept = [loop for loop in range(len(sizes)) if loop != 1]
    exact = np.abs(x.astype(np.float64)).max(1) * factor.astype(np.float64)
    close(found, exact.transpose([kept.index(loop) for loop in order]), dtype)


@needs_triton
def test_loads_and_stores_are_vectorized(monkeypatch):
    """Threads load eight rows of each column and of the factor, and store eight numbers."""
    config = ReductionConfig(512, 8, 32768, block_rows=512, block_columns=1, num_warps=2)
    monkeypatch.setattr(heuristics, "choose_config", lambda problem, target: config)
    with ir.Context():
        _, (plan,) = planned(largest((16, 8, 64, 128), "f16", (0, 3, 2)), "rows")
        code = triton_compiler.build(plan.program, "sm_90").code.decode()
    moved = re.findall(r"(?:ld|st)\.global[.\w]*", code)
    assert moved == ["ld.global.v4.b32"] * 9 + ["st.global.v4.b32"]


@pytest.mark.parametrize(("sizes", "wide"), [((1, 2, 40000, 60000), True), ((1, 2, 40, 60), False)])
def test_offsets_of_more_than_31_bits(tiles, sizes, wide):
    """An index along the results' innermost dimension times its stride in memory."""
    with ir.Context():
        _, (plan,) = planned(largest(sizes, "f16", (0, 3, 2)), "rows")
        source = plan.program.source
    firsts = [line for line in source.splitlines() if line.strip().startswith("first_")]
    assert len(firsts) == 2
    assert all((".to(tl.int64)" in line) == wide for line in firsts)
